"""From what a person asked for to a run's folder, new or continued.

`hucrl up`, `hucrl train` and the launch files share it.
"""

import logging
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hucrl_ros.config import plugins
from hucrl_ros.config.files import (
    COMMAND_LINE,
    dotted,
    load_config,
    merge,
    override,
    read_settings,
    task_config_files,
    task_config_path,
)
from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.config.stand_in import like_hardware, require_real_time
from hucrl_ros.config.task_file import (
    SETTINGS,
    Description,
    beside,
    find_description,
    is_description,
    read_description,
    task_of_path,
)
from hucrl_ros.config.yaml_reader import parse_value, read_mapping
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.signature import check_signing
from hucrl_ros.errors import ConfigError, RunError, shortened
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.home import check_home
from hucrl_ros.run.judged_task import check_remote
from hucrl_ros.run.on_robot import GENTLE
from hucrl_ros.run.prior import check_source, keep_prior, open_source

if TYPE_CHECKING:
    from hucrl_ros.tasks import Task

logger = logging.getLogger(__name__)

RUNS = Path("runs")
"""Where new runs go, below the working directory."""
OF_ROBOT = ("safety", "driver")
"""Groups of settings that a robot's other tasks have from its file, too."""


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
        """Both, if the limits in `safety` are limits of this robot.

        Raises:
            ConfigError: they aren't.
        """
        Guard(described.robot.spec, config.safety)
        return cls(config, described)


def prepare_run(options: RunOptions) -> RunFolder:
    """Make the run's folder, or open the one to continue.

    Raises:
        ConfigError: a setting is wrong, or a continued run has another one.
        RunError: a run lies there already, or none to continue.
    """
    if options.resume:
        return _continued(options)
    source = None if options.source is None else open_source(options.source)
    if source is not None:
        given = {"exploration.random_episodes": 0, **options.overrides}
        options = replace(options, overrides=given)
    asked = asked_run(options)
    check_signing(asked.config.control)
    if source is None and not asked.config.exploration.random_episodes:
        raise ConfigError(
            "exploration.random_episodes = 0: nothing tells how to play episode 0; take at least "
            "1, or --from RUN"
        )
    if source is not None:
        check_source(source, asked.described)
    if asked.config.driver.reset == "home" and asked.config.mode == "real_time":
        check_home(asked.described, asked.config)
    if options.remote_learner:
        check_remote(asked.config)
    else:
        if not is_description(options.task):
            _check_choices(options.task, asked.config)
        _check_device(asked.config)
    if source is not None:
        return created_run(options, asked, partial(keep_prior, source))
    return created_run(options, asked)


def created_run(
    options: RunOptions, asked: AskedRun, fill: Callable[[RunFolder], None] = lambda run: None
) -> RunFolder:
    """The folder of a new run, in which `fill` puts what it can't go on without.

    Raises:
        RunError: a run lies there already, or none can be made.
    """
    folder = options.out or _new_folder(asked.config, options.prefix)
    try:
        return RunFolder.create(folder, asked.config, asked.described, fill)
    except OSError as error:
        reason = error.strerror or shortened(error)
        raise RunError(f"{folder}: can't make a run there: {reason}") from None


def asked_run(options: RunOptions) -> AskedRun:
    """What a new run needs, checked; for a robot of one's own that takes seconds.

    Raises:
        ConfigError: a setting is wrong, or robot, reward and settings don't fit together.
    """
    from hucrl_ros.robots.resolve import describe, resolve  # MuJoCo takes a while

    described = _description(options.task)
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
    return _settings(options, _description(options.task))


def _description(task: str) -> Description | None:
    return read_description(Path(task)) if is_description(task) else None


def _settings(options: RunOptions, described: Description | None) -> Config:
    """Those of the file, or of the robot's own; then what else was asked for."""
    config = override(_base(options, described), options.overrides)
    if config.mode == "lockstep":
        require_real_time(config.simulator, options.task)
    return config


