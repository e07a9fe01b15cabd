"""What the documents say exists: commands, targets, files, names, settings; and the site."""

import ast
import importlib
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import test_models_contract as models_contract
import test_planners_contract as planners_contract
import test_search_contract as search_contract
import torch
import yaml
from documents import (
    DOCS,
    EACH_DOCUMENT,
    EACH_GUIDE,
    LINK,
    NODES,
    ROOT,
    anchors,
    blocks,
    commands_in,
    lines_of,
    quoted,
    table,
)
from own_robots import ARM, changed, task_of
from pydantic import BaseModel
from test_plugins import contract

from hucrl_ros.cli import COMMANDS, main, parsing
from hucrl_ros.cli.options import parse_settings
from hucrl_ros.cli.sweep import is_grid
from hucrl_ros.config.files import parse_config, task_config_path
from hucrl_ros.config.reward import RewardSettings
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import is_description, read_description
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.experiments.grid import read_grid
from hucrl_ros.nodes import topics, wishes
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.node_list import OWN_TOPICS
from hucrl_ros.run.summary import EpisodeSummary, Summary, TickStatistics
from hucrl_ros.tasks import make_task

EXAMPLES = ROOT / "config" / "examples"
CONTRACTS = DOCS / "contracts.md"
PAGES = sorted((DOCS / "contributing").glob("*.md"))
OWN_FILE = re.compile(r"(?:hucrl_ros|config|launch|sim|test|docs|\.ci)/[\w./-]*\w")
ENTRY_POINT = re.compile(r'\[project\.entry-points\."(hucrl_ros\.\w+)"\]\n(\w+) = "(\w+):\w+"')
GROUPS = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}


# Commands


@lines_of("hucrl")
def test_hucrl_understands_a_documented_line(words, monkeypatch):
    understood = []
    monkeypatch.setattr(parsing.Command, "invoke", lambda self, ctx: understood.append(ctx.params))
    monkeypatch.chdir(ROOT)
    assert main(words) == 0
    (typed,) = understood
    settings = parse_settings(typed.get("settings"))
    if settings or typed.get("config"):
        like_hardware = bool(typed.get("like_hardware"))
        asked_config(RunOptions("pendulum", overrides=settings, like_hardware=like_hardware))
    task = typed.get("task")
    if words[0] == "sweep" and is_grid(task):
        read_grid(ROOT / task)
    elif task and is_description(task):
        read_description(ROOT / task)
    elif task and typed.get("resume"):
        assert (EXAMPLES / task).is_dir() or task_config_path(task)
    elif task:
        task_config_path(task)
    if typed.get("vary"):
        key = typed["vary"].partition("=")[0]
        assert key in known_settings()


def test_the_first_run_shows_every_command():
    lines = [command.words for command in commands_in(DOCS / "first_run.md")]
    assert {words[1] for words in lines if words[0] == "hucrl"} == set(COMMANDS)


@lines_of("make")
def test_a_make_target_exists(words):
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^([\w-]+):", makefile, re.MULTILINE)
    variables = re.findall(r"^(\w+) \?=", makefile, re.MULTILINE)
    for word in words:
        name, equals, _ = word.partition("=")
        assert name in (variables if equals else targets)


@lines_of("ros2", "launch", "hucrl_ros")
def test_a_launch_file_has_the_documented_arguments(words):
    file, *arguments = words
    tree = ast.parse((ROOT / "launch" / file).read_text())
    constants = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    for argument in arguments:
        name, assigned, _ = argument.partition(":=")
        assert assigned
        assert name in {*constants, *OWN_TOPICS}


@lines_of("python", "-m")
def test_a_node_to_start_by_hand_exists(words):
    module, *arguments = words
    assert module.removeprefix("hucrl_ros.nodes.") in NODES
    assert find_spec(module) is not None
    assert arguments[0] == "--ros-args"
    own = {cell for row in own_parameters() for cell in quoted(row[0])}
    for flag, value in zip(arguments[1::2], arguments[2::2], strict=True):
        if flag == "-p":
            assert value.partition(":=")[0] in own
        else:
            assert flag == "--params-file"


def own_parameters():
    return table(DOCS / "ros.md", "parameter", "node", "meaning")


def test_the_nodes_own_parameters_are_documented():
    read = set()
    for node in NODES:
        source = (ROOT / "hucrl_ros" / "nodes" / f"{node}.py").read_text()
        read |= set(re.findall(r'own_parameter\(self, "(\w+)"', source))
        read |= {"run"} if "own_run(" in source else set()
        read |= {"robot"} if '"robot"' in source else set()  # by `read_config`
    read |= {wishes.BUNDLE, wishes.PAUSE, wishes.GOAL}
    assert {name for row in own_parameters() for name in quoted(row[0])} == read


# Links, files, names


