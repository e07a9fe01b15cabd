"""`kill -9` at random moments of a run, of any of its processes, and `--resume` after each."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator

from hucrl_ros.benchmarks.faults import report
from hucrl_ros.benchmarks.faults.fault import EVERYBODY
from hucrl_ros.benchmarks.faults.played_run import POLL_S, PlayedRun
from hucrl_ros.benchmarks.faults.remains import differences, remains_of
from hucrl_ros.benchmarks.faults.trial import Trial
from hucrl_ros.benchmarks.faults.workshop import WHOLE_S, Workshop
from hucrl_ros.errors import RunError, shortened
from hucrl_ros.run.folder import RunFolder

Say = Callable[[str], None]
MOST = 15
"""Kills of one run; then it may come to its end, also on a machine that has become slow."""


def random_kills(
    workshop: Workshop, count: int, commands: int, draw: random.Random, say: Say
) -> Iterator[list[Trial]]:
    """Kill, resume, kill again; each run is finished and compared, and then its kills are told.

    Each kill comes at a moment that is uniform in the time that the run takes without any, so
    the longer a part of it takes the more kills hit it, and runs come to their end.

    Args:
        workshop: Where.
        count: Kills.
        commands: Least number of commands that come to the robot meanwhile; kills go on till then.
        draw: Draws moments and processes.
        say: Takes a line on each kill, and on each finished run.

    Raises:
        RunError: a run doesn't end as it should; its kills are told before.
    """
    reference, duration = workshop.undisturbed()
    expected = remains_of(reference)
    say(f"without a fault: {duration:.0f} s, {len(expected)} results to compare")
    done = number = 0
    while done < count or workshop.heard().commands < commands:
        run = workshop.new_run(f"run_{number:03d}")
        most = min(count - done, MOST) if done < count else MOST
        trials: list[Trial] = []
        try:
            _kill_and_resume(workshop, run, most, duration, draw, say, trials)
        except RunError as error:
            yield [trial._replace(defects=(*trial.defects, str(error))) for trial in trials]
            raise
        found = differences(expected, remains_of(run))
        heard = workshop.heard()
        say(
            f"run {number}: finished after {len(trials)} kills, {heard.commands} commands so far: "
            + (shortened("; ".join(found)) or "identical")
        )
        yield [trial._replace(finished=True, identical=not found) for trial in trials]
        done += len(trials)
        number += 1


def _kill_and_resume(
    workshop: Workshop,
    run: RunFolder,
    most: int,
    duration: float,
    draw: random.Random,
    say: Say,
    trials: list[Trial],
) -> None:
    """Add the kills of one run to `trials`; it is finished at the end."""
    while True:
        target, after_s = draw.choice(EVERYBODY), draw.uniform(0.0, duration)
        left = len(trials) < most
        with workshop.play(run) as played:
            end = played.wait(after_s if left else WHOLE_S)
            killed = _kill(played, target) if left and end is None else None
            if killed is None:
                _require_finished(played, len(trials))
                return
            at, phase = killed
            trial = workshop.outcome(played, "SIGKILL", target, phase, at)
        trials.append(trial)
        say(f"{target} killed after {after_s:.1f} s: {report.told(trial)}")


def _require_finished(played: PlayedRun, kills: int) -> None:
    end = played.wait(WHOLE_S)
    if end is None or end.code != 0:
        told = "doesn't end" if end is None else end.description
        raise RunError(f"{played.run.root}: after {kills} kills: {told}")


def _kill(played: PlayedRun, name: str) -> tuple[float, str] | None:
    """Kill a process as soon as it is there; when that was, and in which part of the run.

    None: `hucrl up` has come to its end first.
    """
    while (pid := played.pid(name)) is None:
        if played.wait(POLL_S) is not None:
            return None
    phase, at = played.phase, time.monotonic()
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return at, phase