def _beneath(
    options: RunOptions, described: Description | None, stored: Config | None = None
) -> dict[str, Any]:
    """What holds where no file says anything; `stored`: settings of the run that goes on.

    What joints hit in a simulation comes to no harm: there their limits alone don't call for the
    filter, under which arms take some episodes more.
    """
    beneath = like_hardware() if options.like_hardware else {}
    if options.on_robot:
        given = GENTLE if stored is None else stored.exploration.model_dump()
        beneath["exploration"] = {name: given[name] for name in GENTLE}
    if stored is not None:
        beneath["safety"] = {"filter": stored.safety.filter}
    elif options.on_robot or (described is not None and described.constraints):
        beneath["safety"] = {"filter": True}
    return beneath


def _base(options: RunOptions, described: Description | None) -> Config:
    beneath = _beneath(options, described)
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
        if options.config is None:
            beneath = merge(beneath, _of_robot(described))
        if options.config is None and not described.has_settings:
            base = override(Config(**own), dotted(beneath))
        else:
            base = load_config(options.config or Path(options.task), own, beneath)
    return base


def _of_robot(described: Description) -> dict[str, Any]:
    """Settings of the file whose robot it is that hold for each of its tasks, by dotted keys.

    Raises:
        ConfigError: they are wrong.
    """
    other = described.other
    if other is None or SETTINGS not in read_mapping(other):
        return {}
    settings = dotted(read_settings(other))
    found = {key: x for key, x in settings.items() if key.partition(".")[0] in OF_ROBOT}
    override(Config(), found, str(other))  # Later, the wrong file would be named.
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


def _check_device(config: Config) -> None:
    if config.device != "cpu":  # torch takes seconds to load.
        from hucrl_ros.run.device import check_device

        check_device(config.device)


def _check_choices(task: str, config: Config) -> None:
    """Look whether search and planner fit one of the paper's tasks.

    What its own settings choose does; tests see to that, and torch need not be loaded here.

    Raises:
        ConfigError: they don't.
    """
    own = load_config(task_config_path(task))
    if [own.search.algorithm, own.planner.algorithm] == [
        config.search.algorithm,
        config.planner.algorithm,
    ]:
        return
    from hucrl_ros.tasks import make_task

    check_combination(config, make_task(task, config.action_penalty))


def taught_run(source: RunFolder, options: RunOptions) -> RunFolder:
    """A new run's folder `options.out` with copies of all finished bags of `source`.

    To its learner all of them are random episodes: no bundle of it played them. It searches by
    `teach`, where `options` don't say `search` itself.

    Raises:
        ConfigError: a setting is wrong, or the task has another robot than the run.
        RunError: there is no episode, or the folder can't be made.
    """
    from hucrl_ros.robots.resolve import describe

    count, stored = source.finished_episodes(), source.config
    if not count:
        raise RunError(f"{source.root}: holds no finished episode to learn from")
    teach = asked_config(options).teach
    longer: dict[str, Any] = {"search.iterations": teach.iterations}
    if teach.algorithm != "same":
        longer["search.algorithm"] = teach.algorithm
    of_bags = {"episodes": count, "exploration.random_episodes": count}
    options = replace(options, overrides={**longer, **options.overrides, **of_bags})
    asked = asked_run(options)
    theirs, ours = asked.described.robot.spec, describe(stored.task, source.robot).robot.spec
    if theirs != ours:
        raise ConfigError(
            f"{options.task}: its robot {theirs.name!r} differs from {ours.name!r}, that of "
            f"{source.root}: joints, limits, period and what is observed must be the same"
        )

    def copy_bags(run: RunFolder) -> None:
        for index in range(count):  # Some may be there, if that was interrupted before.
            shutil.copytree(source.bag(index), run.bag(index), dirs_exist_ok=True)

    return created_run(options, asked, copy_bags)


