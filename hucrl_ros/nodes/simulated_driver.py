"""What a driver makes of what there is to be measured of the simulated robot."""

import math

import mujoco
import numpy as np

from hucrl_ros.config.schema import SimulatorSettings
from hucrl_ros.robots.mujoco_robot import Array, Plant, Sample

NOTHING: Array = np.zeros(0)
"""In the place of values that the driver doesn't tell."""


class SimulatedDriver:
    """Loses samples, tells them late, in an encoder's steps, or only in part."""

    def __init__(
        self, settings: SimulatorSettings, plant: Plant, rng: np.random.Generator
    ) -> None:
        """Tell of `plant` as `settings` say; `rng` draws what is lost and what is late."""
        self._settings = settings
        self._rng = rng
        self._steps = _steps(settings.encoder_counts, plant) if settings.encoder_counts else None
        self._longest_ns = 1.5e9 * plant.sample_period
        self._before: tuple[int, Array] | None = None
        self.dropped = 0
        """Samples that nobody got."""

    def lateness(self) -> float:
        """Time from a measurement to its publication [s]."""
        longest = self._settings.jitter
        return self._rng.uniform(0.0, longest) if longest else 0.0

    def tell(self, sample: Sample) -> Sample | None:
        """What is told of a sample; None: nothing, it is lost."""
        settings, steps = self._settings, self._steps
        positions, velocities, efforts = sample.positions, sample.velocities, sample.efforts
        if steps is not None:
            positions = np.round(positions / steps) * steps
        if settings.velocity != "measured":
            differences = self._differences(sample.stamp_ns, positions)
            velocities = differences if settings.velocity == "differences" else NOTHING
        if settings.effort != "applied":
            efforts = sample.commands if settings.effort == "commanded" else NOTHING
        if settings.drops and self._rng.random() < settings.drops:
            self.dropped += 1
            return None
        return sample._replace(positions=positions, velocities=velocities, efforts=efforts)

    def _differences(self, stamp_ns: int, positions: Array) -> Array:
        """Of two samples, over the time between them [rad/s or m/s]; 0 across a reset."""
        before, self._before = self._before, (stamp_ns, positions)
        if before is None or stamp_ns - before[0] > self._longest_ns:
            return np.zeros_like(positions)
        return (positions - before[1]) / (1e-9 * (stamp_ns - before[0]))


def _steps(counts: int, plant: Plant) -> Array:
    """`(n,)` step of the encoder of each joint [rad or m]."""
    model = plant.robot.model
    turns = [model.joint(name).type[0] == mujoco.mjtJoint.mjJNT_HINGE for name in plant.joints]
    return np.where(turns, 2.0 * math.pi, 1.0) / counts
