"""The squared-exponential kernel: its hyper-parameters, Fourier features, and models with it."""

import itertools
import logging
import math

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.errors import ConfigError, LearningError
from hucrl_ros.models.base import DynamicsModel

FITTED_POINTS = 200
"""Transitions whose marginal likelihood decides on hyper-parameters, at most."""
ITERATIONS = 30
"""Steps of the search for hyper-parameters, at most."""
PRIOR_WIDTH = 1.0
"""Standard deviation of the log-normal prior of each hyper-parameter [nats]."""
NEVER_CHANGED = 1e-6
"""s² below which an output never changed but for rounding, as of a joint that friction held. It
tells none, and gets that of all others: certain that nothing moves it, nobody would ever try
[variances of the targets]."""
LEAST_NOISE = 1e-4
"""Least ν that is fitted: double precision factorises no matrix with much less."""
NOISES = 100
"""Values of ν that are tried for features."""
MOST_FEATURES = 4096
"""Most features of `qff`: with more, a factor fills over 64 MB and a tick takes seconds."""
logger = logging.getLogger(__name__)


class SquaredExponential(nn.Module):
    """k(x, x') = exp(−½ Σ (x − x')² / ℓ²) and noise ν, both in units of the prior deviation.

    The prior deviation s of an output needs no search: with ν given, s² = yᵀ(K + ν²I)⁻¹y / n is
    the most likely one. Each of `kernels` outputs has ℓ and ν of its own, or one serves them all.
    All in double precision, because K is close to singular where data are dense.
    """

    lengthscales: Tensor
    noise: Tensor

    def __init__(self, input_dim: int, kernels: int, settings: ModelSettings) -> None:
        super().__init__()
        shape, kind = (kernels, input_dim), torch.float64
        self._settings = settings
        # `(kernels, d)` ℓ and `(kernels,)` ν.
        self.register_buffer("lengthscales", torch.empty(shape, dtype=kind))
        self.register_buffer("noise", torch.empty(shape[:1], dtype=kind))
        self.reset()

    def reset(self) -> None:
        """Take the settings' ℓ and ν again, around which the prior of `fit` lies."""
        self.lengthscales.fill_(self._settings.lengthscale)
        self.noise.fill_(self._settings.noise_ratio)

    def scaled(self, inputs: Tensor) -> Tensor:
        """Inputs `(n, d)` in length-scales: `(kernels, n, d)`."""
        return inputs / self.lengthscales.unsqueeze(1)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Covariances `(kernels, n, k)` of inputs `(n, d)` and `(k, d)`."""
        return _covariance(self.scaled(one), self.scaled(other))

    def fit(self, inputs: Tensor, targets: Tensor, weights: Tensor | None = None) -> None:
        """Maximise the marginal likelihood of the data times a prior over the hyper-parameters.

        The prior is log-normal around the settings' values; it decides what the data don't tell.
        The search starts there too, so that what is found depends on the data alone.

        Args:
            inputs: `(n, d)`.
            targets: `(n, m)`, where m is the number of kernels, or any if one serves them all.
            weights: `(n,)`; the log-likelihood of an observation counts so much. None: 1.

        Where a matrix on the way has no factor, the settings' values stay.
        """
        self.reset()
        x, y = inputs.double(), targets.double().T.unsqueeze(-1)
        more = 0.0 if weights is None else float(weights.sum()) - len(weights)
        told = (y**2).mean(dim=(1, 2)) >= NEVER_CHANGED
        settings = [self.lengthscales.log(), self.noise.log()]
        logs = [value.clone().requires_grad_() for value in settings]
        optimiser = torch.optim.LBFGS(logs, max_iter=ITERATIONS, line_search_fn="strong_wolfe")

        def loss() -> float:
            optimiser.zero_grad()
            noise = _bounded(logs[1])
            factor = torch.linalg.cholesky(_noisy(x, logs[0].exp(), noise, weights))
            away = torch.cat([(log - p).flatten() for log, p in zip(logs, settings, strict=True)])
            evidence = log_evidence(factor, y, weights)
            if weights is not None:  # Σ w ln ν, where the determinant counts n ln ν
                evidence = evidence - more * noise.log()
            result = 0.5 * (away / PRIOR_WIDTH).square().sum() - evidence[told].sum()
            result.backward()  # type: ignore[no-untyped-call]
            return float(result.detach())

        try:
            with torch.enable_grad():
                optimiser.step(loss)  # type: ignore[no-untyped-call]
        except torch.linalg.LinAlgError:  # type: ignore[attr-defined]  # no Cholesky factor
            logger.warning("model fit: a kernel matrix is singular; hyper-parameters stay as set")
            return
        self.lengthscales.copy_(logs[0].detach().exp())
        self.noise.copy_(_bounded(logs[1].detach()))

    def cholesky(self, inputs: Tensor, weights: Tensor | None = None) -> Tensor:
        """Lower factor `(kernels, n, n)` of K + ν²W⁻¹ at `inputs` `(n, d)`.

        Args:
            inputs: Where there are observations.
            weights: The diagonal of W `(n,)`; None: 1.

        Raises:
            LearningError: the matrix is singular.
        """
        factor: Tensor
        noisy = _noisy(inputs, self.lengthscales, self.noise, weights)
        factor, failed = torch.linalg.cholesky_ex(noisy)
        if bool(failed.any()):
            raise LearningError(
                f"model fit: the covariance of {len(inputs)} transitions is singular; "
                f"model.noise_ratio = {float(self.noise.min()):.3g} is too small"
            )
        return factor


def log_evidence(factor: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Log marginal likelihood `(m,)` under each output's most likely prior deviation.

    Args:
        factor: Of K + ν²W⁻¹, `(m, n, n)`, or `(1, n, n)` for one that serves all outputs.
        targets: y, `(m, n, 1)`.
        weights: The diagonal of W `(n,)`; None: 1.
    """
    count = targets.shape[1] if weights is None else weights.sum()
    determinant = factor.diagonal(dim1=1, dim2=2).log().sum(dim=-1)
    return -0.5 * count * prior_variance(factor, targets, weights).log() - determinant


