"""Pages of the site that are made while it is built: the reference, and the files of the root.

The reference is read from schemas, nodes and commands, so that it can't say anything else than
they do. README.md and its neighbours are the site's first pages; their links lead from there.
"""

import ast
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.main import get_command

from hucrl_ros.cli import COMMANDS, commands
from hucrl_ros.cli.list import REGISTRIES, entries
from hucrl_ros.config.constraints import AnyConstraint, ConstraintSettings, Region
from hucrl_ros.config.defaults import described, docstrings
from hucrl_ros.config.reward import RewardSettings, SuccessSettings, TaskSettings, TermSettings
from hucrl_ros.config.robot import Draw, RobotSettings, SiteSettings
from hucrl_ros.config.schema import Config, Settings
from hucrl_ros.controller.manifest import LearningReport, Manifest
from hucrl_ros.controller.ticks import DECIDED, TickRecord
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.nodes import topics
from hucrl_ros.run.summary import EpisodeSummary, Summary, TickStatistics
from hucrl_ros.tasks.terms import TERMS

ROOT = Path(__file__).resolve().parents[1]
NODES = ROOT / "hucrl_ros" / "nodes"
PROCESSES = (
    "simulator",
    "controller",
    "watchdog",
    "recorder",
    "learner",
    "supervisor",
    "homing",
)
OF_THE_ROOT = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "LICENSE",
    "config/defaults.yaml": "reference/settings.md",
}
"""Files above docs/ that pages link to, and where they are on the site."""
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
VERBS = {"publisher": "from", "subscription": "to", "service": "answered by", "client": "asked by"}
QOS = {
    "STREAM": "reliable",
    "NEWEST": "reliable",
    "ARCHIVE": "reliable",
    "LATCHED": "reliable, transient local",
}
"""Names in `nodes/topics.py`, and what the other side needs to know of them."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie nowhere in docs/."""
    for source, target in OF_THE_ROOT.items():
        if not target.startswith("reference/"):
            files.append(File.generated(config, target, content=(ROOT / source).read_text()))
    for name, page in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content="\n".join(page)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Let links to files above docs/ lead to their pages."""
    uri = page.file.src_uri
    sources = {target: source for source, target in OF_THE_ROOT.items()}
    here = PurePosixPath(sources[uri]) if uri in sources else PurePosixPath("docs", uri)
    return LINK.sub(lambda link: _on_site(link[1], here, uri), markdown)


def _on_site(target: str, here: PurePosixPath, uri: str) -> str:
    path = (ROOT / here.parent / target).resolve()
    if "://" in target or not path.is_relative_to(ROOT):
        return target
    inside = path.relative_to(ROOT).as_posix()
    placed = OF_THE_ROOT.get(inside, inside.removeprefix("docs/"))
    return "../" * uri.count("/") + placed


def reference() -> dict[str, list[str]]:
    """Lines of each page of the reference."""
    return {
        "settings": ["# Settings", "", *_settings()],
        "choices": ["# What can be chosen", "", *_choices()],
        "robot": ["# A robot of your own", "", *_robot()],
        "topics": ["# Topics, messages, services", "", *_topics()],
        "commands": ["# Commands", "", *_commands()],
        "summary": ["# summary.json", "", *_summary()],
        "bundle": ["# A bundle's manifest", "", *_bundle()],
    }


def table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A Markdown table and an empty line."""
    for row in (tuple(heading), ("---",) * len(tuple(heading)), *rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""


def meanings(owner: type) -> dict[str, str]:
    """Docstrings of all fields, inherited ones included."""
    found: dict[str, str] = {}
    for each in reversed(owner.__mro__):
        if each.__module__.startswith("hucrl_ros."):
            found |= docstrings(each)
    return found


def fields(model: type[BaseModel]) -> Iterator[str]:
    """The table of a model's fields; nested groups of settings are left out."""
    said = meanings(model)
    rows = []
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            continue
        meaning, accepted = described(said.get(name, ""), field)
        accepted = accepted.replace("Range: (-inf, inf).", "")
        rows.append((f"`{field.alias or name}`", _default(field), meaning, accepted))
    return table(("key", "default", "meaning", "accepted"), rows)


def _default(field: Any) -> str:  # noqa: ANN401
    if field.is_required():
        return "–"
    value = field.default_factory() if field.default_factory else field.default
    if value in ((), {}, "", None, PydanticUndefined):
        return "none"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _settings() -> Iterator[str]:
    yield "In a task's file, in `--set KEY=VALUE` and as ROS parameters, with the group before the"
    yield "key: `planner.particles`. `hucrl list settings` prints them as YAML."
    yield ""
    yield from fields(Config)
    for group, field in Config.model_fields.items():
        model = field.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (f"## {group}", "", (model.__doc__ or "").splitlines()[0], "")
            yield from fields(model)


def _choices() -> Iterator[str]:
    yield from ("`hucrl list` prints the same.", "")
    for kind, registry in REGISTRIES.items():
        yield from (f"## {kind.capitalize()}", "", f"How one is chosen: {registry.chosen_by}.", "")
        rows = ((f"`{each.name}`", each.summary, f"`{each.source}`") for each in entries(kind))
        yield from table(("name", "what it is", "source"), rows)


def _robot() -> Iterator[str]:
    yield "Sections of the YAML that describes it. An entry of the state is called `<joint>` (its"
    yield "position), `<joint>_velocity`, or as `observed` and `context` name it."
    for title, model in {
        "`robot:`": RobotSettings,
        "An entry of `start:`": Draw,
        "An entry of `sites:`": SiteSettings,
        "`reward:`": RewardSettings,
        "`success:` of a reward": SuccessSettings,
        "`task:`": TaskSettings,
    }.items():
        yield from ("", f"## {title}", "")
        yield from fields(model)
    yield from ("## Entries of `constraints:`", "")
    yield from fields(ConstraintSettings)
    yield from _kinds("kind", get_args(get_args(AnyConstraint)[0]), ConstraintSettings)
    yield from _kinds("shape of a `region`", get_args(get_args(Region)[0]), Settings)
    yield from ("## Terms of a reward", "")
    yield "`of` is a site, an observed body or a goal; `to` also three numbers [m]. ρ is the"
    yield "setting `action_penalty`; tol is 1 in a band and 0.1 at `margin` outside of it. A term"
    yield from ("also has `weight`, 1 by default.", "")
    settings = {
        get_args(each.model_fields["term"].annotation)[0]: each
        for each in TermSettings.__subclasses__()
        if each.__module__.startswith("hucrl_ros.")
    }
    yield from table(
        ("term", "keys (default)", "value"),
        ((f"`{name}`", _keys(settings[name]), term.__doc__ or "") for name, term in TERMS.items()),
    )


def _kinds(title: str, kinds: Iterable[type[Settings]], base: type[Settings]) -> Iterator[str]:
    """A table of the members of a union, told apart by the field that `title` begins with."""
    tag = title.split()[0]
    rows = []
    for kind in kinds:
        name = get_args(kind.model_fields[tag].annotation)[0]
        rows.append((f"`{name}`", _keys(kind, (*base.model_fields, tag)), kind.__doc__ or ""))
    yield from table((title, "keys (default)", "what it is"), rows)


def _keys(term: type[Settings], without: Iterable[str] = tuple(TermSettings.model_fields)) -> str:
    own = {k: f for k, f in term.model_fields.items() if k not in without}
    return ", ".join(
        f"`{name}`" + ("" if field.is_required() else f" ({_default(field)})")
        for name, field in own.items()
    )


class Use(NamedTuple):
    """A place where a node names a topic or a service."""

    name: str
    type: str
    verb: str
    delivery: str


def reached(process: str, modules: dict[str, ast.Module]) -> Iterator[ast.AST]:
    """What a process is made of: its module, and the helpers of its room that it names."""
    waiting: list[tuple[str, ast.AST]] = [(process, modules[process])]
    seen: set[ast.AST] = set()
    while waiting:
        here, part = waiting.pop()
        if part in seen:
            continue
        seen.add(part)
        yield part
        names = {ast.unparse(n) for n in ast.walk(part) if isinstance(n, ast.Name | ast.Attribute)}
        for module, tree in modules.items():
            plain = module == here or module in imported(modules[here])
            if module not in PROCESSES:
                waiting += [
                    (module, inner)
                    for inner in tree.body
                    if isinstance(inner, ast.ClassDef | ast.FunctionDef)
                    if f"{module}.{inner.name}" in names or (plain and inner.name in names)
                ]


def imported(tree: ast.Module) -> set[str]:
    """Modules of the room from which names are imported."""
    nodes = (node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return {n.rpartition(".")[2] for n in nodes if n.startswith("hucrl_ros.nodes.")}


def uses(part: ast.AST) -> Iterator[Use]:
    """Calls `create_...(Type, topics.NAME, ...)` or of such classes, and tuples of arguments."""
    for node in ast.walk(part):
        given = node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])
        words = [ast.unparse(argument) for argument in given]
        plain = [word.removeprefix("topics.") for word in words]
        for kind, topic in pairwise(words):
            if topic.startswith("topics.") and kind.isidentifier():
                call = ast.unparse(node.func) if isinstance(node, ast.Call) else "subscription"
                verb = VERBS[re.split("_|(?=[A-Z])", call)[-1].lower()]
                delivery = [QOS[word] for word in plain if word in QOS] or ["reliable"]
                service = verb.endswith(" by")
                name = getattr(topics, topic.removeprefix("topics."))
                if isinstance(name, str):
                    yield Use(name, kind, verb, "service" if service else delivery[0])