@EACH_DOCUMENT
def test_links_lead_somewhere(path):
    missing = []
    for link in LINK.findall(path.read_text()):
        target, _, anchor = link.partition("#")
        file = path.parent / target if target else path
        if "://" not in link and not (file.exists() and (not anchor or anchor in anchors(file))):
            missing.append(link)
    assert missing == [], "pictures in docs/images come from figures/ and videos/ of a real run"


def test_every_fault_of_the_page_on_reliability_is_tried_by_a_test():
    blocks = Path("docs/reliability.md").read_text().split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("| fault")]
    faults = [row for table in tables for row in table[2:]]
    assert len(faults) > 30 and all("`test_" in row for row in faults)
    sources = {path.stem: path.read_text() for path in Path("test").glob("test_*.py")}
    for name in re.findall(r"`(test_[\w:]+)`", "".join(faults)):
        file, _, test = name.rpartition("::")
        known = sources[file] if file else "".join(sources.values())
        assert name in sources or f"def {test}(" in known, name


@EACH_GUIDE
def test_files_that_are_named_exist(path):
    named = {name for text in quoted(path.read_text()) for name in OWN_FILE.findall(text)}
    named = {name for name in named if not name.startswith("docs/results/")}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def known_settings():
    grouped = {f"{group}.{key}" for group, model in GROUPS.items() for key in model.model_fields}
    return grouped | set(Config.model_fields)


@EACH_GUIDE
def test_settings_that_are_named_exist(path):
    pattern = re.compile(rf"\b(?<!/)(?:{'|'.join(GROUPS)})\.[a-z_]+\b(?!\.)")
    named = {name for text in quoted(path.read_text()) for name in pattern.findall(text)}
    named = {name for name in named if not name.endswith((".py", ".md", ".yaml"))}
    assert named <= known_settings()


def test_the_contracts_name_every_topic_and_service():
    rows = table(CONTRACTS, "name", "type", "from → to", "meaning")
    types = {name: row[1] for row in rows for name in quoted(row[0])}
    said = {name: value for name, value in vars(topics).items() if isinstance(value, str)}
    names = [value for name, value in said.items() if name.isupper() and name != "REFUSED"]
    assert sorted(types) == sorted(names)
    for topic in RECORDED:
        assert topic.type.replace("/msg/", "/") in types[topic.name]
        assert ("latched" in types[topic.name]) == topic.latched


def test_the_contracts_name_every_field_of_a_summary():
    text = CONTRACTS.read_text().partition("## summary.json")[2]
    words = set(re.findall(r"\w+", text))
    for model in (Summary, EpisodeSummary, TickStatistics):
        assert {field.alias or name for name, field in model.model_fields.items()} <= words


# Blocks of code


@EACH_GUIDE
@pytest.mark.usefixtures("examples")
def test_yaml_blocks_fit_the_schema(path):
    for block in blocks(path, "yaml"):
        document = yaml.safe_load(block)
        if "/**" in document:
            parse_config(document["/**"]["ros__parameters"], path.name)
        if "reward" in document:
            RewardSettings.model_validate(document["reward"])


