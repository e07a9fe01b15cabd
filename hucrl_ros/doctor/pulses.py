"""The tiny pulses of `hucrl check --move`: what is to be in force when, and what came of it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hucrl_ros.doctor.equation import sensor_step
from hucrl_ros.doctor.evidence import Array
from hucrl_ros.doctor.identify import departure
from hucrl_ros.doctor.record import Record, Trial

PULSE_S = 0.15
"""[s] Length of a pulse, which one of the opposite sign follows at once: together they leave
neither much speed nor a joint that coasts away."""
PULSE_GAPS = 8
"""Times between two joint states that a pulse lasts at least."""
REST_S, REST_PULSES = 0.5, 3.0
"""[s] Without effort after two pulses, and the same in pulses; the longer one counts."""
FIRST_REST_S = 1.0
"""[s] Without effort before the first ones."""
SWING_S = 1.0
"""[s] Longest further rest, for a joint that swings to come to the other side."""
LOOK_S = 0.02
"""[s] Between two looks whether it has."""
GROWTH = 1.5
"""Of the effort, until a joint clearly moves; then of the pulses, twice."""
GENTLE = 0.3
"""Share of the speeds that joints may have to which the first effort brings them, by the model."""
REPEATS = 3
"""Further pulses of each sign with the effort that moved a joint."""
SILENCE_S = 1.0
"""[s] Longest pulse that is commanded only once."""
RESTLESS = 0.25
"""Share of the way that a joint may go by which it may move in the first rest."""
LEAST_MOTION = 0.01
"""The same share, below which it doesn't clearly move."""
RUBBING = 0.3
"""Share of the effort that friction may take from a joint that others follow."""
RUBBING_ALONE = 0.5
"""And from one that none do: a motion that is stopped at once tells little of the gain."""
COUNTS = 8.0
"""Nor does it below so many steps of its sensor."""


class Bounds(NamedTuple):
    """Where the motion of a joint ends."""

    way: float
    """From where it was at first [rad or m]."""
    speed: float
    """[rad/s or m/s]"""


REVOLUTE, PRISMATIC = Bounds(0.2, 1.0), Bounds(0.05, 0.25)
UNITS = {REVOLUTE: ("rad", "N m"), PRISMATIC: ("m", "N")}
"""Of a joint's position and of its effort, by its bounds."""


class Segment(NamedTuple):
    """Efforts that hold for some time."""

    efforts: Array
    """`(q,)` [N m or N]."""
    seconds: float
    silent: bool = False
    """They are commanded once, not in each control period."""


