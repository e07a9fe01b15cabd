"""A learned double pendulum on RealAIGym's leaderboard, by its own scripts.

Copy this file into `leaderboard/<robot>/simulation_v2` or `robustness_v2` of a clone of
dfki-ric-underactuated-lab/double_pendulum and run there, with its `src/python` in PYTHONPATH:

    HUCRL_BUNDLE=.../bundles/bundle_012 python calculate_leaderboard_score.py con_hucrl.py
    HUCRL_BUNDLE=.../bundles/bundle_012 python benchmark_controller.py con_hucrl.py

With HUCRL_VELOCITY_WINDOW=0.008 velocities are the slopes of the positions in the last 8 ms, as on
a robot with `driver.velocity: derived`, instead of those that are told.
"""

import os
import sys
from pathlib import Path

import numpy as np
from double_pendulum.controller.abstract_controller import AbstractController
from numpy.typing import NDArray

from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.velocity import VelocityEstimator
from hucrl_ros.errors import HucrlError
from hucrl_ros.experiments.evaluation import open_bundle

BUNDLE, WINDOW = "HUCRL_BUNDLE", "HUCRL_VELOCITY_WINDOW"
name = "hucrl"
leaderboard_config = {
    "csv_path": f"{name}/sim_swingup.csv",
    "name": name,
    "simple_name": "H-UCRL",
    "short_description": "Optimistic model-based RL from scratch swings up and balances.",
    "readme_path": f"readmes/{name}.md",
    "username": "hucrl_ros",
}


class Learned(AbstractController):
    """Plans once a control period, as on a robot, and holds the effort in between."""

    def __init__(self, bundle: Path, window: float) -> None:
        """`window` [s] of positions that tell velocities; 0: velocities are told."""
        super().__init__()
        opened, task = open_bundle(bundle)
        self._agent = Agent(opened, None)
        self._guard = Guard(task.spec, opened.manifest.safety)
        self._period = task.spec.period
        self._motors = [task.spec.joint_names.index(joint) for joint in task.spec.actuated_joints]
        self._velocities = VelocityEstimator(window) if window else None
        self._agent.warm_up()
        self.init()

    def init_(self) -> None:
        """Begin an episode: their benchmark calls `init` before each of its simulations."""
        self._agent.start_episode(0)
        self._guard.reset()
        if self._velocities is not None:
            self._velocities.reset()
        self._efforts, self._ticks = np.zeros(2), 0

    def get_control_output_(self, x: NDArray[np.float64], t: float = 0.0) -> NDArray[np.float64]:
        """Efforts `(2,)` [N m] of shoulder and elbow in the state `(4,)`: angles, velocities."""
        state = np.array(x, dtype=np.float64)
        if self._velocities is not None:
            self._velocities.add(round(1e9 * t), state[:2])
            state[2:] = self._velocities.at(round(1e9 * t))
        if t >= self._ticks * self._period - 1e-9:
            efforts = self._guard.check(self._agent.act(state).action, state).action
            self._efforts[self._motors] = efforts
            self._ticks += 1
        return self._efforts.copy()


if BUNDLE not in os.environ:
    sys.exit(f"{BUNDLE}: not set; it names the folder of the bundle that plays")
try:
    window = float(os.environ.get(WINDOW, "0"))
    if not 0.0 <= window <= 1.0:
        raise ValueError(window)
except ValueError:
    sys.exit(f"{WINDOW} = {os.environ[WINDOW]!r}: expected seconds from 0 to 1")
try:
    controller = Learned(Path(os.environ[BUNDLE]), window)
except HucrlError as error:
    sys.exit(f"{BUNDLE}: {error}")
