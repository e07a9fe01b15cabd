"""What a task is: a YAML with `robot:`, `reward:` and `task:`, of the paper or a user's own."""

import logging
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import yaml

from hucrl_ros.config.constraints import AnyConstraint, ConstraintList, FunctionConstraint
from hucrl_ros.config.files import SECTIONS, SETTINGS, checked, share_directory
from hucrl_ros.config.reward import RewardSettings, TaskSettings
from hucrl_ros.config.robot import RobotSettings, RobotSpec
from hucrl_ros.config.schema import Settings
from hucrl_ros.config.yaml_reader import read_mapping
from hucrl_ros.errors import ConfigError, meant

ROBOT = "robot"
"""Folder in a run's folder: the complete description of its task."""
FILE = "robot.yaml"
"""Name of the description in a run's folder."""
MODEL = "model"
"""Folder of the model's files in a run's folder."""
_TAG = re.compile(rb"<(\w+)[^<>]*>")
_NAMED = re.compile(rb"""\b(?P<key>file\w*|\w+dir)\s*=\s*(?P<quote>["'])(?P<path>.*?)(?P=quote)""")
"""What an MJCF or URDF says of files and folders."""
SUFFIXES = (".yaml", ".yml")
CONSTRAINTS = "constraints"
RENAMED = {"reach": "state_bounds"}
"""Keys of `robot:` in descriptions of before, and what they are called now."""
logger = logging.getLogger(__name__)

Section = TypeVar("Section", bound=Settings)


@dataclass(frozen=True)
class Description:
    """A task as a YAML says; paths are relative to `folder`."""

    path: Path
    """The YAML."""
    robot: RobotSettings
    reward: RewardSettings
    task: TaskSettings
    constraints: tuple[AnyConstraint, ...] = ()
    """What must never happen; complete once nothing is left to derive."""
    has_settings: bool = False
    """There are settings of runs next to it."""
    files: tuple[Path, ...] = ()
    """The model's and all that it includes: meshes, textures, other models; empty: not known."""
    other: Path | None = None
    """The file whose robot it is; None: this one."""

    @property
    def name(self) -> str:
        """Of the task."""
        return self.task.name or self.robot.name

    @property
    def folder(self) -> Path:
        """What paths in it are relative to."""
        return self.path.parent

    @property
    def model(self) -> Path:
        """MJCF or URDF."""
        return self.folder / self.robot.model

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Each constraint in words; of those with equal words the number is told as well."""
        names = [limit.name for limit in self.constraints]
        return tuple(f"{x} [{k}]" if names.count(x) > 1 else x for k, x in enumerate(names))

    @property
    def functions(self) -> tuple[Path, ...]:
        """Python files of the functions that are named."""
        limits = [c.function for c in self.constraints if isinstance(c, FunctionConstraint)]
        named = (self.reward.function, self.task.imagined, *limits)
        return tuple(self.file_of(function) for function in named if function)

    def file_of(self, function: str) -> Path:
        """The Python file of `file.py:name`."""
        return self.folder / function.rpartition(":")[0]

    def same_as(self, other: "Description") -> bool:
        """Whether both say the same, wherever their files lie."""
        return self._contents() == other._contents()

    def same_task_as(self, other: "Description") -> bool:
        """Whether both have the same name and reward, wherever their files lie."""
        return self._of_task() == other._of_task()

    def _of_task(self) -> tuple[object, ...]:
        reward = _with_files_here(self, self.model.name).reward
        named = self.reward.function
        return (self.name, reward, self.file_of(named).read_bytes() if named else b"")

    def _contents(self) -> tuple[object, ...]:
        flat = _with_files_here(self, self.model.name)
        files = frozenset(map(_wherever_it_lies, self._model_files()))
        functions = [path.read_bytes() for path in self.functions]
        return (flat.robot, flat.constraints, flat.reward, flat.task, files, functions)

    def _model_files(self) -> Sequence[Path]:
        """The model and its meshes; a run keeps them in a folder where nothing else is."""
        kept = self.folder / MODEL
        if self.files or not self.model.is_relative_to(kept):
            return self.files or (self.model,)
        return [path for path in kept.rglob("*") if path.is_file()]


def is_description(task: str) -> bool:
    """Whether what was given as a task is the path of a description."""
    return task.endswith(SUFFIXES)


@cache
def known_tasks() -> Mapping[str, Path]:
    """The paper's tasks by name: descriptions in `sim/`, next to their models."""
    return {path.stem: path for path in sorted((share_directory() / "sim").glob("*.yaml"))}


def task_of_path(task: str) -> str:
    """`task`, or its name where it is the path of one of the paper's, or of its settings."""
    path = Path(task)
    known = known_tasks().get(path.stem) if is_description(task) else None
    ours = [] if known is None else [known, known.parents[1] / "config" / known.name]
    return path.stem if path.resolve() in [file.resolve() for file in ours] else task


