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
    """Belief about the predicted entries of the next state, in units of the state."""

    mean: Tensor
    """`(..., m)` mean over the heads."""
    epistemic: Tensor
    """`(..., m)` standard deviation between the heads' means: what more data would remove."""
    aleatoric: Tensor
    """`(..., m)` standard deviation of the noise: what more data would not remove."""
    heads: Tensor
    """`(heads, ..., m)` mean of each head."""


class Ensemble(nn.Module):
    """Independent networks evaluated as one batched product a layer.

    Inputs are the task's model features of the state and the action; targets are the changes in
    one control period of the m entries of the state that are to be predicted: all but the
    context. Both are normalised inside.
    """

    def __init__(self, task: Task, settings: ModelSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.task = task
        self.settings = settings
        self._activation = ACTIVATIONS[settings.activation]
        predicted_dim = task.spec.predicted_dim
        input_dim = task.model_feature_dim + task.spec.action_dim
        self.inputs = Normaliser(input_dim)
        self.targets = Normaliser(predicted_dim)
        sizes = [input_dim, *settings.layers, 2 * predicted_dim]
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
        features = self.task.model_features(state)
        normalised: Tensor = self.inputs(torch.cat([features, action], dim=-1))
        return normalised

    def normalised_heads(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Each head's Gaussian over the normalised change of state.

        Args:
            inputs: `(n, f + q)`, or `(heads, n, f + q)` for different inputs of each head.

        Returns:
            Means and standard deviations `(heads, n, m)`.
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
        present = state[..., : self.task.spec.predicted_dim] if self.task.spec.context else state
        shape = (self.settings.heads, *present.shape)
        heads = present + self.targets.inverse(means.reshape(shape))
        mean = heads.mean(dim=0)
        epistemic = ((heads - mean) ** 2).mean(dim=0)
        if self.settings.heads > 1:  # The root of one head's exact 0 would have no gradient.
            epistemic = epistemic.sqrt()
        aleatoric = (stds**2).mean(dim=0).sqrt().reshape(present.shape) * self.targets.std
        return Prediction(mean, epistemic, aleatoric, heads)

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, epistemic and aleatoric deviation of `predict`, for export."""
        prediction = self.predict(state, action)
        return prediction.mean, prediction.epistemic, prediction.aleatoric
