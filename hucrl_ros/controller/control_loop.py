"""From joint states to commands and tick records: the controller without ROS."""

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec, plural
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.passage import Passage
from hucrl_ros.controller.state_reader import JointReading, PoseBuffer, StateReader, velocity_age
from hucrl_ros.controller.surprise import Level
from hucrl_ros.controller.ticks import NANOSECONDS, Counters, Source, Tick, TickRecord
from hucrl_ros.controller.timing import OUTAGE, DelayCompensation, InForce, outage_limit
from hucrl_ros.errors import OutageError, StateError, SurpriseError

Array = NDArray[np.float64]
Send = Callable[[Array], None]


class Answer(NamedTuple):
    """What became of a joint state."""

    record: TickRecord | None
    """The tick; None: the episode was over."""
    problem: str = ""
    """Why the safe command was sent, or empty."""
    optimistic: NDArray[np.float32] | None = None
    """`(H + 1, p)` trajectory that the plan imagines, if there is a new plan."""
    decided: Mapping[str, float] = MappingProxyType({})
    """What time decided, see `controller.ticks.DECIDED`."""


class ControlLoop:
    """Answers each new joint state of an episode with one command.

    A joint state that makes no sense is answered as well, by the safe command: a simulator in
    lockstep waits for an answer, and a robot must not go on under the last one. It counts as a
    step, so that an episode ends after as many joint states whatever they hold.

    An episode in which nobody controlled the robot for longer than `outage_s` doesn't go on from
    wherever the robot is by then: both `answer` and `stale` raise an error instead of sending.
    Nor does one in which the robot surprised too much: then `answer` does.
    """

    def __init__(
        self,
        spec: RobotSpec,
        steps: int,
        player: Agent,
        guard: Guard,
        clock: Callable[[], float] = time.monotonic,
        compensation: DelayCompensation | None = None,
        reader: StateReader | None = None,
        outage_s: float = math.inf,
        passage: Passage | None = None,
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
            passage: Knows what the robot did; None: physics waits for each command.
        """
        self.spec = spec
        self.steps = self._own_steps = steps
        self.player = player
        self.guard = guard
        self.compensation = compensation or DelayCompensation(
            spec.period, spec.action_dim, ControlSettings(latency_compensation="never")
        )
        self.counters = Counters()
        self.reader = reader or StateReader(spec)
        self._clock = clock
        self._outage_s = outage_s
        self.passage = passage or Passage(spec)
        self._own = self.compensation, self.reader, self.passage
        self.others: Callable[[], Array | None] = lambda: None
        """The last command `(q,)` that somebody else has sent to the robot since it was asked."""
        self._looks: list[Array | None] = []
        self._noted = -math.inf
        self._idle = np.zeros(spec.action_dim)
        self._heard: float | None = None
        self._state: Array | None = None
        self._looked = 0.0
        self.since = 0
        """Tick of this episode that was the first one of this loop."""
        self._step = self._silences = 0
        self._stamp_ns: int | None = None

    @property
    def state(self) -> Array | None:
        """`(p,)` of the last joint state; None: it made no sense, or isn't true any more."""
        return self._state

    @property
    def step(self) -> int:
        """Ticks of this episode so far."""
        return self._step

    def start(self, seed: int) -> None:
        """Begin an episode with the robot under no command."""
        if self.reader.driver != self._own[1].driver:  # of whom it took over from
            self.compensation, self.reader, self.passage = self._own
            self.reader.limit_age(self.guard.safety.stale_periods)
        self.player.start_episode(seed)
        self.others()  # of the episode before
        self.guard.reset()
        self.compensation.reset()
        self.passage.reset()
        self.reader.reset()
        self._step, self._silences, self._stamp_ns = 0, 0, None
        self.since, self.steps = 0, self._own_steps
        self._heard = self._state = None
        self._looks.clear()
        self._noted = -math.inf

    def take_over(self, other: "ControlLoop", seed: int) -> None:
        """Go on in the middle of the episode that `other` has been playing, as long as it was.

        The robot is read as `other` has been reading it until the episode ends, also where this
        loop's bundle says otherwise of the driver.
        """
        self.player.start_episode(seed)
        self.guard.reset(other.guard)
        self.player.sent(self.guard.action)
        self.player.go_on_from(other.player)
        self.counters, self.reader = other.counters, other.reader
        self.compensation, self.passage = other.compensation, other.passage
        self.since = self._step = other._step
        self.steps = other.steps
        self._silences, self._looks, self._noted = other._silences, other._looks, other._noted
        self._stamp_ns = other._stamp_ns
        self._heard, self._looked = other._heard, other._looked
        self._state = other._state
        self.reader.limit_age(self.guard.safety.stale_periods)

    def obey(self, guard: Guard) -> None:
        """Let a stricter guard take over, from the next command on."""
        guard.reset(self.guard)
        self.guard = guard
        self.player.obey(guard.safety)
        self.reader.limit_age(guard.safety.stale_periods)
        if math.isfinite(self._outage_s):
            self._outage_s = outage_limit(guard.safety, guard.spec.period)

    def answer(self, reading: JointReading, received: float, send: Send) -> Answer | None:
        """Send the command for a joint state, then say what was done.

        The command leaves before anything is computed or counted that it doesn't need.

        Args:
            reading: The joint state.
            received: When it came, by the loop's clock [s].
            send: Sends a command `(q,)` to the robot; called once in a tick, but where a position
                is to be held and none is known.

        Returns:
            The tick; without a record where the joint state follows the last tick, which ends
            the episode; None for a repetition. In both of these cases nothing was sent.

        Raises:
            OutageError: it took too long to come, or to be answered; nothing was sent.
            SurpriseError: the robot hasn't done what the bundle claims; nothing was sent.
        """
        if self.reader.joints.is_repetition(reading.stamp_ns):
            self.counters.repeated_joint_states += 1
            return None
        self._look_up()
        self._heard = received
        state, problem = self._read(reading)
        self._state = state
        if state is not None:
            periods = self._periods_until(reading.stamp_ns)
        if self._step >= self.steps:
            return Answer(None)
        if self.player.surprise.level is Level.ALARMED:
            raise SurpriseError(self.player.surprise.reason)
        if state is None:
            tick = Tick(self._idle, Source.SAFE, 0, math.nan, 0.0, None)
            action, clamped, command = tick.action, False, self.guard.safe_command(None)
            self.player.sent(action)
        else:
            idle = self.spec.to_command(self._idle, state)
            coming = self.compensation.coming(received, idle)
            tick = self._choose(state, received, coming, periods)
            if self._look_up():  # What was proved was to follow another command.
                tick = _unproved(tick)
            # Zeros are no safe command for every robot, and the guard would let them in slowly:
            # unless the safety filter says that just so they are.
            none = tick.source is Source.SAFE and not tick.filtered and not tick.proved
            wanted = np.full_like(tick.action, math.nan) if none else tick.action
            action, clamped, safe, command = self.guard.check(wanted, state)
            if safe or tick.source is Source.SAFE:
                kind, planned = plural(self.spec.command), tick.source is not Source.SAFE
                whose = f"planner's {kind} {wanted.tolist()}" if planned else f"policy's {kind}"
                problem = f"the {whose} make no sense"
            if safe:
                tick = _unproved(tick)._replace(source=Source.SAFE)
            if not self.player.sent(action, coming, command):
                tick = _unproved(tick)
            self.counters.compensated += bool(coming)
        if command is not None:
            send(command)
        sent = self._clock()
        self.player.plan_ahead()
        self.compensation.ticked(sent - received)
        passed = self.passage.see(reading.stamp_ns, state, received)
        if command is not None:
            self._note_sent(command, sent)
        std = (math.nan, math.nan)
        if state is not None:
            std = self.player.uncertainty(state, tick.action, passed)
        record = self._record(reading.stamp_ns, tick, action, clamped, sent - received, std)
        level = self.player.surprise.level
        self.counters.count(record, tick, self.compensation.delay, level)
        decided = self._decided(tick, state)
        self._step, self._silences = self._step + 1, 0
        self._looks.clear()
        return Answer(record, problem, tick.optimistic, decided)

    def stale(self) -> Array | None:
        """The command `(q,)` for a period without a joint state, to be sent now, if there is one.

        Raises:
            OutageError: there has been none for too long.
        """
        self._look_up()
        self._state = None
        command = self.guard.safe_command(None)
        self.player.sent(self._idle)
        self.counters.stale_commands += 1
        self._silences += 1
        if command is not None:
            self._note_sent(command, self._clock())
        return command

    def finish(self) -> Array | None:
        """The command `(q,)` that the robot stays under from now on; None: it is already."""
        return self.guard.last_command(self._state)

    def _decided(self, tick: Tick, state: Array | None) -> Mapping[str, float]:
        """What time decided in a tick, see `controller.ticks.DECIDED`."""
        shares, untold = self.compensation.shares, self.reader.untold
        told = {f"in_force_{k}": share for k, share in enumerate(shares)}
        heard = {
            f"heard_{self.spec.action_dim * look + k}": effort
            for look, command in enumerate(self._looks)
            if command is not None
            for k, effort in enumerate(command.tolist())
        }
        return {
            **(told if state is not None else {}),
            **({f"state_{k}": float(state[k]) for k in untold} if state is not None else {}),
            **heard,
            **({"silences": float(self._silences)} if self._silences else {}),
            **tick.decided,
        }

    def _note_sent(self, command: Array, at: float) -> None:
        """A command `(q,)` was sent at `at` [s], by whomever."""
        self._noted = at
        self.compensation.sent(command, at)
        self.passage.sent(command, at)

    def _choose(
        self, state: Array, received: float, coming: tuple[InForce, ...], periods: int
    ) -> Tick:
        """Plan from `state`, or with its positions as old as its derived velocities."""
        age = self.compensation.age
        if not (age and coming):
            return self.player.act(state, self._clock() - received, coming, periods)
        joints, aged = len(self.spec.joint_names), state.copy()
        aged[:joints] -= age * state[joints : 2 * joints]
        tick = self.player.act(aged, self._clock() - received, coming, periods)
        # An action that is a way leads from another place now to where it was to lead.
        command = self.spec.to_command(tick.action, aged)
        return tick._replace(action=self.spec.to_action(command, state))

    def _look_up(self) -> bool:
        """Go on from what others have sent; whoever didn't look for long was held up.

        Returns:
            Whether somebody has sent something.

        Raises:
            OutageError: for too long.
        """
        command, now = self.others(), self._clock()
        heard = command is not None and self.guard.hear(command)
        self._looks.append(command if heard else None)
        if command is not None and heard:
            self.player.sent(self.guard.action, command=command)
            # Whoever sends in our place does so in each period; this was the last time.
            self._note_sent(command, max(self._looked, self._noted, now - self.spec.period))
        held_up, self._looked = now - self._looked, now
        # Before the first joint state the robot is under no effort, and after the last tick
        # nothing is to be sent.
        if self._heard is None or self._step >= self.steps or now - self._heard <= self._outage_s:
            return heard
        self._state = None  # the robot has moved on since
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

    def _read(self, reading: JointReading) -> tuple[Array | None, str]:
        """The state of a joint state, or None and why it makes no sense."""
        try:
            return self.reader.read(reading), ""
        except StateError as error:
            self.counters.bad_joint_states += 1
            return None, str(error)

    def _record(
        self,
        stamp_ns: int,
        tick: Tick,
        action: Array,
        clamped: bool,
        elapsed: float,
        std: tuple[float, float],
    ) -> TickRecord:
        """What is told of a tick that took `elapsed` [s] from the joint state to the command."""
        seconds, nanoseconds = divmod(stamp_ns, NANOSECONDS)
        return TickRecord(
            stamp_sec=seconds,
            stamp_nanosec=nanoseconds,
            step=self._step,
            tick_ms=1e3 * elapsed,
            source=int(tick.source),
            missed=elapsed > self.spec.period,
            clamped=clamped,
            filtered=tick.filtered,
            iterations=tick.iterations,
            planned_return=tick.planned_return,
            epistemic_std=std[0],
            aleatoric_std=std[1],
            hallucination=tick.hallucination,
            surprise=self.player.surprise.value,
            action=tuple(action.tolist()),
        )


def _unproved(tick: Tick) -> Tick:
    """A tick after which something else is sent than what the filter looked at, if it did."""
    return tick._replace(proved=None if tick.proved is None else False)


def build_control_loop(
    bundle: Bundle,
    guard: Guard,
    control: ControlSettings,
    poses: PoseBuffer | None = None,
    planning: Executor | None = None,
    lockstep: bool = True,
) -> ControlLoop:
    """A control loop that plays a bundle, its agent warmed up; `start` has to follow.

    In lockstep physics waits for each command: planning has no time limit, so that equal states
    and seeds give equal commands, and there is neither a delay nor an outage.

    Args:
        bundle: What to play.
        guard: Lets the commands through; its safety settings say how old a pose may be and how
            long an outage.
        control: Engine, threads, budget, and compensation of the delay.
        poses: What is heard of object and goal; None: the robot has neither.
        planning: Has the one thread that plans in real time; None: the calling one does.
        lockstep: Whether physics waits; otherwise real time.
    """
    manifest = bundle.manifest
    spec, safety = manifest.spec, guard.safety
    agent = Agent(
        bundle,
        None if lockstep else control.budget * spec.period,
        executor=planning,
        engine=control.engine,
        threads=control.threads,
        safety=safety,
    )
    agent.warm_up()
    age = velocity_age(manifest.driver, spec.period)
    return ControlLoop(
        spec,
        manifest.steps,
        agent,
        guard,
        compensation=None
        if lockstep
        else DelayCompensation(spec.period, spec.action_dim, control, age),
        reader=StateReader(spec, poses)
        if lockstep
        else StateReader(spec, poses, safety.stale_periods, manifest.driver),
        outage_s=math.inf if lockstep else outage_limit(safety, spec.period),
        passage=Passage(spec) if lockstep else Passage(spec, False, age, control.extra_delay),
    )
