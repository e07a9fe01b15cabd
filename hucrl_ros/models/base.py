"""What every dynamics model is: a belief about the next state that knows what it doesn't know."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.normaliser import Normaliser
from hucrl_ros.tasks import Task

Progress = Callable[[float], None]
"""Called with the share of a fit that is done."""


class Transitions(NamedTuple):
    """Recorded transitions."""

    states: Tensor
    """`(n, p)`"""
    actions: Tensor
    """`(n, q)`"""
    next_states: Tensor
    """`(n, p)`"""


class Prediction(NamedTuple):
    """Belief about the m predicted entries of the next state, in units of the state."""

    mean: Tensor
    """`(..., m)` expected value."""
    epistemic: Tensor
    """`(..., m)` standard deviation of the expected value: what more data would remove."""
    aleatoric: Tensor
    """`(..., m)` standard deviation of the noise: what more data would not remove."""
    deviations: Tensor
    """`(k, ..., m)` vectors whose outer products sum to the epistemic covariance."""


class Sampled(NamedTuple):
    """What one function drawn from the belief says of the next state."""

    mean: Tensor
    """`(..., m)` its value."""
    aleatoric: Tensor
    """`(..., m)` standard deviation of its noise."""


class DynamicsModel(nn.Module, ABC):
    """A belief about f of s' = f(s, u) + noise, fitted to transitions (Sec. 2.1).

    Inputs are the task's model features of the state and the action; targets are the changes in
    one control period of the m entries of the state that are to be predicted: all but the
    context. Both are normalised here, so that a subclass sees numbers of order one. All that
    learning changes is a parameter or a buffer of a fixed shape: bundles swap nothing else.
    """

    epistemic_scale: Tensor

    def __init__(self, task: Task, settings: ModelSettings, fixed_inputs: bool = False) -> None:
        """Prepare the normalisers.

        Args:
            task: Gives features and the robot.
            settings: Of the model.
            fixed_inputs: Take the features as they are and efforts as shares of their limits, so
                that a prior means the same after each episode; else data decide on the scale.
        """
        super().__init__()
        self.task = task
        self.settings = settings
        self.output_dim = task.spec.predicted_dim
        self.input_dim = task.model_feature_dim + task.spec.action_dim
        self.inputs = Normaliser(self.input_dim)
        self.targets = Normaliser(self.output_dim)
        self.fixed_inputs = fixed_inputs
        if fixed_inputs:
            limits = torch.tensor(task.spec.effort_limits)
            self.inputs.std[-len(limits) :] = limits
        # `(m,)` factor on the epistemic deviation, from recalibration.
        self.register_buffer("epistemic_scale", torch.ones(self.output_dim))

    @abstractmethod
    def believe(self, inputs: Tensor) -> Prediction:
        """Belief about the normalised change of state.

        Args:
            inputs: Normalised, `(n, f + q)`.

        Returns:
            Tensors `(n, m)` [standard deviations of the targets].
        """

    @abstractmethod
    def follow(self, inputs: Tensor) -> Sampled:
        """Like `believe`, but what the function of the last `draw` says."""

    @abstractmethod
    def draw(self, generator: torch.Generator) -> None:
        """Draw the function that `sample` follows from now on (Thompson sampling, Eq. 5)."""

    @abstractmethod
    def learn(
        self, inputs: Tensor, targets: Tensor, generator: torch.Generator, progress: Progress
    ) -> None:
        """Fit to normalised inputs `(n, f + q)` and targets `(n, m)`; see `fit`."""

    @property
    @abstractmethod
    def information_gain(self) -> float | None:
        """I(y; f) of the data, all outputs together [nats]; None for a model without a prior."""

    @property
    @abstractmethod
    def noise_ratio(self) -> float | None:
        """Noise in prior standard deviations [1]; None for a model without a prior."""

    def network_inputs(self, state: Tensor, action: Tensor) -> Tensor:
        """Normalised inputs `(..., f + q)` of states `(..., p)` and actions `(..., q)`."""
        features = self.task.model_features(state)
        normalised: Tensor = self.inputs(torch.cat([features, action], dim=-1))
        return normalised

    def predict(self, state: Tensor, action: Tensor) -> Prediction:
        """Belief about the state that follows `state` `(..., p)` under `action` `(..., q)`."""
        inputs = self.network_inputs(state, action)
        belief = self.believe(inputs.reshape(-1, inputs.shape[-1]))
        present = self._predicted(state)
        spread = self.targets.std * self.epistemic_scale
        return Prediction(
            mean=present + self.targets.inverse(belief.mean.reshape(present.shape)),
            epistemic=belief.epistemic.reshape(present.shape) * spread,
            aleatoric=belief.aleatoric.reshape(present.shape) * self.targets.std,
            deviations=belief.deviations.reshape(-1, *present.shape) * spread,
        )

    def sample(self, state: Tensor, action: Tensor) -> Sampled:
        """What the drawn function says of the state that follows; like `predict`."""
        inputs = self.network_inputs(state, action)
        drawn = self.follow(inputs.reshape(-1, inputs.shape[-1]))
        present = self._predicted(state)
        return Sampled(
            mean=present + self.targets.inverse(drawn.mean.reshape(present.shape)),
            aleatoric=drawn.aleatoric.reshape(present.shape) * self.targets.std,
        )

    def forward(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean, epistemic and aleatoric deviation of `predict`, for export."""
        prediction = self.predict(state, action)
        return prediction.mean, prediction.epistemic, prediction.aleatoric

    def _predicted(self, state: Tensor) -> Tensor:
        return state[..., : self.output_dim] if self.task.spec.context else state


def independent(epistemic: Tensor) -> Tensor:
    """Deviations `(m, n, m)` of independent outputs whose deviations are `(n, m)`."""
    return torch.diag_embed(epistemic).transpose(0, 1)
