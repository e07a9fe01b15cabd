"""`hucrl up`: a robot learns a task through ROS 2, every node a process of its own."""

import argparse
import os
import sys
from pathlib import Path

from hucrl_ros.domain import Domain, wished_domain
from hucrl_ros.errors import RunError
from hucrl_ros.runs import RunFolder
from hucrl_ros.session import Session, shown_path
from hucrl_ros.starting import RunOptions, parse_setting, prepare_run
from hucrl_ros.summary import Summary, read_summary


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `hucrl up` to the commands."""
    parser = subparsers.add_parser(
        "up",
        help="teach a robot a task through ROS 2",
        description="Start simulator, controller, watchdog, recorder, learner and supervisor as "
        "processes of their own, and teach the robot. Ctrl-C ends all of them.",
    )
    parser.add_argument("task", help="what to learn; `hucrl list tasks` prints all")
    add_run_arguments(parser)
    parser.add_argument("--resume", action="store_true", help="continue the run in --out DIR")
    parser.add_argument("--no-figures", action="store_true", help="leave out figures and videos")
    parser.set_defaults(run=run)


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Settings of a run that have options of their own; None where one isn't given."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, in YAML")
    parser.add_argument("--episodes", type=int, metavar="N", help="episodes, random ones included")
    parser.add_argument("--action-penalty", type=float, metavar="RHO", help="weight of efforts")
    parser.add_argument("--strategy", choices=("greedy", "thompson", "optimistic"))
    parser.add_argument("--seed", type=int, help="seed of everything random")
    mode = parser.add_mutually_exclusive_group()
    for name, text in (("real_time", "physics never waits"), ("lockstep", "physics waits")):
        flag = "--" + name.replace("_", "-")
        mode.add_argument(flag, action="store_const", const=name, dest="mode", help=text)
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run's folder")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting, e.g. planner.horizon=30; may be repeated",
    )


def run_options(args: argparse.Namespace) -> RunOptions:
    """The arguments of `add_run_arguments` as options of a run.

    Raises:
        ConfigError: a `--set` is not KEY=VALUE.
    """
    names = ("episodes", "action_penalty", "strategy", "seed", "mode")
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    settings = dict(parse_setting(text) for text in args.set)
    return RunOptions(
        task=args.task,
        config=args.config,
        overrides={**given, **settings},
        out=args.out,
        resume=args.resume,
    )


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    _require_ros()
    wished = wished_domain(os.environ.get("ROS_DOMAIN_ID"))
    run_folder = prepare_run(run_options(args))
    if _is_finished(run_folder):
        print(f"{shown_path(run_folder.root)}: finished already")
    else:
        stopped_by = _play(run_folder, wished)
        if stopped_by is not None:
            return 128 + stopped_by
    if not args.no_figures:
        _make_report(run_folder)
    _print_end(run_folder, read_summary(run_folder.summary))
    return 0


def _play(run_folder: RunFolder, wished: int | None) -> int | None:
    with Domain(wished) as domain:
        if wished not in (None, domain.number):
            print(f"ROS_DOMAIN_ID {wished} is another run's; this one uses {domain.number}")
        print(f"{shown_path(run_folder.root)}  (ROS_DOMAIN_ID={domain.number})", flush=True)
        return Session(run_folder, domain.number).play()


def _is_finished(run_folder: RunFolder) -> bool:
    """Whether nothing is left to do: all episodes played, learned from and summarised."""
    episodes = run_folder.config.episodes
    return (
        run_folder.finished_episodes() >= episodes
        and run_folder.bundle(episodes).is_dir()
        and run_folder.summary.is_file()
        and len(read_summary(run_folder.summary).episodes) >= episodes
    )


def _make_report(run_folder: RunFolder) -> None:
    from hucrl_ros.experiments.report import make_report  # matplotlib takes a second to import

    print("drawing figures and videos", flush=True)
    make_report(run_folder)


def _print_end(run_folder: RunFolder, summary: Summary) -> None:
    root = shown_path(run_folder.root)
    places = {
        "bags": run_folder.episodes,
        "bundles": run_folder.bundles,
        "figures": run_folder.figures,
        "videos": run_folder.videos,
        "summary": run_folder.summary,
    }
    for name, path in places.items():
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            print(f"{name:<8} {root}/{path.relative_to(run_folder.root)}")
    best = max(summary.episodes, key=lambda episode: episode.return_)
    optimum = "" if summary.optimum is None else f" of {summary.optimum:g} possible"
    print(f"best return {best.return_:.1f}{optimum}, in episode {best.index}")


def _require_ros() -> None:
    """Say at once, in one line, what every node would say in its log.

    Raises:
        RunError: rclpy can't be imported.
    """
    from importlib.util import find_spec

    if find_spec("rclpy") is None:
        raise RunError(
            f"{sys.executable} has no rclpy: install requirements-ros.txt or source a ROS 2 "
            "installation; `hucrl train` learns without ROS"
        )
