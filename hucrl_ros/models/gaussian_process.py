"""Exact Gaussian process on a bounded number of transitions (Rasmussen and Williams, 2006)."""

import torch
from torch import Tensor

from hucrl_ros.config import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Progress, Sampled, independent
from hucrl_ros.models.fourier_features import random_features
from hucrl_ros.models.squared_exponential import FITTED_POINTS, SquaredExponential
from hucrl_ros.tasks import Task

LEAST_VARIANCE = 1e-8
"""Of a prior variance of 1: what float32 can tell from certainty."""


class GaussianProcess(DynamicsModel):
    """Exact Gaussian process: independent outputs, squared-exponential kernel.

    Of more than `max_points` transitions, those are kept that a greedy choice by posterior
    variance takes: each time the one that the others tell least about. Thompson sampling draws
    functions by pathwise conditioning (Wilson et al., 2020).
    """

    points: Tensor
    weights: Tensor
    whitener: Tensor
    drawn_prior: Tensor
    drawn_weights: Tensor
    information: Tensor

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__(task, settings)
        fitted = settings.hyperparameters == "fitted"
        kernels, count = self.output_dim if fitted else 1, settings.max_points
        self.kernel = SquaredExponential(self.input_dim, kernels, settings)
        self.prior = random_features(self.input_dim, settings.features, generator)
        # Rows beyond the points that there are stay 0 and add nothing.
        self.register_buffer("points", torch.zeros(count, self.input_dim))
        # `(m, points)` (K + σ²I)⁻¹ y; `(kernels, points, points)` W with WᵀW = (K + σ²I)⁻¹.
        self.register_buffer("weights", torch.zeros(self.output_dim, count))
        self.register_buffer("whitener", torch.zeros(kernels, count, count))
        # The drawn function: `(m, D)` of the prior's features, and `(m, points)`.
        self.register_buffer("drawn_prior", torch.zeros(self.output_dim, self.prior.count))
        self.register_buffer("drawn_weights", torch.zeros(self.output_dim, count))
        self.register_buffer("information", torch.zeros(()))

    def believe(self, inputs: Tensor) -> Prediction:
        """Posterior mean K(x, X)α and variance k − ‖W K(X, x)‖²."""
        covariance = self.kernel(inputs, self.points)
        mean = torch.matmul(covariance, self.weights.unsqueeze(-1)).squeeze(-1).T
        explained = (torch.matmul(covariance, self.whitener.transpose(1, 2)) ** 2).sum(dim=-1)
        prior = (self.kernel.signal**2).unsqueeze(1)
        variance = torch.maximum(prior - explained, LEAST_VARIANCE * prior)
        epistemic = variance.sqrt().T.expand(mean.shape)
        return Prediction(mean, epistemic, self._noise(mean), independent(epistemic))

    def follow(self, inputs: Tensor) -> Sampled:
        """The drawn prior function, moved so that it agrees with the data."""
        prior = torch.matmul(self.prior(inputs, self.kernel), self.drawn_prior.unsqueeze(-1))
        covariance = self.kernel(inputs, self.points)
        update = torch.matmul(covariance, self.drawn_weights.unsqueeze(-1))
        mean = (prior + update).squeeze(-1).T
        return Sampled(mean, self._noise(mean))

    def draw(self, generator: torch.Generator) -> None:
        """Draw a function: f − K(·, X)(K + σ²I)⁻¹(f(X) + ε − y) with f of the prior."""
        prior = torch.randn(self.drawn_prior.shape, generator=generator)
        noise = torch.randn(self.drawn_weights.shape, generator=generator)
        values = torch.matmul(self.prior(self.points, self.kernel), prior.unsqueeze(-1))
        values = values + (self.kernel.noise.unsqueeze(1) * noise).unsqueeze(-1)
        # Padding has no row in the whitener, so nothing of it gets through.
        correction = self.whitener.transpose(1, 2) @ (self.whitener @ values)
        self.drawn_prior.copy_(prior)
        self.drawn_weights.copy_(self.weights - correction.squeeze(-1))

    def learn(
        self, inputs: Tensor, targets: Tensor, generator: torch.Generator, progress: Progress
    ) -> None:
        """Keep points, fit hyper-parameters if asked to, and condition on the points."""
        if self.settings.hyperparameters == "fitted":
            some = self.farthest(inputs, min(FITTED_POINTS, self.settings.max_points))
            self.kernel.fit(inputs[some], targets[some])
        progress(0.5)
        kept = self.farthest(inputs, self.settings.max_points)
        self._condition(inputs[kept], targets[kept])
        progress(1.0)

    @torch.no_grad()
    def farthest(self, inputs: Tensor, count: int) -> Tensor:
        """Indices of at most `count` inputs `(n, d)`, by greedy choice of posterior variance.

        The variance counts relative to the prior's, summed over the outputs. This is a pivoted
        Cholesky decomposition of the noisy covariance that stops early: O(n count²).
        """
        if len(inputs) <= count:
            return torch.arange(len(inputs))
        signal, noise = self.kernel.signal, self.kernel.noise
        columns = torch.zeros(len(signal), len(inputs), count)
        variance = (signal**2).unsqueeze(1).repeat(1, len(inputs))
        chosen: list[int] = []
        for done in range(count):
            relative = (variance / signal.unsqueeze(1) ** 2).sum(dim=0)
            relative[chosen] = -1.0
            pivot = int(relative.argmax())
            row = columns[:, pivot, :done].unsqueeze(-1)
            covariance = self.kernel(inputs, inputs[pivot : pivot + 1]).squeeze(-1)
            residual = covariance - torch.matmul(columns[:, :, :done], row).squeeze(-1)
            scale = (variance[:, pivot] + noise**2).sqrt().unsqueeze(1)
            columns[:, :, done] = residual / scale
            variance = (variance - columns[:, :, done] ** 2).clamp_min(0.0)
            chosen.append(pivot)
        return torch.tensor(chosen).sort().values

    @property
    def information_gain(self) -> float:
        """½ ln det(I + K/σ²) of the kept points, summed over the outputs [nats]."""
        return float(self.information)

    @property
    def noise_ratio(self) -> float:
        """Largest σ/s."""
        return float((self.kernel.noise / self.kernel.signal).max())

    @torch.no_grad()
    def _condition(self, points: Tensor, targets: Tensor) -> None:
        count, factor = len(points), self.kernel.cholesky(points)
        identity = torch.eye(count, dtype=factor.dtype)
        whitener = torch.linalg.solve_triangular(factor, identity, upper=False)
        # One kernel may serve all outputs: its whitener is then broadcast over them.
        weights = whitener.transpose(1, 2) @ (whitener @ targets.double().T.unsqueeze(-1))
        noise = self.kernel.noise.double().unsqueeze(1)
        gain = (factor.diagonal(dim1=1, dim2=2) / noise).log().sum()
        for buffer in (self.points, self.weights, self.whitener, self.drawn_prior):
            buffer.zero_()
        self.points[:count] = points
        self.weights[:, :count] = weights.squeeze(-1)
        self.whitener[:, :count, :count] = whitener
        self.drawn_weights.copy_(self.weights)
        self.information.fill_(float(gain) * self.output_dim / len(factor))

    def _noise(self, like: Tensor) -> Tensor:
        return self.kernel.noise.expand(like.shape)
