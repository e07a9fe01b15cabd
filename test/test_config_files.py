"""Every file in `config/` loads, and documents every setting of the schema with unit and range."""

import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel, NonNegativeInt

from hucrl_ros.config.files import load_config
from hucrl_ros.config.paths import share_directory
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import known_tasks

FILES = sorted((share_directory() / "config").glob("*.yaml"))
NAMED = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
KEY = re.compile(r"^(?P<indent> *)(?P<off># )?(?P<key>[a-z_]+):( +(?P<value>\S.*))?$")


def schema_leaves(group: type[BaseModel] = Config, prefix: str = ""):
    """Dotted name and field of every setting."""
    for name, field in group.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from schema_leaves(annotation, f"{name}.")
        else:
            yield prefix + name, field


def documented_leaves(path: Path) -> dict[str, str]:
    """Dotted name of every key, commented out or not, and the comment above it."""
    comments: list[str] = []
    found: dict[str, str] = {}
    group = ""
    for line in path.read_text().splitlines():
        match = KEY.match(line)
        if match and match["value"] is None and not match["off"]:
            group = match["key"] + "." if len(match["indent"]) >= 4 else ""
            comments = []
        elif match and match["value"] is not None and len(match["indent"]) >= 4:
            prefix = group if len(match["indent"]) > 4 else ""
            found[prefix + match["key"]] = " ".join(comments)
            comments = []
        elif line.strip().startswith("#"):
            comments.append(line.strip().lstrip("# "))
        else:
            comments = []
    return found


def range_text(field) -> str | None:
    """The interval or the choices that the schema accepts; None where it takes any text."""
    annotation = field.annotation
    if annotation is bool:
        return "true | false"
    choices = get_args(annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return " | ".join(choices)
    if annotation is str:
        return None
    bounds = {}
    for constraint in field.metadata:
        for kind in ("ge", "gt", "le", "lt"):
            if getattr(constraint, kind, None) is not None:
                bounds[kind] = f"{getattr(constraint, kind):g}"
                if float(bounds[kind]) != getattr(constraint, kind):
                    bounds[kind] = str(getattr(constraint, kind))
    if choices:  # a tuple of numbers: its entries, not its length
        if choices[0] == NonNegativeInt:
            return "[0, inf)"
        return "[1, inf)" if choices[0] is int else "(-inf, inf)"
    lower = f"[{bounds['ge']}" if "ge" in bounds else f"({bounds.get('gt', '-inf')}"
    upper = f"{bounds['le']}]" if "le" in bounds else f"{bounds.get('lt', 'inf')})"
    return f"{lower}, {upper}"


def test_there_is_one_file_for_each_task():
    assert {path.stem for path in FILES} == set(known_tasks())


@NAMED
def test_a_file_loads_and_is_of_its_task(path):
    assert load_config(path).task == path.stem


@NAMED
def test_a_file_holds_every_setting_of_the_schema_and_nothing_else(path):
    assert set(documented_leaves(path)) == {name for name, _ in schema_leaves()}


@NAMED
def test_every_setting_states_its_range_as_the_schema_has_it(path):
    documented = documented_leaves(path)
    wrong = {
        name: (documented.get(name), expected)
        for name, field in schema_leaves()
        if f"Range: {expected if (expected := range_text(field)) else ''}"
        not in documented.get(name, "")
    }
    assert wrong == {}


@NAMED
def test_every_number_states_its_unit(path):
    documented = documented_leaves(path)
    for name, field in schema_leaves():
        kinds = {field.annotation, *get_args(field.annotation)}
        if kinds & {int, float}:
            assert "Unit: " in documented[name], name


@NAMED
def test_every_setting_says_what_it_means(path):
    for name, comment in documented_leaves(path).items():
        meaning = comment.split("Unit: ")[0].split("Range: ")[0]
        assert len(meaning.split()) >= 3, name
