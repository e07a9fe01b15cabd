"""Node `simulator`: a MuJoCo robot that stands in for hardware."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray
from std_srvs.srv import Trigger

from hucrl_ros.config.robot import AXES, plural
from hucrl_ros.config.stand_in import require_real_time
from hucrl_ros.errors import ConfigError
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.controller_topics import pose_message
from hucrl_ros.nodes.diagnostics import DiagnosticsPublisher, Health, Level
from hucrl_ros.nodes.pacing import Lockstep, Pacing, RealTime
from hucrl_ros.nodes.parameters import origin, own_parameter, read_config
from hucrl_ros.nodes.realtime import go_before_loop
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.setting_parameters import SettingParameters
from hucrl_ros.nodes.simulated_driver import SimulatedDriver
from hucrl_ros.nodes.topics import ARCHIVE, LATCHED, MEASURED, STEADY, STREAM
from hucrl_ros.nodes.wishes import GOAL, Wish, Wishes
from hucrl_ros.robots import make_robot
from hucrl_ros.robots.mujoco_robot import Array, Plant, Sample
from hucrl_ros.run.folder import RunFolder

GOAL_MEANING = "Goal of the next episodes [m], in the frame world; empty: drawn as usual."
GOAL_RULE = "three numbers of one kind, e.g. [0.5, 0.0, 0.3], or []"
REPEAT_PERIOD = 0.05
"""[s] In lockstep, between two copies of a joint state that nobody has answered."""
USES = ("task", "mode", "seed", "simulator", "body", "control.realtime_priority")
"""Settings."""
LOG_PERIOD = 5.0
"""[s] Least time between two log lines about refused commands."""
_INSTEAD = {"effort": "no effort applied", "velocity": "velocity 0", "position": "it holds"}


class Simulator(Node):
    """Publishes joint states, takes commands; `lockstep` or `real_time` (`docs/contracts.md`).

    An object's pose comes with each joint state, a goal with the first one of an episode; both
    are published before it.

    Parameters: the settings of a run, of which it uses `task`, `mode`, `seed`, `simulator`,
    `body` and `control.realtime_priority`, before which it goes as hardware does; `run`, a run's
    folder (optional): with it, the start of an episode depends on the episode's number even after
    a stop and `--resume`. While it runs, a person may set `next.goal`.
    """

    def __init__(self) -> None:
        super().__init__("simulator", automatically_declare_parameters_from_overrides=True)
        self.exit_code: int | None = None
        config = read_config(self, own=("run",))
        SettingParameters(self, config, USES)
        folder = own_parameter(self, "run", "")
        self._run = RunFolder.open(Path(folder)) if folder else None
        self._mode = config.mode
        described = self._run.robot if self._run else None
        if config.mode == "lockstep":
            require_real_time(config.simulator, origin(self))
        robot = make_robot(config.task, described, config.body)
        self._plant = Plant(robot, config.seed, config.simulator.rate)
        self._settings = config.simulator
        self._driver = SimulatedDriver(
            config.simulator, self._plant, np.random.default_rng(config.seed)
        )
        self._pacing = self._make_pacing()
        self._spec = self._plant.robot.spec
        self._resets = self._published = self._repeated = self._refused = 0
        self._connect()
        self._wishes = Wishes(self, {GOAL: Wish([], GOAL_MEANING, GOAL_RULE, self._judge_goal)})
        if config.mode != "lockstep":
            go_before_loop(config.control)
        self._pacing.start()
        self.get_logger().info(f"{self._spec.name}, {config.mode}, {self._spec.period} s a period")

    def _make_pacing(self) -> Pacing:
        if self._mode == "lockstep":
            return Lockstep(self._plant, self._publish)
        dead_time = self._settings.dead_time
        return RealTime(self._plant, self._publish, dead_time, self._driver.lateness)

    def _connect(self) -> None:
        reliable = ARCHIVE if self._mode == "lockstep" else STREAM
        measured = MEASURED if self._settings.best_effort else reliable
        # Before the joint states: whoever knows their publisher should know these.
        self._goals = self.create_publisher(PoseStamped, topics.GOAL, LATCHED)
        self._objects = self.create_publisher(PoseStamped, topics.OBJECT_POSE, measured)
        self._pose: PoseStamped | None = None
        self._message = JointState(name=list(self._plant.joints))
        self._publisher = self.create_publisher(JointState, topics.JOINT_STATES, measured)
        self.create_subscription(Float64MultiArray, topics.COMMANDS, self._on_command, STREAM)
        self.create_service(Trigger, topics.RESET, self._on_reset)
        self._diagnostics = DiagnosticsPublisher(self, self._health, self._spec.name)
        self._repeat_timer = self.create_timer(REPEAT_PERIOD, self._repeat, clock=STEADY)
        if self._mode != "lockstep":
            self._repeat_timer.cancel()

    def close(self) -> None:
        """Stop the physics."""
        self._pacing.stop()

    def _publish(self, sample: Sample) -> None:
        if sample.goal is not None:
            self._goals.publish(pose_message(sample.goal.tolist(), sample.stamp_ns))
        if sample.object is not None:
            self._pose = pose_message(sample.object.tolist(), sample.stamp_ns)
            self._objects.publish(self._pose)
        told = self._driver.tell(sample)
        if told is None:
            return
        stamp = self._message.header.stamp
        stamp.sec, stamp.nanosec = divmod(told.stamp_ns, 10**9)
        self._message.position = told.positions.tolist()
        self._message.velocity = told.velocities.tolist()
        self._message.effort = told.efforts.tolist()
        self._publisher.publish(self._message)
        self._published += 1
        if self._mode == "lockstep":
            self._repeat_timer.reset()

    def _repeat(self) -> None:
        if self._pose is not None:
            self._objects.publish(self._pose)
        self._publisher.publish(self._message)
        self._repeated += 1

    def _on_command(self, message: Float64MultiArray) -> None:
        command = np.array(message.data, dtype=np.float64)
        problem = self._problem(command)
        if problem:
            self._refused += 1
            self.get_logger().warning(
                f"command refused, {_INSTEAD[self._spec.command]} instead: {problem}",
                throttle_duration_sec=LOG_PERIOD,
            )
        self._pacing.apply(None if problem else command)

    def _problem(self, command: Array) -> str:
        """What is wrong with a command; empty if nothing is."""
        kind = plural(self._spec.command)
        if len(command) != self._spec.action_dim:
            joints = ", ".join(self._spec.actuated_joints)
            return f"{len(command)} {kind}; expected {self._spec.action_dim} ({joints})"
        if not np.isfinite(command).all():
            return f"{kind} {command.tolist()}; expected finite numbers"
        return ""

    def _on_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        episode = self._resets if self._run is None else self._run.finished_episodes()
        self._resets += 1
        self._plant.wanted_goal = self._goal(self._wishes[GOAL])
        self._pacing.reset(episode)
        response.success = True
        response.message = f"at the start of episode {episode}"
        return response

    def _goal(self, wish: list[float]) -> Array | None:
        return np.array(wish, dtype=np.float64) if wish else None

    def _judge_goal(self, wish: list[float]) -> None:
        if not wish:
            return
        if len(wish) != len(AXES) or not all(type(x) in (int, float) for x in wish):
            raise ConfigError(f"{GOAL} = {wish}: accepted: {GOAL_RULE}")
        self._plant.require_goal(np.array(wish, dtype=np.float64), GOAL)

    def _health(self) -> Health:
        if self._pacing.failure is not None:
            self.exit_code = 1
        return Health(
            level=Level.WARN if self._refused else Level.OK,
            message=f"{self._refused} commands refused" if self._refused else "ok",
            values={
                "mode": self._mode,
                "resets": self._resets,
                "published": self._published,
                "repeated": self._repeated,
                "dropped": self._driver.dropped,
                "refused_commands": self._refused,
                "overruns": self._pacing.overruns,
            },
        )


main = partial(run_node, Simulator)

if __name__ == "__main__":
    sys.exit(main())
