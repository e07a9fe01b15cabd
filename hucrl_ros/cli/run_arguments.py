"""What the commands that make a run share: its folder, and what they print at the end."""

from collections.abc import Mapping
from typing import Any

from hucrl_ros.cli.options import parse_settings
from hucrl_ros.config.task_file import is_description
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import RunOptions, prepare_run
from hucrl_ros.run.session import shown_path
from hucrl_ros.run.summary import read_summary

_OWN_OPTIONS = ("episodes", "action_penalty", "strategy", "seed", "device")
"""Settings that have an option of their own."""


def new_or_continued_run(
    typed: Mapping[str, Any], prefix: str = "", mode: str | None = None
) -> RunFolder:
    """The folder of the run that was asked for.

    Args:
        typed: Arguments and options of `hucrl up` or `hucrl train`; None: not given.
        prefix: Start of the name of a new folder, where none is given.
        mode: `lockstep` or `real_time`; None: as in the settings.

    Raises:
        HucrlError: a setting or a robot's description is wrong, or no folder can be made.
    """
    given = {"mode": mode, **{name: typed[name] for name in _OWN_OPTIONS}}
    settings = {name: value for name, value in given.items() if value is not None}
    options = RunOptions(
        task=typed["task"],
        config=typed["config"],
        overrides={**settings, **parse_settings(typed["settings"])},
        out=typed["out"],
        resume=typed["resume"],
        prefix=prefix,
    )
    if is_description(options.task) and not options.resume:
        print(f"checking {options.task}", flush=True)  # It takes seconds.
    return prepare_run(options)


def is_finished(run_folder: RunFolder) -> bool:
    """Whether nothing is left to do: all episodes played, learned from and summarised."""
    episodes = run_folder.config.episodes
    finished = (
        run_folder.finished_episodes() >= episodes
        and run_folder.bundle(episodes).is_dir()
        and run_folder.summary.is_file()
        and len(read_summary(run_folder.summary).episodes) >= episodes
    )
    if finished:
        print(f"{shown_path(run_folder.root)}: finished already")
    return finished


def finish(run_folder: RunFolder, figures: bool) -> None:
    """Draw figures and videos; say where files lie, and which bundle earned the best return."""
    if figures:
        from hucrl_ros.experiments.report import make_report  # matplotlib takes a second

        print("drawing figures and videos", flush=True)
        make_report(run_folder)
    summary = read_summary(run_folder.summary)
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
