"""The tasks as gymnasium environments, for anybody's agent; importing this module registers them.

`hucrl_ros/pendulum-v0` and the like are the paper's tasks; `hucrl_ros/robot-v0` takes the path of
a user's own description as `task`.
"""

from typing import Any

import gymnasium
import mujoco
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.video import Frame, camera_of, renderer_of
from hucrl_ros.robots.mujoco_robot import Array
from hucrl_ros.run.asked import RunOptions, asked_run
from hucrl_ros.tasks.task import Task

NAMESPACE = "hucrl_ros"


class Environment(gymnasium.Env[Array, NDArray[np.float32]]):
    """One task in simulation; an episode is truncated after its control periods, never terminated.

    An action `(q,)` in [-1, 1] holds efforts in shares of their limits. A reward is that of the
    state before the action. After `reset(seed=s)`, episode k starts as that of `hucrl train
    --seed s`; physics and rewards are those of training.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012 - gymnasium's

    def __init__(
        self,
        task: str = "",
        action_penalty: float | None = None,
        features: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Load the task.

        Args:
            task: Name of a task, or the path of the YAML that describes a robot of one's own.
            action_penalty: ρ; None: that of the task's settings.
            features: Observe the task's features `(f,)`, as our policies do, instead of the state
                `(p,)`: angles are their cosines and sines.
            render_mode: `rgb_array`, for which MuJoCo must be able to draw (`MUJOCO_GL`); or None.

        Raises:
            ConfigError: there is no such task, or its description or settings are wrong.
        """
        if not task:
            raise ConfigError(
                "task = '': expected one of `hucrl list tasks`, or the path of a YAML"
            )
        given = {} if action_penalty is None else {"action_penalty": action_penalty}
        config, described = asked_run(RunOptions(task, overrides=given))
        self.task = Task(described, config.action_penalty)
        self.robot = self.task.robot(body=config.body)
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": round(1.0 / self.task.spec.period)}
        self._features = features
        self._renderer: mujoco.Renderer | None = None
        self._limits = np.asarray(self.task.spec.effort_limits)
        self._seed: int | None = None
        seen = self.task.feature_dim if features else self.task.spec.state_dim
        self.observation_space = spaces.Box(-np.inf, np.inf, (seen,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, self._limits.shape, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Start the first episode of a seed; without one, the next episode of the seed before.

        Args:
            seed: Decides, with the episode's number, where each episode starts.
            options: Not used.
        """
        super().reset(seed=seed)
        if seed is not None or self._seed is None:
            self._seed = int(self.np_random.integers(2**31)) if seed is None else seed
            self._episode = 0
        else:
            self._episode += 1
        self._state = self.robot.reset(np.random.default_rng([self._seed, self._episode]))
        self._periods = 0
        return self._observation(), {}

    def step(self, action: NDArray[np.float32]) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        """One control period under `action` `(q,)`, clipped to [-1, 1].

        Raises:
            ConfigError: an action isn't so many numbers.
        """
        if np.shape(action) != self._limits.shape or not np.isfinite(action).all():
            raise ConfigError(
                f"action = {np.asarray(action).tolist()}: expected {len(self._limits)} finite "
                f"number{'s' * (len(self._limits) > 1)}, in a row"
            )
        effort = self._limits * np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        reward = float(self.task.rewards(self._state[None], effort[None])[0])
        self._state = self.robot.step(effort)
        self._periods += 1
        return self._observation(), reward, False, self._periods >= self.task.steps, {}

    def _observation(self) -> Array:
        if not self._features:
            return self._state.copy()
        with torch.no_grad():
            return self.task.features(torch.as_tensor(self._state)).numpy()

    def render(self) -> Frame | None:
        """The robot as videos show it, `(SIZE, SIZE, 3)`; None without a mode."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            self._renderer = renderer_of(self.robot.model)
        self._renderer.update_scene(self.robot.data, camera_of(self.robot.model))
        picture: Frame = self._renderer.render()
        return picture

    def close(self) -> None:
        """Give the renderer back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


for _id, _kwargs in {**{name: {"task": name} for name in known_tasks()}, "robot": {}}.items():
    gymnasium.register(
        f"{NAMESPACE}/{_id}-v0", entry_point=f"{__name__}:Environment", kwargs=_kwargs
    )
