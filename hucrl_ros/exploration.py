"""Exploration strategies, each as a step function of the imagined system (Sec. 2.2 and 3)."""

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from hucrl_ros.config import ExplorationSettings
from hucrl_ros.models import Ensemble


class Step(nn.Module, ABC):
    """Imagines the next state under one exploration strategy."""

    reach: Tensor
    hallucination_dim: int
    """Length h of the hallucinated action: m for the optimistic strategy, else 0."""

    def __init__(self, model: Ensemble) -> None:
        super().__init__()
        self.model = model
        self.hallucination_dim = 0
        self.register_buffer("reach", torch.tensor(model.task.reach), persistent=False)

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Prepare for learning what plays `episode` (decay β, draw a head)."""

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
        within = torch.maximum(torch.minimum(imagined, self.reach), -self.reach)
        spec = self.model.task.spec
        if not spec.context:
            return within
        return torch.cat([within, state[..., spec.predicted_dim :]], dim=-1)


class GreedyStep(Step):
    """PE-DS: sample from the ensemble's mean and covariance (Chua et al., 2018)."""

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean plus total standard deviation times noise; `eta` is empty."""
        belief = self.model.predict(state, action)
        return belief.mean + (belief.epistemic**2 + belief.aleatoric**2).sqrt() * noise


class ThompsonStep(Step):
    """One head, drawn at random, is believed for a whole episode."""

    choice: Tensor

    def __init__(self, model: Ensemble) -> None:
        super().__init__(model)
        self.register_buffer("choice", torch.eye(model.settings.heads)[0])

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Draw the head."""
        heads = self.model.settings.heads
        head = torch.randint(heads, (), generator=generator)
        self.choice.copy_(torch.eye(heads)[head])

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """The drawn head's mean plus aleatoric noise; `eta` is empty."""
        belief = self.model.predict(state, action)
        choice = self.choice.reshape(-1, *[1] * state.dim())
        return (choice * belief.heads).sum(dim=0) + belief.aleatoric * noise


class OptimisticStep(Step):
    """H-UCRL: next = μ + βΣη + noise, with η chosen like an action."""

    beta: Tensor

    def __init__(self, model: Ensemble, settings: ExplorationSettings) -> None:
        super().__init__(model)
        self.settings = settings
        self.hallucination_dim = model.task.spec.predicted_dim
        self.register_buffer("beta", torch.tensor(settings.beta_at(1)))

    def start_episode(self, episode: int, generator: torch.Generator) -> None:
        """Decay β."""
        self.beta.fill_(self.settings.beta_at(episode))

    def imagine(self, state: Tensor, action: Tensor, eta: Tensor, noise: Tensor) -> Tensor:
        """Mean, shifted by up to β epistemic standard deviations, plus aleatoric noise."""
        belief = self.model.predict(state, action)
        return belief.mean + self.beta * belief.epistemic * eta + belief.aleatoric * noise


STRATEGIES: dict[str, type[Step]] = {
    "greedy": GreedyStep,
    "thompson": ThompsonStep,
    "optimistic": OptimisticStep,
}


def make_step(strategy: str, model: Ensemble, settings: ExplorationSettings) -> Step:
    """Build the step function of a strategy by name."""
    if strategy == "greedy":
        return GreedyStep(model)
    if strategy == "thompson":
        return ThompsonStep(model)
    return OptimisticStep(model, settings)
