"""How the outcome of a campaign is shown, and written."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from hucrl_ros.benchmarks import Output
from hucrl_ros.benchmarks.faults.trial import FaultRow, Trial, rows_of
from hucrl_ros.config.files import write_atomically
from hucrl_ros.errors import shortened
from hucrl_ros.experiments.presentation import Column, Table, write_page

TOLD_LETTERS = 160
"""Of what the user saw, in a table."""


def _safe(row: FaultRow) -> str:
    """p50, p99.9 and largest time to the safe command [ms]."""
    if not row.awaited:
        return "–"
    none = f", {row.missing} of {row.awaited} none" if row.missing else ""
    if math.isnan(row.safe.p50):
        return none.removeprefix(", ")
    tail = "–" if math.isnan(row.safe.p999) else f"{row.safe.p999:.1f}"
    return f"{row.safe.p50:.1f} / {tail} / {row.safe.max:.1f}{none}"


def _identical(row: FaultRow) -> str:
    return f"{row.identical} of {row.compared}" if row.compared else "–"


FAULTS = Table[FaultRow](
    (
        Column("fault", lambda row: row.fault, "<16"),
        Column("node", lambda row: row.node, "<11"),
        Column("mode", lambda row: row.mode.replace("_", " "), "<9"),
        Column("times", lambda row: f"{row.trials}", ">5"),
        Column("in phase", lambda row: row.phases, "<44"),
        Column("ms to safe, p50 / p99.9 / max", _safe, ">30"),
        Column("lost", lambda row: f"{row.lost}", ">4"),
        Column("commands", lambda row: f"{row.commands}", ">8"),
        Column("unsafe", lambda row: f"{row.unsafe}", ">6"),
        Column("finished", lambda row: f"{row.finished}", ">8"),
        Column("identical", _identical, ">9"),
        Column("defects", lambda row: f"{row.defects}", ">7"),
    )
)
SAID = Table[FaultRow](
    (
        Column("fault", lambda row: row.fault),
        Column("node", lambda row: row.node),
        Column("mode", lambda row: row.mode.replace("_", " ")),
        Column("what the user saw most often", lambda row: shortened(row.told, TOLD_LETTERS)),
    )
)


def told(trial: Trial) -> str:
    """What came of a fault, in one line."""
    safe = f"safe command after {1e3 * trial.safe_s:.1f} ms, " if trial.awaited else ""
    identical = {True: ", identical", False: ", DIFFERENT", None: ""}[trial.identical]
    return (
        f"({trial.phase}) {safe}lost {trial.lost}, {trial.commands} commands, "
        f"{trial.unsafe} unsafe{identical}; {trial.told or '–'}"
        + "".join(f"; DEFECT: {defect}" for defect in trial.defects)
    )


def totals(trials: Sequence[Trial], commands: int, unsafe: int) -> str:
    """One line on everything; the commands are those of all sessions, also of resumed ones."""
    compared = [trial for trial in trials if trial.identical is not None]
    same = sum(trial.identical is True for trial in compared)
    return (
        f"{len(trials)} faults, {commands} commands at the robot, {unsafe} of them unsafe; "
        f"{sum(t.lost for t in trials)} transitions lost; "
        f"{same} of {len(compared)} finished with the identical result; "
        f"{sum(bool(t.defects) for t in trials)} with a defect"
    )


def as_json(trials: Sequence[Trial]) -> str:
    """A list of objects; null: unknown."""
    flat = [
        {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in t._asdict().items()}
        for t in trials
    ]
    return json.dumps(flat, indent=1)


def write_faults(
    folder: Path, trials: Sequence[Trial], total: str, untried: Sequence[str], output: Output
) -> list[Path]:
    """Write `trials.json` and `README.md`; returns them.

    Args:
        folder: Where they go.
        trials: At least one.
        total: The line of `totals`.
        untried: What could not be tried, and why, one line each.
        output: What made them.
    """
    data = folder / "trials.json"
    write_atomically(data, f"{as_json(trials)}\n")
    rows = rows_of(trials)
    defects = sorted({f"{t.fault}, {t.node}: {line}" for t in trials for line in t.defects})
    page = write_page(
        folder / "README.md",
        "Bad days of a run",
        f"Machine: {output.machine}. Made by",
        output.command,
        f"{total}.",
        "*ms to safe*: from the fault to the first safe command at the robot, of the faults in "
        "an episode in real time after which one has to come. *Lost*: ticks that were heard more "
        "than 0.1 s before the fault and are in no bag. *Finished*: the run came to its end, with "
        "`--resume` where it needed that. *Identical*: it has the states, actions, bundles, "
        "weights and summary of a run without a fault, to the last bit (lockstep). *Unsafe*: "
        "beyond the limits, not finite, or of another length. Each fault is in "
        "[trials.json](trials.json).",
        FAULTS.markdown(rows),
        SAID.markdown([row for row in rows if row.told]),
        _listed("What mustn't be:", defects),
        _listed("Not tried here:", untried),
    )
    return [data, page]


def _listed(title: str, lines: Sequence[str]) -> str:
    return "\n".join([title, "", *(f"- {line}" for line in lines)]) if lines else ""
