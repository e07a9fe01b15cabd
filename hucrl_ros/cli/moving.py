"""`hucrl check --move`: asks, has the robot moved, shows what was measured, and writes it."""

import difflib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hucrl_ros.errors import RunError

if TYPE_CHECKING:
    from hucrl_ros.config.edit import NewSetting
    from hucrl_ros.config.robot import RobotSettings
    from hucrl_ros.doctor.pulses import Bounds
    from hucrl_ros.run.asked import AskedRun


def check_consent(yes: bool) -> None:
    """Refuse early where nobody could agree.

    Raises:
        RunError: there is no terminal to ask on.
    """
    if not yes and not sys.stdin.isatty():
        raise RunError("--move asks first, and there is no terminal: pass --yes to agree")


def move_robot(
    robot: "AskedRun",
    environment: Mapping[str, str],
    efforts: tuple[float, float],
    path: Path | None,
    yes: bool,
    write: bool,
) -> bool:
    """Move a robot that was listened to; returns whether something is wrong with it.

    Args:
        robot: What it is, and its settings.
        environment: Variables of the processes that move it.
        efforts: First and largest one, as shares of the limit.
        path: The user's YAML whose settings hold; None: those of one of the program's tasks do.
        yes: Don't ask whether it may move.
        write: Don't ask whether to write what was measured.

    Raises:
        RunError: nobody agreed, or the process that moves the robot ended by itself.
    """
    from hucrl_ros.cli.doctor import print_findings
    from hucrl_ros.doctor.move import bounds_of, move
    from hucrl_ros.doctor.verdict import examine_motion

    config, described = robot
    bounds = bounds_of(described)
    print(_announcement(described.robot, bounds, *efforts))
    if not yes and input("type yes: ").strip().lower() != "yes":
        raise RunError("nothing was moved")
    print("moving; Ctrl-C stops it with zero effort", flush=True)
    record = move(described, config, bounds, *efforts, environment)
    verdict = examine_motion(record, described, config)
    print()
    faults = print_findings(verdict.findings.items(), "looking at what it did")
    if verdict.suggestions:
        _offer(verdict.suggestions, path, write, bool(faults))
    return bool(faults)


def _announcement(
    robot: "RobotSettings", bounds: "Mapping[str, Bounds]", share: float, cap: float
) -> str:
    from hucrl_ros.doctor.pulses import UNITS

    turns = ", one after the other" if len(robot.actuated) > 1 else ""
    ends = ", ".join(
        f"{name} goes {each.way:g} {UNITS[each][0]} from its place or {each.speed:g} "
        f"{UNITS[each][0]}/s fast"
        for name, each in bounds.items()
    )
    return (
        f"\nThe robot will move: {', '.join(robot.actuated)}{turns}, by pulses of {share:.0%} to "
        f"{cap:.0%} of the effort limit, half a minute or so for each.\n"
        "All efforts are zero before, between and after them: what doesn't stay by itself falls.\n"
        f"It ends where {ends}.\n"
        "Have the hardware stop within reach."
    )


def _offer(
    suggestions: "Sequence[NewSetting]", path: Path | None, write: bool, faulty: bool
) -> None:
    """Show the settings, and write them where that is wished."""
    from hucrl_ros.config.edit import put_settings, setting_lines, write_settings

    print("\nmeasured, for '/**: ros__parameters:' of the robot's YAML:\n")
    print("\n".join(f"    {line}" for line in setting_lines(suggestions)))
    if path is None or faulty:
        why = "they go with faults" if faulty else "a task of the program has no YAML of yours"
        print(f"\nnot written: {why}")
        return
    if not write and not sys.stdin.isatty():
        print(f"\nnot written: --write puts them into {path}")
        return
    text = put_settings(path, suggestions)
    old = path.read_text(encoding="utf-8").splitlines()
    if text.splitlines() == old:
        print(f"\n{path} says so already")
        return
    print("\n" + "\n".join(difflib.unified_diff(old, text.splitlines(), str(path), lineterm="")))
    if write or input(f"\nwrite this into {path}? [y/N] ").strip().lower() in ("y", "yes"):
        write_settings(path, text)
        print(f"\nwritten: {path}")
