"""What each bundle of a run has earned, in its episodes and in those of the judge."""

from collections.abc import Mapping
from typing import NamedTuple

from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import Summary


class Steady(NamedTuple):
    """A bundle and what it earned."""

    bundle: int
    """Its number."""
    earned: float
    """Mean return of its episodes."""
    judged: float
    """Mean return of its episodes on a model that it wasn't made with."""
    missed: int = 0
    """Of these, those that didn't end in the task's success."""

    @property
    def score(self) -> float:
        """Between both: one lucky episode tells little."""
        return (self.earned + self.judged) / 2.0

    @property
    def rank(self) -> tuple[int, float]:
        """By which the steadiest is chosen."""
        return -self.missed, self.score


def origin_of(run: RunFolder, bundle: int) -> int:
    """Episode that a bundle was made for, which may be another one than its own."""
    repeats = read_manifest(run.bundle(bundle)).repeats
    return bundle if repeats is None else repeats


def flights(
    run: RunFolder, random: int, returns: Mapping[int, float], flown: Mapping[int, int]
) -> dict[int, dict[int, float]]:
    """Returns of each learned bundle's episodes, by the episode that it was made for.

    Args:
        run: Has the bundles; one that isn't there counts for nothing.
        random: So many first bundles play random efforts, and count for nothing, too.
        returns: Of the episodes, by their numbers.
        flown: Number of the bundle that played each of them.

    Returns:
        For each bundle returns by the numbers of its copies; the bundle that flew last is last.
    """
    found: dict[int, dict[int, float]] = {}
    for episode, earned in returns.items():
        index = flown[episode]
        if index < random or not run.bundle(index).is_dir():
            continue
        origin = origin_of(run, index)
        found[origin] = {**found.pop(origin, {}), episode: earned}
    return found


def steadiest(run: RunFolder, summary: Summary) -> Steady | None:
    """The bundle that did best by its episodes and the judge's; None: there was no judge."""
    episodes = [each for each in summary.episodes if not each.cut]
    returns = {each.index: each.return_ for each in episodes}
    flown = {each.index: each.flown for each in episodes}
    found = []
    random = run.config.exploration.random_episodes
    for origin, earned in flights(run, random, returns, flown).items():
        # The newest judge knows most.
        report = read_manifest(run.bundle(flown[max(earned)])).report
        if report.judged_return is not None:
            mean = sum(earned.values()) / len(earned)
            found.append(Steady(origin, mean, report.judged_return, report.judged_misses))
    return max(found, key=lambda each: each.rank, default=None)