def heard_with(
    driver: DriverSettings, robot: str = "", parameter_file: Path | None = None
) -> dict[str, Any]:
    """Settings by which what a controller plays in real time is read, by dotted keys.

    Args:
        driver: The bundle's.
        robot: YAML of the robot, or a task's name; empty: the controller was told of none.
        parameter_file: Settings in ROS parameter form that the controller gets.

    Raises:
        ConfigError: a file can't be read, or a setting is wrong.
    """
    control = asked_config(RunOptions(robot)).control if robot else Config().control
    heard = {f"driver.{name}": value for name, value in driver.model_dump().items()}
    heard["control.extra_delay"] = control.extra_delay
    document = {} if parameter_file is None else read_mapping(parameter_file)
    for node in ("/**", "controller", "/controller"):
        section = document.get(node)
        given = section.get("ros__parameters") if isinstance(section, dict) else None
        if isinstance(given, dict):
            heard |= {name: value for name, value in dotted(given).items() if name in heard}
    return heard


def recordings_of(
    bundle: Path, task: str, folder: Path, heard: Mapping[str, Any] | None = None
) -> RunFolder:
    """A folder for recordings of a bundle, new or continued.

    The machine at the robot has neither torch nor what the bundle was learned with: where the
    bundle's run is at hand its robot is kept with the recordings, as it is.

    Args:
        bundle: The bundle.
        task: Its task.
        folder: For all recordings that are read by the same settings.
        heard: These settings, see `heard_with`.

    Raises:
        ConfigError: recordings lie there that are read by other settings.
        RunError: no folder can be made there.
    """
    heard = heard or {}
    if (folder / "config.yaml").is_file():
        return prepare_run(RunOptions(task, overrides=heard, out=folder, resume=True))
    ours = task in task_config_files()
    config = asked_config(RunOptions(task)) if ours else Config(task=task)
    config = override(config, {"mode": "real_time", **heard}, str(bundle))
    robot = beside(bundle)
    try:
        run = RunFolder.create(folder, config)
        if robot.is_dir():
            shutil.copytree(robot, run.robot, dirs_exist_ok=True)
    except OSError as error:
        raise RunError(f"{folder}: can't record there: {error.strerror}") from None
    return run