class Pulses:
    """Decides what is to be in force, one joint after the other, by how they have moved.

    It reads no clock and sends nothing.
    """

    def __init__(
        self,
        record: Record,
        limits: Sequence[float],
        joints: Sequence[int],
        bounds: Mapping[str, Bounds],
        share: float,
        most: float,
        free: Sequence[Sequence[float]],
        coupling: Sequence[Sequence[float]],
    ) -> None:
        """Prepare.

        Args:
            record: Is kept up to date by whoever hears and sends.
            limits: Of each effort `(q,)` [N m or N].
            joints: Index of each actuated joint in the positions `(q,)`.
            bounds: Of each joint, by its name, in the order of the positions.
            share: First effort, as a share of the limit.
            most: Largest effort, likewise.
            free: Acceleration of each joint by a unit of each effort `(q, n)`, as the model says.
            coupling: How the others take part in the motion of each joint `(q, n)`, likewise.
        """
        self._record, self._limits, self._joints = record, limits, joints
        self._bounds, self._names = tuple(bounds.values()), tuple(bounds)
        self._share, self._most = share, most
        self._free, self._coupling = np.abs(np.array(free)), coupling
        self._segments = self._all()
        self._segment = Segment(np.zeros(len(limits)), 0.0)
        self._began = self._end = 0
        self._spoilt = False

    def wanted(self, now_ns: int) -> Segment | None:
        """What is to be sent at `now_ns`; None: all is done.

        Of a silent segment nothing is to be sent again, so it comes with its first moment only.
        """
        while now_ns >= self._end:
            following = next(self._segments, None)
            if following is None:
                return None
            self._segment, self._began = following, now_ns
            self._end = now_ns + round(1e9 * following.seconds)
        return self._segment

    def is_new(self, now_ns: int) -> bool:
        """Whether what `wanted` told at `now_ns` has just begun."""
        return self._began == now_ns

    def spoil(self, now_ns: int) -> None:
        """The present pulse ended early at `now_ns`; it has to be played again."""
        self._spoilt, self._end = True, now_ns

    def problem(self, positions: Sequence[float], velocities: Sequence[float]) -> str:
        """Why the motion has to end at once; empty if it may go on."""
        start = self._record.positions[0]
        for joint, (way, speed) in enumerate(self._bounds):
            name, gone = self._names[joint], positions[joint] - start[joint]
            if not abs(velocities[joint]) <= speed:  # also if it is no number
                return (
                    f"joint {name!r} moves at {velocities[joint]:.3g} a second, beyond {speed:g}"
                )
            if not abs(gone) <= way:
                return f"joint {name!r} is {gone:.3g} from where it was, beyond {way:g}"
        return ""

    def _all(self) -> Iterator[Segment]:
        yield self._rest(FIRST_REST_S)
        positions = np.array(self._record.positions)
        for joint, (way, _) in enumerate(self._bounds):
            if np.ptp(positions[:, joint]) > RESTLESS * way:
                self._record.stopped = (
                    f"joint {self._names[joint]!r} moves by {np.ptp(positions[:, joint]):.3g} "
                    "without effort; bring the robot to rest where it stays by itself"
                )
                return
        stamps = self._record.stamps_ns
        pulse = max(PULSE_S, PULSE_GAPS * float(np.median(np.diff(stamps))) / 1e9)
        for motor, limit in enumerate(self._limits):
            yield from self._move(motor, limit, pulse)

    def _move(self, motor: int, limit: float, pulse: float) -> Iterator[Segment]:
        joint, longest = self._joints[motor], GROWTH * pulse
        gentle = GENTLE * min(
            speed / max(pulse * acceleration, 1e-300)
            for (_, speed), acceleration in zip(self._bounds, self._free[motor], strict=True)
        )
        share = min(self._share, self._most, gentle / limit)
        while True:
            for sign in (1.0, -1.0):
                yield from self._trial(motor, sign * share * limit, pulse)
            trials, coupling = self._record.trials[-2:], self._coupling[motor]
            gone = departure(self._record, trials, joint, coupling)
            # What friction does isn't told from what other joints do, where it is most of it.
            most = RUBBING if np.any(coupling) else RUBBING_ALONE
            enough = gone.rubbing < most or share >= self._most
            if gone.way > self._clear(motor) and enough:
                break
            if share < self._most:
                share = min(GROWTH * share, self._most)
            elif pulse < longest:
                pulse *= GROWTH
            else:
                return
        for sign in (1.0, -1.0) * REPEATS:
            yield from self._trial(motor, sign * share * limit, pulse)
        # So long that the two take no joint further than half the way, or to half the speed.
        own = 2.0 * departure(self._record, trials, joint).way / pulse**2
        ratios = self._free[motor] / max(self._free[motor][joint], 1e-300)
        silence = SILENCE_S
        for (way, speed), ratio in zip(self._bounds, ratios.tolist(), strict=True):
            acceleration = max(own * ratio, 1e-300)
            silence = min(silence, (way / acceleration / 2.0) ** 0.5, speed / acceleration / 2.0)
        for sign in (1.0, -1.0):
            yield from self._trial(motor, sign * share * limit, max(silence, pulse), silent=True)

    def _trial(
        self, motor: int, effort: float, pulse: float, silent: bool = False
    ) -> Iterator[Segment]:
        """Both pulses; they begin where the joint isn't on the side to which they bring it."""
        joint = self._joints[motor]
        efforts = np.zeros(len(self._limits))
        efforts[motor] = effort
        while True:
            waited, self._spoilt = 0.0, False
            while waited < SWING_S and effort * self._gone(joint) > 0:
                yield self._rest(LOOK_S)
                waited += LOOK_S
            yield Segment(efforts, pulse, silent)
            trial = Trial(motor, effort, self._began, pulse, silent)
            if not self._spoilt:
                yield Segment(-efforts, pulse, silent)
            yield self._rest(max(REST_S, REST_PULSES * pulse))
            if not self._spoilt:
                self._record.trials.append(trial)
                return

    def _rest(self, seconds: float) -> Segment:
        return Segment(np.zeros(len(self._limits)), seconds)

    def _gone(self, joint: int) -> float:
        return self._record.positions[-1][joint] - self._record.positions[0][joint]

    def _clear(self, motor: int) -> float:
        """How far a pulse brings a joint that clearly moves."""
        joint, positions = self._joints[motor], np.array(self._record.positions)
        step = sensor_step(positions, joint, self._coupling[motor])
        return max(COUNTS * step, LEAST_MOTION * self._bounds[joint].way)
