"""From what a person asked for to a run's folder, new or continued.

`hucrl up`, `hucrl train` and the launch files share it.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import is_description
from hucrl_ros.controller.signature import check_signing
from hucrl_ros.errors import ConfigError, RunError, shortened
from hucrl_ros.run.asked import AskedRun, RunOptions, asked_config, asked_run
from hucrl_ros.run.combination import check_choices, check_device_of
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.home import check_home
from hucrl_ros.run.judged_task import check_remote
from hucrl_ros.run.prior import check_source, keep_prior, open_source
from hucrl_ros.run.remote.contract import files_below, require_plain_names
from hucrl_ros.run.resumed import continued_run

RUNS = Path("runs")
"""Where new runs go, below the working directory."""


def prepare_run(options: RunOptions) -> RunFolder:
    """Make the run's folder, or open the one to continue.

    Raises:
        ConfigError: a setting is wrong, or a continued run has another one.
        RunError: a run lies there already, or none to continue.
    """
    if options.resume:
        return continued_run(options)
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
    check_to_play(asked)
    if options.remote_learner:
        check_remote(asked.config)
    else:
        if not is_description(options.task):
            check_choices(options.task, asked.config)
        check_device_of(asked.config)

    def fill(run: RunFolder) -> None:
        if options.remote_learner:
            require_plain_names(run.root, files_below(run.root, run.robot.name))
        if source is not None:
            keep_prior(source, run)

    return created_run(options, asked, fill)


def check_to_learn(config: Config) -> None:
    """Refuse what could be learned, and then not be signed, or not even learned.

    Raises:
        ConfigError: keys don't fit, or this machine hasn't got the device.
    """
    check_signing(config.control)
    check_device_of(config)


def check_to_play(asked: AskedRun) -> None:
    """Refuse a run whose robot can't be brought to its start as it says.

    Raises:
        ConfigError: the model can't be moved home.
    """
    if asked.config.driver.reset == "home" and asked.config.mode == "real_time":
        check_home(asked.described, asked.config)


@contextmanager
def unmade_without(run: RunFolder, bundle: Path) -> Iterator[None]:
    """Remove a new run again where its learning ends without `bundle`: nothing goes on with it.

    To be used while the run is locked.
    """
    try:
        yield
    except BaseException:
        if not bundle.is_dir():
            run.unmake()
        raise


def created_run(
    options: RunOptions, asked: AskedRun, fill: Callable[[RunFolder], None] = lambda run: None
) -> RunFolder:
    """The folder of a new run, in which `fill` puts what it can't go on without.

    Raises:
        RunError: a run lies there already, or none can be made.
    """
    folder = options.out or _new_folder(asked.config, options.prefix)

    def begin(run: RunFolder) -> None:
        # Its settings are a robot's, or not, before an episode is played, too.
        run.on_robot.unlink(missing_ok=True)  # of one that was never made
        if options.on_robot:
            run.on_robot.touch()
        fill(run)

    try:
        return RunFolder.create(folder, asked.config, asked.described, begin)
    except OSError as error:
        reason = error.strerror or shortened(error)
        raise RunError(f"{folder}: can't make a run there: {reason}") from None


def taught_run(source: RunFolder, options: RunOptions) -> RunFolder:
    """A new run's folder `options.out` with copies of all bags of `source`.

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
    of_bags = {
        "episodes": count,
        "exploration.random_episodes": count,
        "mode": stored.mode,
        "driver": stored.driver.model_dump(),
        "control.extra_delay": stored.control.extra_delay,
    }
    options = replace(options, overrides={**longer, **options.overrides, **of_bags})
    # What a robot's episodes taught is for the robot, where the safety filter is on unless set.
    asked = asked_run(replace(options, on_robot=source.on_robot.exists()))
    check_to_learn(asked.config)
    theirs, ours = asked.described.robot.spec, describe(stored.task, source.robot).robot.spec
    if theirs != ours:
        raise ConfigError(
            f"{options.task}: its robot {theirs.name!r} differs from {ours.name!r}, that of "
            f"{source.root}: joints, limits, period and what is observed must be the same"
        )

    def copy_bags(run: RunFolder) -> None:
        for index in range(count):
            for bag in (source.bag(index), *source.interrupted(index)):
                shutil.copytree(bag, run.episodes / bag.name)

    return created_run(options, asked, copy_bags)


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
