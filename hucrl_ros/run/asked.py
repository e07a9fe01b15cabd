"""What a person asked for: settings and robot of a run, checked, before there is one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hucrl_ros.config.files import (
    COMMAND_LINE,
    SETTINGS,
    dotted,
    load_config,
    merge,
    override,
    read_settings,
    task_config_files,
    task_config_path,
)
from hucrl_ros.config.schema import Config
from hucrl_ros.config.stand_in import like_hardware, require_real_time
from hucrl_ros.config.task_file import (
    Description,
    is_description,
    read_description,
    task_of_path,
)
from hucrl_ros.config.yaml_reader import parse_value, read_mapping
from hucrl_ros.controller.guard import Guard
from hucrl_ros.errors import ConfigError, quoted, shortened
from hucrl_ros.run.combination import check_combination
from hucrl_ros.run.on_robot import GENTLE

FILTERED: Mapping[str, Any] = {"safety.filter": True, "exploration.outside_penalty": 0.5}
"""Settings, by dotted keys, where the safety filter is on by default: it would hold a plan that
wants to be outside at the limit, where nothing new is learned, so that being there has a price."""


@dataclass(frozen=True)
class RunOptions:
    """What a person asked for."""

    task: str
    """Its name, or the path of the YAML that describes it."""
    config: Path | None = None
    """Settings; None: the task's file in `config/`, or the robot's own."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Dotted keys and values that replace those of the file."""
    out: Path | None = None
    """The run's folder; None: a new one below `RUNS`."""
    resume: bool = False
    """Continue the run in `out`."""
    prefix: str = ""
    """Start of the name of a new folder below `RUNS`."""
    like_hardware: bool = False
    """The simulator behaves like hardware, as a file in `config/` says."""
    on_robot: bool = False
    """A robot plays, not the simulator."""
    source: Path | None = None
    """Folder of another run, with whose policies and episodes a new one begins."""
    remote_learner: bool = False
    """The learner is on another machine: it checks what takes torch to check."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "task", task_of_path(self.task))


class AskedRun(NamedTuple):
    """What was asked for, in the form that a run keeps."""

    config: Config
    described: Description
    """The task, with nothing left to derive."""

    @classmethod
    def of(cls, config: Config, described: Description) -> "AskedRun":
        """Both, if the limits in `safety` are limits of this robot, and do something.

        Raises:
            ConfigError: they aren't, or don't.
        """
        safety = config.safety
        Guard(described.robot.spec, safety)
        if (safety.safe_command == "damping") != (safety.damping > 0):
            raise ConfigError(
                f"safety.safe_command = {safety.safe_command}, safety.damping = "
                f"{safety.damping:g}: neither does anything alone; expected damping and more than "
                "0, or zero and 0"
            )
        if safety.position_margin and not safety.position_limits:
            raise ConfigError(
                f"safety.position_margin = {safety.position_margin:g}: the margin of "
                "safety.position_limits, and there are none; a constraint has a margin of its own"
            )
        return cls(config, described)


def asked_run(options: RunOptions) -> AskedRun:
    """What a new run needs, checked; for a robot of one's own that takes seconds.

    Raises:
        ConfigError: a setting is wrong, or robot, reward and settings don't fit together.
    """
    from hucrl_ros.robots.resolve import describe, resolve  # MuJoCo takes a while

    described = description_of(options.task)
    config = _settings(options, described)
    if described is None:
        complete = describe(options.task)
    elif options.remote_learner:
        complete = resolve(described)
    else:
        complete = _complete(described, config)
    return AskedRun.of(config, complete)


def asked_config(options: RunOptions) -> Config:
    """The settings of a new run.

    Raises:
        ConfigError: a setting is wrong.
    """
    return _settings(options, description_of(options.task))


def parse_setting(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`, the value in YAML.

    Raises:
        ConfigError: it has another form.
    """
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        shown = quoted(text)
        raise ConfigError(f"{COMMAND_LINE}: {shown}: expected KEY=VALUE, e.g. planner.horizon=30")
    return key.strip(), parse_value(value, f"{COMMAND_LINE}: {quoted(text)}")


