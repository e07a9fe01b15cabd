"""One fault from its beginning to the end of the run that it hit."""

import random
import time
from collections.abc import Mapping
from contextlib import ExitStack

import psutil

from hucrl_ros.benchmarks.faults.fault import LOCKSTEP, NODES, REAL_TIME, Fault, Place
from hucrl_ros.benchmarks.faults.played_run import UP, PlayedRun
from hucrl_ros.benchmarks.faults.remains import differences, remains_of
from hucrl_ros.benchmarks.faults.schedule import Case, written
from hucrl_ros.benchmarks.faults.trial import Trial
from hucrl_ros.benchmarks.faults.workshop import WHOLE_S, Workshop
from hucrl_ros.errors import HucrlError, RunError

LATEST_S = 0.3
"""[s] From the beginning of a part of a run to the fault, at most."""
RESUMED = "after --resume: "


def attempt(
    workshop: Workshop, case: Case, draw: random.Random, expected: Mapping[str, str]
) -> Trial:
    """Play a run, let the fault happen, continue with `--resume`, and compare.

    Args:
        workshop: Where.
        case: What to try.
        draw: Draws the moment.
        expected: What a run without a fault leaves behind; empty: runs differ anyway.

    Raises:
        RunError: the fault could not happen, as the run ended before.
    """
    fault = case.fault()
    name = "_".join(map(written, (case.fault.name, case.node, case.phase)))
    folder = workshop.folder / f"{case.mode}_{name}"
    with ExitStack() as stack:
        stack.enter_context(fault.ground(folder))
        run = workshop.new_run(f"{folder.name}/run", fault.on_robot)
        place = Place(run, workshop.logs, workshop.domain)
        words = stack.enter_context(fault.beside(place))
        with workshop.play(run, words) as played:
            trial = _hurt(workshop, played, fault, case, draw)
        told = "" if trial.finished else _resumed(workshop, place, words)
        return _judged(trial, place, told, expected)


def _resumed(workshop: Workshop, place: Place, words: tuple[str, ...]) -> str:
    """Go on with `--resume`; why the run doesn't come to its end then, or nothing."""
    with workshop.play(place.run, words) as played:
        end = played.wait(WHOLE_S)
        return _complaint(played, None if end is None else end.code)


def _hurt(
    workshop: Workshop, played: PlayedRun, fault: Fault, case: Case, draw: random.Random
) -> Trial:
    """Let it happen in the part of the run in which it shall."""
    pid = _wait_for(played, case)
    time.sleep(draw.uniform(0.0, LATEST_S))
    phase, at = played.phase, time.monotonic()
    try:
        fault.begin(played, case.node, pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        raise RunError(f"{case}: the process ended before") from None
    try:
        if fault.lasts_s:
            played.wait(fault.lasts_s)
        else:
            workshop.wait_for_end(played)
    finally:
        fault.end()
    trial = workshop.outcome(played, case.fault.name, case.node, phase, at)
    moving = phase == "episode" and workshop.was_commanded(played, at)
    awaited = case.mode == REAL_TIME and moving and case.node in fault.awaited
    return trial._replace(awaited=awaited)


def _wait_for(played: PlayedRun, case: Case) -> int:
    """Wait for the part of the run, and for the process that shall be hit; returns its PID."""
    target = case.node if case.node in NODES else UP
    deadline = time.monotonic() + WHOLE_S
    while time.monotonic() < deadline:
        pid = played.pid(target)
        if pid is not None and played.phase == case.phase:
            return pid
        if played.wait(0.01) is not None:
            break
    raise RunError(f"{case}: the run ended before; {played.output.splitlines()[-1:]}")


def _complaint(played: PlayedRun, code: int | None) -> str:
    """Why the resumed run isn't finished; empty: it is."""
    if code == 0:
        return ""
    last = played.output.splitlines()[-1:]
    return RESUMED + ("it hangs" if code is None else " ".join(last) or f"exit code {code}")


def _judged(trial: Trial, place: Place, complaint: str, expected: Mapping[str, str]) -> Trial:
    """A trial with what the finished run, compared with one without a fault, adds to it."""
    defects = [*trial.defects, *([complaint] if complaint else [])]
    identical = None
    if not complaint and trial.mode == LOCKSTEP:
        try:
            found = differences(expected, remains_of(place.run))
        except HucrlError as error:
            found = [str(error)]
        identical = not found
        defects += [RESUMED + line for line in found]
    return trial._replace(finished=not complaint, identical=identical, defects=tuple(defects))
