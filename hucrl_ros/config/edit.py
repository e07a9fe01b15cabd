"""Settings put into a YAML that otherwise stays as it is, comments too."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import yaml

from hucrl_ros.config.files import PARAMETERS, SETTINGS, merge, write_atomically
from hucrl_ros.errors import ConfigError, one_line

INDENT = "  "


class NewSetting(NamedTuple):
    """A setting to put into a file."""

    key: str
    """`group.name`."""
    value: str | float
    comment: str
    """One line, for the end of the setting's."""


def setting_lines(settings: Sequence[NewSetting]) -> list[str]:
    """They as lines below `ros__parameters:`, without indentation."""
    groups = dict.fromkeys(_group(setting) for setting in settings)
    return [line for group in groups for line in (f"{group}:", *_lines(settings, group, INDENT))]


def put_settings(path: Path, settings: Sequence[NewSetting]) -> str:
    """The text of a file with settings replaced or added.

    Lines of its own are only replaced where they hold one of the settings, or the group of one
    in braces.

    Args:
        path: The file; nothing is written to it.
        settings: Of one group or several.

    Raises:
        ConfigError: it can't be read, or is laid out in a way that this doesn't know.
    """
    try:
        text = path.read_bytes().decode()
        before = yaml.safe_load(text)
        end = "\r\n" if text.count("\r\n") == text.count("\n") > 0 else "\n"
        lines = text.removesuffix(end).split(end)  # else some end so, and go on to
        for group in dict.fromkeys(_group(setting) for setting in settings):
            lines = _put_group("\n".join(lines), group, settings)
        after = yaml.safe_load("\n".join(lines))
        nested = before.get(SETTINGS, {}).get(PARAMETERS, {})
        wanted = merge(nested, {setting.key: setting.value for setting in settings})
        if {**before, SETTINGS: {PARAMETERS: wanted}} != after:
            raise ValueError("its layout is unusual")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (ValueError, AttributeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{path}: can't put settings in ({one_line(error)}); do so by hand: "
            + ", ".join(f"{setting.key}: {setting.value}" for setting in settings)
        ) from None
    return end.join(lines) + end


def write_settings(path: Path, text: str) -> None:
    """Replace a file at once, links and rights kept.

    Raises:
        ConfigError: it can't be written.
    """
    target = path.resolve()
    try:
        mode = target.stat().st_mode
        write_atomically(target, text)
        target.chmod(mode)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _put_group(text: str, group: str, settings: Sequence[NewSetting]) -> list[str]:
    """Lines of `text` with the settings of a group put in."""
    lines = text.split("\n")
    document = yaml.compose(text)
    section = _entry(document, SETTINGS)
    parameters = _entry(section[1], PARAMETERS) if section else None
    if parameters is None:
        if section is not None:
            raise ValueError(f"{SETTINGS!r} holds no {PARAMETERS}")
        below = _indented([f"{group}:", *_lines(settings, group, INDENT)], 2 * INDENT)
        return [*lines, "", f"{SETTINGS}:", f"{INDENT}{PARAMETERS}:", *below]
    found = _entry(parameters[1], group)
    if found is None:
        margin = " " * _first_column(parameters)
        new = _indented([f"{group}:", *_lines(settings, group, INDENT)], margin)
        place = parameters[0].end_mark.line + 1
        return [*lines[:place], *new, *lines[place:]]
    if _in_braces(found[1]):
        return _put_block(lines, found, group, settings)
    for setting in (each for each in settings if _group(each) == group):
        text = "\n".join(lines)
        lines = _put_line(lines, _found(text, group), setting)
    return lines


Entry = tuple[yaml.Node, yaml.Node]


def _put_line(lines: list[str], group: Entry, setting: NewSetting) -> list[str]:
    """Lines with a setting in a group that has a line for each."""
    present = _entry(group[1], setting.key.partition(".")[2])
    new = " " * _first_column(group) + _line(setting)
    if present is None:
        place = group[0].end_mark.line + 1
        return [*lines[:place], new, *lines[place:]]
    first, last = present[0].start_mark.line, present[1].end_mark.line
    return [*lines[:first], new, *lines[last + 1 :]]


def _put_block(
    lines: list[str], group: Entry, name: str, settings: Sequence[NewSetting]
) -> list[str]:
    """Lines with a group in braces, on one line, turned into one with a line for each setting."""
    place = group[0].start_mark.line
    if group[1].end_mark.line != place:
        raise ValueError(f"{name} is in braces over several lines")
    values: dict[str, object] = yaml.safe_load(
        lines[place][group[1].start_mark.column : group[1].end_mark.column]
    )
    new = {setting.key.partition(".")[2] for setting in settings if _group(setting) == name}
    kept = [f"{INDENT}{key}: {_dumped(value)}" for key, value in values.items() if key not in new]
    comment = lines[place][group[1].end_mark.column :].rstrip()
    block = [f"{name}:{comment}", *kept, *_lines(settings, name, INDENT)]
    margin = " " * group[0].start_mark.column
    return [*lines[:place], *_indented(block, margin), *lines[place + 1 :]]


def _found(text: str, group: str) -> Entry:
    section = _entry(yaml.compose(text), SETTINGS)
    parameters = _entry(section[1], PARAMETERS) if section else None
    found = _entry(parameters[1], group) if parameters else None
    assert found is not None
    return found


def _entry(node: yaml.Node | None, key: str) -> Entry | None:
    """Key and value in a mapping; None: it has none of that name, or is empty."""
    if not isinstance(node, yaml.MappingNode):
        return None
    return next(((k, value) for k, value in node.value if k.value == key), None)


def _in_braces(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and bool(node.flow_style)


def _first_column(entry: Entry) -> int:
    """Where the entries of a mapping begin."""
    key, mapping = entry
    if isinstance(mapping.value, list) and mapping.value and not _in_braces(mapping):
        return int(mapping.value[0][0].start_mark.column)
    return int(key.start_mark.column) + len(INDENT)


def _lines(settings: Sequence[NewSetting], group: str, margin: str) -> list[str]:
    return [margin + _line(each) for each in settings if _group(each) == group]


def _line(setting: NewSetting) -> str:
    name = setting.key.partition(".")[2]
    return f"{name}: {_dumped(setting.value)}  # {setting.comment}"


def _dumped(value: object) -> str:
    dumped = yaml.safe_dump([value], default_flow_style=True, width=4096).strip()
    return dumped.removeprefix("[").removesuffix("]")


def _group(setting: NewSetting) -> str:
    return setting.key.partition(".")[0]


def _indented(lines: Sequence[str], margin: str) -> list[str]:
    return [margin + line for line in lines]
