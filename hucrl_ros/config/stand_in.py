"""What makes the simulator behave like hardware."""

from hucrl_ros.config.schema import SimulatorSettings
from hucrl_ros.errors import ConfigError


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
