"""Bayesian linear regression on Fourier features: exact posterior, and draws from it."""

import torch
from torch import Tensor

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.errors import LearningError
from hucrl_ros.models.base import Prediction, Progress, Sampled
from hucrl_ros.models.kernel import (
    FITTED_POINTS,
    FourierFeatures,
    KernelModel,
    SquaredExponential,
    independent,
    likely_noise,
    prior_variance,
    quadrature_features,
    random_features,
)
from hucrl_ros.tasks import Task


class FourierModel(KernelModel):
    """f(x) = φ(x)ᵀw with w ~ N(0, s²I) and Gaussian noise; one kernel for all outputs."""

    weights: Tensor
    whitener: Tensor
    drawn: Tensor

    def __init__(self, task: Task, settings: ModelSettings, features: FourierFeatures) -> None:
        super().__init__(task, settings, fixed_inputs=True)
        self.features = features
        self.kernel = SquaredExponential(self.input_dim, 1, settings)
        count = features.count
        # `(m, D)` posterior mean, and weights drawn from the posterior.
        self.register_buffer("weights", torch.zeros(self.output_dim, count))
        self.register_buffer("drawn", torch.zeros(self.output_dim, count))
        # `(D, D)` W with WᵀW the posterior covariance, the same for each output.
        self.register_buffer("whitener", torch.eye(count))
        # `(m,)` s: the weights' prior deviation.
        self.register_buffer("prior_std", torch.ones(self.output_dim))
        self.register_buffer("information", torch.zeros(()))

    def predict_normalised(self, inputs: Tensor) -> Prediction:
        """Posterior mean φᵀw and variance s²‖Wφ‖²."""
        phi = self.features(inputs, self.kernel)[0]
        mean = phi @ self.weights.T
        variance = ((phi @ self.whitener.T) ** 2).sum(dim=-1, keepdim=True)
        epistemic = variance.sqrt() * self.prior_std
        return Prediction(mean, epistemic, self.noise_like(mean), independent(epistemic))

    def sample_normalised(self, inputs: Tensor) -> Sampled:
        """The function of the drawn weights."""
        mean = self.features(inputs, self.kernel)[0] @ self.drawn.T
        return Sampled(mean, self.noise_like(mean))

    def draw(self, generator: torch.Generator) -> None:
        """Draw weights from the posterior."""
        noise = torch.randn(self.weights.shape, generator=generator)
        self.drawn.copy_(self.weights + self.prior_std.unsqueeze(1) * noise @ self.whitener)

    @torch.no_grad()
    def learn(
        self,
        inputs: Tensor,
        targets: Tensor,
        generator: torch.Generator,
        progress: Progress,
        weights: Tensor | None = None,
    ) -> None:
        """Compute the posterior in closed form, in double precision."""
        # Spread evenly: the likelihood of n transitions takes n³ operations.
        every, y = -(-len(inputs) // FITTED_POINTS), targets.double()
        points = inputs[::every].double()
        counts = None if weights is None else weights.double()
        some = None if counts is None else counts[::every]
        if self.settings.hyperparameters == "fitted":
            self.kernel.fit(points, y[::every], some)
        # That of the process: features can't tell amplitude from what they fail to represent.
        factor = self.kernel.cholesky(points, some)
        exact = prior_variance(factor, y[::every].T.unsqueeze(-1), some)
        self.prior_std.copy_(exact.sqrt())
        progress(0.5)
        phi = self.features(inputs, self.kernel)[0].double()
        if self.settings.hyperparameters == "fitted":
            least = float(self.kernel.noise)
            self.kernel.noise.fill_(likely_noise(phi, y, exact, least, counts))
        weighted = float(self.kernel.noise) ** -2 * phi.T
        if counts is not None:
            weighted = weighted * counts
        identity = torch.eye(self.features.count, dtype=torch.float64)
        factor, failed = torch.linalg.cholesky_ex(weighted @ phi + identity)
        if bool(failed):
            raise LearningError(
                f"model fit: the posterior of {len(y)} transitions is singular; "
                f"model.noise_ratio = {float(self.kernel.noise):.3g} is too small"
            )
        self.whitener.copy_(torch.linalg.solve_triangular(factor, identity, upper=False))
        mean = torch.cholesky_solve(weighted @ y, factor)
        self.weights.copy_(mean.T)
        self.drawn.copy_(self.weights)
        # ½ ln det(I + ΦᵀΦ/ν²) = ½ ln det(I + ΦΦᵀ/ν²), for each output.
        self.information.fill_(self.output_dim * float(factor.diagonal().log().sum()))
        progress(1.0)


def random_fourier(
    task: Task, settings: ModelSettings, generator: torch.Generator
) -> FourierModel:
    """Bayesian linear model on random Fourier features (Rahimi and Recht, 2007)."""
    dim = task.model_feature_dim + task.spec.action_dim
    return FourierModel(task, settings, random_features(dim, settings.features, generator))


def quadrature_fourier(
    task: Task, settings: ModelSettings, generator: torch.Generator
) -> FourierModel:
    """Bayesian linear model on quadrature Fourier features (Mutný and Krause, 2018)."""
    dim = task.model_feature_dim + task.spec.action_dim
    return FourierModel(task, settings, quadrature_features(dim, settings))
