"""What a controller counts."""

from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

from hucrl_ros.controller.tick import Source

RECENT_TICKS = 1000


@dataclass
class Counters:
    """What happened since the controller started."""

    ticks: int = 0
    sources: Counter[Source] = field(default_factory=Counter)
    misses: int = 0
    clamps: int = 0
    bad_joint_states: int = 0
    repeated_joint_states: int = 0
    skipped_joint_states: int = 0
    """Control periods without a joint state, by the stamps: lost, or overtaken by a newer one."""
    overruns: int = 0
    """Ticks whose plan was not ready at their deadline; they sent the previous plan, or π(s)."""
    compensated: int = 0
    """Ticks that planned from where the robot would be when the command took effect."""
    delay_ms: float = 0.0
    """Expected from the receipt of a joint state until its command takes effect."""
    stale_commands: int = 0
    """Safe commands sent because no joint state came."""
    tick_ms: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT_TICKS))

    def values(self) -> dict[str, object]:
        """By name, for `/diagnostics`; tick times over the last `RECENT_TICKS` ticks."""
        p50, p99 = np.percentile(self.tick_ms, [50, 99]) if self.tick_ms else (0.0, 0.0)
        return {
            "ticks": self.ticks,
            **{f"ticks_{source.name.lower()}": self.sources[source] for source in Source},
            "misses": self.misses,
            "clamps": self.clamps,
            "bad_joint_states": self.bad_joint_states,
            "repeated_joint_states": self.repeated_joint_states,
            "skipped_joint_states": self.skipped_joint_states,
            "overruns": self.overruns,
            "stale_commands": self.stale_commands,
            "compensated": self.compensated,
            "delay_ms": f"{self.delay_ms:.3f}",
            "tick_p50_ms": f"{p50:.3f}",
            "tick_p99_ms": f"{p99:.3f}",
        }
