"""A robot's driver as somebody else would write it: none of the project's code is in here.

    python foreign_driver.py '{"rate": 500, "velocity": "none"}'

The robot is a pendulum, or an arm of two links. It shows joint states and takes commands as
`joint_state_broadcaster` and `forward_command_controller` of ros2_control do. Only its service
`simulator/reset`, which puts the robot to its start and at rest, is made for `hucrl up
--no-simulator`. What it gets and what it does is told by `DEFAULTS`.
"""

import contextlib
import json
import math
import random
import sys
import threading
import time
from pathlib import Path

import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

GRAVITY, LENGTH, MASS, VISCOUS = 9.81, 0.5, 0.3, 0.005
LONGEST_STEP = 1e-3
STIFFNESS = 4.0, 0.4  # of its drive [N m/rad, N m s/rad]
DEFAULTS = {
    "robot": "pendulum",  # "arm": of two links, lying; "hanging": another one
    "rate": 80.0,  # of joint states [Hz]
    "best_effort": False,
    "effort": "mean",  # what acted since the last joint state; "last": the newest command; "none"
    "velocity": "true",  # "none", "nan", or "difference" of two positions a step apart
    "counts": 0,  # of an encoder for a turn; 0: exact
    "dead_time": 0.0,  # from a command to its effect [s]
    "friction": 0.0,  # dry [N m]
    "gain": 1.0,  # of its motor: torque for a unit of effort
    "timeout": 0.0,  # after which it lets go without a new command [s]; 0: it never does
    "commands_log": "",  # file to which it writes all that it is told to do
    "drops": 0.0,  # share of the joint states that nobody gets
    "duplicates": 0.0,  # share that is sent twice
    "swaps": 0.0,  # share that is sent after its successor
    "stamps": "clock",  # "zero", or "jump" back by a second at `dies_after`
    "dies_after": 0.0,  # seconds from a reset to an outage; 0: none
    "dies_for": 0.0,  # length of the outage [s]
    "outages": 1,  # how many there are
    "interface": "effort",  # "velocity" or "position": a drive of its own follows the commands
    "named": False,  # whether it has the parameter of a forward_command_controller
    "joints": [],  # another one of its parameters; none: it hasn't
    "reset_takes": 0.0,  # [s]
    "begins_at": math.pi,  # where the joint is at first [rad]
    "gravity": GRAVITY,  # [m/s²]
    "stop_at": -math.inf,  # lower end stop of the joint [rad]
    "goal": [],  # x, y and z of a goal that somebody publishes [m]
}


class Pendulum:
    """Angle from upright."""

    names, largest = ["pendulum_joint"], [1.0]

    def __init__(self, how):
        self.start, self.gravity, self.stop = [how["begins_at"]], how["gravity"], how["stop_at"]

    def accelerations(self, angles, speeds, torques):
        pull = self.gravity / LENGTH * math.sin(angles[0])
        return [pull + (torques[0] - VISCOUS * speeds[0]) / (MASS * LENGTH**2)]


class Arm:
    """Two links, the second one hinged at the end of the first; angle 0 is downward."""

    def __init__(self, names, largest, lengths, masses, middles, moments, damping, gravity):
        self.names, self.start, self.largest, self.stop = names, [0.0, 0.0], largest, -math.inf
        (self.length, _), (self.mass1, self.mass2) = lengths, masses
        (self.middle1, self.middle2), (self.moment1, self.moment2) = middles, moments
        self.damping, self.gravity = damping, gravity

    def accelerations(self, angles, speeds, torques):
        cosine, sine = math.cos(angles[1]), math.sin(angles[1])
        coupling = self.mass2 * self.length * self.middle2
        m22 = self.moment2 + self.mass2 * self.middle2**2
        m12 = m22 + coupling * cosine
        m11 = self.moment1 + self.mass1 * self.middle1**2 + m22
        m11 += self.mass2 * self.length**2 + 2 * coupling * cosine
        whirl = coupling * sine
        fall2 = self.mass2 * self.middle2 * math.sin(angles[0] + angles[1])
        fall1 = (self.mass1 * self.middle1 + self.mass2 * self.length) * math.sin(angles[0])
        f1 = torques[0] - self.damping[0] * speeds[0] - self.gravity * (fall1 + fall2)
        f1 += whirl * (2 * speeds[0] + speeds[1]) * speeds[1]
        f2 = torques[1] - self.damping[1] * speeds[1] - self.gravity * fall2
        f2 -= whirl * speeds[0] ** 2
        size = m11 * m22 - m12**2
        return [(m22 * f1 - m12 * f2) / size, (m11 * f2 - m12 * f1) / size]


ROBOTS = {
    "pendulum": Pendulum,
    "arm": lambda how: Arm(
        ["shoulder", "elbow"],
        [2.0, 1.0],
        (0.3, 0.3),
        (1.0, 0.7),
        (0.15, 0.15),
        (0.0085, 0.006),
        (0.1, 0.05),
        0.0,
    ),
    "hanging": lambda how: Arm(
        ["shoulder", "elbow"],
        [6.0, 6.0],
        (0.2, 0.3),
        (0.52346, 0.625568),
        (0.2, 0.255693),
        (0.0109488, 0.0099709),
        (0.0, 0.0),
        GRAVITY,
    ),
}


def drive(interface, command, angle, speed):
    """The torque of a joint for a command."""
    if interface == "velocity":
        return STIFFNESS[1] * (command - speed)
    if interface == "position":
        return STIFFNESS[0] * (command - angle) - STIFFNESS[1] * speed
    return command


