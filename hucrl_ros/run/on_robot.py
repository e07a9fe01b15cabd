"""What a run on a robot needs: limits, and gentle random efforts."""

from typing import Any

from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import ConfigError

GENTLE: dict[str, Any] = {"random_share": 0.5, "random_bandwidth": 3.0}
"""Settings of `exploration` on a robot, where nobody chose others [1, Hz]."""


def require_limits(config: Config, described: Description) -> None:
    """Refuse to let random efforts move a robot that nothing limits.

    Raises:
        ConfigError: names the line to add.
    """
    safety, robot = config.safety, described.robot
    if described.constraints or safety.position_limits or safety.velocity_limits:
        return
    joint, speeds = robot.actuated[0], ",".join(["..."] * len(robot.joints))
    off = "" if robot.joint_limits else ", robot.joint_limits is false"
    raise ConfigError(
        f"{described.name}: on a robot something has to limit it, and nothing does: no joint has "
        f"limits{off}, and there is no constraint; add to its YAML `constraints: [{{kind: "
        f"position, joint: {joint}, low: ..., high: ...}}]`, where that joint may turn for ever "
        f"`[{{kind: speed, joint: {joint}, largest: ...}}]`, or --set "
        f"safety.velocity_limits=[{speeds}] (docs/safety.md)"
    )


def random_efforts(config: Config) -> str:
    """One line on what will move the robot before there is a model."""
    found = config.exploration
    smooth = found.random_bandwidth
    how = f"changing at up to {smooth:g} Hz" if smooth else "new in each control period"
    return (
        f"random actions of up to {found.random_share:.0%} of the limits, {how}; other ones by "
        "--set exploration.random_share=, exploration.random_bandwidth="
    )
