"""What moves a robot in the episodes before there is a model of it."""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SPREAD = 0.5
"""Deviation of smooth efforts [shares of the largest one]: they reach it now and then."""


class RandomEfforts:
    """Efforts that are drawn anew in each control period, or that change smoothly.

    Smooth ones are white noise behind two equal low-passes of first order, so that they begin at
    none, and above the bandwidth their power falls with the fourth power of the frequency.
    """

    def __init__(self, largest: Array, bandwidth: float, period: float) -> None:
        """Build a source; `reset` has to follow.

        Args:
            largest: `(q,)` absolute efforts that are never exceeded [N m or N].
            bandwidth: Frequency at which each low-pass halves the power [Hz]; 0: none.
            period: Control period [s].
        """
        self._largest = largest
        self._keep = math.exp(-2.0 * math.pi * bandwidth * period) if bandwidth > 0 else 0.0
        # White noise of deviation 1 leaves the two low-passes with this one.
        k = self._keep
        passed = math.sqrt((1 - k) ** 4 * (1 + k * k) / (1 - k * k) ** 3)
        self._noise = SPREAD / passed if bandwidth > 0 else 0.0
        self._first = self._second = np.zeros_like(largest)

    def reset(self) -> None:
        """An episode begins with the robot under no effort."""
        self._first = self._second = np.zeros_like(self._largest)

    def draw(self, rng: np.random.Generator) -> Array:
        """Efforts `(q,)` of the next control period [N m or N]."""
        if not self._keep:
            return rng.uniform(-self._largest, self._largest)
        k, white = self._keep, self._noise * rng.standard_normal(len(self._largest))
        self._first = k * self._first + (1 - k) * white
        self._second = k * self._second + (1 - k) * self._first
        efforts: Array = np.clip(self._second, -1.0, 1.0) * self._largest
        return efforts
