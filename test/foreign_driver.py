"""A pendulum's driver as somebody else would write it: none of the project's code is in here.

    python foreign_driver.py '{"rate": 500, "velocity": "none"}'

It shows joint states and takes commands as `joint_state_broadcaster` and
`forward_command_controller` of ros2_control do. Only its service `simulator/reset`, which puts the
pendulum down and at rest, is made for `hucrl up --no-simulator`. What it gets and what it does is
told by `DEFAULTS`.
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
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

GRAVITY, LENGTH, MASS, VISCOUS, LARGEST = 9.81, 0.5, 0.3, 0.005, 1.0
LONGEST_STEP = 1e-3
STIFFNESS = 4.0, 0.4  # of its drive [N m/rad, N m s/rad]
DEFAULTS = {
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
    "reset_takes": 0.0,  # [s]
    "begins_at": math.pi,  # where the joint is at first [rad]
    "gravity": GRAVITY,  # [m/s²]
    "stop_at": -math.inf,  # lower end stop of the joint [rad]
}


class Pendulum:
    """Angle from upright."""

    def __init__(self, how, step):
        self.friction, self.gravity, self.dt = how["friction"], how["gravity"], step
        self.angle, self.speed, self.stop = how["begins_at"], 0.0, how["stop_at"]

    def drive(self, interface, command):
        """The torque for a command."""
        if interface == "velocity":
            return STIFFNESS[1] * (command - self.speed)
        if interface == "position":
            return STIFFNESS[0] * (command - self.angle) - STIFFNESS[1] * self.speed
        return command

    def step(self, effort):
        effort = min(max(effort, -LARGEST), LARGEST)
        dry = self.friction * math.tanh(self.speed / 0.02)
        torque = effort - VISCOUS * self.speed - dry
        pull = self.gravity / LENGTH * math.sin(self.angle)
        self.speed += self.dt * (pull + torque / (MASS * LENGTH**2))
        self.angle += self.dt * self.speed
        if self.angle < self.stop:
            self.angle, self.speed = self.stop, 0.0


class Driver(Node):
    def __init__(self, given):
        super().__init__("foreign_driver")
        self.how = {**DEFAULTS, **given}
        self.each = math.ceil(1 / self.how["rate"] / LONGEST_STEP)  # steps for a joint state
        self.body = Pendulum(self.how, 1 / self.how["rate"] / self.each)
        self.lock = threading.Lock()
        self.coming, self.effort = [], self.at_rest()
        self.clock = time.monotonic()
        if self.how["named"]:
            self.declare_parameter("interface_name", self.how["interface"])
        self.random = random.Random(0)
        self.held_back = None
        self.shift = time.time() - time.monotonic()  # of the stamps' clock
        self.reset_at, self.outages = math.inf, self.how["outages"]
        reliability = ReliabilityPolicy["BEST_EFFORT" if self.how["best_effort"] else "RELIABLE"]
        quality = QoSProfile(depth=10, reliability=reliability)
        self.states = self.create_publisher(JointState, "joint_states", quality)
        self.create_subscription(Float64MultiArray, "controller/commands", self.on_command, 10)
        self.create_service(Trigger, "simulator/reset", self.on_reset)
        threading.Thread(target=self.run, daemon=True).start()

    def on_command(self, message):
        with self.lock:
            # On a loaded machine the body's clock may be behind: that is no dead time.
            came = min(time.monotonic(), self.clock)
            self.coming.append((came + self.how["dead_time"], message.data[0]))
        if self.how["commands_log"]:
            with Path(self.how["commands_log"]).open("a", encoding="ascii") as log:
                log.write(f"{message.data[0]!r}\n")

    def on_reset(self, request, response):
        time.sleep(self.how["reset_takes"])
        with self.lock:
            self.body.angle, self.body.speed = math.pi, 0.0
            self.effort, self.coming = self.at_rest(), []
            self.reset_at = self.clock
        time.sleep(0.1)
        response.success = True
        return response

    def run(self):
        sums, before = 0.0, self.measured()
        begin, done, let_go = time.monotonic(), 0, math.inf
        while rclpy.ok():
            done += 1
            now = begin + done * self.body.dt
            time.sleep(max(now - time.monotonic(), 0.0))
            with self.lock:
                self.clock = now
                while self.coming and self.coming[0][0] <= now:
                    told, self.effort = self.coming.pop(0)
                    let_go = told + (self.how["timeout"] or math.inf)
                if now > let_go:
                    self.effort = self.at_rest()
                last = self.body.drive(self.how["interface"], self.effort)
                last = min(max(last, -LARGEST), LARGEST)
                self.body.step(self.how["gain"] * last)
                measured = self.measured()
                away = now - self.reset_at
            sums += last
            if done % self.each == 0:
                speed = (measured - before) / self.body.dt
                self.show(now, measured, speed, sums / self.each, last)
                sums = 0.0
            before = measured
            if self.how["dies_after"] and away > self.how["dies_after"] and self.outages:
                self.outages -= 1
                self.shift -= self.how["stamps"] == "jump"
                time.sleep(self.how["dies_for"])
                begin += self.how["dies_for"]

    def at_rest(self):
        return self.body.angle if self.how["interface"] == "position" else 0.0

    def measured(self):
        counts = self.how["counts"]
        if not counts:
            return self.body.angle
        return math.floor(self.body.angle / 2 / math.pi * counts) * 2 * math.pi / counts

    def show(self, now, angle, difference, mean, last):
        message = JointState(name=["pendulum_joint"], position=[angle])
        stamp = now + self.shift
        if self.how["stamps"] == "zero":
            stamp = 0.0
        message.header.stamp.sec = int(stamp)
        message.header.stamp.nanosec = int(stamp % 1 * 1e9)
        velocity = {
            "true": [self.body.speed],
            "none": [],
            "nan": [math.nan],
            "difference": [difference],
        }
        message.velocity = velocity[self.how["velocity"]]
        message.effort = {"mean": [mean], "last": [last], "none": []}[self.how["effort"]]
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
