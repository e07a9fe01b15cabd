"""Probabilistic ensemble: several networks, each a Gaussian over the next state (Sec. 2.1)."""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from hucrl_ros.config import ModelSettings
from hucrl_ros.models.normaliser import Normaliser
from hucrl_ros.tasks import Task

ACTIVATIONS = {"relu": torch.relu, "silu": functional.silu, "tanh": torch.tanh}


class Prediction(NamedTuple):
    """Belief about the next state, in units of the state."""

    mean: Tensor
    """`(..., p)` mean over the heads."""
    epistemic: Tensor
    """`(..., p)` standard deviation between the heads' means: what more data would remove."""
    aleatoric: Tensor
    """`(..., p)` standard deviation of the noise: what more data would not remove."""
    heads: Tensor
    """`(heads, ..., p)` mean of each head."""


class Ensemble(nn.Module):
    """Independent networks evaluated as one batched product a layer.

    Inputs are the task's features of the state and the action; targets are the changes of the
    state in one control period. Both are normalised inside.
    """

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.task = task
        self.settings = settings
        self._activation = ACTIVATIONS[settings.activation]
        state_dim, action_dim = task.spec.state_dim, task.spec.action_dim
        self.inputs = Normaliser(task.feature_dim + action_dim)
        self.targets = Normaliser(state_dim)
        sizes = [task.feature_dim + action_dim, *settings.layers, 2 * state_dim]
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

    def network_inputs(self, state: Tensor, action: Tensor) -> Tensor:
        """Normalised inputs `(..., f + q)` of states `(..., p)` and actions `(..., q)`."""
        normalised: Tensor = self.inputs(torch.cat([self.task.features(state), action], dim=-1))
        return normalised

    def normalised_heads(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Each head's Gaussian over the normalised change of state.

        Args:
            inputs: `(n, f + q)`, or `(heads, n, f + q)` for different inputs of each head.

        Returns:
            Means and standard deviations `(heads, n, p)`.
        """
        hidden = inputs
        weights, biases = list(self.weights), list(self.biases)
        for weight, bias in zip(weights[:-1], biases[:-1], strict=True):
            hidden = self._activation(torch.matmul(hidden, weight) + bias)
        output = torch.matmul(hidden, weights[-1]) + biases[-1]
        mean, raw = output.chunk(2, dim=-1)
        return mean, self.settings.min_aleatoric_std + functional.softplus(raw)

    def predict(self, state: Tensor, action: Tensor) -> Prediction:
        """Belief about the state that follows `state` `(..., p)` under `action` `(..., q)`."""
        inputs = self.network_inputs(state, action)
        means, stds = self.normalised_heads(inputs.reshape(-1, inputs.shape[-1]))
        shape = (self.settings.heads, *state.shape)
        heads = state + self.targets.inverse(means.reshape(shape))
        mean = heads.mean(dim=0)
        epistemic = ((heads - mean) ** 2).mean(dim=0)
        if self.settings.heads > 1:  # The root of one head's exact 0 would have no gradient.
            epistemic = epistemic.sqrt()
        aleatoric = (stds**2).mean(dim=0).sqrt().reshape(state.shape) * self.targets.std
        return Prediction(mean, epistemic, aleatoric, heads)

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, epistemic and aleatoric deviation of `predict`, for export."""
        prediction = self.predict(state, action)
        return prediction.mean, prediction.epistemic, prediction.aleatoric
