"""A robot of which a user's YAML says everything."""

import math

import mujoco
import numpy as np

from hucrl_ros.config.robot import Draw
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.model_files import build_model
from hucrl_ros.robots.mujoco_robot import Array, MujocoRobot


class DescribedRobot(MujocoRobot):
    """Its spec, its model and where its episodes start come from a description."""

    def __init__(self, described: Description) -> None:
        """Load the model.

        Args:
            described: With nothing of the spec and the start left to derive.

        Raises:
            ConfigError: the model can't be loaded, or doesn't fit the description.
        """
        self.spec = described.robot.spec
        self.mjcf = described.robot.model
        try:
            super().__init__(build_model(described.model, described.robot))
        except (KeyError, ValueError) as error:
            reason = error.args[0] if error.args else error
            raise ConfigError(f"{described.path}: {' '.join(str(reason).split())}") from None
        none = Draw(mean=0.0)
        draws = [described.robot.start.get(entry, none) for entry in described.robot.entries]
        self._uniform = np.array([draw.low is not None for draw in draws])
        self._first = np.array([draw.mean if draw.low is None else draw.low for draw in draws],
                               dtype=np.float64)  # fmt: skip
        self._spread = np.array(
            [draw.std if draw.low is None else (draw.high or 0.0) - draw.low for draw in draws]
        )

    def initial_state(self, rng: np.random.Generator) -> Array:
        """Every entry drawn by itself, as the description says."""
        count = len(self._first)
        shares = np.where(self._uniform, rng.uniform(size=count), rng.standard_normal(count))
        return np.asarray(self._first + self._spread * shares)

    @property
    def ranges(self) -> Array:
        """`(n, 2)` lower and upper limit of each joint [rad or m]; infinite where it has none."""
        return joint_ranges(self.model, self.spec.joint_names)


def joint_ranges(model: mujoco.MjModel, names: tuple[str, ...]) -> Array:
    """`(n, 2)` limits of the joints [rad or m]; infinite where one has none."""
    ranges = np.full((len(names), 2), (-math.inf, math.inf))
    for row, name in enumerate(names):
        joint = model.joint(name).id
        if model.jnt_limited[joint]:
            ranges[row] = model.jnt_range[joint]
    return ranges
