"""What a controller must know of a robot, simulated or real."""

from dataclasses import dataclass

from hucrl_ros.errors import ConfigError


@dataclass(frozen=True)
class RobotSpec:
    """Joints, limits and control period.

    The state is `(positions..., velocities..., observed..., context...)`: positions and
    velocities of `joint_names` in that order, then what no joint state tells. The model predicts
    all but the context, which stays as it is. An action holds one effort for each of
    `actuated_joints`.
    """

    name: str
    joint_names: tuple[str, ...]
    actuated_joints: tuple[str, ...]
    effort_limits: tuple[float, ...]
    """Largest absolute effort of each actuated joint [N m or N]."""
    period: float
    """Control period [s]."""
    observed: tuple[str, ...] = ()
    """Entries that move and come from elsewhere than the joints, e.g. `object_x` [m]."""
    context: tuple[str, ...] = ()
    """Entries that stay as they are for an episode, e.g. `goal_x` [m]."""

    @property
    def state_dim(self) -> int:
        """Length p of the state."""
        return self.predicted_dim + len(self.context)

    @property
    def predicted_dim(self) -> int:
        """Number m of the state's first entries: those that a model predicts."""
        return 2 * len(self.joint_names) + len(self.observed)

    @property
    def action_dim(self) -> int:
        """Length q of the action."""
        return len(self.actuated_joints)


def require_joints_only(task: str, spec: RobotSpec) -> None:
    """Refuse a task whose states hold more than joints, which have no topic yet.

    Raises:
        ConfigError: it has observed entries or a context.
    """
    extra = (*spec.observed, *spec.context)
    if extra:
        raise ConfigError(
            f"task: {task!r} can't be played through ROS: {', '.join(extra)} have no topic yet; "
            f"`hucrl train {task}` learns it in one process"
        )