def parse_setting(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`, the value in YAML.

    Raises:
        ConfigError: it has another form.
    """
    key, equals, value = text.partition("=")
    if not key.strip() or not equals:
        shown = shortened(repr(text), 80)
        raise ConfigError(f"{COMMAND_LINE}: {shown}: expected KEY=VALUE, e.g. planner.horizon=30")
    return key.strip(), parse_value(value, f"{COMMAND_LINE}: {shortened(repr(text), 80)}")


def _continued(options: RunOptions) -> RunFolder:
    if options.source is not None:
        raise ConfigError(
            f"{COMMAND_LINE}: --from {options.source}: only a new run begins with another one; a "
            "resumed one has its copy, leave --from out"
        )
    if options.out is None:
        raise ConfigError(f"{COMMAND_LINE}: to resume, name the run's folder: --out DIR --resume")
    run = RunFolder.open(options.out)
    if run.taught:
        raise ConfigError(
            f"{COMMAND_LINE}: --resume {options.out}: it was taught from another run's episodes "
            f"and has none of its own to continue; --from {options.out} begins a new run with it"
        )
    stored = run.config
    task = options.task
    if is_description(task):
        logger.info("%s: the run goes on with its own copy in %s", task, run.robot)
        described = _description(task) if Path(task).is_file() else None
        task = stored.task if described is None else described.name
        if described is not None and task == stored.task:
            _require_unchanged(described, options, run)
    beneath = _beneath(options, None, stored)
    if options.config is None:
        asked = override(stored, dotted(beneath))
    else:
        asked = load_config(options.config, {"task": task}, beneath)
    # Which device it was is nothing that a file of settings should change by its default.
    here: dict[str, Any] = {"task": task, "device": stored.device}
    if run.prior.is_dir():  # so is what --from chose
        here["exploration.random_episodes"] = stored.exploration.random_episodes
    asked = override(asked, {**here, **options.overrides})
    before, after = (dotted(config.model_dump(mode="json")) for config in (stored, asked))
    free = {"device", *(("episodes",) if asked.episodes > stored.episodes else ())}
    for key, value in after.items():
        if value != before[key] and key not in free:
            raise ConfigError(
                f"{key} = {value!r}, but the run in {options.out} has {before[key]!r}; a resumed "
                "run keeps its settings, but may get more episodes and another device: leave the "
                "option out, or start a new run"
            )
    check_signing(asked.control)
    if options.remote_learner:
        check_remote(asked)
    elif "device" in options.overrides:
        _check_device(asked)
    if asked != stored:
        run.change(asked)
    return run


def _require_unchanged(described: Description, options: RunOptions, run: RunFolder) -> None:
    """Refuse to go on with limits or a robot of before, as if what a file says now were heard.

    Raises:
        ConfigError: the file gives other settings of `safety` than the run has, without
            `--config` or `--set`, or describes another robot, reward or constraint.
    """
    stored, file = run.config, Path(options.task)
    if options.config is None:
        own = dotted(read_settings(file)) if described.has_settings else {}
        given = {**_of_robot(described), **own}
        given = {key: value for key, value in given.items() if key.startswith("safety.")}
        asked = override(stored, given, str(file))
        before, after = (dotted(config.model_dump(mode="json")) for config in (stored, asked))
        for key, value in after.items():
            if value != before[key] and key not in options.overrides:
                raise ConfigError(
                    f"{file}: {key} = {value!r}, but the run in {options.out} has "
                    f"{before[key]!r}; a resumed run keeps its settings: start a new run, or to "
                    f"go on with the old value name the task: hucrl up {stored.task}"
                )
    kept = find_description(run.robot, stored.task)
    if kept is None or kept.path.resolve() == described.path.resolve():
        return
    from hucrl_ros.robots.resolve import resolve  # MuJoCo takes a while

    if not resolve(described).same_as(kept):
        raise ConfigError(
            f"{file}: its robot, reward, task or constraints differ from the run's own copy, "
            f"{kept.path}; a resumed run keeps its copy: start a new run, or to go on with the "
            "copy name it in place of the file"
        )


def _new_folder(config: Config, prefix: str) -> Path:
    """A folder that nobody has, made now, so that another run can't take the same."""
    name = f"{prefix}{config.task}-{config.strategy}-{datetime.now():%Y%m%d-%H%M%S}"
    for suffix in ("", *(f"-{i}" for i in range(2, 100))):
        folder = RUNS / (name + suffix)
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunError(f"{folder}: {error.strerror}") from None
        return folder
    raise RunError(f"{RUNS / name}: a hundred runs of that name lie there already")


def check_combination(config: Config, task: "Task") -> None:
    """Refuse a search or planner that makes no sense for the task, and names provided twice.

    Raises:
        ConfigError: with the reason and what to choose instead.
    """
    from hucrl_ros.models import MODELS  # torch takes seconds to load
    from hucrl_ros.planners import PLANNERS, make_planner, planner_class
    from hucrl_ros.search import SEARCHES, missing_gradients, search_class

    for kind, ours in (("planners", PLANNERS), ("searches", SEARCHES), ("models", MODELS)):
        plugins.installed(kind, ours)
    spec = task.spec
    hallucinated = spec.predicted_dim if config.strategy in ("optimistic", "opax") else 0
    make_planner(config.planner, spec.predicted_dim, spec.action_dim + hallucinated)
    for group, name, chosen, members in (
        ("search", config.search.algorithm, search_class(config.search.algorithm), SEARCHES),
        ("planner", config.planner.algorithm, planner_class(config.planner.algorithm), PLANNERS),
    ):
        if chosen.needs_gradients and (missing := missing_gradients(task)):
            others = ", ".join(k for k, member in members.items() if not member.needs_gradients)
            raise ConfigError(
                f"{group}.algorithm = {name!r}: it follows the gradient of the "
                f"reward, and that of task {task.name!r} has none with respect to the "
                f"{' and the '.join(missing)}; choose one of: {others}"
            )
