"""What a bundle's model gets wrong about the robot as it is here and now."""

import math

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.controller.passage import Transition

Array = NDArray[np.float64]
Predicted = NDArray[np.float32]

MEMORY = 0.2
"""[s] Time constant of the mean over the last transitions."""
LARGEST = 3.0
"""[standard deviations of the claim] What a single transition may count for."""


class ModelBias:
    """The mean error of the model's predictions lately, as far as chance doesn't explain it.

    A robot that rests, or turns where there are few data, is predicted wrongly in the same
    direction again and again. Where commands act late, a tick follows the model for one to three
    periods before it plans, so this adds up, and the robot comes to rest beside its goal. An
    estimate of the constant disturbance takes it away, as in offset-free predictive control
    (Pannocchia and Rawlings, 2003).

    Errors that change their sign from one transition to the next are no bias. So the mean is
    shrunk, in each entry by itself, by its own estimated variance over its square (James and
    Stein, 1961; the positive part).
    """

    def __init__(self, manifest: Manifest) -> None:
        """Begin without one."""
        self._angles = manifest.angles
        self._entries = manifest.spec.predicted_dim
        self._share = 1.0 - math.exp(-manifest.period / MEMORY)
        # Of a mean with such fading weights, in variances of what it is over.
        self._of_mean = self._share / (2.0 - self._share)
        self.reset()

    def reset(self) -> None:
        """An episode begins."""
        self._mean, self._square = np.zeros((2, self._entries))
        self.value: Array = np.zeros(self._entries)
        """`(m,)` to be added to what the model predicts for a period [units of the state]."""

    def recall(self, value: Array) -> None:
        """Take a `value` `(m,)` that was recorded for that of the tick to come."""
        self.value = value

    def see(
        self, passed: Transition, mean: Predicted, epistemic: Predicted, aleatoric: Predicted
    ) -> None:
        """Take in a transition and what the bundle claims of it, each `(m,)`.

        Args:
            passed: What the robot did.
            mean: Where it should be at its end.
            epistemic: Deviation that more data would remove.
            aleatoric: Deviation of the noise.
        """
        largest = LARGEST * np.hypot(epistemic, aleatoric, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            error = np.clip(passed.error(mean, self._angles), -largest, largest)
        error[~np.isfinite(error)] = 0.0  # A bundle that predicts no number says nothing here.
        self._mean += self._share * (error - self._mean)
        self._square += self._share * (error**2 - self._square)
        square = self._mean**2
        chance = self._of_mean * np.maximum(self._square - square, 0.0)
        known = np.maximum(square - chance, 0.0)
        self.value = self._mean * np.divide(
            known, square, out=np.zeros_like(known), where=square > 0
        )
