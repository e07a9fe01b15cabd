"""What the commands that make a run share: their options, and what they print at the end."""

import argparse
from pathlib import Path

from hucrl_ros.config.task_file import is_description
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import RunOptions, parse_setting, prepare_run
from hucrl_ros.run.session import shown_path
from hucrl_ros.run.summary import Summary, read_summary

_SETTINGS = ("episodes", "action_penalty", "strategy", "seed", "mode", "device")


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The task, and settings of a run that have options of their own; None: not given."""
    parser.add_argument(
        "task", help="what to learn: one of `hucrl list tasks`, or the YAML of a robot of your own"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, in YAML")
    parser.add_argument("--episodes", type=int, metavar="N", help="episodes, random ones included")
    parser.add_argument("--action-penalty", type=float, metavar="RHO", help="weight of efforts")
    parser.add_argument("--strategy", choices=("greedy", "thompson", "optimistic"))
    parser.add_argument("--seed", type=int, help="seed of everything random")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="where models and policies learn"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="the run's folder")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="any other setting, e.g. planner.horizon=30; may be repeated",
    )
    parser.add_argument("--no-figures", action="store_true", help="leave out figures and videos")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="continue the run in --out DIR, with --episodes N also beyond its end",
    )
    parser.set_defaults(mode=None)


def run_options(args: argparse.Namespace, prefix: str = "") -> RunOptions:
    """The arguments of `add_run_arguments` as options of a run.

    Args:
        args: What was typed.
        prefix: Start of the name of a new folder, where none is given.

    Raises:
        ConfigError: a `--set` is not KEY=VALUE.
    """
    given = {name: getattr(args, name) for name in _SETTINGS if getattr(args, name) is not None}
    settings = dict(parse_setting(text) for text in args.set)
    return RunOptions(
        task=args.task,
        config=args.config,
        overrides={**given, **settings},
        out=args.out,
        resume=args.resume,
        prefix=prefix,
    )


def new_or_continued_run(args: argparse.Namespace, prefix: str = "") -> RunFolder:
    """The folder of the run that `args` ask for, see `run_options`.

    Raises:
        HucrlError: a setting or a robot's description is wrong, or no folder can be made.
    """
    options = run_options(args, prefix)
    if is_description(options.task) and not options.resume:
        print(f"checking {options.task}", flush=True)  # It takes seconds.
    return prepare_run(options)


def is_finished(run_folder: RunFolder) -> bool:
    """Whether nothing is left to do: all episodes played, learned from and summarised."""
    episodes = run_folder.config.episodes
    return (
        run_folder.finished_episodes() >= episodes
        and run_folder.bundle(episodes).is_dir()
        and run_folder.summary.is_file()
        and len(read_summary(run_folder.summary).episodes) >= episodes
    )


def draw_report(run_folder: RunFolder) -> None:
    """Draw the run's figures and videos."""
    from hucrl_ros.experiments.report import make_report  # matplotlib takes a second to import

    print("drawing figures and videos", flush=True)
    make_report(run_folder)


def print_end(run_folder: RunFolder, summary: Summary) -> None:
    """Where the files lie, the best return, and the bundle that earned it."""
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
    player = "" if best.bundle is None else f", by {root}/{best.bundle}"
    print(f"best return {best.return_:.1f}{optimum}, in episode {best.index}{player}")