@EACH_GUIDE
def test_python_blocks_compile_and_find_what_they_import(path):
    for number, block in enumerate(blocks(path, "python")):
        tree = ast.parse(block, f"{path.name} block {number}")
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert all(find_spec(alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = importlib.import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names)


def test_the_example_of_a_robot_of_ones_own_works(tmp_path):
    guide = DOCS / "your_robot.md"
    (described,) = [block for block in blocks(guide, "yaml") if "model: my_cart.xml" in block]
    (tmp_path / "my_cart.yaml").write_text(described)
    (tmp_path / "my_cart.xml").write_text(*blocks(guide, "xml"))
    (tmp_path / "my_cart.py").write_text(*blocks(guide, "python"))
    config = asked_config(RunOptions(str(tmp_path / "my_cart.yaml")))
    task = make_task(str(tmp_path / "my_cart.yaml"), config.action_penalty)
    assert (config.task, task.steps, task.spec.effort_limits) == ("my_cart", 100, (3.0,))
    at_rest = torch.zeros(1, task.spec.state_dim)
    assert float(task.reward(at_rest, torch.zeros(1, 1))) == 1.0
    assert float(task.reward(at_rest, torch.ones(1, 1))) == pytest.approx(0.9)


# Examples of docs/contributing


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    """The examples as a package that pip has installed."""
    folder = tmp_path_factory.mktemp("site")
    information = folder / "mine-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    points = []
    for page in PAGES:
        for toml in blocks(page, "toml"):
            group, _, module = ENTRY_POINT.match(toml).groups()
            points += [f"[{group}]", toml.splitlines()[1].replace('"', "")]
            (folder / f"{module}.py").write_text(*blocks(page, "python"))
    (information / "entry_points.txt").write_text("\n".join(points) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("check", contract(planners_contract, planners_contract.every_planner))
def test_the_example_of_a_planner_fulfils_the_contract(check, monkeypatch):
    monkeypatch.setitem(planners_contract.TOLERANCES, "hill_climb", (None, 0.05))
    check("hill_climb")


@pytest.mark.usefixtures("examples")
@pytest.mark.parametrize("check", contract(models_contract, models_contract.EACH_KIND))
def test_the_example_of_a_model_fulfils_the_contract(check):
    check("bayesian_linear")


@pytest.mark.slow
@pytest.mark.usefixtures("examples")
def test_the_example_of_a_model_plays_in_the_controller(tmp_path):
    bundle, parts = models_contract.exported("bayesian_linear", "optimistic", tmp_path)
    models_contract.assert_planned_alike(bundle, parts, "onnx")


@pytest.mark.usefixtures("examples")
@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler")
@pytest.mark.parametrize("check", contract(search_contract, search_contract.EACH_SEARCH))
def test_the_example_of_a_search_fulfils_the_contract(check):
    check("elite_regression")


@pytest.mark.usefixtures("examples")
def test_the_example_of_a_reward_term_is_what_it_says(tmp_path):
    (block,) = blocks(DOCS / "contributing" / "reward_term.md", "yaml")
    terms = yaml.safe_load(block)["reward"]["terms"]
    task = task_of(tmp_path, changed(ARM, "reward", function=None, success=None, terms=terms), 0.1)
    state = torch.zeros(1, task.spec.state_dim)
    state[0, 1] = -0.25
    reward = task.reward(state, torch.tensor([[1.0, 0.0]]))
    assert float(reward) == pytest.approx(-2.0 * 0.75 - 0.1)


def test_the_example_of_a_robot_is_a_task(tmp_path):
    page = DOCS / "contributing" / "robot.md"
    (tmp_path / "spring.yaml").write_text(*blocks(page, "yaml"))
    (tmp_path / "spring.xml").write_text(*blocks(page, "xml"))
    task = make_task(str(tmp_path / "spring.yaml"), 0.1)
    assert (task.steps, task.spec.effort_limits) == (60, (5.0,))
    states = torch.tensor([[0.5, 0.0], [0.75, 0.0]])
    rewards = task.reward(states, torch.tensor([[0.0], [1.0]]))
    torch.testing.assert_close(rewards, torch.tensor([1.0, 0.0]))


# The site


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site as `make docs` builds it: a link that leads nowhere is an error."""
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_asks_no_other_host(site):
    for page in site.rglob("*.html"):
        for tag in re.findall(r"<(?:script|link|img|iframe)\b[^>]*>", page.read_text()):
            assert "//" not in tag or 'rel="canonical"' in tag, f"{page.name}: {tag}"


def test_the_topics_page_says_what_the_contracts_say(site):
    page = re.sub(r"<[^>]+>", " ", (site / "reference" / "topics.html").read_text())
    for row in table(CONTRACTS, "name", "type", "from → to", "meaning"):
        kind, latched, _ = row[1].partition(", latched")
        if "srv" in kind or kind.startswith("lifecycle") or "/diagnostics" in row[0]:
            continue
        for name in quoted(row[0]):
            told = re.search(
                rf"\n\s*{name}\s+{kind}\s+(?:from: ([^;\n]*))?(?:;? ?to: ([^\n]*))?\n([^\n]*)",
                page,
            )
            assert told, name
            assert ("transient local" in told[3]) == bool(latched), name
            _, _, readers = row[2].partition(" → ")
            if told[2] and readers != "all":
                assert set(re.findall(r"\w+", readers)) <= set(re.findall(r"\w+", told[2])), name


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("settings", ["particles", "Sequences of efforts tried", "[2, inf)"]),
        ("choices", ["half_cheetah", "dyna_mpc", "planner.algorithm"]),
        ("robot", ["draw_fixed", "bounded_effort", "exp(−‖u/scale‖²) − 1"]),
        (
            "topics",
            ["from: controller, homing, watchdog; to: recorder, simulator, watchdog", "tick_ms"],
        ),
        ("commands", ["hucrl bench delay", "--action-penalty RHO"]),
        ("summary", ["promised_return", "p999"]),
        ("bundle", ["calibration_error", "hallucination_dim"]),
    ],
)
def test_the_reference_is_made_from_the_code(site, page, expected):
    text = re.sub(r"<[^>]+>", "", (site / "reference" / f"{page}.html").read_text())
    assert [words for words in expected if words not in text] == []


def test_pages_are_named_once():
    listed = re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text())
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    pages = {page for page in pages if not page.startswith("results/")}
    assert pages <= set(listed)
    assert len(listed) == len(set(listed))


def test_pre_commit_uses_the_environment():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [repository["repo"] for repository in hooks] == ["local"]
    assert all(Path(h["entry"].split()[0]).parts[0] == ".venv" for h in hooks[0]["hooks"])
