"""`hucrl evaluate`: play a bundle in the simulator and print what it achieves."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from hucrl_ros.cli.options import EpisodeCount, FirstSeed, Settings, parse_settings
from hucrl_ros.cli.parsing import folder_to_write
from hucrl_ros.errors import ConfigError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from hucrl_ros.controller.manifest import Manifest
    from hucrl_ros.experiments.evaluation import Played
    from hucrl_ros.tasks import Task


def run(
    bundles: Annotated[list[Path], Argument(metavar="BUNDLE", help="its folder")],
    episodes: EpisodeCount = 1,
    seed: FirstSeed = 0,
    planner: Annotated[
        str | None,
        Option(metavar="NAME", help="one of `hucrl list planners`; default: the bundle's"),
    ] = None,
    settings: Settings = None,
    robot: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="YAML of a robot of your own, where the bundle has left the folder of its run",
        ),
    ] = None,
    videos: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            callback=folder_to_write,
            help="write an MP4 of each bundle's first episode, and a GIF of all side by side",
        ),
    ] = None,
) -> None:
    """Play bundles in the simulator.

    They are played in MuJoCo, in one process and without a time limit for planning. Returns and
    tick times are printed. Of the settings planner.* and safety.* can be others. The Python
    functions that the YAML of their robot names are run, which is said before. Seed s begins as
    episode 0 of a run with that seed did: for starts that no run has seen take 1000 or more.
    """
    import numpy as np

    from hucrl_ros.cli.functions import say_functions_of
    from hucrl_ros.experiments.evaluation import evaluate, open_bundle, with_settings  # torch

    if videos is not None and robot is not None:
        raise ConfigError(
            "--videos: only for bundles in the folder of their run, not with --robot"
        )
    changes = parse_settings(settings, {"planner.algorithm": planner})
    films: list[tuple[Path, Task, Played]] = []
    for path in bundles:
        say_functions_of("evaluate", path, robot)
        bundle, task = open_bundle(path, robot)
        if films and task.name != films[0][1].name:
            raise ConfigError(f"{path}: for task {task.name!r}, but others {films[0][1].name!r}")
        if videos is not None and films and not task.described.same_as(films[0][1].described):
            raise ConfigError(
                f"{path}: of another robot than {films[0][0]}, though both are called "
                f"{task.name!r}; --videos films one robot"
            )
        bundle = with_settings(bundle, changes)
        found = evaluate(bundle, task, episodes, seed)
        print("\n".join(_table(bundle.manifest, task.optimum, found, seed)))
        distances = np.array([episode.distance for episode in found])
        if np.isfinite(distances).all():
            print(_arrivals(distances, task.success_distance))
        films.append((path, task, found[0]))
    if videos is not None:
        _write_videos(videos, films)


def _write_videos(folder: Path, films: "Sequence[tuple[Path, Task, Played]]") -> None:
    from hucrl_ros.config.task_file import beside
    from hucrl_ros.experiments.video import Clip, render_videos

    names = [path.absolute().name for path, _, _ in films]
    if len(set(names)) < len(names):  # bundles of several runs
        names = ["-".join(path.absolute().parts[-3::2]) for path, _, _ in films]
    if len(set(names)) < len(names):  # and these are called alike
        names = [f"{number}-{name}" for number, name in enumerate(names, 1)]
    clips = [
        Clip(name, name, played.states, played.actions, played.rewards)
        for name, (_, _, played) in zip(names, films, strict=True)
    ]
    path, task, _ = films[0]
    described = beside(path)
    files = render_videos(folder, task.name, clips, described, "side_by_side")
    print("\n".join(map(str, files)) or "no videos: `hucrl doctor` says why")


def _table(
    manifest: "Manifest", optimum: float | None, episodes: "Sequence[Played]", seed: int
) -> list[str]:
    """Lines: what was played, one line an episode, the mean, what to compare it with."""
    import numpy as np

    planner = manifest.planner
    how = (
        "random efforts"
        if manifest.random
        else "policy"
        if planner.algorithm == "policy"
        else f"{planner.algorithm}, {planner.particles} particles x {planner.horizon} steps "
        f"x {planner.iterations} iterations"
    )
    lines = [
        f"{manifest.task}, {manifest.strategy}, action penalty {manifest.action_penalty:g}, "
        f"bundle of episode {manifest.episode}, {how}",
        f"{'seed':>6} {'return':>9} {'share':>7} {'tick p50':>9} {'p99':>8} {'max':>8}  [ms]"
        + ("  from goal [cm]" if np.isfinite(episodes[0].distance) else "")
        + ("  filtered  outside" if manifest.constraints else ""),
    ]
    for k, episode in enumerate(episodes):
        away = f"{100 * episode.distance:16.1f}" if np.isfinite(episode.distance) else ""
        kept = f"{episode.filtered:10d} {episode.outside:8d}" if manifest.constraints else ""
        lines.append(_row(str(seed + k), episode.total, optimum, episode.tick_ms) + away + kept)
    if len(episodes) > 1:
        mean = float(np.mean([episode.total for episode in episodes]))
        lines.append(_row("mean", mean, optimum, np.concatenate([e.tick_ms for e in episodes])))
    clamps = sum(episode.clamps for episode in episodes)
    fallbacks = sum(episode.fallbacks for episode in episodes)
    if clamps or fallbacks:
        lines.append(f"{clamps} commands changed by the guard, {fallbacks} ticks without a plan")
    predicted = manifest.report.predicted_return
    lines += [] if predicted is None else [f"predicted {predicted:.1f}"]
    lines += [] if optimum is None else [f"optimum {optimum:g}"]
    return lines


def _arrivals(distances: "NDArray[np.float64]", success_distance: float) -> str:
    """How many episodes ended at their goal, of distances `(episodes,)` [m]."""
    near = int((distances <= success_distance).sum())
    return (
        f"{near} of {len(distances)} episodes ended within {100 * success_distance:g} cm of the "
        f"goal, on average {100 * distances.mean():.1f} cm from it"
    )


def _row(name: str, total: float, optimum: float | None, tick_ms: "NDArray[np.float64]") -> str:
    import numpy as np

    share = f"{total / optimum:.1%}" if optimum and optimum > 0.0 else "-"
    p50, p99, largest = np.percentile(tick_ms, [50, 99, 100])
    return f"{name:>6} {total:9.2f} {share:>7} {p50:9.2f} {p99:8.2f} {largest:8.2f}"
