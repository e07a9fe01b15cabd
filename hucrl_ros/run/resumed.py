"""A run that goes on: with its own settings, on the robot that it knows."""

import logging
from pathlib import Path
from typing import Any

from hucrl_ros.config.files import (
    COMMAND_LINE,
    dotted,
    load_config,
    merge,
    override,
    read_settings,
)
from hucrl_ros.config.schema import SimulatorSettings
from hucrl_ros.config.task_file import (
    Description,
    find_description,
    is_description,
    known_tasks,
)
from hucrl_ros.controller.signature import check_signing
from hucrl_ros.errors import ConfigError
from hucrl_ros.run.asked import (
    RunOptions,
    description_of,
    is_of_robot,
    settings_beneath,
    settings_of_robot,
)
from hucrl_ros.run.combination import check_device_of
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.judged_task import check_remote

logger = logging.getLogger(__name__)


def continued_run(options: RunOptions) -> RunFolder:
    """The run in `options.out`, to be played on.

    Raises:
        ConfigError: it can't go on, or a setting differs from its own.
        RunError: there is none.
    """
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
    run.require_player(options.on_robot, begun=True)
    stored = run.config
    task, described = options.task, None
    if is_description(task):
        logger.info("%s: the run goes on with its own copy in %s", task, run.robot)
        described = description_of(task) if Path(task).is_file() else None
        task = stored.task if described is None else described.name
        if described is not None and task == stored.task:
            _require_unchanged(described, options, run)
    own = described or find_description(run.robot, stored.task)
    beneath = settings_beneath(options, own, stored)
    if options.config is None:
        if "simulator" in beneath and stored.simulator != SimulatorSettings():
            beneath = {}  # It has such habits, but for what its own file said when it began.
        asked = override(stored, beneath)
    else:
        if described is not None:
            robots = settings_of_robot(described, with_own=True)
        elif stored.task not in known_tasks():
            settings = dotted(stored.model_dump())
            robots = {key: value for key, value in settings.items() if is_of_robot(key)}
        else:
            robots = {}
        asked = load_config(options.config, {"task": task}, merge(beneath, robots))
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
        check_device_of(asked)
    if asked != stored:
        run.change(asked)
    return run


def _require_unchanged(described: Description, options: RunOptions, run: RunFolder) -> None:
    """Refuse to go on with limits or a robot of before, as if what a file says now were heard.

    Raises:
        ConfigError: the file gives other settings of the robot than the run has, without
            `--config` or `--set`, or describes another robot, reward or constraint.
    """
    stored, file = run.config, Path(options.task)
    if options.config is None:
        own = dotted(read_settings(file)) if described.has_settings else {}
        given = {**settings_of_robot(described), **own}
        given = {key: value for key, value in given.items() if is_of_robot(key)}
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
