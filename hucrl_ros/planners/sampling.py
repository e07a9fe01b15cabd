"""Random action sequences, correlated over time. numpy only."""

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.planners.base import Array

Matrix = NDArray[np.float64]
"""`(H, H)`."""
EXTRA_PERIODS = 2
"""Coloured sequences are cut from periodic ones this many times longer, so that their end isn't
tied to their start."""


class Noise:
    """Draws standard normal sequences `(N, H, d)` whose steps are correlated."""

    def __init__(self, covariance: Matrix, width: int, particles: int) -> None:
        """Draw N = `particles` of `width` d, with `covariance` `(H, H)` over the steps."""
        self._colour = root(covariance)
        self._shape = (particles, width, len(covariance))

    def draw(self, rng: np.random.Generator) -> Array:
        """Sequences `(N, H, d)`; their d entries are independent."""
        white: Array = rng.standard_normal(self._shape, dtype=np.float32)
        return (white @ self._colour).transpose(0, 2, 1)


def root(covariance: Matrix) -> Array:
    """Matrix `(H, H)` by which white rows get that `covariance` `(H, H)`."""
    values, vectors = np.linalg.eigh(covariance)
    if values[0] > 1e-9 * values[-1]:
        factor = np.linalg.cholesky(covariance).T
    else:  # It has no Cholesky factor where a step follows from the others.
        factor = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    return np.asarray(factor, np.float32)


def geometric(horizon: int, correlation: float) -> Matrix:
    """Covariance `(H, H)` of steps of which neighbours have that `correlation`."""
    return np.power(correlation, _lags(horizon))


def power_law(horizon: int, colour: float) -> Matrix:
    """Covariance `(H, H)` of noise whose power falls with frequency as 1/f^`colour`.

    0 is white noise. The constant part has the power of the lowest frequency (iCEM, Sec. 3.1).
    """
    period = EXTRA_PERIODS * horizon
    frequencies = np.minimum(np.arange(period), period - np.arange(period))
    power = np.maximum(frequencies, 1.0) ** -colour
    waves = np.cos(2.0 * np.pi * np.outer(np.arange(horizon), np.arange(period)) / period)
    by_lag: Matrix = waves @ power / power.sum()
    return by_lag[_lags(horizon)]


def constant(horizon: int) -> Matrix:
    """Covariance `(H, H)` of sequences that don't change."""
    return np.ones((horizon, horizon))


def shifted(sequences: Array) -> Array:
    """Sequences `(..., H, d)` one step later; the new last step is zero."""
    return np.concatenate([sequences[..., 1:, :], np.zeros_like(sequences[..., :1, :])], axis=-2)


def _lags(horizon: int) -> NDArray[np.int64]:
    steps = np.arange(horizon)
    lags: NDArray[np.int64] = np.abs(np.subtract.outer(steps, steps))
    return lags
