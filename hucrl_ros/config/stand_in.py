"""What makes the simulator behave like hardware, and where it can't."""

from typing import Any

from hucrl_ros.config.files import LIKE_HARDWARE, read_settings, share_directory
from hucrl_ros.config.robot import Command
from hucrl_ros.config.schema import SimulatorSettings
from hucrl_ros.errors import ConfigError

OF_EFFORTS = ("friction", "motor_error", "backlash", "drift")
"""Settings of `body`, of a drive that turns commands into efforts by itself."""


def like_hardware(command: Command = "effort") -> dict[str, Any]:
    """Nested settings of such a simulator, and of a controller that was told of its habits.

    Args:
        command: What the robot takes; the drives of others than efforts are left as they are.
    """
    found = read_settings(share_directory() / "config" / f"{LIKE_HARDWARE}.yaml")
    if command != "effort":
        found["body"] = {k: x for k, x in found["body"].items() if k not in OF_EFFORTS}
    return found


def require_real_time(simulator: SimulatorSettings, source: str) -> None:
    """Refuse what the simulator's driver can't do where physics waits for each command.

    Args:
        simulator: Settings of a run in lockstep.
        source: Where they came from, for the message.

    Raises:
        ConfigError: names the first one that isn't as in an ideal driver.
    """
    for (name, value), (_, ideal) in zip(simulator, SimulatorSettings(), strict=True):
        if value != ideal:
            raise ConfigError(
                f"{source}: simulator.{name} = {value!r}: in real time only (`hucrl up "
                "--real-time`); in lockstep physics waits for each command"
            )