def flag(name: str, text: str) -> bool:
    """Whether an argument of a launch file is true.

    Raises:
        ConfigError: it is neither true nor false.
    """
    known = {"true": True, "1": True, "false": False, "0": False, "": False}
    if text.strip().lower() not in known:
        raise ConfigError(f"{name}:={shortened(text)}: expected true or false")
    return known[text.strip().lower()]


def description_of(task: str) -> Description | None:
    """What a YAML of one's own says; None: a name is asked for."""
    return read_description(Path(task)) if is_description(task) else None


def _settings(options: RunOptions, described: Description | None) -> Config:
    """Those of the file, or of the robot's own; then what else was asked for."""
    config = override(_base(options, described), options.overrides)
    if config.mode == "lockstep":
        require_real_time(config.simulator, options.task)
    return config


def settings_beneath(
    options: RunOptions, described: Description | None, stored: Config | None = None
) -> dict[str, Any]:
    """What holds where no file says anything; `stored`: settings of the run that goes on.

    What joints hit in a simulation comes to no harm: there their limits alone don't call for the
    filter, under which arms take some episodes more.
    """
    beneath: dict[str, Any] = {}
    if options.like_hardware:
        command = "effort" if described is None else described.robot.command
        beneath = like_hardware(command)
    if options.on_robot:
        given = GENTLE if stored is None else stored.exploration.model_dump()
        beneath["exploration"] = {name: given[name] for name in GENTLE}
    filtered: Mapping[str, Any] = {}
    if stored is not None:
        kept = dotted(stored.model_dump())
        filtered = {key: kept[key] for key in FILTERED}
    elif options.on_robot or (described is not None and described.constraints):
        filtered = FILTERED
    return merge(beneath, filtered)


def _base(options: RunOptions, described: Description | None) -> Config:
    beneath = settings_beneath(options, described)
    if described is None:
        standard = task_config_path(options.task)
        base = load_config(options.config or standard, beneath=beneath)
        if base.task != options.task:
            raise ConfigError(
                f"{options.config}: task = {base.task!r}, but {options.task!r} was asked for"
            )
    elif described.name in task_config_files():
        raise ConfigError(
            f"{options.task}: {described.name!r} is a task of the paper; give the robot another "
            "robot.name"
        )
    else:
        own = {"task": described.name}
        beneath = merge(beneath, settings_of_robot(described, with_own=options.config is not None))
        if options.config is None and not described.has_settings:
            base = override(Config(**own), beneath)
        else:
            base = load_config(options.config or Path(options.task), own, beneath)
    return base


def is_of_robot(key: str) -> bool:
    """Whether a setting, by its dotted key, is one that a robot's other tasks have, too."""
    return key.partition(".")[0] in ("safety", "driver") or key == "control.extra_delay"


def settings_of_robot(described: Description, with_own: bool = False) -> dict[str, Any]:
    """Settings, by dotted keys, of a robot's file that hold whatever is played with it.

    Args:
        described: Of which the file that its robot is from counts.
        with_own: So does its own, as when other settings are asked for.

    Raises:
        ConfigError: they are wrong.
    """
    found: dict[str, Any] = {}
    for file in (described.other, described.path if with_own else None):
        if file is not None and SETTINGS in read_mapping(file):
            settings = dotted(read_settings(file))
            these = {key: value for key, value in settings.items() if is_of_robot(key)}
            override(Config(), these, str(file))  # Later, the wrong file would be named.
            found |= these
    return found


def _complete(described: Description, config: Config) -> Description:
    """With nothing left to derive; simulated for a moment, and its reward exported."""
    from hucrl_ros.robots.resolve import resolve  # MuJoCo and torch take a while
    from hucrl_ros.tasks import Task
    from hucrl_ros.tasks.export_check import check_export

    complete = resolve(described)
    task = Task(complete, config.action_penalty)
    check_combination(config, task)
    check_export(task)
    return complete
