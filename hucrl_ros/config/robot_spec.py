"""What a controller must know of a robot, simulated or real."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


VELOCITY = "_velocity"
AXES = ("x", "y", "z")


class Sources(NamedTuple):
    """Who tells the entries of a robot's state.

    Joint states tell positions and velocities of `joint_names`, and what `observed` calls
    `<joint>_velocity`. What it calls `<body>_x`, `<body>_y` or `<body>_z` comes as the body's
    pose on the topic `object_pose`; what the context calls so comes on the topic `goal`. An
    observed `<body>_x_velocity` of that body is told by two poses.
    """

    further: tuple[str, ...]
    """Joints of which only the velocity is in the state."""
    object: str
    """Body that is observed; empty: none."""
    goal: str
    """Body that the context places; empty: none."""
    order: tuple[int, ...]
    """`(p,)` where the state's entries stand in all that is told: positions and velocities of
    the joints, velocities of the further ones, x, y, z of the object, their velocities, x, y, z
    of the goal."""


def sources(spec: RobotSpec) -> Sources:
    """Find out who tells what of a robot's state.

    Raises:
        ConfigError: nobody tells an entry.
    """
    moving = [name.removesuffix(VELOCITY) for name in spec.observed if name.endswith(VELOCITY)]
    place = [name for name in spec.observed if not name.endswith(VELOCITY)]
    body, goal = _body_of(place, spec, "observed"), _body_of(spec.context, spec, "context")
    joints = 2 * len(spec.joint_names)
    places = [f"{body}_{axis}" for axis in AXES]
    further = [name for name in moving if not body or name not in places]
    observed = [f"{joint}{VELOCITY}" for joint in further]
    observed += [*places, *(f"{place}{VELOCITY}" for place in places)]
    staying = [f"{goal}_{axis}" for axis in AXES]
    order = (
        *range(joints),
        *(joints + observed.index(name) for name in spec.observed),
        *(joints + len(observed) + staying.index(name) for name in spec.context),
    )
    return Sources(tuple(further), body, goal, order)


def object_speeds(spec: RobotSpec) -> list[str]:
    """The observed velocities that two poses of the object tell."""
    told = sources(spec)
    joints = {f"{joint}{VELOCITY}" for joint in told.further}
    return [name for name in spec.observed if name.endswith(VELOCITY) and name not in joints]


def _body_of(names: Sequence[str], spec: RobotSpec, kind: str) -> str:
    """The one body that `names` place; empty where there are none."""
    for name in names:
        body, _, axis = name.rpartition("_")
        if axis not in AXES or body != names[0].rpartition("_")[0]:
            raise ConfigError(
                f"robot {spec.name!r}: {kind} entry {name!r} has no topic; expected <body>_x, "
                f"<body>_y, <body>_z of one body{f' or <joint>{VELOCITY}' * (kind == 'observed')}"
            )
    return names[0].rpartition("_")[0] if names else ""
