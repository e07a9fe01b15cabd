"""Whether the robot does what its bundle claims, transition by transition."""

import math
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.controller.passage import Transition

Array = NDArray[np.float64]
Predicted = NDArray[np.float32]

SURPRISE = "surprise"
"""First word of the line that says why an episode is over, where it counts as far as it went."""
MEMORY = 0.5
"""[s] Time constant of the mean over the last transitions."""
FLOOR = 0.01
"""Deviation that everything is granted [standard deviations of the targets]: bundles of robots
without noise claim to be exact, and no engine computes better than to some digits."""
LARGEST = 10.0
"""[standard deviations] What a single transition may count for: a knock is no other robot."""
WARY = 4.0
"""[standard deviations] From here on the bundle is wrong about the robot as it is here and now."""


class Level(IntEnum):
    """How far the robot is from what its bundle claims."""

    CALM = 0
    WARY = 1
    """More than a bundle of some episodes is on a robot that stayed the same."""
    ALARMED = 2
    """More than the settings let pass: the episode ends."""


class Surprise:
    """The standardised error of a bundle's predictions, over about the last half second.

    z = (s' − μ) / √(Σ² + σ² + floor²) for each predicted entry; its square, cut off, is averaged
    with weights that fade. The value is the root of the largest of these means: 1 where the
    robot does what the bundle claims, and 1 at the beginning.
    """

    def __init__(self, manifest: Manifest, safety: SafetySettings) -> None:
        """Watch a robot that a bundle plays, by the threshold in the settings in force."""
        spec = manifest.spec
        self._names = entry_names(spec)
        # What a bundle claims after the first episodes is often wrong. The one whose report says
        # how the model before it did in an episode is right about a robot that stays the same.
        tested = manifest.report.surprise is not None
        self._threshold = safety.surprise if tested else 0.0
        self._floor = FLOOR * np.asarray(manifest.target_std)
        self._angles = manifest.angles
        self._share = 1.0 - math.exp(-spec.period / MEMORY)
        self._watches = not manifest.random
        self.reset()

    def reset(self) -> None:
        """An episode begins."""
        self._means = np.ones(len(self._names))

    def recall(self, value: float) -> None:
        """Go on from a `value` that was recorded; NaN: it isn't known."""
        self._means = np.full(len(self._names), 1.0 if math.isnan(value) else value**2)

    @property
    def value(self) -> float:
        """Root mean square of the entry that surprises most [standard deviations].

        NaN for a random bundle, which claims nothing.
        """
        return math.sqrt(float(self._means.max())) if self._watches else math.nan

    @property
    def level(self) -> Level:
        """What the value means."""
        if 0.0 < self._threshold <= self.value:
            return Level.ALARMED
        return Level.WARY if self.value >= WARY else Level.CALM

    @property
    def reason(self) -> str:
        """One line for the end of an episode."""
        return (
            f"{SURPRISE}: {self._names[int(self._means.argmax())]} was {self.value:.1f} standard "
            f"deviations off what the bundle claims, root mean square over {MEMORY:g} s; an "
            f"episode ends at {self._threshold:g} (safety.surprise)"
        )

    def see(
        self,
        passed: Transition,
        mean: Predicted,
        epistemic: Predicted,
        aleatoric: Predicted,
        later: Predicted,
    ) -> None:
        """Take in a transition and what the bundle claims of it, each `(m,)`.

        Args:
            passed: What the robot did.
            mean: Where it should be at its end.
            epistemic: Deviation that more data would remove.
            aleatoric: Deviation of the noise.
            later: The mean if commands act a little later than is assumed.
        """
        # Of a transition that took longer than usual nobody knows whether its stamps are wrong.
        stretch = passed.irregular * (mean - passed.state[: len(mean)])
        timing = stretch**2 + (later - mean) ** 2
        rounding = np.finfo(np.float32).eps * passed.state[: len(mean)]
        variance = epistemic**2 + aleatoric**2 + timing + self._floor**2 + rounding**2
        with np.errstate(over="ignore", invalid="ignore"):
            squares = passed.error(mean, self._angles) ** 2 / variance
        # A bundle that predicts no number is wrong.
        squares = np.where(squares < LARGEST**2, squares, LARGEST**2)
        self._means += self._share * (squares - self._means)


def entry_names(spec: RobotSpec) -> list[str]:
    """What the predicted entries of a state are called."""
    joints = [
        f"{what} of joint {joint!r}"
        for what in ("position", "velocity")
        for joint in spec.joint_names
    ]
    return [*joints, *spec.observed]
