"""What users rely on is what it was when the records in `golden/` were made."""

import re

import golden_record
import golden_runs
import pytest
from golden_record import difference, hucrl, offered, stored


@pytest.fixture(scope="module")
def processor():
    return golden_runs.processor()


def test_the_settings_of_every_file_in_config_are_the_same():
    assert not difference(stored("settings"), golden_record.settings())


def test_every_command_still_has_its_options():
    assert not golden_record.commands_difference(stored("commands"), golden_record.commands())


def test_an_option_or_choice_that_is_gone_is_noticed():
    before = {"hucrl x": {"--seed": [], "--strategy": ["greedy", "optimistic"]}}
    for now in ({"--seed": []}, {"--seed": [], "--strategy": ["greedy"]}):
        assert golden_record.commands_difference(before, {"hucrl x": now})
    more = {**before["hucrl x"], "--new": []}
    assert not golden_record.commands_difference(before, {"hucrl x": more})


@pytest.mark.parametrize(
    "text",
    [
        "usage: x [-h] task\n\npositional arguments:\n  task   what to learn\n\noptions:\n"
        "  -h, --help      show this\n  --size {a,b-c}  not --other\n  --all N [N ...]\n",
        "╭─ Arguments ───╮\n│ *    task      TEXT  What to learn [required] │\n╰───╯\n"
        "╭─ Options ───╮\n│ --size      [a|b-c]  Not --other │\n│ --all       INTEGER  │\n"
        "│ --help  -h           Show this │\n╰───╯\n",
    ],
)
def test_the_help_of_either_parser_is_understood(text):
    assert offered(text) == {
        "--all": [],
        "--help": [],
        "--size": ["a", "b-c"],
        "-h": [],
        "task": [],
    }


@pytest.mark.ros
def test_topics_services_and_parameters_of_a_running_graph_are_the_same(ros_domain):
    assert not difference(stored("graph"), golden_record.graph())


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("models", "model.kind"),
        ("searches", "search.algorithm"),
        ("planners", "planner.algorithm"),
        ("strategies", "strategy"),
    ],
)
def test_the_runs_use_every_choice(kind, key):
    default = stored("settings")["pendulum"]
    for part in key.split("."):
        default = default[part]
    used = {settings.get(key, default) for settings in golden_runs.RUNS.values()}
    used.discard("auto")  # It takes one of the others.
    assert used == set(re.findall(r"^  (\w+)", hucrl("list", kind), re.MULTILINE))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in golden_runs.FAST else pytest.mark.slow)
        for name in golden_runs.RUNS
    ],
)
def test_a_run_is_the_same_to_the_last_bit(name, processor):
    before, now = stored("runs"), golden_runs.play(name)
    expected = before["runs"][name]
    assert not difference(expected.get("files"), now.get("files"))
    if before["processor"] != processor:
        pytest.skip(f"the record is of another machine: {before['processor']}, not {processor}")
    assert not difference(expected["numbers"], now["numbers"])
