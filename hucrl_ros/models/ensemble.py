"""Probabilistic ensemble: several networks, each a Gaussian over the next state (Sec. 2.1)."""

import torch
from torch import Tensor
from torch.nn import functional

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Progress, Sampled
from hucrl_ros.models.heads import Heads
from hucrl_ros.tasks import Task


class Ensemble(DynamicsModel):
    """Networks that each predict mean and noise (Lakshminarayanan et al., 2017)."""

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__(task, settings)
        sizes = [self.input_dim, *settings.layers, 2 * self.output_dim]
        self.heads = Heads(sizes, settings, generator)

    def gaussians(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Each head's mean and noise.

        Args:
            inputs: Normalised, `(n, f + q)`.

        Returns:
            Means and standard deviations `(heads, n, m)`, normalised.
        """
        return self._split(self.heads(inputs))

    def believe(self, inputs: Tensor) -> Prediction:
        """The heads' mean, their deviation and their mean noise."""
        means, stds = self.gaussians(inputs)
        return self.heads.combine(means, (stds**2).mean(dim=0).sqrt())

    def follow(self, inputs: Tensor) -> Sampled:
        """Mean and noise of the drawn head."""
        return Sampled(*self._split(self.heads.of_drawn(inputs)))

    def draw(self, generator: torch.Generator) -> None:
        """Draw a head."""
        self.heads.draw(generator)

    def learn(
        self, inputs: Tensor, targets: Tensor, generator: torch.Generator, progress: Progress
    ) -> None:
        """Maximum likelihood by Adam, from the present weights on."""
        self.heads.learn(inputs, targets, self._loss, generator, progress)

    @property
    def information_gain(self) -> None:
        """Unknown: an ensemble has no prior."""

    @property
    def noise_ratio(self) -> None:
        """Unknown: an ensemble has no prior."""

    def _split(self, output: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = output.chunk(2, dim=-1)
        return mean, self.settings.min_aleatoric_std + functional.softplus(raw)

    def _loss(self, output: Tensor, target: Tensor) -> Tensor:
        return beta_nll(*self._split(output), target)


def beta_nll(mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
    """Gaussian negative log-likelihood `(...)` of `(..., m)`, each term times its deviation.

    β-NLL with β = 0.5 (Seitzer et al., 2022): without that, terms that are already predicted
    well drown the others.
    """
    nll = 0.5 * ((target - mean) / std) ** 2 + torch.log(std)
    return (nll * std.detach()).sum(dim=-1)
