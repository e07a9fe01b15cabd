"""How a joint answers tiny pulses of effort: gain, friction, dead time, the driver's timeout.

Around where it is, a joint's acceleration is taken for

    q'' = b u(t - d) - f sign(q') + c + k_1 q_1 + ... + k_n q_n + v q'

with the effort u. Constant, stiffness and damping stand for gravity, springs and the swinging of
the other joints, so that this passive motion isn't taken for an answer. Integrated twice, the
equation is linear in positions and in all unknowns but the dead time d, and needs no velocities
or accelerations: noise and an encoder's steps average out. d is that with the least squares.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.bags.course import LATENESS
from hucrl_ros.controller.ticks import NANOSECONDS
from hucrl_ros.doctor.evidence import Array, least_step
from hucrl_ros.doctor.record import Record, Trial

BEFORE = 0.5
"""Pulses before the first one that are looked at, too."""
LONGEST_DEAD_TIME, STEP_S = 0.1, 5e-4
"""[s] That is looked for, and the steps in which it is."""
ROUGH_S = 5e-3
"""[s] The steps where only the motion counts."""
NEAR = 4
"""Steps from the best one that a parabola is laid through."""
SURE = 3.0
"""Times that a gain exceeds its error where a joint clearly moves."""
SMOOTHING_S = 0.02
"""[s] Over which a velocity is averaged, of which only the sign counts."""
REFINEMENTS = 3
"""Of that velocity, by the equation itself."""
ODD = 10.0
"""Times the others' squares from which on a pulse doesn't count: a busy machine sent it late."""
SLOW = 0.05
"""Share of the largest velocity below which friction has no full sign."""
STILL = 1.5
"""Steps of the sensor within which a joint stands still."""
EARLIER = 0.8
"""Share of a silent pulse before which its effect must end to be the driver's timeout."""
BETTER = 0.2
"""And by which that must explain the motion better: the remaining share of squares."""


class Motion(NamedTuple):
    """What was found of an actuated joint; errors are two standard deviations."""

    gain: float
    """b [rad/s² per N m, m/s² per N]."""
    gain_error: float
    friction: float
    """f / b [N m or N]."""
    friction_error: float
    dead_time: float
    """d, from sending a command to its effect, by joint states as they come: transport in both
    directions is in it [s]."""
    dead_time_error: float
    explained: float
    """Share of the squared motion that the equation explains [1]."""
    timeout: float | None
    """After which the driver lets go without a new command; None: not while it was waited [s]."""
    silence: float
    """How long it was waited [s]."""


class _Window(NamedTuple):
    """Motion around a trial."""

    trial: Trial
    origin: Array
    """`(joints,)` where the robot was at first [rad or m]."""
    times: Array
    """`(k,)` since the first pulse was sent [s]."""
    positions: Array
    """`(k, joints)` [rad or m]."""
    steps: tuple[Array, Array]
    """Times `(s,)` [s] and sizes `(s,)` of the changes of the joint's effort [N m or N]."""
    still: bool
    """The joint stood still before."""
    changes: NDArray[np.intp]
    """`(c,)` where the joint's position differs from the next one."""
    speed: Array
    """`(k,)` of the joint, of which only the sign counts [rad/s or m/s]."""


def transport_ns(record: Record) -> int:
    """What joint states take from their stamps to this machine, with the clocks' difference."""
    late = np.array(record.received_ns, np.int64) - np.array(record.stamps_ns, np.int64)
    return round(float(np.percentile(late, LATENESS)))


def identify(record: Record, motor: int, joint: int) -> Motion | None:
    """What pulses say of an actuated joint; None: it never clearly moved.

    Only those like the last ones count: the ones before did not move it clearly.

    Args:
        record: Of all joints.
        motor: Index of the joint among the actuated ones.
        joint: Its index in the positions.
    """
    trials = [trial for trial in record.trials if trial.motor == motor]
    silent = [_window(record, trial, joint) for trial in trials if trial.silent]
    if not silent:
        return None
    loud = [trial for trial in trials if not trial.silent]
    windows = [
        _window(record, trial, joint)
        for trial in loud
        if abs(trial.effort) == abs(loud[-1].effort) and trial.pulse == loud[-1].pulse
    ]
    fit, dead_time, dead_time_error = _best(windows, joint, STEP_S)
    for _ in range(REFINEMENTS):
        left = np.array([_left(each, joint, dead_time, fit.weights) for each in windows])
        windows = [
            _refined(window, joint, dead_time, fit.weights)
            for window, squares in zip(windows, left, strict=True)
            if squares <= ODD * np.median(left)
        ]
        fit, dead_time, dead_time_error = _best(windows, joint, STEP_S)
    gain, friction = fit.weights[:2].tolist()
    gain_error, friction_error = (2.0 * fit.errors[:2]).tolist()
    return Motion(
        gain,
        gain_error,
        friction / gain,
        friction_error / abs(gain),
        dead_time,
        dead_time_error,
        1.0 - fit.squares / max(fit.total, 1e-300),
        _timeout(silent, joint, dead_time, fit.weights),
        min(window.trial.pulse for window in silent),
    )


def departure(record: Record, trials: Sequence[Trial], joint: int) -> float:
    """How far a pulse brings a joint, as far as that is sure; 0 where it isn't [rad or m]."""
    windows = [_window(record, trial, joint) for trial in trials]
    fit, _, _ = _best(windows, joint, ROUGH_S)
    gain, error = abs(float(fit.weights[0])), 2.0 * float(fit.errors[0])
    push = abs(trials[0].effort) - abs(float(fit.weights[1])) / max(gain, 1e-300)
    return 0.5 * gain * push * trials[0].pulse ** 2 if SURE * error < gain else 0.0


