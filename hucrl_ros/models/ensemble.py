"""Ensembles: several networks whose disagreement is the epistemic uncertainty (Sec. 2.1)."""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Progress, Sampled
from hucrl_ros.tasks import Task

ACTIVATIONS = {"relu": torch.relu, "silu": functional.silu, "tanh": torch.tanh}
PRIOR_PROBES = 512
"""Standard normal inputs at which the deviation of a prior is taken."""
Loss = Callable[[Tensor, Tensor], Tensor]
"""Outputs `(heads, batch, o)` and targets `(heads, batch, m)` to losses `(heads, batch)`."""


class Heads(nn.Module):
    """Independent fully connected networks of one shape, and which of them was drawn.

    Each is the sum of a network that learns and of a random one that never does, a randomised
    prior function (Osband et al., 2018). Where there are data, what is learned cancels the prior;
    elsewhere heads go on to differ. Both are one network, of which a block of units is fixed, so
    that exporting and planning know nothing of it.
    """

    choice: Tensor

    def __init__(
        self, sizes: Sequence[int], means: int, settings: ModelSettings, generator: torch.Generator
    ) -> None:
        """Draw initial weights.

        Args:
            sizes: Units that learn in each layer, from the inputs to the outputs.
            means: Outputs, the first ones, that have a prior.
            settings: Give number of heads, activation and prior.
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
        self.bootstrap_seed = int(torch.randint(2**31, (), generator=generator))
        """Of the transitions' weights. It belongs to heads that were learned with it: whoever
        takes these over takes it as well, or they would see what they were denied."""
        if settings.prior_scale:
            self._add_prior(means, generator)

    @torch.no_grad()
    def _add_prior(self, means: int, generator: torch.Generator) -> None:
        """Add fixed units to each layer, whose output deviates as far as `prior_scale` says."""
        heads, units = self._settings.heads, self._settings.prior_units
        hidden = torch.randn(heads, PRIOR_PROBES, self.weights[0].shape[1], generator=generator)
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            fan_in, last = hidden.shape[2], layer == len(self.weights) - 1
            width = means if last else units
            fixed = torch.randn(heads, fan_in, width, generator=generator)
            if last:
                spread = torch.matmul(hidden, fixed).std(dim=1, keepdim=True)
                fixed *= self._settings.prior_scale / spread
            else:
                fixed *= math.sqrt(2.0 / fan_in)
                offset = torch.randn(heads, 1, units, generator=generator)
                raw = torch.matmul(hidden, fixed) + offset
                # Few rectified units may all be off at every probe: no scale helps then, but the
                # other sign does.
                varies = self._activation(raw).std(dim=1, keepdim=True) > 0.0
                sign = torch.where(varies.any(dim=2, keepdim=True), 1.0, -1.0)
                fixed, offset = sign * fixed, sign * offset
                hidden = self._activation(sign * raw)
                self.biases[layer] = nn.Parameter(torch.cat([bias, offset], dim=2))
            # What learns and what doesn't share the inputs, and meet again in the outputs.
            learns, columns = weight.shape[1] if layer else 0, 0 if last else weight.shape[2]
            both = torch.zeros(heads, learns + fan_in, max(columns + width, weight.shape[2]))
            both[:, : weight.shape[1], : weight.shape[2]] = weight
            both[:, learns:, columns : columns + width] = fixed
            self.weights[layer] = nn.Parameter(both)

    def _prior(self) -> Iterator[Tensor]:
        """Views of the weights that never learn."""
        units = self._settings.prior_units if self._settings.prior_scale else 0
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if layer and units:
                yield weight.detach()[:, -units:]
            if layer < len(self.weights) - 1 and units:
                yield weight.detach()[..., -units:]
                yield bias.detach()[..., -units:]

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

    def bootstrap(self, count: int) -> Tensor:
        """Weight of each transition for each head, `(heads, count)`; more of them change none."""
        weights = torch.ones(count, self._settings.heads, device="cpu")
        if self._settings.bootstrap:
            own = torch.Generator("cpu").manual_seed(self.bootstrap_seed)
            weights = torch.poisson(weights, generator=own)
        return weights.T

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
        counts: Tensor | None = None,
    ) -> None:
        """Descend `loss` from the present weights on.

        Each head sees its own Poisson(1) weight of every transition (online bootstrap; Osband
        et al., 2016), in batches of its own. A transition keeps its weights in all fits: drawn
        anew, every head would have seen everything after some fits.

        Args:
            inputs: Normalised, `(n, i)`, in the order of all fits: new ones come last.
            targets: Normalised, `(n, m)`.
            loss: Minimised by gradient descent.
            generator: Draws batches.
            progress: Called after each step.
            counts: How much each transition counts besides, `(n,)`; None: 1.
        """
        settings, count = self._settings, len(inputs)
        weights = self.bootstrap(count).to(inputs.device)
        if counts is not None:
            weights = weights * counts
        optimiser = torch.optim.AdamW(
            self.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimiser, settings.fit_steps, eta_min=0.05 * settings.learning_rate
        )
        size, prior = min(settings.batch_size, count), [part.clone() for part in self._prior()]
        for done in range(settings.fit_steps):
            index = torch.randint(count, (settings.heads, size), generator=generator)
            losses = loss(self(inputs[index]), targets[index])
            optimiser.zero_grad(set_to_none=True)
            (losses * weights.gather(1, index)).mean(dim=1).sum().backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            for part, value in zip(self._prior(), prior, strict=True):
                part.copy_(value)  # Neither its gradient nor its decay counts.
            schedule.step()
            progress((done + 1) / settings.fit_steps)


class Ensemble(DynamicsModel):
    """Networks that each predict mean and noise (Lakshminarayanan et al., 2017).

    Positions begin at where the velocities lead. Else a network has to learn, from data, that a
    joint moves as fast as its velocity says, and heads doubt that where there are none.
    """

    weighs = True
    coasts = True
    noisy: ClassVar[bool] = True
    """Whether the networks predict a standard deviation besides the mean."""

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__(task, settings)
        outputs = (2 if self.noisy else 1) * self.output_dim
        self.heads = Heads(
            [self.input_dim, *settings.layers, outputs], self.output_dim, settings, generator
        )

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
        self,
        inputs: Tensor,
        targets: Tensor,
        generator: torch.Generator,
        progress: Progress,
        weights: Tensor | None = None,
    ) -> None:
        """Minimise the loss by Adam, from the present weights on."""
        self.heads.learn(inputs, targets, self._loss, generator, progress, weights)

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
