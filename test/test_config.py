"""One schema for all settings: what it accepts, how it refuses, what it writes."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from hucrl_ros.config.files import (
    dump_config,
    load_config,
    merge,
    override,
    parse_config,
    share_directory,
    task_config_path,
)
from hucrl_ros.config.schema import Config, ExplorationSettings, PlannerSettings
from hucrl_ros.errors import ConfigError

FILES = sorted((share_directory() / "config").glob("*.yaml"))
OUTSIDE = {"ge": -1, "gt": 0, "le": 1, "lt": 0}
"""What to add to a bound to get a value beyond it."""


def out_of_range(group: type[BaseModel] = Config, prefix: str = ""):
    """Every bound of the schema, as dotted key and a value just beyond it."""
    for name, field in group.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from out_of_range(annotation, f"{prefix}{name}.")
        for constraint in field.metadata:
            for kind, beyond in OUTSIDE.items():
                bound = getattr(constraint, kind, None)
                if bound is not None:
                    yield f"{prefix}{name}", bound + beyond


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_in_config_loads_and_is_written_back_equal(path, tmp_path):
    config = load_config(path)
    assert load_config(write(tmp_path / "copy.yaml", dump_config(config))) == config


def test_there_are_files_in_config():
    assert FILES


@pytest.mark.parametrize(("key", "value"), list(out_of_range()))
def test_a_value_beyond_a_bound_is_refused_by_name(key, value):
    with pytest.raises(ConfigError) as caught:
        parse_config(merge({}, {key: value}), "my.yaml")
    message = str(caught.value)
    assert message.startswith(f"my.yaml: {key} = {value!r}: ")
    assert "\n" not in message


def test_an_unknown_key_is_named_with_the_nearest_known_one():
    with pytest.raises(ConfigError) as caught:
        parse_config({"episods": 3}, "my.yaml")
    message = str(caught.value)
    assert message.startswith("my.yaml: unknown key 'episods'; did you mean 'episodes'? ")
    assert "action_penalty" in message


def test_an_unknown_key_in_a_group_is_named_with_its_group():
    with pytest.raises(ConfigError, match=r"'planner\.horizn'; did you mean 'horizon'\? known"):
        parse_config({"planner": {"horizn": 3}}, "my.yaml")


def test_a_key_that_resembles_nothing_gets_the_list_of_known_ones():
    with pytest.raises(ConfigError, match=r"unknown key 'qqq'; known here: action_penalty, "):
        parse_config({"qqq": 3}, "my.yaml")


def test_a_key_that_is_written_elsewhere_gets_its_place():
    with pytest.raises(
        ConfigError, match=r"'safety\.damping'; write safety: {damping: \.\.\.}; kn"
    ):
        parse_config({"safety.damping": 3}, "my.yaml")  # as ROS has it
    of_a_robot = r"unknown key 'robot'; robot: is a section of its own in the YAML that desc"
    with pytest.raises(ConfigError, match=of_a_robot):
        override(Config(), {"robot.effort_limits": [1.0]})


@pytest.mark.parametrize(
    ("values", "start"),
    [
        ({"strategy": "bold"}, "strategy = 'bold'"),
        ({"seed": "many"}, "seed = 'many'"),
        ({"model": {"heads": 2.5}}, "model.heads = 2.5"),
        ({"model": {"layers": []}}, "model.layers = "),
        ({"action_penalty": float("nan")}, "action_penalty = nan"),
        ({"planner": 3}, "planner = 3: expected keys and values"),
        (
            {"safety": {"velocity_limits": 15}},
            "safety.velocity_limits = 15: expected a list, e.g. ",
        ),
        ({"planner": {"particles": 4, "elites": 5}}, "planner: elites (5) must not exceed"),
    ],
)
def test_a_wrong_value_is_named(values, start):
    with pytest.raises(ConfigError) as caught:
        parse_config(values, "my.yaml")
    assert str(caught.value).startswith(f"my.yaml: {start}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected keys and values, found NoneType"),
        ("planner: {horizon: 3}", "expected '/\\*\\*:'"),
        ("/**:\n  ros__parameters:\n", "expected '/\\*\\*:'"),
        ("/**: {ros__parameters: [", "not YAML"),
        ("a: b: c", "not YAML"),
    ],
)
def test_a_file_of_another_form_is_refused(text, reason, tmp_path):
    path = write(tmp_path / "odd.yaml", text)
    with pytest.raises(ConfigError, match=f"odd\\.yaml: {reason}") as caught:
        load_config(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load_config(tmp_path / "none.yaml")


def test_overrides_replace_the_file(tmp_path):
    path = write(tmp_path / "a.yaml", dump_config(Config(seed=1)))
    config = load_config(path, {"seed": 2, "planner.horizon": 7})
    assert (config.seed, config.planner.horizon) == (2, 7)
    assert config.planner.particles == PlannerSettings().particles


def test_an_override_below_something_that_is_no_group_is_refused():
    with pytest.raises(ConfigError, match="task = "):
        parse_config(merge({"task": "pendulum"}, {"task.name": 1}), "--set")


def test_merging_changes_none_of_its_arguments():
    values = {"planner": {"horizon": 1}}
    merge(values, {"planner.horizon": 2, "seed": 3})
    assert values == {"planner": {"horizon": 1}}


def test_settings_are_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        Config().seed = 1


@given(
    penalty=st.floats(0, 1e6),
    seed=st.integers(0, 2**31 - 1),
    layers=st.lists(st.integers(1, 512), min_size=1, max_size=4),
    limits=st.lists(st.floats(-1e3, 1e3), max_size=6),
)
def test_what_is_written_is_read_back_equal(penalty, seed, layers, limits, tmp_path_factory):
    config = parse_config(
        {
            "action_penalty": penalty,
            "seed": seed,
            "model": {"layers": layers},
            "safety": {"position_limits": limits},
        },
        "test",
    )
    path = tmp_path_factory.mktemp("config") / "config.yaml"
    assert load_config(write(path, dump_config(config))) == config


def test_a_written_file_is_a_ros_parameter_file_for_every_node():
    limits = {"safety": {"position_limits": [-1, 2.5], "velocity_limits": []}}
    document = yaml.safe_load(dump_config(parse_config(limits, "test")))
    assert list(document) == ["/**"]
    assert list(document["/**"]) == ["ros__parameters"]
    safety = document["/**"]["ros__parameters"]["safety"]
    # ROS refuses lists of mixed types and can't tell the type of an empty one.
    assert [type(entry) for entry in safety["position_limits"]] == [float, float]
    assert "velocity_limits" not in safety


def test_beta_decays_from_the_first_learned_episode_to_its_floor():
    settings = ExplorationSettings(beta=3.0, beta_decay=0.5, beta_floor=1.0)
    assert [settings.beta_at(episode) for episode in range(5)] == [3.0, 3.0, 1.5, 1.0, 1.0]


@pytest.mark.parametrize("beta", [0.0, 0.5, 1.0])
def test_a_floor_above_beta_does_not_raise_it(beta):
    settings = ExplorationSettings(beta=beta, beta_decay=0.5, beta_floor=1.0)
    assert [settings.beta_at(episode) for episode in range(4)] == [beta] * 4


@pytest.mark.parametrize("task", ["pendelum", "defaults"])
def test_a_task_without_a_file_is_named_with_the_known_ones(task):
    with pytest.raises(ConfigError, match=rf"{task!r} is unknown; known tasks: cart.*pendulum"):
        task_config_path(task)
