"""A simulated robot with a clock, as drivers and cameras would show it: efforts in, states out."""

from typing import NamedTuple

import numpy as np

from hucrl_ros.config.robot_spec import AXES, sources
from hucrl_ros.robots.extras import Extras
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot

RESET_PERIODS = 10
"""A reset takes this many control periods, so that no transition seems to lead across it."""


class Sample(NamedTuple):
    """What can be seen of the robot at one moment; joints are in the order of `Plant.joints`."""

    stamp_ns: int
    """Simulated time [ns]."""
    positions: Array
    """`(n,)` [rad or m]"""
    velocities: Array
    """`(n,)` [rad/s or m/s]"""
    efforts: Array
    """`(n,)` mean since the sample before [N m or N]; 0 after a reset and where no motor is."""
    object: Array | None
    """`(3,)` where the observed body is [m]; None: none is observed."""
    goal: Array | None
    """`(3,)` where the goal is [m]; None: there is none, or it is that of the sample before."""


class Plant:
    """A robot whose simulated time never goes backward, not even at a reset.

    Like an effort controller, it holds the newest command until another one comes.
    """

    def __init__(self, robot: MujocoRobot, seed: int) -> None:
        """Put the robot at the start of episode 0, at simulated time of one control period.

        Args:
            robot: The robot.
            seed: With the episode's number, it decides where an episode starts.
        """
        spec = robot.spec
        told = sources(spec)
        self.robot = robot
        self.joints = (*spec.joint_names, *told.further)
        """Names of the joints that a sample tells of."""
        self._object, self._goal = self._place(told.object), self._place(told.goal)
        self._goal_is_new = True
        self._seed = seed
        self._limits = np.asarray(spec.effort_limits)
        self._motors = [spec.joint_names.index(name) for name in spec.actuated_joints]
        self._substep_ns: float = spec.period * 1e9 / robot.substeps
        # Time 0 would read as "no stamp".
        self._start_ns = round(spec.period * 1e9)
        self._substeps = 0
        self._command: Array = np.zeros(spec.action_dim)
        self._mean = np.zeros(spec.action_dim)
        self._mean_substeps = 0
        self._start_episode(0)

    @property
    def stamp_ns(self) -> int:
        """Simulated time [ns]."""
        return self._start_ns + round(self._substeps * self._substep_ns)

    def reset(self, episode: int) -> None:
        """Put the robot at the start of an episode, with no effort applied."""
        self._start_ns = self.stamp_ns + round(RESET_PERIODS * self.robot.spec.period * 1e9)
        self._substeps = 0
        self._start_episode(episode)

    def command(self, effort: Array) -> None:
        """Apply `effort` `(q,)` [N m or N], saturated at the limits, from now on."""
        self._command = np.clip(effort, -self._limits, self._limits)

    def substep(self) -> None:
        """Advance by one physics step."""
        self.robot.substep(self._command)
        self._mean_substeps += 1
        # A running mean gives a constant command back exactly, not up to rounding.
        self._mean += (self._command - self._mean) / self._mean_substeps
        self._substeps += 1

    def period(self) -> None:
        """Advance by one control period."""
        for _ in range(self.robot.substeps):
            self.substep()

    def sample(self) -> Sample:
        """What can be seen now; the mean of the efforts starts anew."""
        joints = [self.robot.data.joint(name) for name in self.joints]
        positions = np.array([joint.qpos[0] for joint in joints])
        velocities = np.array([joint.qvel[0] for joint in joints])
        efforts = np.zeros(len(joints))
        efforts[self._motors] = self._mean
        goal = self._read(self._goal) if self._goal_is_new else None
        self._goal_is_new = False
        self._restart_mean()
        return Sample(
            self.stamp_ns, positions, velocities, efforts, self._read(self._object), goal
        )

    def _place(self, body: str) -> Extras | None:
        return Extras(self.robot.model, [f"{body}_{axis}" for axis in AXES]) if body else None

    def _read(self, place: Extras | None) -> Array | None:
        data = self.robot.data
        return None if place is None else place.read(data, data.qpos, data.qvel)

    def _start_episode(self, episode: int) -> None:
        self.robot.reset(np.random.default_rng([self._seed, episode]))
        self._command = np.zeros_like(self._command)
        self._goal_is_new = True
        self._restart_mean()

    def _restart_mean(self) -> None:
        self._mean[:] = 0.0
        self._mean_substeps = 0