def read_description(path: Path) -> Description:
    """Read the sections of a YAML that say what a task is, and look for the files they name.

    Raises:
        ConfigError: it can't be read, doesn't fit the schema, or names a file that isn't there.
    """
    document = read_mapping(path)
    for key in document:
        if key not in (*SECTIONS, SETTINGS):
            raise ConfigError(
                f"{path}: unknown section {key!r}; {meant(key, SECTIONS)}expected "
                f"{', '.join(SECTIONS)} and {SETTINGS!r} with settings"
            )
    if set(document) == {SETTINGS}:
        raise ConfigError(
            f"{path}: settings alone, and no section 'robot'; `TASK --config {path}` takes them"
        )
    robot = _robot(document, path)
    reward = _section(RewardSettings, document, "reward", path)
    task = _section(TaskSettings, {"task": {}, **document}, "task", path)
    constraints = _constraints(document, path)
    found = Description(path.absolute(), robot, reward, task, constraints, SETTINGS in document)
    if isinstance(other := document["robot"], str):
        found = replace(found, other=found.folder / other)
    _require_file(found.model, f"{path}: robot.model = {robot.model!r}")
    for key, function in (("reward.function", reward.function), ("task.imagined", task.imagined)):
        if function:
            _require_file(found.file_of(function), f"{path}: {key} = {function!r}")
    for number, limit in enumerate(constraints):
        if isinstance(limit, FunctionConstraint):
            origin = f"{path}: {CONSTRAINTS}.{number}.function = {limit.function!r}"
            _require_file(found.file_of(limit.function), origin)
    return found


def _constraints(document: Mapping[str, Any], path: Path) -> tuple[AnyConstraint, ...]:
    """The section `constraints:`, after that of the file whose robot it is."""
    found: tuple[AnyConstraint, ...] = ()
    if isinstance(other := document.get("robot"), str):
        theirs = _constraints(read_mapping(path.parent / other), path.parent / other)
        found = tuple(_moved(limit, Path(other).parent) for limit in theirs)
    values = {key: value for key, value in document.items() if key == CONSTRAINTS}
    return (*found, *checked(ConstraintList, values, path).constraints)


def _moved(limit: AnyConstraint, folder: Path) -> AnyConstraint:
    """As named from another folder."""
    if not isinstance(limit, FunctionConstraint):
        return limit
    return limit.model_copy(update={"function": str(folder / limit.function)})


def _robot(document: Mapping[str, Any], path: Path) -> RobotSettings:
    """The section `robot:`, or that of the file which it names."""
    other = document.get("robot")
    folder = Path()
    if isinstance(other, str):
        _require_file(path.parent / other, f"{path}: robot = {other!r}")
        folder, path = Path(other).parent, path.parent / other
        document = read_mapping(path)
    robot = _section(RobotSettings, _with_new_names(document, path), "robot", path)
    values = {"name": robot.name or path.stem, "model": str(folder / robot.model)}
    named = path if robot.name else f"{path}, whose name is the robot's unless robot.name is given"
    return checked(RobotSettings, {**robot.model_dump(), **values}, named, section="robot")


