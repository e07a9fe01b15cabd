"""Exact Gaussian process on a bounded number of transitions (Rasmussen and Williams, 2006)."""

import torch
from torch import Tensor

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import Prediction, Progress, Sampled
from hucrl_ros.models.kernel import (
    FITTED_POINTS,
    KernelModel,
    SquaredExponential,
    independent,
    prior_variance,
    random_features,
)
from hucrl_ros.tasks import Task

LEAST_VARIANCE = 1e-10
"""Least posterior variance, the prior's being 1, that double precision tells from certainty."""

MOST_CANDIDATES = 20_000
"""Inputs among which a greedy choice is made: it takes memory for each of them and each point."""


class GaussianProcess(KernelModel):
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
    scatter: Tensor

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__(task, settings, fixed_inputs=True)
        outputs, count = self.output_dim, settings.max_points
        kernels = outputs if settings.hyperparameters == "fitted" else 1
        self.kernel = SquaredExponential(self.input_dim, kernels, settings)
        self.prior = random_features(self.input_dim, settings.features, generator)

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64)

        # Rows beyond the points that there are stay 0 and add nothing.
        self.register_buffer("points", zeros(count, self.input_dim))
        # `(m, points)` (K + ν²I)⁻¹ y; `(kernels, points, points)` W with WᵀW = (K + ν²I)⁻¹.
        self.register_buffer("weights", zeros(outputs, count))
        self.register_buffer("whitener", zeros(kernels, count, count))
        # `(m,)` s.
        self.register_buffer("prior_std", torch.ones(outputs))
        # The drawn function: `(m, D)` of the prior's features, and `(m, points)`.
        self.register_buffer("drawn_prior", torch.zeros(outputs, self.prior.count))
        self.register_buffer("drawn_weights", zeros(outputs, count))
        self.register_buffer("information", zeros())
        # `(points,)` deviation of an observation's noise over ν. Each fit sets it, so no
        # checkpoint needs it.
        self.register_buffer("scatter", zeros(count) + 1.0, persistent=False)

    def predict_normalised(self, inputs: Tensor) -> Prediction:
        """Posterior mean K(x, X)α and variance s² (1 − ‖W K(X, x)‖²)."""
        covariance = self.kernel(inputs.double(), self.points)
        mean = torch.matmul(covariance, self.weights.unsqueeze(-1)).squeeze(-1).T
        explained = (torch.matmul(covariance, self.whitener.transpose(1, 2)) ** 2).sum(dim=-1)
        deviation = (1.0 - explained).clamp_min(LEAST_VARIANCE).sqrt().T.to(inputs.dtype)
        epistemic = deviation * self.prior_std
        return Prediction(
            mean.to(inputs.dtype), epistemic, self.noise_like(epistemic), independent(epistemic)
        )

    def sample_normalised(self, inputs: Tensor) -> Sampled:
        """The drawn prior function, moved so that it agrees with the data."""
        prior = torch.matmul(self.prior(inputs, self.kernel), self.drawn_prior.unsqueeze(-1))
        covariance = self.kernel(inputs.double(), self.points)
        update = torch.matmul(covariance, self.drawn_weights.unsqueeze(-1))
        mean = (prior + update).squeeze(-1).T.to(inputs.dtype)
        return Sampled(mean, self.noise_like(mean))

    @torch.no_grad()
    def draw(self, generator: torch.Generator) -> None:
        """Draw a function: f − K(·, X)(K + ν²W⁻¹)⁻¹(f(X) + ε − y) with f of the prior."""
        std = self.prior_std.unsqueeze(1)
        prior = std * torch.randn(self.drawn_prior.shape, generator=generator)
        noise = std * torch.randn(self.drawn_weights.shape, generator=generator)
        values = torch.matmul(self.prior(self.points, self.kernel), prior.unsqueeze(-1)).double()
        values = values + (self.kernel.noise.unsqueeze(1) * noise * self.scatter).unsqueeze(-1)
        # Padding has no row in the whitener, so nothing of it gets through.
        correction = self.whitener.transpose(1, 2) @ (self.whitener @ values)
        self.drawn_prior.copy_(prior)
        self.drawn_weights.copy_(self.weights - correction.squeeze(-1))

    @torch.no_grad()
    def learn(
        self,
        inputs: Tensor,
        targets: Tensor,
        generator: torch.Generator,
        progress: Progress,
        weights: Tensor | None = None,
    ) -> None:
        """Keep points, fit hyper-parameters if asked to, and condition on the points."""
        x, y = inputs.double(), targets.double()
        w = torch.ones_like(x[:, 0]) if weights is None else weights.double()
        if self.settings.hyperparameters == "fitted":
            self.kernel.reset()  # Which points it is fitted to hangs on no earlier fit either.
            some = self.farthest(x, min(FITTED_POINTS, self.settings.max_points), w)
            self.kernel.fit(x[some], y[some], w[some])
        progress(0.5)
        kept = self.farthest(x, self.settings.max_points, w)
        self._condition(x[kept], y[kept], w[kept])
        progress(1.0)

    @torch.no_grad()
    def farthest(self, inputs: Tensor, count: int, weights: Tensor | None = None) -> Tensor:
        """Indices of at most `count` inputs `(n, d)`, by greedy choice of posterior variance.

        The variance is summed over the kernels and, as that over the noise's is what an
        observation tells, multiplied by its weight `(n,)`. This is a pivoted Cholesky
        decomposition of the noisy covariance that stops early: O(n count²). Of more inputs than
        `MOST_CANDIDATES` every second, third … is looked at.
        """
        weights = torch.ones_like(inputs[:, 0]) if weights is None else weights
        if len(inputs) <= count:
            return torch.arange(len(inputs))
        every = min(-(-len(inputs) // MOST_CANDIDATES), len(inputs) // count)
        if every > 1:
            return every * self.farthest(inputs[::every], count, weights[::every])
        kernels, noise = len(self.kernel.noise), self.kernel.noise
        columns = torch.zeros(kernels, len(inputs), count, dtype=inputs.dtype)
        variance = torch.ones(kernels, len(inputs), dtype=inputs.dtype)
        chosen: list[int] = []
        for done in range(count):
            total = variance.sum(dim=0) * weights
            total[chosen] = -1.0
            pivot = int(total.argmax())
            row = columns[:, pivot, :done].unsqueeze(-1)
            covariance = self.kernel(inputs, inputs[pivot : pivot + 1]).squeeze(-1)
            residual = covariance - torch.matmul(columns[:, :, :done], row).squeeze(-1)
            observed = variance[:, pivot] + noise**2 / weights[pivot]
            column = residual / observed.sqrt().unsqueeze(1)
            columns[:, :, done] = column
            variance = (variance - column**2).clamp_min(0.0)
            chosen.append(pivot)
        return torch.tensor(chosen).sort().values

    def _condition(self, points: Tensor, targets: Tensor, counts: Tensor) -> None:
        """Take the posterior given targets `(n, m)` at `points` `(n, d)` that count `(n,)`."""
        factor, y = self.kernel.cholesky(points, counts), targets.T.unsqueeze(-1)
        count, roots = len(points), counts.sqrt()
        identity = torch.eye(count, dtype=factor.dtype)
        whitener = torch.linalg.solve_triangular(factor, identity, upper=False)
        # One kernel may serve all outputs: its whitener is then broadcast over them.
        weights = whitener.transpose(1, 2) @ (whitener @ y)
        diagonal = factor.diagonal(dim1=1, dim2=2) * roots
        gain = (diagonal / self.kernel.noise.unsqueeze(1)).log().sum()
        for buffer in (self.points, self.weights, self.whitener, self.drawn_prior):
            buffer.zero_()
        self.points[:count] = points
        self.weights[:, :count] = weights.squeeze(-1)
        self.whitener[:, :count, :count] = whitener
        self.scatter.fill_(1.0)
        self.scatter[:count] = 1.0 / roots
        self.prior_std.copy_(prior_variance(factor, y, counts).sqrt())
        self.drawn_weights.copy_(self.weights)
        self.information.fill_(float(gain) * self.output_dim / len(factor))
