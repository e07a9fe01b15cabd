"""What README.md and the guides in docs/ say exists: commands, targets, files, names, settings."""

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple, get_args

import pytest
import torch
import yaml
from pydantic import BaseModel

from hucrl_ros.cli import COMMANDS, main, parsing
from hucrl_ros.cli.options import parse_settings
from hucrl_ros.cli.sweep import is_grid
from hucrl_ros.config.files import parse_config, share_directory, task_config_path
from hucrl_ros.config.reward import RewardSettings, TaskSettings, TermSettings
from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import is_description, read_description
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.experiments.grid import read_grid
from hucrl_ros.nodes import topics
from hucrl_ros.run.node_list import OWN_TOPICS
from hucrl_ros.run.prepare import RunOptions, asked_config
from hucrl_ros.run.summary import EpisodeSummary, Summary, TickStatistics
from hucrl_ros.tasks import make_task
from hucrl_ros.tasks.terms import TERMS

ROOT = share_directory()
README = ROOT / "README.md"
GUIDES = [ROOT / "docs" / f"{name}.md" for name in ("method", "ros", "your_robot", "reference")]
DOCUMENTS = [README, *GUIDES]
REFERENCE = ROOT / "docs" / "reference.md"
EXAMPLES = ROOT / "config" / "examples"
DEFAULT = ("default", "meaning")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
OWN_FILE = re.compile(r"(?:hucrl_ros|config|launch|sim|test|docs|\.ci)/[\w./-]*\w")
GROUPS = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
NODES = ("simulator", "controller", "recorder", "learner", "supervisor", "watchdog")


class Command(NamedTuple):
    """A line in a code block."""

    document: str
    words: list[str]


def commands_in(path: Path) -> list[Command]:
    """The lines of all shell blocks, `&&` split, comments dropped."""
    found = []
    for language, block in FENCE.findall(path.read_text()):
        for line in block.splitlines() if language == "sh" else []:
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                found.append(Command(path.name, words[:end]))
                words = words[end + 1 :]
    return found


def blocks(path: Path, language: str) -> list[str]:
    """All code blocks in one language."""
    return [block for kind, block in FENCE.findall(path.read_text()) if kind == language]


