"""What a run takes over from the one that it began with: `--from RUN`."""

from pathlib import Path

from hucrl_ros.bags.interrupted import sound_part
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError, LearningError
from hucrl_ros.learning.dataset import RecordedEpisode
from hucrl_ros.models import DynamicsModel, kind_of
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task


def prior_episodes(run: RunFolder, task: Task) -> list[RecordedEpisode]:
    """Episodes of the run that `run` began with, and of those before it, oldest first.

    Each run before weighs them once more, so that data of a simulator that went through a run on
    a robot count less than the robot's.

    Raises:
        BagError: a bag can't be read.
    """
    if not run.prior.is_dir():
        return []
    weight = run.config.model.from_weight
    if not weight:
        return []
    prior = RunFolder(run.prior)
    config = prior.config
    own = [
        episode
        for index in range(prior.finished_episodes())
        for episode in recorded(prior, index, task, config)
    ]
    found = [*prior_episodes(prior, task), *own]
    return [episode._replace(weight=weight * episode.weight) for episode in found]


def recorded(run: RunFolder, index: int, task: Task, config: Config) -> list[RecordedEpisode]:
    """What is learned from of a finished episode, after its interrupted attempts, if they count.

    It stays the same from then on, so that all that is learned later can be learned again.

    Raises:
        BagError: the episode's bag can't be read.
    """
    attempts = run.interrupted(index) if config.model.interrupted else []
    parts = [(sound_part(path, task.spec, task.steps, config).episode, path) for path in attempts]
    whole = read_episode(run.bag(index), task.spec, task.steps, config)
    return [
        RecordedEpisode(
            each.states,
            each.actions,
            each.contiguous,
            finished=each is whole,
            cut=each.cut,
            flown=run.flown(index, each.bundle),
            bag=path,
        )
        for each, path in (*parts, (whole, run.bag(index)))
        if each is not None
    ]


def prior_weights(run: RunFolder) -> Path | None:
    """The newest weights of the run that `run` began with; None: there are none."""
    if not run.prior.is_dir():
        return None
    prior = RunFolder(run.prior)
    newest = prior.newest_checkpoint()
    return None if newest is None else prior.checkpoint(newest)


def check_prior(run: RunFolder, config: Config, task: Task, model: DynamicsModel) -> None:
    """Refuse what can't be begun with.

    Raises:
        ConfigError: nobody tells how to play episode 0, or the model knows no weights.
        LearningError: neither data nor policies are left.
    """
    settings = config.model
    if not run.prior.is_dir():
        if config.exploration.random_episodes == 0:
            raise ConfigError(
                f"{run.root}: exploration.random_episodes = 0, but the run began with no other "
                "one; take at least 1, or --from RUN"
            )
        return
    if settings.from_weight not in (0.0, 1.0) and not model.weighs:
        raise ConfigError(
            f"model.kind = {kind_of(settings, task)!r} can't weigh transitions, so "
            f"model.from_weight = {settings.from_weight:g} means nothing to it; take 0 or 1"
        )
    if not settings.from_weight and prior_weights(run) is None:
        raise LearningError(
            f"{run.prior}: model.from_weight = 0 leaves its policies alone, and it has learned "
            "none; take more than 0"
        )
