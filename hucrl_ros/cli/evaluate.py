"""`hucrl evaluate`: play a bundle in the simulator and print what it achieves."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.errors import ConfigError
from hucrl_ros.run.prepare import parse_setting

if TYPE_CHECKING:
    from hucrl_ros.controller.manifest import Manifest
    from hucrl_ros.experiments.evaluation import Played
    from hucrl_ros.tasks import Task


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "evaluate",
        help="play bundles in the simulator",
        description="Play bundles in MuJoCo, in one process and without a time limit for "
        "planning, and print their returns and tick times.",
    )
    parser.add_argument("bundles", type=Path, nargs="+", metavar="BUNDLE", help="its folder")
    parser.add_argument(
        "--episodes", type=int, default=1, metavar="N", help="how many of each [1]"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the first episode")
    parser.add_argument(
        "--planner",
        metavar="NAME",
        help="as in the bundle; `hucrl list planners` prints all",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="another planner.* or safety.* setting, e.g. planner.particles=200; repeatable",
    )
    parser.add_argument(
        "--robot",
        type=Path,
        metavar="FILE",
        help="YAML of a robot of your own, where the bundle has left the folder of its run",
    )
    parser.add_argument(
        "--videos",
        type=Path,
        metavar="DIR",
        help="write an MP4 of each bundle's first episode, and a GIF of all side by side",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from hucrl_ros.experiments.evaluation import evaluate, open_bundle, with_settings  # torch

    if args.episodes < 1:
        raise ConfigError(f"--episodes = {args.episodes}: at least 1")
    if not 0 <= args.seed < 2**31:
        raise ConfigError(f"--seed = {args.seed}: from 0 to {2**31 - 1}")
    if args.videos is not None and args.robot is not None:
        raise ConfigError(
            "--videos: only for bundles in the folder of their run, not with --robot"
        )
    changes = dict(parse_setting(text) for text in args.set)
    if args.planner is not None:
        changes["planner.algorithm"] = args.planner
    films: list[tuple[Path, Task, Played]] = []
    for path in args.bundles:
        bundle, task = open_bundle(path, args.robot)
        if films and task.name != films[0][1].name:
            raise ConfigError(f"{path}: for task {task.name!r}, but others {films[0][1].name!r}")
        bundle = with_settings(bundle, changes)
        episodes = evaluate(bundle, task, args.episodes, args.seed)
        print("\n".join(_table(bundle.manifest, task.optimum, episodes, args.seed)))
        distances = np.array([episode.distance for episode in episodes])
        if np.isfinite(distances).all():
            print(_arrivals(distances, task.close))
        films.append((path, task, episodes[0]))
    if args.videos is not None:
        _write_videos(args, films)
    return 0


def _write_videos(args: argparse.Namespace, films: "Sequence[tuple[Path, Task, Played]]") -> None:
    from hucrl_ros.experiments.video import Clip, render_videos
    from hucrl_ros.run.folder import ROBOT

    names = [path.absolute().name for path, _, _ in films]
    if len(set(names)) < len(names):  # bundles of several runs
        names = ["-".join(path.absolute().parts[-3::2]) for path, _, _ in films]
    clips = [
        Clip(name, name, played.states, played.actions, played.rewards)
        for name, (_, _, played) in zip(names, films, strict=True)
    ]
    path, task, _ = films[0]
    described = path.absolute().parent.parent / ROBOT
    files = render_videos(args.videos, task.name, clips, described, "side_by_side")
    print("\n".join(map(str, files)) or "no videos: `hucrl doctor` says why")


def _table(
    manifest: "Manifest", optimum: float | None, episodes: "Sequence[Played]", seed: int
) -> list[str]:
    """Lines: what was played, one line an episode, the mean, what to compare it with."""
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
        f"{'seed':>6} {'return':>9} {'share':>7} {'tick p50':>9} {'p99':>8} {'max':>8}  [ms]",
    ]
    for k, episode in enumerate(episodes):
        lines.append(_row(str(seed + k), episode.total, optimum, episode.tick_ms))
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


def _arrivals(distances: NDArray[np.float64], close: float) -> str:
    """How many episodes ended at their goal, of distances `(episodes,)` [m]."""
    near = int((distances <= close).sum())
    return (
        f"{near} of {len(distances)} episodes ended within {100 * close:g} cm of the goal, "
        f"on average {100 * distances.mean():.1f} cm from it"
    )


def _row(name: str, total: float, optimum: float | None, tick_ms: NDArray[np.float64]) -> str:
    share = f"{total / optimum:.1%}" if optimum else "-"
    p50, p99, largest = np.percentile(tick_ms, [50, 99, 100])
    return f"{name:>6} {total:9.2f} {share:>7} {p50:9.2f} {p99:8.2f} {largest:8.2f}"
