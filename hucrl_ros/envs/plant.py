"""A simulated robot with a clock, as its drivers would show it: efforts in, joint states out."""

from typing import NamedTuple

import numpy as np

from hucrl_ros.envs.base import Array, MujocoRobot

RESET_PERIODS = 10
"""A reset takes this many control periods, so that no transition seems to lead across it."""


class JointSample(NamedTuple):
    """What a joint state message says, in the order of `joint_names`."""

    stamp_ns: int
    """Simulated time [ns]."""
    positions: Array
    """`(n,)` [rad or m]"""
    velocities: Array
    """`(n,)` [rad/s or m/s]"""
    efforts: Array
    """`(n,)` mean since the sample before [N m or N]; 0 after a reset and where no motor is."""


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
        self.robot = robot
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

    def sample(self) -> JointSample:
        """The present joint state; the mean of the efforts starts anew."""
        joints = len(self.robot.spec.joint_names)
        state = self.robot.state
        efforts = np.zeros(joints)
        efforts[self._motors] = self._mean
        self._restart_mean()
        return JointSample(self.stamp_ns, state[:joints], state[joints : 2 * joints], efforts)

    def _start_episode(self, episode: int) -> None:
        self.robot.reset(np.random.default_rng([self._seed, episode]))
        self._command = np.zeros_like(self._command)
        self._restart_mean()

    def _restart_mean(self) -> None:
        self._mean[:] = 0.0
        self._mean_substeps = 0
