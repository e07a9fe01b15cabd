"""A user's own robot and reward: a YAML with `robot:` and `reward:` next to the settings."""

import difflib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from hucrl_ros.config.reward import RewardSettings
from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.config.schema import Settings
from hucrl_ros.config.yaml_files import checked, read_mapping
from hucrl_ros.errors import ConfigError

FILE = "robot.yaml"
"""Name of the description in a run's folder."""
MODEL = "model"
"""Folder of the model's files in a run's folder."""
SUFFIXES = (".yaml", ".yml")
SETTINGS = "/**"
SECTIONS = ("robot", "reward")

Section = TypeVar("Section", bound=Settings)


@dataclass(frozen=True)
class Description:
    """A robot and its reward, as a YAML says; paths are relative to `folder`."""

    path: Path
    """The YAML."""
    robot: RobotSettings
    reward: RewardSettings
    has_settings: bool = False
    """There are settings of runs next to it."""
    files: tuple[Path, ...] = ()
    """The model's and all that it includes: meshes, textures, other models; empty: not known."""

    @property
    def name(self) -> str:
        """Of robot and task."""
        return self.robot.name

    @property
    def folder(self) -> Path:
        """What paths in it are relative to."""
        return self.path.parent

    @property
    def model(self) -> Path:
        """MJCF or URDF."""
        return self.folder / self.robot.model

    @property
    def source(self) -> Path:
        """Python file of the reward, where it is a function."""
        return self.folder / self.reward.file

    def same_as(self, other: "Description") -> bool:
        """Whether both say the same, wherever their files lie."""
        return self._contents() == other._contents()

    def _contents(self) -> tuple[object, ...]:
        robot = self.robot.model_copy(update={"model": self.model.name})
        reward = self.reward.model_copy(update={"function": self.reward.name})
        files = frozenset(file.read_bytes() for file in self._model_files())
        return (robot, reward, files, self.source.read_bytes() if self.reward.file else b"")

    def _model_files(self) -> Sequence[Path]:
        """The model and its meshes; a run keeps them in a folder where nothing else is."""
        kept = self.folder / MODEL
        if self.files or not self.model.is_relative_to(kept):
            return self.files or (self.model,)
        return [path for path in kept.rglob("*") if path.is_file()]


def is_description(task: str) -> bool:
    """Whether what was given as a task is the path of a description."""
    return task.endswith(SUFFIXES)


def read_description(path: Path) -> Description:
    """Read the sections `robot:` and `reward:` of a YAML, and look for the files they name.

    Raises:
        ConfigError: it can't be read, doesn't fit the schema, or names a file that isn't there.
    """
    document = read_mapping(path)
    for key in document:
        if key not in (*SECTIONS, SETTINGS):
            near = difflib.get_close_matches(str(key), SECTIONS, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise ConfigError(
                f"{path}: unknown section {key!r}; {hint}expected {', '.join(SECTIONS)} and "
                f"{SETTINGS!r} with settings"
            )
    robot = _section(RobotSettings, document, "robot", path)
    reward = _section(RewardSettings, document, "reward", path)
    if not robot.name:
        values = {**robot.model_dump(), "name": path.stem}
        robot = _named(RobotSettings, values, "robot", path)
    found = Description(path.absolute(), robot, reward, SETTINGS in document)
    _require_file(found.model, f"{path}: robot.model = {robot.model!r}")
    if reward.function:
        _require_file(found.source, f"{path}: reward.function = {reward.function!r}")
    return found


def task_name(task: str) -> str:
    """Name of a task that was given by its name or by the path of a description.

    Raises:
        ConfigError: the description can't be read.
    """
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


def store_description(found: Description, folder: Path) -> None:
    """Copy a description and all files that it needs into a run's folder.

    Args:
        found: With nothing left to derive.
        folder: To be made; the run then needs nothing outside it.

    Raises:
        ConfigError: a file can't be copied.
    """
    sources = [file.resolve() for file in found.files]
    # Not below the folder of the model: it may include `../meshes/link.stl`.
    common = Path(sources[0].anchor).joinpath(*_shared_parts([s.parent for s in sources]))
    try:
        for source in sources:
            target = folder / MODEL / source.relative_to(common)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
        if found.reward.file:
            shutil.copyfile(found.source, folder / found.source.name)
    except OSError as error:
        raise ConfigError(f"{found.path}: {error.filename}: {error.strerror}") from None
    model = Path(MODEL) / found.model.resolve().relative_to(common)
    robot = found.robot.model_copy(update={"model": model.as_posix()})
    reward = found.reward
    if reward.file:
        reward = reward.model_copy(update={"function": f"{found.source.name}:{reward.name}"})
    (folder / FILE).write_text(dump_description(robot, reward), encoding="utf-8")


def dump_description(robot: RobotSettings, reward: RewardSettings) -> str:
    """The YAML that `read_description` reads back to equal sections."""
    sections = {"robot": robot, "reward": reward}
    values = {k: v.model_dump(mode="json", exclude_defaults=True) for k, v in sections.items()}
    # An empty tuple is a choice here, not a default: no angles.
    if robot.angles is not None:
        values["robot"]["angles"] = list(robot.angles)
    return yaml.safe_dump(values, sort_keys=False, default_flow_style=None, width=90)


def _shared_parts(folders: Sequence[Path]) -> list[str]:
    shared = []
    for parts in zip(*(folder.parts[1:] for folder in folders), strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return shared


def _section(schema: type[Section], document: Mapping[str, Any], name: str, path: Path) -> Section:
    values = document.get(name)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected a section {name!r} with keys and values below it")
    return _named(schema, values, name, path)


def _named(schema: type[Section], values: Mapping[str, Any], name: str, path: Path) -> Section:
    return checked(schema, values, path, section=name)


def _require_file(path: Path, origin: str) -> None:
    if not path.is_file():
        raise ConfigError(f"{origin}: no such file: {path}")
