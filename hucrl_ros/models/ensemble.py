"""Ensembles: several networks whose disagreement is the epistemic uncertainty (Sec. 2.1)."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Progress, Sampled
from hucrl_ros.tasks import Task

ACTIVATIONS = {"relu": torch.relu, "silu": functional.silu, "tanh": torch.tanh}
Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs `(heads, batch, o)` and targets `(heads, batch, m)` to losses `(heads, batch)`."""


class Heads(nn.Module):
    """Independent fully connected networks of one shape, and which of them was drawn."""

    choice: Tensor

    def __init__(
        self, sizes: Sequence[int], settings: ModelSettings, generator: torch.Generator
    ) -> None:
        """Draw initial weights.

        Args:
            sizes: Units of each layer, from the inputs to the outputs.
            settings: Give number of heads and activation.
            generator: Draws the weights.
        """
        super().__init__()
        self._settings = settings
        self._activation = ACTIVATIONS[settings.activation]
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for fan_in, fan_out in itertools.pairwise(sizes):
            bound = 1.0 / math.sqrt(fan_in)
            for shape, parameters in (
                ((settings.heads, fan_in, fan_out), self.weights),
                ((settings.heads, 1, fan_out), self.biases),
            ):
                uniform = torch.rand(shape, generator=generator)
                parameters.append(nn.Parameter(bound * (2.0 * uniform - 1.0)))
        self.register_buffer("choice", torch.eye(settings.heads)[0])

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs `(heads, n, o)` of inputs `(n, i)`, or `(heads, n, i)` of its own for each."""
        return self._outputs(inputs, list(self.weights), list(self.biases))

    def of_drawn(self, inputs: Tensor) -> Tensor:
        """Outputs `(n, o)` of the drawn head alone, in the time of one network."""
        drawn = self.choice.argmax().reshape(1)
        weights, biases = (
            [layer.index_select(0, drawn).squeeze(0) for layer in layers]
            for layers in (self.weights, self.biases)
        )
        return self._outputs(inputs, weights, biases)

    def _outputs(
        self, hidden: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor]
    ) -> Tensor:
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = self._activation(torch.matmul(hidden, weight) + bias)
        return torch.matmul(hidden, weights[-1]) + biases[-1]

    def draw(self, generator: torch.Generator) -> None:
        """Draw a head."""
        head = torch.randint(self._settings.heads, (), generator=generator)
        self.choice.copy_(torch.eye(self._settings.heads)[head])

    def combine(self, means: Tensor, aleatoric: Tensor) -> Prediction:
        """One Gaussian with the moments of the heads' mixture (Lakshminarayanan et al., 2017).

        Args:
            means: `(heads, n, m)`.
            aleatoric: `(n, m)` standard deviation of the noise.
        """
        mean = means.mean(dim=0)
        deviations = (means - mean) / math.sqrt(len(means))
        epistemic = (deviations**2).sum(dim=0)
        if self._settings.heads > 1:  # The root of one head's exact 0 would have no gradient.
            epistemic = epistemic.sqrt()
        return Prediction(mean, epistemic, aleatoric, deviations)

    def learn(
        self,
        inputs: Tensor,
        targets: Tensor,
        loss: Loss,
        generator: torch.Generator,
        progress: Progress,
    ) -> None:
        """Descend `loss` from the present weights on.

        Each head sees its own Poisson(1) weight of every transition (online bootstrap; Osband
        et al., 2016), in batches of its own.

        Args:
            inputs: Normalised, `(n, i)`.
            targets: Normalised, `(n, m)`.
            loss: Minimised by gradient descent.
            generator: Draws bootstrap and batches.
            progress: Called after each step.
        """
        settings, count = self._settings, len(inputs)
        weights = torch.ones(settings.heads, count)
        if settings.bootstrap:
            weights = torch.poisson(weights, generator=generator)
        optimiser = torch.optim.AdamW(
            self.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimiser, settings.fit_steps, eta_min=0.05 * settings.learning_rate
        )
        size = min(settings.batch_size, count)
        for done in range(settings.fit_steps):
            index = torch.randint(count, (settings.heads, size), generator=generator)
            losses = loss(self(inputs[index]), targets[index])
            optimiser.zero_grad(set_to_none=True)
            (losses * weights.gather(1, index)).mean(dim=1).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
            progress((done + 1) / settings.fit_steps)


class Ensemble(DynamicsModel):
    """Networks that each predict mean and noise (Lakshminarayanan et al., 2017)."""

    noisy: ClassVar[bool] = True
    """Whether the networks predict a standard deviation besides the mean."""

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__(task, settings)
        outputs = (2 if self.noisy else 1) * self.output_dim
        self.heads = Heads([self.input_dim, *settings.layers, outputs], settings, generator)

    def gaussians(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Each head's mean and noise.

        Args:
            inputs: Normalised, `(n, f + q)`.

        Returns:
            Means and standard deviations `(heads, n, m)`, normalised.
        """
        return self._split(self.heads(inputs))

    def predict_normalised(self, inputs: Tensor) -> Prediction:
        """The heads' mean, their deviation and their mean noise."""
        means, stds = self.gaussians(inputs)
        return self.heads.combine(means, (stds**2).mean(dim=0).sqrt())

    def sample_normalised(self, inputs: Tensor) -> Sampled:
        """Mean and noise of the drawn head."""
        return Sampled(*self._split(self.heads.of_drawn(inputs)))

    def draw(self, generator: torch.Generator) -> None:
        """Draw a head."""
        self.heads.draw(generator)

    def learn(
        self, inputs: Tensor, targets: Tensor, generator: torch.Generator, progress: Progress
    ) -> None:
        """Minimise the loss by Adam, from the present weights on."""
        self.heads.learn(inputs, targets, self._loss, generator, progress)

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


class DeterministicEnsemble(Ensemble):
    """Networks that predict means only: all uncertainty is epistemic (Kurutach et al., 2018)."""

    noisy = False

    def _split(self, output: Tensor) -> tuple[Tensor, Tensor]:
        return output, torch.zeros_like(output)

    def _loss(self, output: Tensor, target: Tensor) -> Tensor:
        return 0.5 * ((output - target) ** 2).sum(dim=-1)
