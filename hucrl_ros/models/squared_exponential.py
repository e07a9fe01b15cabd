"""The squared-exponential kernel, and its hyper-parameters by marginal likelihood."""

import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

from hucrl_ros.config import ModelSettings
from hucrl_ros.errors import LearningError

FITTED_POINTS = 300
"""Transitions whose marginal likelihood decides on hyper-parameters, at most."""
ITERATIONS = 60
PRIOR_WIDTH = 1.0
"""Standard deviation of the log-normal prior of each hyper-parameter [nats]."""


class SquaredExponential(nn.Module):
    """k(x, x') = s² exp(−½ Σ (x − x')² / ℓ²) and noise σ, for several outputs at once.

    Each of `kernels` outputs has hyper-parameters of its own, or one kernel serves them all.
    """

    lengthscales: Tensor
    signal: Tensor
    noise: Tensor

    def __init__(self, input_dim: int, kernels: int, settings: ModelSettings) -> None:
        super().__init__()
        lengthscales = torch.full((kernels, input_dim), settings.lengthscale)
        # `(kernels, d)` ℓ, `(kernels,)` s and σ.
        self.register_buffer("lengthscales", lengthscales)
        self.register_buffer("signal", torch.full((kernels,), settings.signal_std))
        self.register_buffer("noise", torch.full((kernels,), settings.noise_std))

    def scaled(self, inputs: Tensor) -> Tensor:
        """Inputs `(n, d)` in length-scales: `(kernels, n, d)`."""
        return inputs / self.lengthscales.unsqueeze(1)

    def forward(self, one: Tensor, other: Tensor) -> Tensor:
        """Covariances `(kernels, n, k)` of inputs `(n, d)` and `(k, d)`."""
        return _covariance(self.scaled(one), self.scaled(other), self.signal)

    def fit(self, inputs: Tensor, targets: Tensor) -> None:
        """Maximise the marginal likelihood of the data times a prior over the hyper-parameters.

        The prior is log-normal around the present values; it decides what the data don't tell.

        Args:
            inputs: `(n, d)`.
            targets: `(n, m)`, where m is the number of kernels, or any if one serves them all.

        Raises:
            LearningError: the kernel matrix is singular.
        """
        x, observed = inputs.double(), targets.double().T
        present = [value.double().log() for value in (self.lengthscales, self.signal, self.noise)]
        logs = [value.clone().requires_grad_() for value in present]
        optimiser = torch.optim.LBFGS(
            logs, max_iter=ITERATIONS, line_search_fn="strong_wolfe", tolerance_change=1e-6
        )

        def loss() -> float:
            optimiser.zero_grad()
            factor = torch.linalg.cholesky(_noisy(x, *(log.exp() for log in logs)))
            evidence = MultivariateNormal(torch.zeros_like(observed), scale_tril=factor)
            away = torch.cat([(log - p).flatten() for log, p in zip(logs, present, strict=True)])
            likelihood: Tensor = evidence.log_prob(observed).sum()  # type: ignore[no-untyped-call]
            result = 0.5 * (away / PRIOR_WIDTH).square().sum() - likelihood
            result.backward()  # type: ignore[no-untyped-call]
            return float(result.detach())

        try:
            with torch.enable_grad():
                optimiser.step(loss)  # type: ignore[no-untyped-call]
        except RuntimeError:  # Of a kernel matrix without a Cholesky factor.
            raise LearningError(
                "model fit: the kernel matrix is singular; a larger model.noise_std may help"
            ) from None
        for buffer, log in zip((self.lengthscales, self.signal, self.noise), logs, strict=True):
            buffer.copy_(log.detach().exp())

    def cholesky(self, inputs: Tensor) -> Tensor:
        """Lower factor `(kernels, n, n)` of K + σ²I at `inputs` `(n, d)`, in double precision.

        Raises:
            LearningError: the matrix is singular.
        """
        scales = (self.lengthscales.double(), self.signal.double(), self.noise.double())
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(_noisy(inputs.double(), *scales))
        if bool(failed.any()):
            raise LearningError(
                f"model fit: the covariance of {len(inputs)} transitions is singular; "
                f"model.noise_std = {float(self.noise.min()):.3g} is too small"
            )
        return factor


def _noisy(inputs: Tensor, lengthscales: Tensor, signal: Tensor, noise: Tensor) -> Tensor:
    """Covariances `(kernels, n, n)` of noisy observations at `inputs` `(n, d)`."""
    scaled = inputs / lengthscales.unsqueeze(1)
    identity = torch.eye(len(inputs), dtype=inputs.dtype)
    return _covariance(scaled, scaled, signal) + noise.reshape(-1, 1, 1) ** 2 * identity


def _covariance(one: Tensor, other: Tensor, signal: Tensor) -> Tensor:
    # |a − b|² by one matrix product instead of n k d differences.
    squares = (one**2).sum(-1, keepdim=True) + (other**2).sum(-1).unsqueeze(1)
    distance = (squares - 2.0 * torch.matmul(one, other.transpose(1, 2))).clamp_min(0.0)
    return signal.reshape(-1, 1, 1) ** 2 * torch.exp(-0.5 * distance)
