"""One episode through ROS in real time, with commands that act late."""

from typing import NamedTuple

import numpy as np

from hucrl_ros.benchmarks.trials import NODES, run_trial
from hucrl_ros.config import ControlSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.graph import NodeSpec, Value
from hucrl_ros.runtime.bundle import Bundle
from hucrl_ros.tasks import Task


class RealTimeEpisode(NamedTuple):
    """One episode."""

    total: float
    """Return, of the efforts that acted."""
    compensated: float
    """Share of the ticks that planned from a predicted state [1]."""
    tick_ms: float
    """Median [ms]."""


def play_real_time(
    bundle: Bundle, task: Task, seed: int, control: ControlSettings
) -> RealTimeEpisode:
    """Play an episode with the simulator, the controller and physics that never waits.

    Args:
        bundle: What to play.
        task: Its task.
        seed: Of the start and of planning.
        control: Its `extra_delay` is also what the simulator delays commands by.

    Raises:
        ConfigError: the bundle's state holds what no joint state tells.
        RunError: a process ended.
    """
    manifest = bundle.manifest
    if manifest.observed or manifest.context:
        others = ", ".join((*manifest.observed, *manifest.context))
        raise ConfigError(
            f"{bundle.path}: its state holds {others}; --real-time needs one of joint positions "
            "and velocities only"
        )
    settings: dict[str, Value] = {"task": task.name, "mode": "real_time", "seed": seed}
    own: dict[str, Value] = {"bundle": str(bundle.path.absolute())}
    nodes = (
        NodeSpec("simulator", parameters={**settings, "command_delay": control.extra_delay}),
        NodeSpec("episode_logger", parameters=own, package=NODES),
    )
    controller = {
        **settings,
        **own,
        "control.latency_compensation": control.latency_compensation,
        "control.extra_delay": control.extra_delay,
        "control.realtime_priority": control.realtime_priority,
    }
    raw = run_trial(lambda pid: nodes, controller, manifest.steps * manifest.period)
    total = task.rewards(np.array(raw["states"]), np.array(raw["actions"])).sum()
    compensated = int(raw["diagnostics"]["compensated"]) / len(raw["tick_ms"])
    return RealTimeEpisode(float(total), compensated, float(np.median(raw["tick_ms"])))
