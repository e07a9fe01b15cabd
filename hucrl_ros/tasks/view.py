"""What a reward may ask of states and actions, by name."""

import mujoco
import torch
from torch import Tensor, nn

from hucrl_ros.config.reward import Point
from hucrl_ros.config.robot_spec import RobotSpec
from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.kinematics import ForwardKinematics

AXES = "xyz"


class RobotView(nn.Module):
    """Named parts of states `(..., p)` and actions `(..., q)`, differentiable and exportable.

    It is the third argument of a user's reward function.
    """

    def __init__(self, spec: RobotSpec, model: mujoco.MjModel, action_penalty: float) -> None:
        """View the states of a robot.

        Args:
            spec: Names of the entries.
            model: Holds the sites, and what doesn't move.
            action_penalty: ρ.
        """
        super().__init__()
        self.spec = spec
        self.action_penalty = action_penalty
        """ρ of the run's settings."""
        speeds = tuple(f"{joint}_velocity" for joint in spec.joint_names)
        self.entries = (*spec.joint_names, *speeds, *spec.observed, *spec.context)
        """Names of the state's entries `(p,)`."""
        self._model = model
        self._sites = nn.ModuleDict()

    def entry(self, state: Tensor, name: str) -> Tensor:
        """One entry `(...)` of the state: `<joint>`, `<joint>_velocity`, `goal_x`."""
        return state[..., self._index(name, self.entries, "entry of the state")]

    def position(self, state: Tensor, joint: str) -> Tensor:
        """Position `(...)` of a joint [rad or m]; an angle isn't wrapped."""
        return state[..., self._index(joint, self.spec.joint_names, "joint")]

    def velocity(self, state: Tensor, joint: str) -> Tensor:
        """Velocity `(...)` of a joint, also of an observed one [rad/s or m/s]."""
        return self.entry(state, f"{joint}_velocity")

    def velocities(self, state: Tensor) -> Tensor:
        """Velocities `(..., n)` of the joints [rad/s or m/s]."""
        joints = len(self.spec.joint_names)
        return state[..., joints : 2 * joints]

    def effort(self, action: Tensor, joint: str) -> Tensor:
        """Effort `(...)` of an actuated joint [N m or N]."""
        return action[..., self._index(joint, self.spec.actuated_joints, "actuated joint")]

    def site(self, state: Tensor, name: str) -> Tensor:
        """World coordinates `(..., 3)` [m] of a site of the model."""
        if name not in self._sites:
            self._sites[name] = self._kinematics(name)
        place: Tensor = self._sites[name](state[..., : len(self.spec.joint_names)])
        return place

    def body(self, state: Tensor, name: str) -> Tensor:
        """World coordinates `(..., 3)` [m] of a body that is observed, or of a goal.

        An axis that isn't in the state stays where the model has it.
        """
        index = mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_BODY, name)
        if index < 0 or not self.is_in_state(name):
            raise ConfigError(
                f"reward: body {name!r} isn't in the state; known: {self._known_points()}"
            )
        fixed = torch.tensor(self._model.body_pos[index], dtype=state.dtype)
        columns = []
        for axis, letter in enumerate(AXES):
            entry = f"{name}_{letter}"
            stays = fixed[axis].expand(state.shape[:-1])
            columns.append(self.entry(state, entry) if entry in self.entries else stays)
        return torch.stack(columns, dim=-1)

    def point(self, state: Tensor, point: Point) -> Tensor:
        """World coordinates `(..., 3)` [m] of a body in the state, a site, or a fixed place."""
        if not isinstance(point, str):
            return torch.tensor(point, dtype=state.dtype).expand(*state.shape[:-1], 3)
        return self.body(state, point) if self.is_in_state(point) else self.site(state, point)

    def squared_distance(self, state: Tensor, of: Point, to: Point) -> Tensor:
        """`(...)` between two points [m²]."""
        return ((self.point(state, of) - self.point(state, to)) ** 2).sum(dim=-1)

    def is_in_state(self, body: str) -> bool:
        """Whether a coordinate of it is; else a point is a site."""
        return any(f"{body}_{letter}" in self.entries for letter in AXES)

    def _kinematics(self, site: str) -> ForwardKinematics:
        if mujoco.mj_name2id(self._model, mujoco.mjtObj.mjOBJ_SITE, site) < 0:
            raise ConfigError(
                f"reward: the model has no site {site!r}; known: {self._known_points()}"
            )
        try:
            return ForwardKinematics(self._model, site, self.spec.joint_names)
        except ValueError as error:
            raise ConfigError(f"reward: {error}") from None

    def _known_points(self) -> str:
        sites = [self._model.site(k).name for k in range(self._model.nsite)]
        bodies = {e[:-2] for e in self.entries if e[-2:] in ("_x", "_y", "_z")}
        return ", ".join(sorted({*filter(None, sites), *bodies})) or "none"

    def _index(self, name: str, known: tuple[str, ...], kind: str) -> int:
        if name not in known:
            raise ConfigError(f"reward: {name!r} is no {kind}; known: {', '.join(known)}")
        return known.index(name)
