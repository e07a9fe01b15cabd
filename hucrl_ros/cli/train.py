"""`hucrl train`: the robot of `hucrl up` learns in one process, without ROS."""

import argparse

from hucrl_ros.cli.run_arguments import (
    add_run_arguments,
    draw_report,
    is_finished,
    new_or_continued_run,
    print_end,
)
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.progress import format_number, format_ticks
from hucrl_ros.run.session import resume_command, shown_path
from hucrl_ros.run.summary import EpisodeSummary, read_summary

COLUMNS = ("episode", "return", "predicted", "p50 ms", "p99 ms", "clamps", "fit s", "search s")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add `hucrl train` to the commands."""
    parser = subparsers.add_parser(
        "train",
        help="teach a robot a task in one process, without ROS",
        description="Learn as `hucrl up` does, in one process and without ROS. Physics waits for "
        "every command, whatever the mode in the settings.",
    )
    add_run_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    run_folder = new_or_continued_run(args, prefix="train-")
    if is_finished(run_folder):
        print(f"{shown_path(run_folder.root)}: finished already")
    else:
        print(shown_path(run_folder.root))
        _train(run_folder)
    if not args.no_figures:
        draw_report(run_folder)
    print_end(run_folder, read_summary(run_folder.summary))
    return 0


def _train(run_folder: RunFolder) -> None:
    print(_row(COLUMNS), flush=True)

    import torch  # With the learner it takes seconds, in which the person already sees something.

    from hucrl_ros.experiments.train import train

    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    try:
        train(run_folder.config, run_folder, _report)
    except KeyboardInterrupt:
        print(f"stopped; continue with: {resume_command(run_folder, 'train')}")
        raise


def _report(episode: EpisodeSummary) -> None:
    cells = (
        str(episode.index),
        format_number(episode.return_),
        format_number(episode.predicted_return),
        *format_ticks(episode),
        str(episode.clamps),
        format_number(episode.fit_s),
        format_number(episode.search_s),
    )
    print(_row(cells), flush=True)


def _row(cells: tuple[str, ...]) -> str:
    return " ".join(f"{cell:>9}" for cell in cells)
