"""What a person should know of a recorded episode, one line each."""

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.course import Course, Heard, contiguous, drift, roughness
from hucrl_ros.config.robot import RobotSpec

MOST_GAPS = 1000
"""Gaps that are told one by one."""
LATE = 0.5
"""`drift` that is worth a word [control periods]."""
ROUGH = 0.08
"""`roughness` above which velocities are worth a word."""


def begins_late(late_ns: int) -> str:
    """The first tick's joint state wasn't recorded, and the next one is that much later [ns]."""
    return (
        f"the first tick's joint state is missing; the episode begins {late_ns / 1e6:.1f} ms later"
    )


def cut(reached: int, steps: int, surprise: float) -> str:
    """The controller ended it, as the robot surprised."""
    return (
        f"ended after {reached} of {steps} steps, at a surprise of {surprise:.1f} standard "
        "deviations; its return doesn't count"
    )


def drifted(heard: Heard, period: float) -> list[str]:
    """Who recorded, or the clock of the stamps, was late at times."""
    late = drift(heard)
    if late <= LATE * period:
        return []
    return [
        f"joint states were recorded up to {1e3 * late:.0f} ms later behind their stamps at one "
        "time than at another, so it isn't known better when commands acted: driver or recorder "
        "are held up (control.realtime_priority), the driver's clock runs at another speed, or a "
        "clock was set; where efforts aren't reported, steps that this puts a period off are left "
        "out"
    ]


def rough_velocities(course: Course, spec: RobotSpec) -> list[str]:
    """Velocities that aren't the slopes of the positions."""
    shares = roughness(course, len(spec.joint_names), spec.period)
    return [
        f"velocities of joint {joint!r} "
        + (
            f"differ from the slopes of its positions by {share:.0%} of their own deviation"
            if np.isfinite(share)
            else "are always the same, while its positions change"
        )
        + ": have them derived, with driver.velocity = derived"
        for joint, share in zip(spec.joint_names, shares, strict=True)
        if share > ROUGH
    ]


def gaps(
    stamps: NDArray[np.int64], sound: NDArray[np.bool_], period: float, ticks: NDArray[np.void]
) -> list[str]:
    """What is missing between states, `period` [s] apart where they are sound, and ticks."""
    events = []
    near = contiguous(stamps, period)
    gaps = np.flatnonzero(~sound)
    for k in gaps[:MOST_GAPS]:
        gap = (stamps[k + 1] - stamps[k]) / 1e6
        what = (
            "joint states are missing around it, or were recorded too late to tell what acted"
            if near[k]
            else f"{gap:.1f} ms until the next joint state"
        )
        events.append(f"step {k}: {what}; left out")
    if len(gaps) > MOST_GAPS:
        events.append(f"{len(gaps) - MOST_GAPS} more steps; left out")
    if ticks["step"][0] != 0:
        events.append(f"the first recorded tick is that of step {ticks['step'][0]}")
    jumps = np.flatnonzero(np.diff(ticks["step"]) != 1)
    for k in jumps:
        before, after = ticks["step"][k], ticks["step"][k + 1]
        events.append(f"step {before}: the next recorded tick is that of step {after}")
    return events
