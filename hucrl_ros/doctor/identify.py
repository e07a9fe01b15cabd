"""What tiny pulses say of a joint: gain, friction, dead time, the driver's timeout."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hucrl_ros.doctor.equation import (
    Window,
    equation,
    independent_rows,
    refined,
    unexplained,
    window_of,
)
from hucrl_ros.doctor.evidence import Array
from hucrl_ros.doctor.record import Record, Trial

LONGEST_DEAD_TIME, STEP_S = 0.1, 5e-4
"""[s] That is looked for, and the steps in which it is."""
ROUGH_S = 5e-3
"""[s] The steps where only the motion counts."""
NEAR = 4
"""Steps from the best one that a parabola is laid through."""
SURE = 3.0
"""Times that a gain exceeds its error where a joint clearly moves."""
REFINEMENTS = 3
"""Of that velocity, by the equation itself."""
ODD = 10.0
"""Times the others' squares from which on a pulse doesn't count: a busy machine sent it late."""
STIFF, DAMPED = 100.0, 10.0
"""[1/s²] and [1/s] Beyond which stiffness and damping are unusual."""
DAMPING = 0.25
"""Share of the effort that damping takes where it would stop a joint within a pulse, about."""
FEWEST = 8
"""Joint states that a pulse has to have."""
EARLIER = 0.8
"""Share of a silent pulse before which its effect must end to be the driver's timeout."""
BETTER = 0.2
"""And by which that must explain the motion better: the remaining share of squares."""


class Motion(NamedTuple):
    """What was found of an actuated joint; errors are two standard deviations."""

    gain: float
    """b, the other joints held [rad/s² per N m, m/s² per N]."""
    gain_error: float
    friction: float
    """f / |b| [N m or N]."""
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


def identify(
    record: Record, motor: int, joint: int, coupling: Sequence[float] | Array = ()
) -> Motion | None:
    """What pulses say of an actuated joint; None: it never clearly moved.

    Only those like the last ones count: the ones before did not move it clearly.

    Args:
        record: Of all joints.
        motor: Index of the joint among the actuated ones.
        joint: Its index in the positions.
        coupling: Of the joints `(joints,)`, see `inertia.Inertia`; empty: all are 0.
    """
    trials = [trial for trial in record.trials if trial.motor == motor]
    silent = _windows(record, [trial for trial in trials if trial.silent], joint, coupling)
    loud = [trial for trial in trials if not trial.silent]
    last = [t for t in loud if (abs(t.effort), t.pulse) == (abs(loud[-1].effort), loud[-1].pulse)]
    windows = _windows(record, last, joint, coupling)
    if not (silent and windows):
        return None
    fit, dead_time, dead_time_error = _best(windows, joint, STEP_S)
    for _ in range(REFINEMENTS):
        left = np.array([unexplained(each, joint, dead_time, fit.weights) for each in windows])
        windows = [
            refined(window, joint, dead_time, fit.weights)
            for window, squares in zip(windows, left, strict=True)
            if squares <= ODD * np.median(left)
        ]
        fit, dead_time, dead_time_error = _best(windows, joint, STEP_S)
    gain, friction = fit.weights[:2].tolist()
    if not gain:
        return None
    gain_error, friction_error = (2.0 * fit.errors[:2]).tolist()
    return Motion(
        gain,
        gain_error,
        friction / abs(gain),
        friction_error / abs(gain),
        dead_time,
        dead_time_error,
        1.0 - fit.squares / max(fit.total, 1e-300),
        _timeout(silent, joint, dead_time, fit.weights),
        min(window.trial.pulse for window in silent),
    )


class Departure(NamedTuple):
    """What a pulse does to a joint."""

    way: float
    """0 where it isn't sure [rad or m]."""
    rubbing: float
    """Share of the effort that friction and damping take, about [1]."""


