"""The one reader of YAML: whatever somebody else wrote there, it ends soon and in one line."""

from pathlib import Path
from typing import Any

import yaml

from hucrl_ros.config.regular_files import read_regular
from hucrl_ros.errors import ConfigError, HucrlError, quoted, shortened

LARGEST = 2**20
"""[bytes] Largest YAML that is read."""
DEEPEST = 30
"""[1] Lists and mappings in each other."""
MOST_VALUES = 20_000
"""[1] Keys and values in a document; what an alias stands for counts each time."""
LONGEST_TEXT = 10_000
"""[letters] Of a key or value."""
LONGEST_NUMBER = 100
"""[letters] Of a number or a date."""
_NUMBERS = {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "timestamp")}
_MERGE = "tag:yaml.org,2002:merge"


class _Reader(yaml.SafeLoader):
    """Refuses what takes long or grows without end before it is made, and keys given twice.

    It accepts no aliases.
    """

    aliases = False

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = self._count = 0
        self._sizes: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        anchor: str | None = getattr(event, "anchor", None)
        if anchor is not None and not self.aliases:
            raise _refused(event, "anchors (&name) and aliases (*name) are not accepted")
        if isinstance(event, yaml.AliasEvent):
            if anchor not in self._sizes:
                raise _refused(event, f"*{shortened(anchor, 40)} stands for nothing before")
            self._add(self._sizes[anchor], event)
            return super().compose_node(parent, index)
        if isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_TEXT:
            raise _refused(event, f"{len(event.value)} letters, at most {LONGEST_TEXT} accepted")
        before = self._count
        self._add(1, event)
        self._depth += 1
        if self._depth > DEEPEST:
            raise _refused(event, f"nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        if anchor is not None:
            self._sizes[anchor] = self._count - before
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        found: dict[tuple[str, str], yaml.Node] = {}
        # Looked at before `<<` brings in keys that those written here may replace.
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            first = found.setdefault((key.tag, key.value), key)
            if first is not key:
                name, line = shortened(repr(key.value), 40), first.start_mark.line + 1
                raise _refused(key, f"key {name} is given in line {line} already; give it once")
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        if node.tag in _NUMBERS and len(node.value) > LONGEST_NUMBER:
            raise _refused(
                node, f"a number of {len(node.value)} letters, at most {LONGEST_NUMBER} accepted"
            )
        try:
            return super().construct_object(node, deep)
        except (ValueError, KeyError, TypeError, OverflowError, AttributeError):
            # What int, datetime and others raise; of lists only what is in them tells.
            if not isinstance(node, yaml.ScalarNode):
                raise
            shown, kind = quoted(node.value), node.tag.rpartition(":")[2]
            raise _refused(node, f"{shown} is no {shortened(kind, 40)}") from None

    def _add(self, values: int, event: yaml.Event) -> None:
        self._count += values
        if self._count > MOST_VALUES:
            raise _refused(event, f"more than the {MOST_VALUES} keys and values accepted")


class _SettingsReader(_Reader):
    """For what users write themselves: aliases save them repetitions."""

    aliases = True


def read_mapping(path: Path) -> dict[str, Any]:
    """Keys and values of a file that a user wrote; it may be a link, and have aliases.

    Raises:
        ConfigError: it can't be read, isn't YAML, or holds something else.
    """
    return parse_mapping(read_regular(path, LARGEST, ConfigError, links=True), path, aliases=True)


def parse_mapping(
    content: bytes, path: Path, error: type[HucrlError] = ConfigError, aliases: bool = False
) -> dict[str, Any]:
    """Keys and values in the content of a file.

    Args:
        content: UTF-8.
        path: Where it is from.
        error: What to raise.
        aliases: Accept anchors and aliases, as in what users write themselves.

    Raises:
        HucrlError: it isn't YAML, or holds something else.
    """
    try:
        document = _parse(content.decode(), aliases)
    except Exception as problem:  # PyYAML lets out many.
        raise error(f"{shortened(path)}: not YAML: {_told(problem)}") from None
    if not isinstance(document, dict):
        found = type(document).__name__
        raise error(f"{shortened(path)}: expected keys and values, found {found}")
    return document


def parse_value(text: str, source: str) -> object:
    """A value in YAML that a user typed.

    Args:
        text: The value.
        source: Where it is from, and what it stands for there.

    Raises:
        ConfigError: it isn't YAML.
    """
    try:
        return _parse(text, aliases=False)
    except Exception as problem:  # PyYAML lets out many.
        line = f"{shortened(source)}: the value is not YAML: {_told(problem)}"
        raise ConfigError(line) from None


def _parse(text: str, aliases: bool) -> object:
    return yaml.load(text, Loader=_SettingsReader if aliases else _Reader)


def _told(problem: Exception) -> str:
    """Without PyYAML's name of what it reads, which whoever reads the line knows by another."""
    return shortened(str(problem).replace('"<unicode string>", ', ""))


def _refused(found: yaml.Event | yaml.Node, problem: str) -> yaml.YAMLError:
    line = found.start_mark.line + 1 if found.start_mark else 1
    return yaml.YAMLError(f"line {line}: {problem}")
