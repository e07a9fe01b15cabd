"""A node for `hucrl check --move`: sends tiny efforts, prints what came of them as JSON."""

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import DriverSettings, SafetySettings
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.pace import Pace
from hucrl_ros.controller.state_reader import JointStateReader, velocity_estimator
from hucrl_ros.controller.timing import STOPPED, outage_limit
from hucrl_ros.doctor.evidence import Array
from hucrl_ros.doctor.pulses import Bounds, Pulses
from hucrl_ros.doctor.record import Record
from hucrl_ros.errors import StateError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import nanoseconds, to_reading
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.stopper import NAME, PATIENCE_S, Stopper
from hucrl_ros.nodes.topics import ARRIVAL_WAIT, MEASURED, STEADY, STREAM

LONGEST_TICK = 0.02
"""[s] Commands are sent again at least as often."""
MEET_S = 15.0
"""[s] For robot, stopper and this node to find each other."""
UNKNOWN = "_NODE_NAME_UNKNOWN_"
"""What rmw calls a node of which it has heard an endpoint only."""
FORGIVEN = 5
"""Pulses under which nobody watched."""
HEARD = 25
"""Joint states that must have come before anything is sent."""


class Mover(Node):
    """Plays `Pulses`; whatever ends it, zero effort is its last command."""

    exit_code: int | None = None

    def __init__(self, asked: Mapping[str, Any]) -> None:
        super().__init__("hucrl_move")
        spec = RobotSpec(**{k: _tuples(value) for k, value in asked["spec"].items()})
        self._spec, self._period = spec, spec.period
        self._tick_s = min(spec.period, LONGEST_TICK)
        self._guard = guard_of(spec, SafetySettings(**asked["safety"]), self._tick_s)
        self._effort: Array = np.zeros(spec.action_dim)
        self._stale = self._guard.safety.stale_periods * spec.period
        # What measured velocities are worth isn't known yet.
        driver = DriverSettings(**{**asked["driver"], "velocity": "derived"})
        self._reader = JointStateReader(
            spec.joint_names, estimator=velocity_estimator(driver, spec.period)
        )
        self._pace, self._record = Pace(), Record()
        bounds = {name: Bounds(*values) for name, values in asked["bounds"].items()}
        motors = [spec.joint_names.index(name) for name in spec.actuated_joints]
        limits = self._guard.room[("effort_limits",)].tolist()
        shares = asked["share"], asked["cap"]
        self._pulses = Pulses(self._record, limits, motors, bounds, *shares, *asked["model"])
        self._state: Array = np.zeros(spec.state_dim)
        self._began = self._looked = self._last = time.monotonic()
        self._moving, self._spoilt = False, 0
        self._ours = (self.get_name(), NAME)
        self._stopper = Stopper(spec.action_dim)
        self._commands = self.create_publisher(Float64MultiArray, topics.COMMANDS, STREAM)
        self.create_subscription(JointState, topics.JOINT_STATES, self._on_joint_state, MEASURED)
        self.create_subscription(Bool, topics.STOP, self._on_stop, STREAM)
        self.create_timer(self._tick_s, self._tick, clock=STEADY)

    def close(self) -> None:
        """Zero effort; then what came of it, unless somebody interrupted."""
        self._send_zero()
        self._commands.wait_for_all_acked(ARRIVAL_WAIT)
        self._stopper.release()
        if self.exit_code == 0:
            sys.stdout.write(json.dumps(dataclasses.asdict(self._record)) + "\n")

    def _on_joint_state(self, message: JointState) -> None:
        reading = to_reading(message)
        if self._pace.is_overtaken(reading.stamp_ns, self._period):
            return
        if not self._pace.see(reading.stamp_ns) or self.exit_code is not None:
            return
        if self._pace.outage:
            self._stop(self._pace.outage)
            return
        try:
            joints = self._reader.read(reading)
        except StateError as error:
            self._stop(str(error))
            return
        self._last = time.monotonic()
        self._state[: len(joints)] = joints
        places, speeds = np.split(joints, 2)
        self._remember(message, places.tolist())
        problem = self._pulses.problem(places.tolist(), speeds.tolist())
        if self._moving and problem:
            self._stop(problem)

    def _on_stop(self, message: Bool) -> None:
        if message.data and self.exit_code is None:
            self._stop(f"{STOPPED} {self.resolve_topic_name(topics.STOP)!r}")

    def _remember(self, message: JointState, places: list[float]) -> None:
        record, spec = self._record, self._spec
        record.stamps_ns.append(nanoseconds(message.header.stamp))
        record.received_ns.append(time.monotonic_ns())
        record.positions.append(places)
        for kept, values, joints in (
            (record.velocities, message.velocity, spec.joint_names),
            (record.efforts, message.effort, spec.actuated_joints),
        ):
            told = dict(zip(message.name, values, strict=False))
            kept.append([told[joint] for joint in joints] if set(joints) <= told.keys() else [])

    def _tick(self) -> None:
        if self.exit_code is not None:
            return
        now = time.monotonic()
        late, self._looked = now - self._looked - self._tick_s, now
        self._last = min(self._last + max(late, 0.0), now)  # meanwhile it could hear nobody
        silence = now - self._last
        if not self._stopper.hold():
            self._stop("the process that stops the robot in case of need has ended or hangs")
        elif others := self._others():
            self._stop(f"{', '.join(others)} publishes commands, too; stop it first")
        elif not self._moving:
            self._meet(now)
        elif silence > outage_limit(self._guard.safety, self._period):
            self._stop(f"no joint state for {1e3 * silence:.0f} ms")
        elif self._effort.any() and (silence > self._stale or late > PATIENCE_S):
            self._spoil()
        elif silence > self._stale:
            self._send_zero()
        else:
            self._play()

    def _spoil(self) -> None:
        """A pulse under which nobody watched ends at once, and is played again."""
        self._send_zero()
        self._pulses.spoil(time.monotonic_ns())
        self._spoilt += 1
        if self._spoilt > FORGIVEN:
            self._stop(
                f"in {self._spoilt} pulses joint states stayed away for longer than "
                f"safety.stale_periods = {self._guard.safety.stale_periods:g}, or this process "
                "was held up; look at the load of this machine"
            )

    def _meet(self, now: float) -> None:
        met = self._stopper.meets(self._commands.get_subscription_count())
        known = sorted(self._speakers()) == sorted(self._ours)
        self._moving = met and known and len(self._record.positions) >= HEARD
        if not self._moving and now - self._began > MEET_S:
            self._stop(f"nobody was met on the topics within {MEET_S:g} s; run `hucrl doctor`")

    def _play(self) -> None:
        now_ns = time.monotonic_ns()
        segment = self._pulses.wanted(now_ns)
        if segment is None:
            self.exit_code = 0
        elif self._pulses.is_new(now_ns) or not segment.silent:
            self._send(self._guard.check(segment.efforts, self._state).action)
        else:
            held = self._guard.check(self._effort, self._state).action
            if not np.array_equal(held, self._effort):
                self._send(held)  # a limit is worth more than the silence

    def _others(self) -> list[str]:
        """Who else publishes commands; at first nobody's name may be known."""
        nameless = () if self._moving else (UNKNOWN,)
        return [name for name in self._speakers() if name not in (*self._ours, *nameless)]

    def _speakers(self) -> list[str]:
        found = self.get_publishers_info_by_topic(self._commands.topic_name)
        return [each.node_name for each in found]

    def _stop(self, reason: str) -> None:
        self._send_zero()
        self._record.stopped = reason
        self.exit_code = 0

    def _send_zero(self) -> None:
        self._guard.reset()
        self._send(np.zeros(self._spec.action_dim))

    def _send(self, effort: Array) -> None:
        self._effort = effort
        self._record.sent_ns.append(time.monotonic_ns())
        self._record.commands.append(effort.tolist())
        self._commands.publish(Float64MultiArray(data=effort.tolist()))


def guard_of(spec: RobotSpec, safety: SafetySettings, tick: float) -> Guard:
    """A guard that is asked every `tick` seconds, and counts rates for a call.

    So that efforts rise no faster than the settings allow in a control period.
    """
    rate = safety.effort_rate * min(1.0, tick / spec.period)
    return Guard(spec, safety.model_copy(update={"effort_rate": rate}))


def _tuples(value: Any) -> Any:  # noqa: ANN401
    return tuple(value) if isinstance(value, list) else value


def main() -> int:
    """Run the node; what to do comes as JSON on standard input, see `doctor.move`."""
    return run_node(functools.partial(Mover, json.load(sys.stdin)))


if __name__ == "__main__":
    sys.exit(main())