def _with_new_names(document: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """The document with the present names of keys in its section `robot:`."""
    values = document.get("robot")
    if not isinstance(values, dict):
        return document
    for old, new in RENAMED.items():
        if old in values and new in values:
            raise ConfigError(f"{path}: robot.{old} is the old name of robot.{new}; give one")
        if old in values:
            _warn_of_old_name(path, old, new)
    return {**document, "robot": {RENAMED.get(key, key): v for key, v in values.items()}}


@cache
def _warn_of_old_name(path: Path, old: str, new: str) -> None:
    logger.warning("%s: robot.%s is deprecated; it is called robot.%s now", path, old, new)


def task_name(task: str) -> str:
    """Name of a task that was given by its name or by the path of a description.

    Raises:
        ConfigError: the description can't be read.
    """
    task = task_of_path(task)
    return read_description(Path(task)).name if is_description(task) else task


def find_description(folder: Path | None, task: str) -> Description | None:
    """The description of `task` that a run keeps in `folder`; None where there is none.

    Raises:
        ConfigError: it can't be read, or is another task's.
    """
    if folder is None or not (folder / FILE).is_file():
        return None
    found = read_description(folder / FILE)
    if found.name != task:
        raise ConfigError(f"{found.path}: describes {found.name!r}; the run's task is {task!r}")
    return found


def beside(bundle: Path) -> Path:
    """Folder of the description that the run of a bundle keeps, if the bundle lies in one."""
    return bundle.absolute().parent.parent / ROBOT


def kept_robot(folder: Path | None, task: str) -> RobotSpec | None:
    """The robot that the description in `folder` says there is; None where there is none.

    Raises:
        ConfigError: the description can't be read, or is another task's.
    """
    found = find_description(folder, task)
    return None if found is None else found.robot.spec


def store_description(found: Description, folder: Path) -> None:
    """Copy a description and all files that it needs into a run's folder.

    Args:
        found: With nothing left to derive.
        folder: To be made; the run then needs nothing outside it.

    Raises:
        ConfigError: a file can't be copied.
    """
    functions = {path.name: path for path in found.functions}
    if set(functions.values()) != set(found.functions):
        raise ConfigError(f"{found.path}: {' and '.join(map(str, found.functions))} have one name")
    # Links aren't followed: a model names its meshes by the links' names.
    sources = [Path(os.path.abspath(file)) for file in found.files]  # noqa: PTH100
    # Not below the folder of the model: it may include `../meshes/link.stl`.
    common = os.path.commonpath([source.parent for source in sources])
    try:
        contents = _without_absolute_paths(found.model, sources)
        for source in sources:
            target = folder / MODEL / source.relative_to(common)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(contents[source])
        for name, path in functions.items():
            shutil.copyfile(path, folder / name)
    except OSError as error:
        raise ConfigError(f"{found.path}: {error.filename}: {error.strerror}") from None
    model = Path(MODEL) / Path(os.path.abspath(found.model)).relative_to(common)  # noqa: PTH100
    text = dump_description(_with_files_here(found, model.as_posix()))
    (folder / FILE).write_text(text, encoding="utf-8")


def _wherever_it_lies(file: Path) -> bytes:
    """What a model's file says, but for the folders of those that it names."""
    return _NAMED.sub(
        lambda named: b"" if named["key"].endswith(b"dir") else named["path"].rpartition(b"/")[2],
        file.read_bytes(),
    )


def _without_absolute_paths(model: Path, sources: Sequence[Path]) -> dict[Path, bytes]:
    """A model's files, with relative paths in the place of those that hold on this machine alone.

    MuJoCo begins with a relative path in the model's folder, or in one that the compiler's
    settings name.
    """
    contents = {source: source.read_bytes() for source in sources}
    texts = {source: text for source, text in contents.items() if text.lstrip().startswith(b"<")}
    folders = dict[bytes, bytes]()
    for text in texts.values():
        folders |= {each["key"]: each["path"] for each in _NAMED.finditer(text)}
    known = {path for source in sources for path in (source, *source.parents)}

    def in_tag(tag: re.Match[bytes]) -> bytes:
        key = b"texturedir" if tag[1] == b"texture" else b"meshdir"
        folder = folders.get(key, folders.get(b"assetdir", b""))
        if tag[1] in (b"compiler", b"include"):
            folder = b""

        def relative(named: re.Match[bytes]) -> bytes:
            path = Path(os.path.normpath(os.fsdecode(named["path"])))
            if not path.is_absolute() or path not in known:
                return named[0]
            base = model.parent / os.fsdecode(folder)
            return named[0].replace(named["path"], os.fsencode(os.path.relpath(path, base)))

        return _NAMED.sub(relative, tag[0])

    return contents | {source: _TAG.sub(in_tag, text) for source, text in texts.items()}


def _with_files_here(found: Description, model: str) -> Description:
    """With another path of the model, and functions in the description's own folder."""
    function, imagined = (Path(f).name for f in (found.reward.function, found.task.imagined))
    return replace(
        found,
        robot=found.robot.model_copy(update={"model": model}),
        reward=found.reward.model_copy(update={"function": function}),
        task=found.task.model_copy(update={"imagined": imagined}),
        constraints=tuple(_here(limit) for limit in found.constraints),
    )


def _here(limit: AnyConstraint) -> AnyConstraint:
    if not isinstance(limit, FunctionConstraint):
        return limit
    return limit.model_copy(update={"function": Path(limit.function).name})


def dump_description(described: Description) -> str:
    """The YAML that `read_description` reads back to equal sections."""
    listed = ConstraintList(constraints=described.constraints)
    sections = {name: getattr(described, name) for name in SECTIONS if name != CONSTRAINTS}
    dumped = {k: v.model_dump(mode="json", exclude_defaults=True) for k, v in sections.items()}
    dumped |= listed.model_dump(mode="json", exclude_defaults=True)
    values = {name: section for name, section in dumped.items() if section}
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=90)


def _section(schema: type[Section], document: Mapping[str, Any], name: str, path: Path) -> Section:
    values = document.get(name)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a section {name!r} with keys and values below it")
    return checked(schema, values, path, section=name)


def _require_file(path: Path, origin: str) -> None:
    if not path.is_file():
        what = "a folder, not a file" if path.is_dir() else "no such file"
        raise ConfigError(f"{origin}: {what}: {path}")