def departure(
    record: Record, trials: Sequence[Trial], joint: int, coupling: Sequence[float] | Array = ()
) -> "Departure":
    """How far a pulse brings a joint, as far as that is sure.

    With `coupling`, see `identify`, that is with the other joints held.
    """
    windows = _windows(record, trials, joint, coupling)
    if len(windows) < len(trials):
        return Departure(0.0, 1.0)
    fit, _, _ = _best(windows, joint, ROUGH_S)
    gain, error = abs(float(fit.weights[0])), 2.0 * float(fit.errors[0])
    friction, effort = abs(float(fit.weights[1])) / max(gain, 1e-300), abs(trials[0].effort)
    if SURE * error >= gain or fit.weights[0] * _followed(windows, joint) < 0.0:
        return Departure(0.0, 1.0)
    seen = max(float(np.ptp(window.positions[:, joint])) for window in windows)
    way = 0.5 * gain * (effort - friction) * trials[0].pulse ** 2
    damped = DAMPING * max(-float(fit.weights[-1]), 0.0) * trials[0].pulse
    return Departure(min(way, seen), friction / effort + damped)


def _followed(windows: Sequence[Window], joint: int) -> float:
    """Whether a joint went along with the first pulses (> 0) or against them (< 0)."""
    ways = []
    for window in windows:
        begin, end = np.searchsorted(window.times, [0.0, window.trial.pulse]).tolist()
        there = window.positions[min(end, len(window.times) - 1), joint]
        ways.append(window.trial.effort * (there - window.positions[begin, joint]))
    return float(np.sum(ways))


def _windows(
    record: Record, trials: Sequence[Trial], joint: int, coupling: Sequence[float] | Array
) -> list[Window]:
    """Of the trials that enough joint states tell of: a busy machine may have heard none."""
    found = (window_of(record, trial, joint, coupling) for trial in trials)
    return [window for window in found if len(window.times) >= FEWEST]


def _best(windows: Sequence[Window], joint: int, finest: float) -> tuple["_Fit", float, float]:
    """The best fit, its dead time, and twice that one's standard deviation [s]."""
    doubt = 0.0
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
        if not friction:  # What isn't fitted is 0, but known no better than before.
            fit.weights[1], fit.errors[1] = 0.0, doubt
        if fit.weights[1] >= 0.0:  # or it would drive
            break
        doubt = max(float(fit.errors[1]), -0.5 * float(fit.weights[1]))
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


def _fit(windows: Sequence[Window], joint: int, dead_time: float, with_friction: bool) -> _Fit:
    parts = []
    for window in windows:
        columns, motion = equation(window, joint, dead_time)
        parts.append(independent_rows(window, np.column_stack([columns, motion])))
    every = np.concatenate(parts)
    # Of few sensor steps any stiffness explains something: none is large without need.
    passive = every.shape[1] - 4
    usual = np.zeros((passive, every.shape[1]))
    usual[:, 3:-1] = windows[0].doubt * np.diag([1 / STIFF] * (passive - 1) + [1 / DAMPED])
    every = np.concatenate([every, usual])
    matrix, motion = every[:, :-1], every[:, -1]
    matrix[:, 1] *= with_friction
    scale = np.maximum(np.sqrt((matrix**2).sum(axis=0)), 1e-12)
    inverse = np.linalg.pinv(matrix / scale, rcond=1e-6)
    weights = inverse @ motion
    squares = float(((motion - matrix / scale @ weights) ** 2).sum())
    variance = squares / max(len(motion) - len(weights), 1)
    errors = np.sqrt(variance * (inverse**2).sum(axis=1)) / scale
    return _Fit(weights / scale, errors, squares, float((motion**2).sum()), len(motion))


def _timeout(
    windows: Sequence[Window], joint: int, dead_time: float, weights: Array
) -> float | None:
    if not windows:
        return None
    pulse = min(window.trial.pulse for window in windows)
    grid = np.append(np.arange(0.02, pulse, 0.002), np.inf)
    squares = np.zeros(len(grid))
    for window in windows:
        for k, timeout in enumerate(grid.tolist()):
            squares[k] += unexplained(window, joint, dead_time, weights, timeout)
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