class Driver(Node):
    def __init__(self, given):
        super().__init__("foreign_driver")
        self.how = {**DEFAULTS, **given}
        self.each = math.ceil(1 / self.how["rate"] / LONGEST_STEP)  # steps for a joint state
        self.dt = 1 / self.how["rate"] / self.each
        self.body = ROBOTS[self.how["robot"]](self.how)
        self.angles, self.speeds = list(self.body.start), [0.0 for _ in self.body.names]
        self.lock = threading.Lock()
        self.coming, self.effort = [], self.at_rest()
        self.clock = time.monotonic()
        if self.how["named"]:
            self.declare_parameter("interface_name", self.how["interface"])
        if self.how["joints"]:
            self.declare_parameter("joints", self.how["joints"])
        self.random = random.Random(0)
        self.held_back = None
        self.shift = time.time() - time.monotonic()  # of the stamps' clock
        self.reset_at, self.outages = math.inf, self.how["outages"]
        reliability = ReliabilityPolicy["BEST_EFFORT" if self.how["best_effort"] else "RELIABLE"]
        quality = QoSProfile(depth=10, reliability=reliability)
        self.states = self.create_publisher(JointState, "joint_states", quality)
        self.create_subscription(Float64MultiArray, "controller/commands", self.on_command, 10)
        self.create_service(Trigger, "simulator/reset", self.on_reset)
        if self.how["goal"]:
            latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
            self.goals = self.create_publisher(PoseStamped, "goal", latched)
            self.show_goal()
        threading.Thread(target=self.run, daemon=True).start()

    def on_command(self, message):
        with self.lock:
            # On a loaded machine the body's clock may be behind: that is no dead time.
            came = min(time.monotonic(), self.clock)
            self.coming.append((came + self.how["dead_time"], list(message.data)))
        if self.how["commands_log"]:
            with Path(self.how["commands_log"]).open("a", encoding="ascii") as log:
                log.write(" ".join(map(repr, message.data)) + "\n")

    def on_reset(self, request, response):
        time.sleep(self.how["reset_takes"])
        with self.lock:
            self.angles, self.speeds = list(self.body.start), [0.0 for _ in self.body.names]
            self.effort, self.coming = self.at_rest(), []
            self.reset_at = self.clock
        time.sleep(0.1)
        response.success = True
        return response

    def run(self):
        sums, before = [0.0 for _ in self.body.names], self.measured()
        begin, done, let_go = time.monotonic(), 0, math.inf
        while rclpy.ok():
            done += 1
            now = begin + done * self.dt
            time.sleep(max(now - time.monotonic(), 0.0))
            with self.lock:
                self.clock = now
                while self.coming and self.coming[0][0] <= now:
                    told, self.effort = self.coming.pop(0)
                    let_go = told + (self.how["timeout"] or math.inf)
                if now > let_go:
                    self.effort = self.at_rest()
                last = self.step()
                measured = self.measured()
                away = now - self.reset_at
            sums = [total + each for total, each in zip(sums, last, strict=True)]
            if done % self.each == 0:
                moved = zip(measured, before, strict=True)
                changes = [(new - old) / self.dt for new, old in moved]
                self.show(now, measured, changes, [total / self.each for total in sums], last)
                sums = [0.0 for _ in sums]
            before = measured
            if self.how["dies_after"] and away > self.how["dies_after"] and self.outages:
                self.outages -= 1
                self.shift -= self.how["stamps"] == "jump"
                time.sleep(self.how["dies_for"])
                begin += self.how["dies_for"]

    def step(self):
        """Move on by `dt`; returns the torques that were asked of the motors."""
        told, torques = [], []
        for k, largest in enumerate(self.body.largest):
            speed = self.speeds[k]
            torque = drive(self.how["interface"], self.effort[k], self.angles[k], speed)
            told.append(min(max(torque, -largest), largest))
            acting = min(max(self.how["gain"] * told[k], -largest), largest)
            torques.append(acting - self.how["friction"] * math.tanh(speed / 0.02))
        changes = self.body.accelerations(self.angles, self.speeds, torques)
        for k, change in enumerate(changes):
            self.speeds[k] += self.dt * change
            self.angles[k] += self.dt * self.speeds[k]
            if self.angles[k] < self.body.stop:
                self.angles[k], self.speeds[k] = self.body.stop, 0.0
        return told

    def at_rest(self):
        return [a if self.how["interface"] == "position" else 0.0 for a in self.angles]

    def measured(self):
        counts = self.how["counts"]
        if not counts:
            return list(self.angles)
        return [math.floor(a / 2 / math.pi * counts) * 2 * math.pi / counts for a in self.angles]

    def show_goal(self):
        message = PoseStamped()
        message.header.frame_id = "world"
        place = message.pose.position
        place.x, place.y, place.z = self.how["goal"]
        self.goals.publish(message)

    def show(self, now, angles, differences, means, last):
        message = JointState(name=self.body.names, position=angles)
        stamp = now + self.shift
        if self.how["stamps"] == "zero":
            stamp = 0.0
        message.header.stamp.sec = int(stamp)
        message.header.stamp.nanosec = int(stamp % 1 * 1e9)
        velocity = {
            "true": list(self.speeds),
            "none": [],
            "nan": [math.nan for _ in angles],
            "difference": differences,
        }
        message.velocity = velocity[self.how["velocity"]]
        message.effort = {"mean": means, "last": last, "none": []}[self.how["effort"]]
        if self.random.random() < self.how["drops"]:
            return
        if self.held_back is None and self.random.random() < self.how["swaps"]:
            self.held_back = message
            return
        self.states.publish(message)
        if self.random.random() < self.how["duplicates"]:
            self.states.publish(message)
        if self.held_back is not None:
            self.states.publish(self.held_back)
            self.held_back = None


def main():
    given = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
    rclpy.init(args=sys.argv[2:])
    node = Driver(given)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)


if __name__ == "__main__":
    main()
