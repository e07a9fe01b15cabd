"""What is recorded of an episode: topic names, message types, delivery."""

from typing import Final, NamedTuple

JOINT_STATES: Final = "joint_states"
OBJECT_POSE: Final = "object_pose"
GOAL: Final = "goal"
COMMANDS = "controller/commands"
TICKS = "controller/ticks"
ACTIVE = "controller/active"
SETUP = "controller/setup"
TRIPPED = "watchdog/tripped"

OWN_NAME = "hucrl_topic"
"""Key in an MCAP channel's metadata: the nodes' own name for a topic that was remapped."""


class RecordedTopic(NamedTuple):
    """A topic in an episode's bag."""

    name: str
    """Relative name; the bag holds the name that it resolved to."""
    type: str
    """Message type, as `package/msg/Name`."""
    latched: bool
    """Late subscribers get the last message (TRANSIENT_LOCAL, depth 1)."""
    optional: bool = False
    """Not every bag has it: it is there only if something was published."""
    own: str = ""
    """Relative name that the nodes know it by; empty: it can be told from `name`."""


RECORDED = (
    RecordedTopic(JOINT_STATES, "sensor_msgs/msg/JointState", latched=False),
    RecordedTopic(COMMANDS, "std_msgs/msg/Float64MultiArray", latched=False),
    RecordedTopic(TICKS, "std_msgs/msg/Float64MultiArray", latched=False),
    RecordedTopic(ACTIVE, "std_msgs/msg/Bool", latched=True),
    RecordedTopic(TRIPPED, "diagnostic_msgs/msg/DiagnosticStatus", latched=True),
    RecordedTopic(OBJECT_POSE, "geometry_msgs/msg/PoseStamped", latched=False, optional=True),
    RecordedTopic(GOAL, "geometry_msgs/msg/PoseStamped", latched=True, optional=True),
    RecordedTopic(SETUP, "std_msgs/msg/String", latched=True, optional=True),
)


def is_named(topic: str, name: str) -> bool:
    """Whether the resolved name `topic` is the relative `name` in some namespace."""
    return topic == name or topic.endswith(f"/{name}")
