"""Deterministic ensemble: several networks that predict the next state without any noise."""

import torch
from torch import Tensor

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Progress, Sampled
from hucrl_ros.models.heads import Heads
from hucrl_ros.tasks import Task


class DeterministicEnsemble(DynamicsModel):
    """Networks that predict means only: all doubt is epistemic (Kurutach et al., 2018)."""

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__(task, settings)
        self.heads = Heads(
            [self.input_dim, *settings.layers, self.output_dim], settings, generator
        )

    def believe(self, inputs: Tensor) -> Prediction:
        """The heads' mean and deviation; no noise."""
        means = self.heads(inputs)
        return self.heads.combine(means, torch.zeros_like(means[0]))

    def follow(self, inputs: Tensor) -> Sampled:
        """The drawn head's mean."""
        mean = self.heads.of_drawn(inputs)
        return Sampled(mean, torch.zeros_like(mean))

    def draw(self, generator: torch.Generator) -> None:
        """Draw a head."""
        self.heads.draw(generator)

    def learn(
        self, inputs: Tensor, targets: Tensor, generator: torch.Generator, progress: Progress
    ) -> None:
        """Least squares by Adam, from the present weights on."""
        self.heads.learn(inputs, targets, _squared_error, generator, progress)

    @property
    def information_gain(self) -> None:
        """Unknown: an ensemble has no prior."""

    @property
    def noise_ratio(self) -> None:
        """Unknown: an ensemble has no prior."""


def _squared_error(output: Tensor, target: Tensor) -> Tensor:
    return 0.5 * ((output - target) ** 2).sum(dim=-1)