def prior_variance(factor: Tensor, targets: Tensor, weights: Tensor | None = None) -> Tensor:
    """Most likely s² = yᵀ(K + ν²W⁻¹)⁻¹y / tr W of each output `(m,)`; arguments as above."""
    factors = factor.expand(len(targets), -1, -1)
    whitened = torch.linalg.solve_triangular(factors, targets, upper=False)
    variance: Tensor = (whitened**2).mean(dim=(1, 2))
    if weights is not None:
        variance = variance * (len(weights) / weights.sum())
    return torch.where(variance < NEVER_CHANGED, 1.0, variance)


def likely_noise(
    features: Tensor,
    targets: Tensor,
    variance: Tensor,
    least: float,
    weights: Tensor | None = None,
) -> float:
    """Most likely ν ≥ `least`, where also what the features can't represent has to be noise.

    Args:
        features: φ `(n, D)` of the inputs, so that ΦΦᵀ is the outputs' prior covariance over s².
        targets: y `(n, m)`.
        variance: s² `(m,)`.
        least: ν of the process that the features stand for.
        weights: `(n,)`; the log-likelihood of an observation counts so much. None: 1.
    """
    count: float
    count, width = features.shape
    told = (targets**2).mean(dim=0) >= NEVER_CHANGED
    targets, variance = targets[:, told], variance[told]
    if weights is not None:
        roots = weights.sqrt().unsqueeze(-1)
        features, targets, count = roots * features, roots * targets, float(weights.sum())
    values, vectors = torch.linalg.eigh(features.T @ features)
    values = values.clamp_min(0.0)
    seen = (vectors.T @ (features.T @ targets)) ** 2
    most = max(least, 1.0)  # A search for hyper-parameters may find more noise than signal.
    ratios = torch.logspace(math.log10(least), math.log10(most), NOISES, dtype=features.dtype)
    squared = ratios.square().unsqueeze(-1)  # `(k, 1)`, before values `(D,)`
    # yᵀ(ΦΦᵀ + ν²I)⁻¹y and ln det(ΦΦᵀ + ν²I), by the eigenvalues of ΦᵀΦ.
    misfit = ((targets**2).sum(dim=0) - (values + squared).reciprocal() @ seen) / squared
    determinant = (values + squared).log().sum(dim=-1) + (count - width) * squared[:, 0].log()
    surprise = (misfit / variance).sum(dim=-1) + targets.shape[1] * determinant
    return float(ratios[surprise.argmin()])


def _bounded(log_noise: Tensor) -> Tensor:
    return (torch.exp(2.0 * log_noise) + LEAST_NOISE**2).sqrt()


def _noisy(inputs: Tensor, lengthscales: Tensor, noise: Tensor, weights: Tensor | None) -> Tensor:
    """Covariances `(kernels, n, n)` of noisy observations at `inputs` `(n, d)`.

    The variance of the noise is divided by an observation's weight.
    """
    scaled = inputs / lengthscales.unsqueeze(1)
    identity = torch.eye(len(inputs), dtype=inputs.dtype)
    if weights is not None:
        identity = identity / weights
    return _covariance(scaled, scaled) + noise.reshape(-1, 1, 1) ** 2 * identity


def _covariance(one: Tensor, other: Tensor) -> Tensor:
    # |a − b|² by one matrix product instead of n k d differences.
    squares = (one**2).sum(-1, keepdim=True) + (other**2).sum(-1).unsqueeze(1)
    distance = (squares - 2.0 * torch.matmul(one, other.transpose(1, 2))).clamp_min(0.0)
    covariance: Tensor = torch.exp(-0.5 * distance)
    return covariance


class KernelModel(DynamicsModel):
    """A model whose prior is a Gaussian process with the squared-exponential kernel."""

    weighs = True
    kernel: SquaredExponential
    prior_std: Tensor
    """`(m,)` s, the prior deviation of each output."""
    information: Tensor

    @property
    def information_gain(self) -> float:
        """½ ln det(I + K/ν²) of the data, summed over the outputs [nats]."""
        return float(self.information)

    @property
    def noise_ratio(self) -> float:
        """Largest ν."""
        return float(self.kernel.noise.max())

    def noise_like(self, mean: Tensor) -> Tensor:
        """Standard deviation of the noise of each entry of `mean` `(n, m)`."""
        return (self.kernel.noise.to(mean.dtype) * self.prior_std).expand(mean.shape)


def independent(epistemic: Tensor) -> Tensor:
    """Deviations `(m, n, m)` of independent outputs whose deviations are `(n, m)`."""
    return torch.diag_embed(epistemic).transpose(0, 1)


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