def _best(windows: Sequence["_Window"], joint: int, finest: float) -> tuple["_Fit", float, float]:
    """The best fit, its dead time, and twice that one's standard deviation [s]."""
    for friction in (True, False):
        middle, reach, step = 0.5 * LONGEST_DEAD_TIME, 0.5 * LONGEST_DEAD_TIME, ROUGH_S
        while True:
            low = max(middle - reach, 0.0)
            grid = np.arange(low, middle + reach + 0.5 * step, step, dtype=np.float64)
            tried = [_fit(windows, joint, d, friction).squares for d in grid.tolist()]
            dead_time, curvature = _vertex(grid, np.array(tried))
            if step <= finest:
                break
            middle, reach, step = dead_time, ROUGH_S, finest
        fit = _fit(windows, joint, dead_time, friction)
        if fit.weights[0] * fit.weights[1] >= 0.0:  # or it would drive
            break
    variance = fit.squares / max(fit.rows - len(fit.weights), 1)
    error = 2.0 * float(np.sqrt(2.0 * variance / curvature)) if curvature > 0 else finest
    return fit, dead_time, max(error, finest)


class _Fit(NamedTuple):
    weights: Array
    """Of gain, friction, then the passive motion."""
    errors: Array
    squares: float
    """Sum of what isn't explained."""
    total: float
    """Sum without any explanation but a uniform motion."""
    rows: int


def _window(record: Record, trial: Trial, joint: int) -> _Window:
    stamps = np.array(record.stamps_ns, np.int64) + transport_ns(record)
    times = (stamps - trial.sent_ns) / NANOSECONDS
    chosen = (times >= -BEFORE * trial.pulse) & (times <= 2.0 * trial.pulse)
    every = np.array(record.positions)
    positions = every[chosen]
    efforts = np.array(record.commands)[:, trial.motor]
    changes = np.diff(efforts, prepend=0.0)
    sent = (np.array(record.sent_ns, np.int64) - trial.sent_ns) / NANOSECONDS
    near = (changes != 0.0) & (sent > -2.0 * trial.pulse) & (sent < 2.0 * trial.pulse)
    before = every[(times >= -2.0 * BEFORE * trial.pulse) & (times < 0.0)][:, joint]
    step = max(least_step(every[:, joint]), 1e-6)
    still = bool(len(before) and np.ptp(before) < STILL * step)
    steps = sent[near], changes[near]
    speed = _smooth(np.gradient(positions[:, joint], times[chosen]), times[chosen])
    changing = np.flatnonzero(np.diff(positions[:, joint]))
    return _Window(trial, every[0], times[chosen], positions, steps, still, changing, speed)


def _left(
    window: _Window, joint: int, dead_time: float, weights: Array, timeout: float = np.inf
) -> float:
    """Squares that the equation doesn't explain."""
    columns, motion = _equation(window, joint, dead_time, timeout)
    return float((_rows(window, (motion - columns @ weights)[:, None]) ** 2).sum())


def _refined(window: _Window, joint: int, dead_time: float, weights: Array) -> _Window:
    """With the speed that the equation tells: that of few sensor steps comes late."""
    columns, motion = _equation(window, joint, dead_time)
    explained = columns @ weights
    uniform = np.polyfit(window.times, motion - explained, 1)[0]
    return window._replace(speed=np.gradient(explained, window.times) + uniform)


def _fit(windows: Sequence[_Window], joint: int, dead_time: float, with_friction: bool) -> _Fit:
    parts = []
    for window in windows:
        columns, motion = _equation(window, joint, dead_time)
        parts.append(_rows(window, np.column_stack([columns, motion])))
    every = np.concatenate(parts)
    matrix, motion = every[:, :-1], every[:, -1]
    matrix[:, 1] *= with_friction
    scale = np.maximum(np.sqrt((matrix**2).sum(axis=0)), 1e-12)
    inverse = np.linalg.pinv(matrix / scale, rcond=1e-6)
    weights = inverse @ motion
    squares = float(((motion - matrix / scale @ weights) ** 2).sum())
    variance = squares / max(len(motion) - len(weights), 1)
    errors = np.sqrt(variance * (inverse**2).sum(axis=1)) / scale
    return _Fit(weights / scale, errors, squares, float((motion**2).sum()), len(motion))


def _equation(
    window: _Window, joint: int, dead_time: float, timeout: float = np.inf
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
    return np.stack([answered, *columns, damping], axis=1), positions[:, joint]


def _rows(window: _Window, columns: Array) -> Array:
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
    window: _Window, times: Array, dead_time: float, timeout: float
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


def _timeout(
    windows: Sequence[_Window], joint: int, dead_time: float, weights: Array
) -> float | None:
    if not windows:
        return None
    pulse = min(window.trial.pulse for window in windows)
    grid = np.append(np.arange(0.02, pulse, 0.002), np.inf)
    squares = np.zeros(len(grid))
    for window in windows:
        for k, timeout in enumerate(grid.tolist()):
            squares[k] += _left(window, joint, dead_time, weights, timeout)
    best = int(squares.argmin())
    found = float(grid[best])
    is_timeout = found < EARLIER * pulse and squares[best] < BETTER * squares[-1]
    return found if is_timeout else None


def _vertex(grid: Array, squares: Array) -> tuple[float, float]:
    """Where a parabola through the least squares has its vertex, and its second derivative."""
    best = min(max(int(squares.argmin()), 1), len(grid) - 2)
    near = slice(max(best - NEAR, 0), best + NEAR + 1)
    square, slope, _ = np.polyfit(grid[near], squares[near], 2)
    if square <= 0:
        return float(grid[best]), 0.0
    vertex = float(np.clip(-slope / (2.0 * square), grid[0], grid[-1]))
    return vertex, 2.0 * float(square)


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
