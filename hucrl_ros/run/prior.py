"""What a new run keeps of the run that it begins with: `--from RUN`."""

import dataclasses
import shutil
from pathlib import Path

from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError, RunError, shortened
from hucrl_ros.run.folder import RunFolder


def open_source(path: Path) -> RunFolder:
    """The run that a new one begins with.

    Raises:
        RunError: no run lies there, or it has no finished episode.
    """
    if not (path / "config.yaml").is_file():
        raise RunError(
            f"--from {path}: no run lies there (no config.yaml); `hucrl learn TASK --from BAG ...`"
            " makes one of bags"
        )
    source = RunFolder.open(path)
    if not source.finished_episodes():
        raise RunError(f"--from {path}: the run has no finished episode to learn from")
    return source


def check_source(source: RunFolder, asked: Description) -> None:
    """Refuse a run of another robot or task. Effort limits may be smaller than its.

    Raises:
        ConfigError: says what differs.
    """
    from hucrl_ros.robots.resolve import describe  # MuJoCo takes a while

    theirs = describe(source.config.task, source.robot)
    ours, limits = asked.robot.spec, asked.robot.spec.effort_limits
    for field in dataclasses.fields(ours):
        name = field.name
        before, now = getattr(theirs.robot.spec, name), getattr(ours, name)
        if name != "effort_limits" and before != now:
            raise ConfigError(
                f"--from {source.root}: its robot has {name} = {before}, the new run's {now}; "
                "they must be the same robot"
            )
    for joint, before, now in zip(
        ours.actuated_joints, theirs.robot.effort_limits, limits, strict=True
    ):
        if now > before:
            raise ConfigError(
                f"--from {source.root}: it was learned with an effort limit of {before:g} at "
                f"{joint!r}, the new run has {now:g}; it may have a smaller one, not a larger one"
            )
    if not theirs.same_task_as(asked):
        what = f"task {theirs.name!r}" if theirs.name != asked.name else "another reward"
        raise ConfigError(
            f"--from {source.root}: it learned {what}; the new run's is {asked.name!r}; for "
            "another task of the same robot see `hucrl teach`"
        )


def keep_prior(source: RunFolder, run: RunFolder) -> None:
    """Copy settings, finished bags and newest weights, so that the run needs nothing outside it.

    What the other run began with itself comes along.

    Raises:
        RunError: it can't be copied.
    """
    unfinished = run.prior.with_name(f".{run.prior.name}")
    kept = RunFolder(unfinished)
    newest = source.newest_checkpoint()
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        kept.checkpoints.mkdir(parents=True)
        shutil.copyfile(source.config_path, kept.config_path)
        for index in range(source.finished_episodes()):
            for bag in (source.bag(index), *source.interrupted(index)):
                shutil.copytree(bag, kept.episodes / bag.name)
        if newest is not None:
            shutil.copyfile(source.checkpoint(newest), kept.checkpoint(newest))
        if source.prior.is_dir():
            shutil.copytree(source.prior, kept.prior)
        shutil.rmtree(run.prior, ignore_errors=True)  # of a beginning that was interrupted
        unfinished.rename(run.prior)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        # Of several files there is a list.
        what = f"{error.filename}: {error.strerror}" if error.strerror else shortened(error)
        raise RunError(f"--from {source.root}: can't copy {what}") from None
