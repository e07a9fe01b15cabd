"""Every setting with meaning, unit and range, from the schema.

`hucrl list settings > config/defaults.yaml` brings the file up to date.
"""

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic.fields import FieldInfo

from hucrl_ros.config.schema import Config, Settings

WIDTH = 99
HEADER = """\
# Every setting of a run, with its default, unit, range and meaning, in ROS parameter form.
#
# `hucrl list settings` prints this, from the schema in hucrl_ros/config/schema.py. A task's file
# (config/<task>.yaml) holds only what differs. Change a value in a copy of the task's file
# (--config FILE), or for one run (--set planner.horizon=30); an unknown key, a wrong type or a
# value out of range is refused by name.
# Ranges are intervals: [1, inf) includes 1. A list that is empty stays commented out, because
# ROS can't tell the type of an empty list.
/**:
  ros__parameters:
"""
UNIT = re.compile(r"\s*\[([^]]+)\]")


def document_defaults() -> str:
    """The YAML, in ROS parameter form, that is read as `Config()`."""
    return HEADER + "\n".join(_lines(Config, " " * 4)) + "\n"


class Accepted(NamedTuple):
    """Which values a field takes; of a list, its entries."""

    kind: object
    """int, float, or another type."""
    choices: tuple[str, ...] = ()
    """All of them, if there are few."""
    bounds: Mapping[str, float] = {}
    """Of numbers: `ge`, `gt`, `le`, `lt`, where there is one."""

    @property
    def text(self) -> str:
        """The interval or the choices; empty where it takes any text."""
        if self.choices:
            return " | ".join(self.choices)
        if self.kind not in (int, float):
            return ""
        bounds = {kind: f"{bound:.10g}" for kind, bound in self.bounds.items()}
        lower = f"[{bounds['ge']}" if "ge" in bounds else f"({bounds.get('gt', '-inf')}"
        upper = f"{bounds['le']}]" if "le" in bounds else f"{bounds.get('lt', 'inf')})"
        return f"{lower}, {upper}"


def accepted(field: FieldInfo) -> Accepted:
    """Which values a field of the schema takes."""
    annotation: Any = field.annotation
    constraints: Sequence[object] = field.metadata
    if annotation is bool:
        return Accepted(bool, ("true", "false"))
    if get_origin(annotation) is Literal:
        return Accepted(str, get_args(annotation))
    if get_origin(annotation) is tuple:  # of its entries, not of its length
        entry = get_args(annotation)[0]
        annotation, *given = get_args(entry) or (entry,)  # from Annotated[int, ...], or from int
        constraints = [bound for each in given for bound in getattr(each, "metadata", [each])]
    bounds = {
        kind: bound
        for constraint in constraints
        for kind in ("ge", "gt", "le", "lt")
        if (bound := getattr(constraint, kind, None)) is not None
    }
    return Accepted(annotation, bounds=bounds)


def _lines(group: type[Settings], indent: str) -> Iterator[str]:
    meanings = docstrings(group)
    for name, field in group.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Settings):
            yield ""
            meaning = (inspect.getdoc(annotation) or "").splitlines()[0]
            yield from _comment(meaning, indent=indent)
            yield f"{indent}{name}:"
            yield from _lines(annotation, indent + "  ")
        else:
            yield from _comment(*described(meanings[name], field), indent=indent)
            text = isinstance(field.default, str) and field.default
            value = field.default if text else json.dumps(field.default)
            yield f"{indent}{'# ' if field.default == () else ''}{name}: {value}"


def described(docstring: str, field: FieldInfo) -> tuple[str, str]:
    """Meaning; unit and range. The docstring of a field has its unit in brackets."""
    unit, values = UNIT.search(docstring), accepted(field).text
    facts = [f"Unit: {unit[1]}."] if unit else []
    facts += [f"Range: {values}."] if values else []
    return UNIT.sub("", docstring), " ".join(facts)


def _comment(*sentences: str, indent: str) -> list[str]:
    """Comment lines: one if all fits, otherwise each of the sentences on lines of its own."""

    def wrapped(text: str) -> list[str]:
        start = f"{indent}# "
        return textwrap.wrap(
            text, WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
        )

    joined = wrapped(" ".join(sentences))
    return joined if len(joined) == 1 else [line for text in sentences for line in wrapped(text)]


def docstrings(group: type) -> dict[str, str]:
    """The docstring below each field, in one line."""
    # pydantic's own `use_attribute_docstrings` would read sources at every start of a node.
    (definition,) = ast.parse(inspect.getsource(group)).body
    assert isinstance(definition, ast.ClassDef)
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(below.value.value, str)
    }
