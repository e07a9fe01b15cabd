"""From joint states to commands and tick records: the controller without ROS."""

import math
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.counters import Counters
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.joint_state import JointReading
from hucrl_ros.controller.latency import DelayCompensation, InForce
from hucrl_ros.controller.state_reader import StateReader
from hucrl_ros.controller.ticks import NANOSECONDS, Source, Tick, TickRecord
from hucrl_ros.controller.watch import OUTAGE
from hucrl_ros.errors import OutageError, StateError

Array = NDArray[np.float64]


class Player(Protocol):
    """What the loop needs of `runtime.agent.Agent`."""

    def start_episode(self, seed: int) -> None:
        """Forget the last episode."""

    def act(
        self,
        state: Array,
        spent_s: float = 0.0,
        coming: Sequence[InForce] = (),
        periods: int = 1,
    ) -> Tick:
        """Efforts for a state `(p,)`, to be applied after the commands that are `coming`."""

    def expected_plan(self) -> NDArray[np.float32] | None:
        """`(H + 1, p)` that the last plan leads to without hallucination; slow."""


class Answer(NamedTuple):
    """What to send for a joint state."""

    effort: Array
    """`(q,)` [N m or N]."""
    record: TickRecord | None
    """The tick, its duration still to be filled in; None: the command that ends the episode."""
    problem: str = ""
    """Why the safe command is sent, or empty."""
    optimistic: NDArray[np.float32] | None = None
    """`(H + 1, p)` trajectory that the plan imagines, if there is a new plan."""