def table(path: Path, *heading: str) -> list[list[str]]:
    """Rows of the table with that heading."""
    lines = path.read_text().splitlines()
    start = next(k for k, line in enumerate(lines) if cells(line) == list(heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(cells(line))
    return rows


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def quoted(text: str) -> list[str]:
    return CODE.findall(text)


COMMAND_LINES = [command for path in DOCUMENTS for command in commands_in(path)]
EACH_DOCUMENT = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)


def lines_of(*program: str) -> "pytest.MarkDecorator":
    """Run a test for each documented command line that starts with these words."""
    count = len(program)
    chosen = [c for c in COMMAND_LINES if tuple(c.words[:count]) == program]
    assert chosen, f"no line starts with {' '.join(program)}"
    names = [f"{c.document}: {shlex.join(c.words)}" for c in chosen]
    return pytest.mark.parametrize("words", [c.words[count:] for c in chosen], ids=names)


@lines_of("hucrl")
def test_hucrl_understands_a_documented_line(words, monkeypatch):
    understood = []
    monkeypatch.setattr(parsing.Command, "invoke", lambda self, ctx: understood.append(ctx.params))
    monkeypatch.chdir(ROOT)
    assert main(words) == 0
    (typed,) = understood
    settings = parse_settings(typed.get("settings"))
    if settings or typed.get("config"):
        asked_config(RunOptions("pendulum", overrides=settings))
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


def test_every_command_is_shown():
    shown = {
        c.words[1] for c in COMMAND_LINES if c.words[0] == "hucrl" and c.document == "README.md"
    }
    assert shown == set(COMMANDS)


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


def own_parameters() -> list[list[str]]:
    return table(ROOT / "docs" / "ros.md", "parameter", "node", "meaning")


def test_the_nodes_own_parameters_are_documented():
    read = set()
    for node in NODES:
        source = (ROOT / "hucrl_ros" / "nodes" / f"{node}.py").read_text()
        read |= set(re.findall(r'own_parameter\(self, "(\w+)"', source))
        read |= {"run"} if "own_run(" in source else set()
    assert {name for row in own_parameters() for name in quoted(row[0])} == read


@EACH_DOCUMENT
def test_links_lead_somewhere(path):
    targets = [target for target in LINK.findall(path.read_text()) if "://" not in target]
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == [], "pictures in docs/images come from figures/ and videos/ of a real run"


@EACH_DOCUMENT
def test_files_that_are_named_exist(path):
    named = {name for text in quoted(path.read_text()) for name in OWN_FILE.findall(text)}
    named = {name for name in named if not name.startswith("docs/results/")}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_every_part_of_the_package_has_its_line():
    (tree,) = [block for block in blocks(README, "") if block.startswith("hucrl_ros/\n")]
    package = ROOT / "hucrl_ros"
    folders = {p.name for p in package.iterdir() if (p / "__init__.py").is_file()}
    shown = set(re.findall(r"(\w+)/", "\n".join(tree.splitlines()[1:])))
    assert folders <= shown
    for name in shown - folders:
        assert (ROOT / name).is_dir(), name
    for module in re.findall(r"\w+\.py", tree):
        assert (package / module).is_file(), module


def known_settings() -> set[str]:
    grouped = {f"{group}.{key}" for group, model in GROUPS.items() for key in model.model_fields}
    return grouped | set(Config.model_fields)


@EACH_DOCUMENT
def test_settings_that_are_named_exist(path):
    pattern = re.compile(rf"\b(?:{'|'.join(GROUPS)})\.[a-z_]+\b(?!\.)")
    named = {name for text in quoted(path.read_text()) for name in pattern.findall(text)}
    named = {name for name in named if not name.endswith((".py", ".md", ".yaml"))}
    assert named <= known_settings()


def test_the_table_of_parameters_is_the_schemas():
    rows = table(REFERENCE, "parameter", "type", "default", "meaning")
    documented = {}
    for name, kind, default, _ in rows:
        (key,) = quoted(name)
        documented[key] = (kind, default)
    expected = {}
    for group in ("safety", "control"):
        for key, field in GROUPS[group].model_fields.items():
            default = "empty" if field.default == () else str(field.default)
            expected[f"{group}.{key}"] = (kind_of(field.annotation), default)
    assert documented == expected


def kind_of(annotation: object) -> str:
    choices = get_args(annotation)
    if choices and get_args(choices[0]):  # a constrained type
        choices = get_args(choices[0])[:1]
    if choices:
        return "string" if isinstance(choices[0], str) else f"{choices[0].__name__}s"
    return annotation.__name__


def test_every_summary_field_is_documented():
    fields = set()
    for model in (Summary, EpisodeSummary, TickStatistics):
        fields |= {field.alias or name for name, field in model.model_fields.items()}
    rows = table(REFERENCE, "field", "meaning")
    documented = {name for row in rows for cell in row for name in quoted(cell)}
    assert fields <= documented
    assert {name for row in rows for name in quoted(row[0])} <= fields


def test_every_topic_and_service_is_documented():
    rows = table(REFERENCE, "topic or service", "type", "who", "QoS")
    documented = [name for row in rows for name in quoted(row[0])]
    assert sorted(documented) == sorted(getattr(topics, name) for name in topics.__all__)
    types = {name: row[1] for row in rows for name in quoted(row[0])}
    latched = {name for row in rows for name in quoted(row[0]) if "transient local" in row[3]}
    for topic in RECORDED:
        assert topic.type.replace("/msg/", "/") in types[topic.name]
        assert (topic.name in latched) == topic.latched


def test_every_direct_dependency_has_a_reason():
    required = set()
    for name in ("requirements", "requirements-ros", "requirements-dev"):
        lines = (ROOT / f"{name}.in").read_text().splitlines()
        required |= {re.match(r"[\w.-]+", line)[0] for line in lines if not line.startswith("#")}
    rows = table(README, "package", "why")
    documented = [name.strip() for row in rows for name in row[0].split(",")]
    assert len(documented) == len(set(documented))
    assert set(documented) == required


@EACH_DOCUMENT
def test_yaml_blocks_fit_the_schema(path):
    for block in blocks(path, "yaml"):
        document = yaml.safe_load(block)
        if "/**" in document:
            parse_config(document["/**"]["ros__parameters"], path.name)


@EACH_DOCUMENT
def test_python_blocks_compile(path):
    for number, block in enumerate(blocks(path, "python")):
        compile(block, f"{path.name} block {number}", "exec")


def test_the_example_of_a_robot_of_ones_own_works(tmp_path):
    guide = ROOT / "docs" / "your_robot.md"
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


def test_the_reference_lists_all_that_a_description_may_say():
    robot = {name.strip("`") for name, *_ in table(REFERENCE, "key of `robot:`", *DEFAULT)}
    assert robot == set(RobotSettings.model_fields)
    reward = {name.strip("`") for name, *_ in table(REFERENCE, "key of `reward:`", "meaning")}
    assert reward == set(RewardSettings.model_fields)
    task = {name.strip("`") for name, *_ in table(REFERENCE, "key of `task:`", "meaning")}
    assert task == set(TaskSettings.model_fields)
    terms = {
        name.strip("`"): keys
        for name, keys, _ in table(REFERENCE, "term", "keys (default)", "value")
    }
    assert set(terms) == set(TERMS)
    for settings in TermSettings.__subclasses__():
        name = get_args(settings.model_fields["term"].annotation)[0]
        keys = set(settings.model_fields) - {"term", "weight"}
        assert set(re.findall(r"`(\w+)`", terms[name])) == keys, name


def test_the_readme_can_be_read_in_one_sitting():
    assert len(README.read_text().splitlines()) < 350
