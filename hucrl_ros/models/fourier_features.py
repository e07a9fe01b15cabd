"""Finitely many features whose inner products approximate the squared-exponential kernel."""

import itertools
import math

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.models.squared_exponential import SquaredExponential

MOST_FEATURES = 4096
"""Beyond it, a Cholesky factor fills more than 64 MB and a tick takes seconds."""


class FourierFeatures(nn.Module):
    """φ(x) = (√ν cos ωᵀx, √ν sin ωᵀx), so that φ(x)ᵀφ(x') ≈ k(x, x')."""

    frequencies: Tensor
    amplitudes: Tensor

    def __init__(self, frequencies: Tensor, shares: Tensor) -> None:
        """Take a quadrature of the kernel's spectral density.

        Args:
            frequencies: ω `(k, d)` for length-scales of 1; only the last may be zero.
            shares: ν `(k,)`, summing to 1.
        """
        super().__init__()
        still = not bool(frequencies[-1].any())  # sin 0 is no feature
        self._waves = len(frequencies) - still
        self.register_buffer("frequencies", frequencies)
        self.register_buffer("amplitudes", torch.cat([shares, shares[: self._waves]]).sqrt())

    @property
    def count(self) -> int:
        """Number of features D."""
        return len(self.amplitudes)

    def forward(self, inputs: Tensor, kernel: SquaredExponential) -> Tensor:
        """Features `(kernels, n, D)` of inputs `(n, d)`."""
        scaled = kernel.scaled(inputs).to(self.frequencies.dtype)
        phases = torch.matmul(scaled, self.frequencies.T)
        waves = torch.cat([torch.cos(phases), torch.sin(phases[..., : self._waves])], dim=-1)
        return self.amplitudes * waves


def random_features(dim: int, count: int, generator: torch.Generator) -> FourierFeatures:
    """Frequencies drawn from the spectral density (Rahimi and Recht, 2007).

    Args:
        dim: Length d of the inputs.
        count: Number of features D, even.
        generator: Draws the frequencies.
    """
    pairs = count // 2
    frequencies = torch.randn(pairs, dim, generator=generator)
    return FourierFeatures(frequencies, torch.full((pairs,), 1.0 / pairs))


def quadrature_features(dim: int, settings: ModelSettings) -> FourierFeatures:
    """Gauss-Hermite quadrature of the spectral density (Mutný and Krause, 2018).

    k nodes in each of d dimensions. Cosines don't tell ω from −ω, so half of the nodes do:
    k^d features, as many as nodes.

    Raises:
        ConfigError: there are too many.
    """
    nodes = settings.nodes
    if nodes**dim > MOST_FEATURES:
        raise ConfigError(
            f"model.kind = 'qff': model.nodes = {nodes} in each of the model's {dim} inputs make "
            f"{float(nodes**dim):.3g} features, more than {MOST_FEATURES}; take rff"
        )
    points, weights = np.polynomial.hermite.hermgauss(nodes)
    grid = np.array(list(itertools.product(math.sqrt(2.0) * points, repeat=dim)))
    shares = np.array(list(itertools.product(weights / math.sqrt(math.pi), repeat=dim)))
    # The second half of the grid mirrors the first; of an odd number, the middle one is 0.
    half = (len(grid) + 1) // 2
    frequencies, share = grid[:half], 2.0 * shares.prod(axis=1)[:half]
    if len(grid) % 2:
        frequencies[-1], share[-1] = 0.0, share[-1] / 2.0
    return FourierFeatures(
        torch.as_tensor(frequencies, dtype=torch.float32),
        torch.as_tensor(share, dtype=torch.float32),
    )
