"""Pages of the site that are made while it is built: the reference, and the files of the root.

The reference is read from schemas, nodes and commands, so that it can't say anything else than
they do. README.md and its neighbours are the site's first pages; their links lead from there.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from typer.main import get_command

from hucrl_ros.cli import COMMANDS, commands
from hucrl_ros.config.defaults import described, docstrings
from hucrl_ros.config.reward import RewardSettings, SuccessSettings, TaskSettings, TermSettings
from hucrl_ros.config.robot import Draw, RobotSettings, SiteSettings
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import LearningReport, Manifest
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.controller.topics import RECORDED
from hucrl_ros.nodes import topics
from hucrl_ros.run.summary import EpisodeSummary, Summary, TickStatistics
from hucrl_ros.tasks.terms import TERMS

ROOT = Path(__file__).resolve().parents[1]
NODES = ROOT / "hucrl_ros" / "nodes"
PROCESSES = ("simulator", "controller", "watchdog", "recorder", "learner", "supervisor")
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
"""Names in `nodes/qos.py`, and what the other side needs to know of them."""


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
        rows.append((f"`{field.alias or name}`", _default(field), meaning, accepted))
    return table(("key", "default", "meaning", "accepted"), rows)


def _default(field: Any) -> str:  # noqa: ANN401
    if field.is_required():
        return "–"
    value = field.default_factory() if field.default_factory else field.default
    return "none" if value in ((), {}, "", None, PydanticUndefined) else f"`{value}`"


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


def _robot() -> Iterator[str]:
    yield "Sections of the YAML that describes it. An entry of the state is called `<joint>` (its"
    yield "position), `<joint>_velocity`, or as `observed` and `context` name it."
    for title, model in {
        "robot:": RobotSettings,
        "an entry of start:": Draw,
        "an entry of sites:": SiteSettings,
        "reward:": RewardSettings,
        "reward: success:": SuccessSettings,
        "task:": TaskSettings,
    }.items():
        yield from ("", f"## {title}", "")
        yield from fields(model)
    yield from ("## Terms of a reward", "")
    yield "`of` is a site, an observed body or a goal; `to` also three numbers [m]. ρ is the setting"
    yield "`action_penalty`; tol is 1 in a band and 0.1 at `margin` outside of it. Each term also"
    yield from ("has `weight`, 1 by default.", "")
    settings = {
        get_args(each.model_fields["term"].annotation)[0]: each
        for each in TermSettings.__subclasses__()
        if each.__module__.startswith("hucrl_ros.")
    }
    yield from table(
        ("term", "keys (default)", "value"),
        ((f"`{name}`", _keys(settings[name]), term.__doc__ or "") for name, term in TERMS.items()),
    )


def _keys(term: type[TermSettings]) -> str:
    own = {k: f for k, f in term.model_fields.items() if k not in TermSettings.model_fields}
    return ", ".join(
        f"`{name}`" + ("" if field.is_required() else f" ({_default(field)})")
        for name, field in own.items()
    )


class Use(ast.NodeVisitor):
    """Where a module of nodes names a topic or a service: with which type, QoS and verb."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, str, str]] = []
        """Name, message type, verb, QoS."""

    def visit(self, node: ast.AST) -> None:
        """Look at calls `create_...(Type, topics.NAME, ...)` and at tuples of the same form."""
        parts = node.args if isinstance(node, ast.Call) else getattr(node, "elts", [])
        for kind, topic in zip(parts, parts[1:], strict=False):
            if ast.unparse(topic).startswith("topics.") and isinstance(kind, ast.Name):
                call = node.func.attr if isinstance(node, ast.Call) else "subscription"
                name = getattr(topics, ast.unparse(topic).removeprefix("topics."))
                qos = [QOS[ast.unparse(p)] for p in parts if ast.unparse(p) in QOS]
                verb = VERBS[call.rpartition("_")[2]]
                self.found.append((name, kind.id, verb, *(qos or ["reliable"])))
        self.generic_visit(node)


def uses() -> Iterator[tuple[str, str, str, str, str]]:
    """Process, topic or service, message type, verb and QoS."""
    modules = {path.stem: path.read_text() for path in NODES.glob("*.py")}
    for process in PROCESSES:
        belongs, waiting = set(), {process}
        while waiting:  # the helpers that the process's module imports
            module = waiting.pop()
            belongs.add(module)
            words = set(re.findall(r"\w+", "\n".join(imports(modules[module]))))
            waiting |= (words & modules.keys()) - belongs - {"topics", "qos", *PROCESSES}
        for module in sorted(belongs):
            use = Use()
            use.visit(ast.parse(modules[module]))
            yield from ((process, *each) for each in use.found)
    for topic in RECORDED:
        qos = QOS["LATCHED" if topic.latched else "STREAM"]
        yield "recorder", topic.name, topic.type.rpartition("/")[2], "to", qos


def imports(source: str) -> Iterator[str]:
    """What a module imports from its room."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hucrl_ros.nodes"):
            yield ast.unparse(node)


def _topics() -> Iterator[str]:
    who: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    kinds, delivery = {}, {}
    for process, name, kind, verb, qos in uses():
        who[name][verb].add(process)
        kinds[name] = kind
        delivery[name] = "service" if verb.endswith(" by") else qos
    yield "Names are relative, so that they can be remapped. What each one means, and in which"
    yield "order things happen, stands in the [contracts](../contracts.md)."
    yield ""
    yield from table(
        ("topic or service", "type", "who", "delivery"),
        (
            (
                f"`{name}`",
                kinds[name],
                "; ".join(f"{verb}: {', '.join(sorted(by))}" for verb, by in who[name].items()),
                delivery[name],
            )
            for name in sorted(who)
        ),
    )
    yield from ("## Fields of `controller/ticks`", "", "`layout.dim[i].label` names them.", "")
    yield from table(
        ("field", "meaning"),
        ((f"`{name}`", meaning) for name, meaning in meanings(TickRecord).items()),
    )


def _commands() -> Iterator[str]:
    yield "`hucrl COMMAND --help` prints the same. Exit codes: 0 done, 1 failed, 2 wrong settings or"
    yield from ("usage, 130 Ctrl-C.", "")
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
