"""Exploration strategies, each as a step function of the imagined system (Sec. 2.2 and 3)."""

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import ExplorationSettings
from hucrl_ros.models import DynamicsModel

JITTER = 1e-6
"""Share of each variance added to it, so that float32 finds a factor of few heads' covariance."""
TINY = 1e-14
"""Variance that counts as none [units of the state, squared]."""


class Step(nn.Module, ABC):
    """Imagines the next state under one exploration strategy."""

    bounds: Tensor
    hallucination_dim: int
    """Length h of the hallucinated action: m for the optimistic strategy, else 0."""

    def __init__(self, model: DynamicsModel) -> None:
        super().__init__()
        self.model = model
        self.hallucination_dim = 0
        self.register_buffer("bounds", model.task.bounds, persistent=False)

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Prepare for learning what plays `episode` (decay β, draw a function)."""

    @abstractmethod
    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """The predicted entries `(..., m)` of `forward`, before the reach is enforced."""

    def forward(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Imagined next state, within the robot's reach.

        Far from the data a model may accelerate without end; a critic that follows it there
        learns values of states that no robot can be in.

        Args:
            state: `(..., p)`.
            action: `(..., q)` [N m or N].
            eta: Hallucinated action `(..., h)` in [-1, 1].
            noise: Standard normal `(..., m)`; zeros for the noiseless step.

        Returns:
            `(..., p)`: the m predicted entries, and the context as it was.
        """
        imagined = self.imagine(state, action, eta, noise)
        within = torch.maximum(torch.minimum(imagined, self.bounds[1]), self.bounds[0])
        spec = self.model.task.spec
        if not spec.context:
            return within
        return torch.cat([within, state[..., spec.predicted_dim :]], dim=-1)


class GreedyStep(Step):
    """PE-DS: sample from the ensemble's mean and covariance (Chua et al., 2018)."""

    def __init__(self, model: DynamicsModel, settings: ExplorationSettings) -> None:
        super().__init__(model)
        self.settings = settings

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean plus total deviation times noise; `eta` is empty."""
        belief = self.model.predict(state, action)
        if self.settings.covariance == "full":
            total = covariance(belief.deviations) + torch.diag_embed(belief.aleatoric**2)
            return belief.mean + times(cholesky(total), noise)
        return belief.mean + (belief.epistemic**2 + belief.aleatoric**2).sqrt() * noise


class ThompsonStep(Step):
    """One function drawn from the belief, a head for one, is believed for a whole episode."""

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Draw the function."""
        self.model.draw(generator)

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """The drawn function's mean plus its aleatoric noise; `eta` is empty."""
        drawn = self.model.sample(state, action)
        return drawn.mean + drawn.aleatoric * noise


class OptimisticStep(Step):
    """H-UCRL: next = μ + βΣη + noise, with η chosen like an action."""

    beta: Tensor

    def __init__(self, model: DynamicsModel, settings: ExplorationSettings) -> None:
        super().__init__(model)
        self.settings = settings
        self.hallucination_dim = model.task.spec.predicted_dim
        self.register_buffer("beta", torch.tensor(beta_of(settings, 1, model)))

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Take β of the episode."""
        self.beta.fill_(beta_of(self.settings, episode, self.model))

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean, shifted by up to β epistemic deviations, plus aleatoric noise."""
        belief = self.model.predict(state, action)
        if self.settings.covariance == "full":
            shift = times(cholesky(covariance(belief.deviations)), eta)
        else:
            shift = belief.epistemic * eta
        return belief.mean + self.beta * shift + belief.aleatoric * noise


STRATEGIES: dict[str, type[Step]] = {
    "greedy": GreedyStep,
    "thompson": ThompsonStep,
    "optimistic": OptimisticStep,
}


def make_step(strategy: str, model: DynamicsModel, settings: ExplorationSettings) -> Step:
    """Build the step function of a strategy by name."""
    if strategy == "thompson":
        return ThompsonStep(model)
    if strategy == "greedy":
        return GreedyStep(model, settings)
    return OptimisticStep(model, settings)


def beta_of(settings: ExplorationSettings, episode: int, model: DynamicsModel) -> float:
    """β of an episode, counted from the first learned one, after the fit that precedes it.

    `confidence` is the paper's lemma on confidence intervals of vector-valued functions:
    β = B + 4σ√(I(y; f) + 1 + ln(1/δ)), for a kernel scaled to k ≤ 1.
    """
    gain, noise = model.information_gain, model.noise_ratio
    if settings.schedule != "confidence" or gain is None or noise is None:
        return settings.beta_at(episode)
    root = math.sqrt(gain + 1.0 + math.log(1.0 / settings.failure_probability))
    return settings.norm_bound + 4.0 * noise * root


def covariance(deviations: Tensor) -> Tensor:
    """Sum of the outer products of `(k, ..., m)`: `(..., m, m)`."""
    columns = deviations.movedim(0, -1)
    return torch.matmul(columns, columns.transpose(-1, -2))


def cholesky(matrix: Tensor) -> Tensor:
    """Lower factor `(..., m, m)` of covariances that may be singular, one column after another.

    ONNX has no operator for it.
    """
    rest = matrix + torch.diag_embed(JITTER * matrix.diagonal(dim1=-2, dim2=-1) + TINY)
    columns = []
    for i in range(matrix.shape[-1]):
        # Rounding may leave less than the jitter of a variance that the others explain.
        pivot = torch.maximum(rest[..., i, i], 0.5 * JITTER * matrix[..., i, i] + TINY)
        column = rest[..., :, i] / pivot.sqrt().unsqueeze(-1)
        below = (torch.arange(matrix.shape[-1]) >= i).to(matrix.dtype)
        columns.append(column * below)
        rest = rest - columns[-1].unsqueeze(-1) * columns[-1].unsqueeze(-2)
    return torch.stack(columns, dim=-1)


def times(matrix: Tensor, vector: Tensor) -> Tensor:
    """Product of `(..., m, m)` and `(..., m)`."""
    return torch.matmul(matrix, vector.unsqueeze(-1)).squeeze(-1)