class ControlLoop:
    """Answers each new joint state of an episode with one command.

    A joint state that makes no sense is answered as well, by the safe command: a simulator in
    lockstep waits for an answer, and a robot must not go on under the last one. It counts as a
    step, so that an episode ends after as many joint states whatever they hold.

    An episode in which nobody controlled the robot for longer than `outage_s` doesn't go on from
    wherever the robot is by then: both `answer` and `stale` raise an error instead of sending.
    """

    def __init__(
        self,
        spec: RobotSpec,
        steps: int,
        player: Player,
        guard: Guard,
        clock: Callable[[], float] = time.monotonic,
        compensation: DelayCompensation | None = None,
        reader: StateReader | None = None,
        outage_s: float = math.inf,
    ) -> None:
        """Build a loop; `start` has to follow.

        Args:
            spec: The robot.
            steps: Ticks in an episode.
            player: Chooses the actions.
            guard: Lets them through.
            clock: Steady time [s].
            compensation: Knows which commands are in force until the next one; None: there is
                no delay.
            reader: Puts states together; None: joint states tell all.
            outage_s: Longest time from an answered joint state to the next command [s].
        """
        self.spec = spec
        self.steps = steps
        self.player = player
        self.guard = guard
        self.compensation = compensation or DelayCompensation(
            spec.period, spec.action_dim, ControlSettings(latency_compensation="never")
        )
        self.counters = Counters()
        self.reader = reader or StateReader(spec)
        self._clock = clock
        self._outage_s = outage_s
        self._heard: float | None = None
        self._looked = 0.0
        self._step = 0
        self._stamp_ns: int | None = None

    @property
    def step(self) -> int:
        """Ticks of this episode so far."""
        return self._step

    def start(self, seed: int) -> None:
        """Begin an episode with the robot under no effort."""
        self.player.start_episode(seed)
        self.guard.reset()
        self.compensation.reset()
        self.reader.reset()
        self._step, self._stamp_ns = 0, None
        self._heard = None

    def take_over(self, other: "ControlLoop", seed: int) -> None:
        """Go on in the middle of the episode that `other` has been playing."""
        self.player.start_episode(seed)
        self.guard.reset(other.guard.last)
        self.counters, self.reader = other.counters, other.reader
        self.compensation = other.compensation
        self._step, self._stamp_ns = other._step, other._stamp_ns
        self._heard, self._looked = other._heard, other._looked

    def answer(self, reading: JointReading, received: float) -> Answer | None:
        """The command for a joint state; None for a repetition, which gets no answer.

        Args:
            reading: The joint state.
            received: When it came, by the loop's clock [s].

        Raises:
            OutageError: it took too long to come, or to be answered.
        """
        if self.reader.joints.is_repetition(reading.stamp_ns):
            self.counters.repeated_joint_states += 1
            return None
        self._judge_outage()
        self._heard = received
        try:
            state = self.reader.read(reading)
        except StateError as error:
            self.counters.bad_joint_states += 1
            tick, problem = _safe_tick(self.spec.action_dim), str(error)
            effort, clamped = self.guard.safe_effort(None), False
        else:
            periods = self._periods_until(reading.stamp_ns)
            if self._step >= self.steps:
                return Answer(self.guard.safe_effort(None), None)
            coming = self.compensation.coming(received)
            tick = self.player.act(state, self._clock() - received, coming, periods)
            self._judge_outage()
            self.counters.compensated += bool(coming)
            self.counters.overruns += tick.overrun
            problem = ""
            effort, clamped, safe = self.guard.check(tick.action, state)
            if safe:
                problem = f"the planner's efforts {tick.action.tolist()} make no sense"
                tick = tick._replace(source=Source.SAFE)
        if self._step >= self.steps:
            return Answer(effort, None, problem)
        record = self._record(reading.stamp_ns, tick, effort, clamped)
        return Answer(effort, record, problem, tick.optimistic)

    def sent(self, record: TickRecord, received: float) -> TickRecord:
        """The tick's command has been published just now: complete its record and count it."""
        now = self._clock()
        elapsed = now - received
        record = record._replace(tick_ms=1e3 * elapsed, missed=elapsed > self.spec.period)
        counters = self.counters
        counters.ticks += 1
        counters.sources[Source(record.source)] += 1
        counters.misses += record.missed
        counters.clamps += record.clamped
        counters.tick_ms.append(record.tick_ms)
        self.compensation.ticked(elapsed)
        self.compensation.sent(np.array(record.action), now)
        counters.delay_ms = 1e3 * self.compensation.delay
        self._step += 1
        return record

    def stale(self) -> Array:
        """The command `(q,)` for a period without a joint state, to be sent now [N m or N].

        Raises:
            OutageError: there has been none for too long.
        """
        self._judge_outage()
        effort = self.guard.safe_effort(None)
        self.counters.stale_commands += 1
        self.compensation.sent(effort, self._clock())
        return effort

    def _judge_outage(self) -> None:
        """Look at the clock; whoever didn't for long was held up, as by a stopped process."""
        now = self._clock()
        held_up, self._looked = now - self._looked, now
        # Before the first joint state the robot is under no effort, and after the last tick
        # nothing is to be sent.
        if self._heard is None or self._step >= self.steps or now - self._heard <= self._outage_s:
            return
        what = (
            f"the controller was held up for {1e3 * held_up:.0f} ms"
            if held_up > self._outage_s
            else f"no new joint state for {1e3 * (now - self._heard):.0f} ms"
        )
        raise OutageError(
            f"{OUTAGE}: {what}; an episode ends after {1e3 * self._outage_s:.0f} ms of it"
        )

    def _periods_until(self, stamp_ns: int) -> int:
        """Control periods since the last joint state, by the stamps; counts those without one."""
        periods = 1
        if self._stamp_ns is not None:
            elapsed = (stamp_ns - self._stamp_ns) / NANOSECONDS / self.spec.period
            periods = max(round(elapsed), 1)
            self.counters.skipped_joint_states += periods - 1
        self._stamp_ns = stamp_ns
        return periods

    def _record(self, stamp_ns: int, tick: Tick, effort: Array, clamped: bool) -> TickRecord:
        seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS)
        return TickRecord(
            stamp_sec=seconds,
            stamp_nanosec=nanoseconds,
            step=self._step,
            tick_ms=math.nan,
            source=int(tick.source),
            missed=False,
            clamped=clamped,
            iterations=tick.iterations,
            planned_return=tick.planned_return,
            epistemic_std=tick.epistemic_std,
            aleatoric_std=tick.aleatoric_std,
            hallucination=tick.hallucination,
            action=tuple(effort.tolist()),
        )


def _safe_tick(action_dim: int) -> Tick:
    """What is known of a tick without a state."""
    nan = math.nan
    return Tick(np.zeros(action_dim), Source.SAFE, 0, nan, nan, nan, 0.0, None)
