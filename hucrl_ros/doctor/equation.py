"""How a joint answers tiny pulses of effort, as a linear equation.

Around where it is, a joint's own equation of motion is taken for

    q'' + c_1 q_1'' + ... + c_n q_n''
        = b u(t - d) - f sign(q') + c + k_1 q_1 + ... + k_n q_n + v q'

with the effort u. The c_j, by which the other joints take part, are told by the model
(`inertia`): so it doesn't count whether these follow or friction holds them. Constant, stiffness
and damping stand for gravity, springs and the swinging of the other joints, so that this passive
motion isn't taken for an answer. Integrated twice, the equation is linear in positions and in all
unknowns but the dead time d, and needs no velocities or accelerations: noise and an encoder's
steps average out. d is that with the least squares.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.course import Lateness, Stamps
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.doctor.evidence import Array, least_step
from hucrl_ros.doctor.record import Record, Trial

BEFORE = 0.5
"""Pulses before the first one that are looked at, too."""
SMOOTHING_S = 0.02
"""[s] Over which a velocity is averaged, of which only the sign counts."""
SLOW = 0.05
"""Share of the largest velocity below which friction has no full sign."""
STILL = 1.5
"""Steps of the sensor within which a joint stands still."""
NOISY = 7.0
"""Deviations of its noise within which it does."""


def transport_ns(record: Record, at_ns: Sequence[int]) -> Stamps:
    """What joint states take from their stamps to this machine, with the clocks' difference.

    Args:
        record: Of all joint states.
        at_ns: When, by this machine's clock, as the driver's may run at another speed [ns].
    """
    stamps, received = (np.array(x, np.int64) for x in (record.stamps_ns, record.received_ns))
    return Lateness(stamps, received).at(np.array(at_ns, np.int64))


def sensor_step(positions: Array, joint: int, coupling: Sequence[float] | Array = ()) -> float:
    """Step of the sensors in a joint's q + c_1 q_1 + ... + c_n q_n [rad or m].

    Args:
        positions: Of all joints `(k, joints)` [rad or m].
        joint: Its index.
        coupling: c_j `(joints,)`; empty: all are 0.
    """
    steps = np.array([least_step(column) for column in positions.T])
    others = steps * np.array(coupling) if len(coupling) else np.zeros(0)
    return float(np.linalg.norm([steps[joint], *others]))


class Window(NamedTuple):
    """Motion around a trial."""

    trial: Trial
    origin: Array
    """`(joints,)` where the robot was at first [rad or m]."""
    times: Array
    """`(k,)` since the first pulse was sent [s]."""
    positions: Array
    """`(k, joints)` [rad or m]."""
    motion: Array
    """`(k,)` q + c_1 q_1 + ... + c_n q_n [rad or m]."""
    steps: tuple[Array, Array]
    """Times `(s,)` [s] and sizes `(s,)` of the changes of the joint's effort [N m or N]."""
    still: bool
    """The joint stood still before."""
    doubt: float
    """Deviation of the motion that the sensors' steps make [rad or m]."""
    changes: NDArray[np.intp]
    """`(c,)` where the joint's position differs from the next one."""
    speed: Array
    """`(k,)` of the joint, of which only the sign counts [rad/s or m/s]."""


def window_of(
    record: Record, trial: Trial, joint: int, coupling: Sequence[float] | Array = ()
) -> Window:
    """What a joint did around a trial, by this machine's clock.

    Args:
        record: Of all joints.
        trial: That is looked at.
        joint: Index in the positions.
        coupling: c_j of each joint `(joints,)`; empty: all are 0.
    """
    stamps = np.array(record.stamps_ns, np.int64) + transport_ns(record, [trial.sent_ns])
    times = (stamps - trial.sent_ns) / NANOSECONDS
    chosen = (times >= -BEFORE * trial.pulse) & (times <= 2.0 * trial.pulse)
    every = np.array(record.positions)
    positions = every[chosen]
    motion = positions[:, joint] + (positions @ np.array(coupling) if len(coupling) else 0.0)
    efforts = np.array(record.commands)[:, trial.motor]
    changes = np.diff(efforts, prepend=0.0)
    sent = (np.array(record.sent_ns, np.int64) - trial.sent_ns) / NANOSECONDS
    near = (changes != 0.0) & (sent > -2.0 * trial.pulse) & (sent < 2.0 * trial.pulse)
    before = every[(times >= -2.0 * BEFORE * trial.pulse) & (times < 0.0)][:, joint]
    step = max(least_step(every[:, joint]), 1e-6)
    noise = np.std(np.diff(before)) / 2**0.5 if len(before) > 1 else 0.0
    still = bool(len(before) and np.ptp(before) < max(STILL * step, NOISY * noise))
    doubt = sensor_step(every, joint, coupling) / 12**0.5
    steps = sent[near], changes[near]
    speed: Array = np.zeros(len(motion))
    if len(motion) > 1:
        speed = _smooth(np.gradient(positions[:, joint], times[chosen]), times[chosen])
    changing = np.flatnonzero(np.diff(positions[:, joint]))
    times = times[chosen]
    return Window(trial, every[0], times, positions, motion, steps, still, doubt, changing, speed)


