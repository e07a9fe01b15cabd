"""What stands in README.md, CONTRIBUTING.md and docs/: blocks of code, tables, links."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from hucrl_ros.config.files import share_directory

ROOT = share_directory()
NODES = (
    "simulator",
    "controller",
    "homing",
    "recorder",
    "learner",
    "remote_learner",
    "supervisor",
    "watchdog",
)
"""Those that a user may start, as the documents and the package have to know them."""
README = ROOT / "README.md"
DOCS = ROOT / "docs"
RESULTS = sorted((DOCS / "results").rglob("*.md"))
GUIDES = [README, ROOT / "CONTRIBUTING.md", *sorted({*DOCS.rglob("*.md")} - {*RESULTS})]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


EACH_GUIDE = pytest.mark.parametrize("path", GUIDES, ids=name_of)
EACH_DOCUMENT = pytest.mark.parametrize("path", [*GUIDES, *RESULTS], ids=name_of)


class Command(NamedTuple):
    """A line in a code block."""

    document: str
    words: list[str]


def commands_in(path: Path) -> list[Command]:
    """Lines of shell blocks, `&&` split; comments and variables before a command are dropped."""
    found = []
    for block in blocks(path, "sh"):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            while words:
                end = words.index("&&") if "&&" in words else len(words)
                command = words[:end]
                while command and re.match(r"[A-Z_]+=", command[0]):
                    command.pop(0)
                found.append(Command(name_of(path), command))
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


def anchors(path: Path) -> set[str]:
    """What a link into a document may name: its headings as GitHub writes them."""
    text = FENCE.sub("", path.read_text())
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


COMMAND_LINES = [command for path in GUIDES for command in commands_in(path)]


def lines_of(*program: str) -> "pytest.MarkDecorator":
    """Run a test for each documented command line that starts with these words."""
    count = len(program)
    chosen = [c for c in COMMAND_LINES if tuple(c.words[:count]) == program]
    assert chosen, f"no line starts with {' '.join(program)}"
    names = [f"{c.document}: {shlex.join(c.words)}" for c in chosen]
    return pytest.mark.parametrize("words", [c.words[count:] for c in chosen], ids=names)
