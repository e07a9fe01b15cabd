"""What a controller must know of a robot, simulated or real."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RobotSpec:
    """Joints, limits and control period.

    The state is `(positions..., velocities...)` of `joint_names`, in that order, so it has
    `2 * len(joint_names)` entries. An action holds one effort for each of `actuated_joints`.
    """

    name: str
    joint_names: tuple[str, ...]
    actuated_joints: tuple[str, ...]
    effort_limits: tuple[float, ...]
    """Largest absolute effort of each actuated joint [N m or N]."""
    period: float
    """Control period [s]."""

    @property
    def state_dim(self) -> int:
        """Length p of the state."""
        return 2 * len(self.joint_names)

    @property
    def action_dim(self) -> int:
        """Length q of the action."""
        return len(self.actuated_joints)
