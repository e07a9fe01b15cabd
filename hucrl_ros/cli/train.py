"""`hucrl train`: the robot of `hucrl up` learns in one process, without ROS."""

from typing import TYPE_CHECKING

import typer

from hucrl_ros.cli import options

if TYPE_CHECKING:
    from hucrl_ros.run.folder import RunFolder
    from hucrl_ros.run.summary import EpisodeSummary

COLUMNS = ("episode", "return", "predicted", "p50 ms", "p99 ms", "clamps", "fit s", "search s")


def run(
    ctx: typer.Context,
    task: options.Task,
    config: options.ConfigFile = None,
    episodes: options.Episodes = None,
    action_penalty: options.Penalty = None,
    strategy: options.OneStrategy = None,
    seed: options.Seed = None,
    device: options.Device = None,
    out: options.RunFolderOption = None,
    settings: options.Settings = None,
    no_figures: options.NoFigures = False,
    resume: options.Resume = False,
) -> None:
    """Teach a robot a task in one process, without ROS.

    It learns as with `hucrl up`. Physics waits for every command, whatever the mode in the
    settings.
    """
    from hucrl_ros.cli.run_arguments import finish, is_finished, new_or_continued_run
    from hucrl_ros.run.session import shown_path

    run_folder = new_or_continued_run(ctx.params, prefix="train-")
    if not is_finished(run_folder):
        print(shown_path(run_folder.root))
        _train(run_folder)
    finish(run_folder, not no_figures)


def _train(run_folder: "RunFolder") -> None:
    print(_row(COLUMNS), flush=True)

    import torch  # With the learner it takes seconds, in which the person already sees something.

    from hucrl_ros.experiments.train import train
    from hucrl_ros.run.session import resume_command

    torch.set_num_threads(1)  # Small networks: more threads only wait for each other.
    try:
        train(run_folder.config, run_folder, _report)
    except KeyboardInterrupt:
        print(f"stopped; continue with: {resume_command(run_folder, 'train')}")
        raise


def _report(episode: "EpisodeSummary") -> None:
    from hucrl_ros.run.progress import format_number, format_ticks

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
