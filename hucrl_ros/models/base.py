"""What every dynamics model is: a prediction of the next state that knows what it doesn't know."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.tasks import Task


class Normaliser(nn.Module):
    """Maps data to zero mean and unit variance, and back.

    Dividing entries that (almost) never vary in the data by their tiny deviation would turn the
    smallest novelty into a huge input; such entries are divided by another number.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def fit(
        self,
        data: Tensor,
        instead: Tensor | None = None,
        least: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> None:
        """Take mean and deviation of `data` `(n, dim)`.

        Args:
            data: Gives mean and deviation.
            instead: Deviations `(dim,)` for entries that don't vary; None: 1.
            least: Smallest deviations `(dim,)` of those that do; None: 0.
            weights: Of the rows `(n,)`, positive; None: all equal.
        """
        if weights is None:
            mean, std = data.mean(dim=0), data.std(dim=0, unbiased=False)
        else:
            shares = (weights.double() / weights.double().sum()).unsqueeze(-1)
            exact = (shares * data).sum(dim=0)
            std = (shares * (data - exact) ** 2).sum(dim=0).sqrt().to(data.dtype)
            mean = exact.to(data.dtype)
        rounding = 1e-8 + 1e-6 * mean.abs()  # what float32 makes of a constant column
        self.mean.copy_(mean)
        still = std < rounding
        std = std if least is None else torch.maximum(std, least)
        self.std.copy_(
            torch.where(still, torch.ones_like(std) if instead is None else instead, std)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `(..., dim)`."""
        return (x - self.mean) / self.std

    def inverse(self, x: Tensor) -> Tensor:
        """Undo `forward`."""
        return x * self.std + self.mean


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
    weights: Tensor | None = None
    """`(n,)` how much each counts in a fit, 1 being one of this robot [1]; None: all 1."""

    def part(self, chosen: Tensor) -> "Transitions":
        """Those that a mask or indices choose."""
        weights = None if self.weights is None else self.weights[chosen]
        states, actions, following = (entry[chosen] for entry in self[:3])
        return Transitions(states, actions, following, weights)

    def to(self, device: str) -> "Transitions":
        """The same on a device."""
        weights = None if self.weights is None else self.weights.to(device)
        states, actions, following = (entry.to(device) for entry in self[:3])
        return Transitions(states, actions, following, weights)


class Prediction(NamedTuple):
    """Distribution of the m predicted entries of the next state, in units of the state."""

    mean: Tensor
    """`(..., m)` expected value."""
    epistemic: Tensor
    """`(..., m)` standard deviation of the expected value: what more data would remove."""
    aleatoric: Tensor
    """`(..., m)` standard deviation of the noise: what more data would not remove."""
    deviations: Tensor
    """`(k, ..., m)` vectors whose outer products sum to the epistemic covariance."""


class Sampled(NamedTuple):
    """Next state that one function drawn from the model predicts."""

    mean: Tensor
    """`(..., m)` its value."""
    aleatoric: Tensor
    """`(..., m)` standard deviation of its noise."""


class DynamicsModel(nn.Module, ABC):
    """A distribution over the f of s' = f(s, u) + noise, fitted to transitions (Sec. 2.1).

    Inputs are the task's model features of the state and the action; targets are the changes in
    one control period of the m entries of the state that are to be predicted: all but the
    context; of positions, where a model `coasts`, what velocities don't explain. Both are
    normalised here, so that a subclass sees numbers of order one. All that learning changes is a
    parameter or a buffer of a fixed shape: bundles swap nothing else.
    """

    epistemic_scale: Tensor
    coast: Tensor
    """How long joints go on at their velocities before a change is added [s]: the control period
    of models that `coasts`, until data say that this is no nearer; else 0."""
    weighs: ClassVar[bool] = False
    """Whether `learn` takes weights."""
    coasts: ClassVar[bool] = False
    """Whether positions are predicted from where their velocities alone would lead."""

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
        self.register_buffer("coast", torch.tensor(task.spec.period if self.coasts else 0.0))

    @abstractmethod
    def predict_normalised(self, inputs: Tensor) -> Prediction:
        """Predict the normalised change of state.

        Args:
            inputs: Normalised, `(n, f + q)`.

        Returns:
            Tensors `(n, m)` [standard deviations of the targets].
        """

    @abstractmethod
    def sample_normalised(self, inputs: Tensor) -> Sampled:
        """Like `predict_normalised`, by the function of the last `draw`."""

    @abstractmethod
    def draw(self, generator: torch.Generator) -> None:
        """Draw the function that `sample` follows from now on (Thompson sampling, Eq. 5)."""

    @abstractmethod
    def learn(
        self,
        inputs: Tensor,
        targets: Tensor,
        generator: torch.Generator,
        progress: Progress,
        weights: Tensor | None = None,
    ) -> None:
        """Fit to normalised inputs `(n, f + q)` and targets `(n, m)`; called by `fit`.

        Args:
            inputs: Normalised.
            targets: Normalised.
            generator: Draws everything random.
            progress: Called with the share that is done.
            weights: Of the transitions `(n,)`, positive; None: all 1. k of weight 1/k count as
                one of weight 1. Given only to a model that `weighs`.
        """

    @property
    def information_gain(self) -> float | None:
        """I(y; f) of the data, all outputs together [nats]; None for a model without a prior."""
        return None

    @property
    def noise_ratio(self) -> float | None:
        """Noise in prior standard deviations [1]; None for a model without a prior."""
        return None

    def network_inputs(self, state: Tensor, action: Tensor) -> Tensor:
        """Normalised inputs `(..., f + q)` of states `(..., p)` and actions `(..., q)`."""
        features = self.task.model_features(state)
        normalised: Tensor = self.inputs(torch.cat([features, action], dim=-1))
        return normalised

    def without_change(self, state: Tensor) -> Tensor:
        """The next predicted entries `(..., m)` of states `(..., p)` if the change is zero."""
        joints = len(self.task.spec.joint_names)
        positions, velocities = state[..., :joints], state[..., joints : 2 * joints]
        others = state[..., joints : self.output_dim]
        return torch.cat([positions + self.coast * velocities, others], dim=-1)

    def predict(self, state: Tensor, action: Tensor) -> Prediction:
        """Distribution of the state that follows `state` `(..., p)` under `action` `(..., q)`."""
        inputs = self.network_inputs(state, action)
        prediction = self.predict_normalised(inputs.reshape(-1, inputs.shape[-1]))
        present = self.without_change(state)
        spread = self.targets.std * self.epistemic_scale
        return Prediction(
            mean=present + self.targets.inverse(prediction.mean.reshape(present.shape)),
            epistemic=prediction.epistemic.reshape(present.shape) * spread,
            aleatoric=prediction.aleatoric.reshape(present.shape) * self.targets.std,
            deviations=prediction.deviations.reshape(-1, *present.shape) * spread,
        )

    def sample(self, state: Tensor, action: Tensor) -> Sampled:
        """Next state that the drawn function predicts; arguments as of `predict`.

        A recalibrated model takes it nearer to the mean, or farther, like its deviation.
        """
        inputs = self.network_inputs(state, action)
        inputs = inputs.reshape(-1, inputs.shape[-1])
        drawn = self.sample_normalised(inputs)
        present, mean = self.without_change(state), drawn.mean
        if self.settings.recalibrate:
            expected = self.predict_normalised(inputs).mean
            mean = expected + self.epistemic_scale * (mean - expected)
        return Sampled(
            mean=present + self.targets.inverse(mean.reshape(present.shape)),
            aleatoric=drawn.aleatoric.reshape(present.shape) * self.targets.std,
        )