def _topics() -> Iterator[str]:
    modules = {path.stem: ast.parse(path.read_text()) for path in sorted(NODES.glob("*.py"))}
    package = {
        alias.name: (node.module or "").partition(".")[0]
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    who: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    said = {}
    for process in PROCESSES:
        for use in (use for part in reached(process, modules) for use in uses(part)):
            who[use.name][use.verb].add(process)
            said[use.name] = (f"{package[use.type]}/{use.type}", use.delivery)
    for topic in RECORDED:
        who[topic.name]["to"].add("recorder")
    yield "Names are relative, so that they can be remapped; a robot stands in the place of the"
    yield "simulator. What each one means, and in which order things happen, stands in the"
    yield "[contracts](../contracts.md)."
    yield ""
    rows = []
    for name, (kind, delivery) in sorted(said.items()):
        by = "; ".join(f"{verb}: {', '.join(sorted(w))}" for verb, w in sorted(who[name].items()))
        rows.append((f"`{name}`", kind, by, delivery))
    yield from table(("topic or service", "type", "who", "delivery"), rows)
    yield from ("## Fields of `controller/ticks`", "", "`layout.dim[i].label` names them.", "")
    yield from table(
        ("field", "meaning"),
        ((f"`{name}`", meaning) for name, meaning in (meanings(TickRecord) | DECIDED).items()),
    )


def _commands() -> Iterator[str]:
    yield "`hucrl COMMAND --help` prints the same. Exit codes: 0 done, 1 failed, 2 wrong settings"
    yield from ("or usage, 130 Ctrl-C.", "")
    group = get_command(commands())
    for name in COMMANDS:
        command = group.commands[name]
        for inner in getattr(command, "commands", {"": command}).values():
            title = name if inner is command else f"{name} {inner.name}"
            yield from (f"## hucrl {title}", "", inner.help or "", "")
            rows = [
                (f"`{' '.join(filter(None, _words(each)))}`", each.help or "")
                for each in inner.params
                if each.name != "help"
            ]
            yield from table(("argument", "meaning"), rows) if rows else ()


def _words(parameter: Any) -> tuple[str, str]:  # noqa: ANN401
    option = parameter.opts[0] if parameter.opts[0].startswith("-") else ""
    return option, parameter.metavar or ("" if option else parameter.name.upper())


def _summary() -> Iterator[str]:
    yield "Rewritten after every episode. A number that isn't known, or not yet, is null."
    for title, model in {
        "The run": Summary,
        "An entry of episodes": EpisodeSummary,
        "tick_ms": TickStatistics,
    }.items():
        yield from ("", f"## {title}", "", (model.__doc__ or "").splitlines()[0], "")
        yield from _plain_fields(model)


def _plain_fields(model: type[BaseModel]) -> Iterator[str]:
    said = meanings(model)
    rows = ((f"`{f.alias or name}`", said[name]) for name, f in model.model_fields.items())
    return table(("field", "meaning"), rows)


def _bundle() -> Iterator[str]:
    yield "`manifest.yaml` of a bundle. Which files lie next to it: [contracts](../contracts.md)."
    yield from ("", *_plain_fields(Manifest), "## report", "", *_plain_fields(LearningReport))