def unexplained(
    window: Window, joint: int, dead_time: float, weights: Array, timeout: float = np.inf
) -> float:
    """Squares that the equation doesn't explain."""
    columns, motion = equation(window, joint, dead_time, timeout)
    return float((independent_rows(window, (motion - columns @ weights)[:, None]) ** 2).sum())


def refined(window: Window, joint: int, dead_time: float, weights: Array) -> Window:
    """With the speed that the equation tells: that of few sensor steps comes late."""
    columns, motion = equation(window, joint, dead_time)
    explained = columns @ weights
    uniform = np.polyfit(window.times, motion - explained, 1)[0]
    others = np.gradient(motion - window.positions[:, joint], window.times)
    speed = np.gradient(explained, window.times) + uniform - _smooth(others, window.times)
    return window._replace(speed=speed)


def equation(
    window: Window, joint: int, dead_time: float, timeout: float = np.inf
) -> tuple[Array, Array]:
    """Columns `(k, 4 + joints)` of the unknowns, and the motion `(k,)`.

    Args:
        window: Of a trial.
        joint: That was moved.
        dead_time: d [s].
        timeout: After which each pulse ends by itself [s].
    """
    times, positions = window.times, window.positions
    answered = _second_integral_of_steps(window, times, dead_time, timeout)
    sign = np.tanh(window.speed / max(SLOW * float(np.abs(window.speed).max()), 1e-12))
    away = positions - window.origin
    # What stands still is held by friction, whatever pulls at it.
    free = (times >= dead_time) if window.still else np.ones(len(times), dtype=np.bool_)
    accelerations = [-sign * free, 1.0 * free, *(away * free[:, None]).T]
    columns = [_integral(_integral(each, times), times) for each in accelerations]
    damping = _integral(away[:, joint] - away[0, joint], times)
    return np.stack([answered, *columns, damping], axis=1), window.motion


def independent_rows(window: Window, columns: Array) -> Array:
    """`(c, m)` of columns `(k, m)` what counts, without the part of a uniform motion.

    Between two readings of an encoder that differ, where it is is known well; while they don't,
    it may be anywhere within a step.
    """

    def between(values: Array) -> Array:
        middle: Array = 0.5 * (values[window.changes] + values[window.changes + 1])
        return middle

    times, columns = between(window.times), between(columns)
    # From standing still it begins without speed.
    uniform = np.stack([np.ones(len(times)), times], axis=1)[:, : 1 if window.still else 2]
    basis = np.linalg.qr(uniform)[0]
    rest: Array = columns - basis @ (basis.T @ columns)
    return rest


def _second_integral_of_steps(
    window: Window, times: Array, dead_time: float, timeout: float
) -> Array:
    """Of the effort, which is exact between two joint states, too."""
    begins, sizes = window.steps
    if np.isfinite(timeout):  # each of the two pulses ends by itself
        pulse, effort = window.trial.pulse, window.trial.effort
        second = next((t for t in begins.tolist() if t > 0.5 * pulse), pulse)
        begins = np.array([0.0, min(timeout, second), second, second + timeout])
        sizes = np.array([effort, -effort, -effort, effort])
    past = np.maximum(times[:, None] - begins - dead_time, 0.0)
    integral: Array = 0.5 * past**2 @ sizes
    return integral


def _integral(values: Array, times: Array) -> Array:
    """From the first time on, by trapezoids."""
    areas = 0.5 * (values[1:] + values[:-1]) * np.diff(times)
    integral: Array = np.concatenate([[0.0], np.cumsum(areas)])
    return integral


def _smooth(values: Array, times: Array) -> Array:
    """Means over `SMOOTHING_S` around each time, of three values at least."""
    width = max(round(SMOOTHING_S / float(np.median(np.diff(times)))) | 1, 3)
    padded: Array = np.pad(values, width // 2, mode="edge")
    smooth: Array = np.convolve(padded, np.full(width, 1.0 / width), mode="valid")
    return smooth
