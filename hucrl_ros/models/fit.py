"""The fit of a model to transitions, its recalibration, and how well it predicts others."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from hucrl_ros.models.base import DynamicsModel, Progress, Transitions

LEVELS = torch.arange(0.05, 0.96, 0.05)
"""Probabilities of the intervals whose coverage is measured."""
SCALES = torch.logspace(-1.0, 1.0, 81)
"""Factors on the epistemic deviation that are tried."""
RELUCTANCE = 0.002
"""Calibration error that a factor of e in the scale must gain: else 1 stays."""


class Residuals(NamedTuple):
    """Prediction errors and predicted deviations, in standard deviations of the targets."""

    error: Tensor
    """`(n, m)` observed minus expected."""
    epistemic: Tensor
    """`(n, m)`"""
    aleatoric: Tensor
    """`(n, m)`"""

    def std(self, scale: Tensor) -> Tensor:
        """Total deviation `(n, m)` with the epistemic one times `scale` `(m,)`."""
        total = ((scale * self.epistemic) ** 2 + self.aleatoric**2).sqrt()
        return total.clamp_min(1e-6)  # One head without noise claims certainty.


def calibration_error(residuals: Residuals, scale: Tensor) -> Tensor:
    """Expected calibration error `(m,)`: mean |claimed − observed| coverage over the levels.

    The central intervals of the Gaussian prediction (Kuleshov et al., 2018, with equal weights).
    """
    levels = LEVELS.to(residuals.error.device)
    half_width = torch.special.ndtri((1.0 + levels) / 2.0)
    inside = (residuals.error.abs() / residuals.std(scale)).unsqueeze(-1) <= half_width
    difference: Tensor = inside.float().mean(dim=0) - levels
    return difference.abs().mean(dim=-1)


def epistemic_scale(residuals: Residuals) -> Tensor:
    """Factor `(m,)` on each entry's epistemic deviation with the least calibration error.

    One number an entry, so that `FEWEST` held-out transitions suffice, and a recalibrated
    model is still a mean and a deviation that can be planned with (cf. Malik et al., 2019).
    """
    scales = SCALES.to(residuals.error.device)
    errors = torch.stack([calibration_error(residuals, scale) for scale in scales])
    cost = errors + RELUCTANCE * scales.log().abs().unsqueeze(-1)
    return scales[cost.argmin(dim=0)]


STILL = 0.01
"""Deviation of the changes of an entry that never changed [units of the entry]. An object that was
never touched may be imagined to move, but no more than objects do."""
ROUNDING = 1e-6
"""What states in single precision are good for, as a share of their size [1]."""
FEWEST = 10
"""Held-out transitions below which nothing is recalibrated: of one, any scale comes out."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Quality(NamedTuple):
    """How well a model predicts transitions."""

    model_error: float
    """Root mean square error of the mean [standard deviations of the targets]."""
    nll: float
    """Mean negative log-likelihood of the total Gaussian [nats an entry, normalised targets]."""
    coverage: float
    """Share of entries within two total standard deviations (0.954 for a perfect Gaussian)."""
    calibration_error: float
    """Mean |claimed − observed| coverage of intervals of 5% to 95% [1]."""


class FitReport(NamedTuple):
    """How well a model predicts transitions that no fit of it has ever seen."""

    quality: Quality
    """As the model is used."""
    uncalibrated: Quality | None = None
    """Without its recalibration; None where there was none."""
    epistemic_scale: float = 1.0
    """Mean factor on the epistemic deviation from recalibration [1]."""


def held_out(count: int, share: float) -> Tensor:
    """Mask `(count,)` of the transitions that no fit sees.

    It depends on a transition's place alone, so that one which was held out from the first fit
    is held out from all later ones, which go on from the weights of the first. Multiples of the
    golden ratio spread `share` of the places evenly.
    """
    places = torch.arange(count, dtype=torch.float64)
    return (places * GOLDEN) % 1.0 >= 1.0 - share


def fit(
    model: DynamicsModel,
    data: Transitions,
    generator: torch.Generator,
    progress: Progress = lambda share: None,
) -> FitReport:
    """Fit `model` to all of `data` but the held-out transitions, which validate it.

    Args:
        model: Its normalisers are fitted, too; an ensemble goes on from its present weights.
        data: All transitions of a run, in their order; those of weight 0 don't count at all.
        generator: Draws everything random.
        progress: Called with the share that is done.
    """
    settings = model.settings
    if data.weights is not None:
        data = data.part(data.weights > 0)
    held = held_out(len(data.states), settings.holdout)
    kept = ~held
    weights = None if data.weights is None else data.weights[kept]
    features = torch.cat([model.task.model_features(data.states), data.actions], dim=-1)
    _stop_coasting_if_useless(model, data.part(kept))
    changes = data.next_states[:, : model.output_dim] - model.without_change(data.states)
    if not model.fixed_inputs:
        least = torch.zeros(model.input_dim)
        least[: model.task.model_feature_dim] = model.task.least_deviations
        model.inputs.fit(features[kept], least=least, weights=weights)
    still = STILL * model.task.units[: model.output_dim]
    # Where joints do what their velocities say, rounding is all that is left.
    least = ROUNDING * data.states[:, : model.output_dim].abs().amax(dim=0)
    model.targets.fit(changes[kept], still, least, weights)
    model.epistemic_scale.fill_(1.0)
    inputs, targets = model.inputs(features[kept]), model.targets(changes[kept])
    if weights is None:
        model.learn(inputs, targets, generator, progress)
    else:
        model.learn(inputs, targets, generator, progress, weights)
    validation = _weightiest(data.part(held if held.any() else kept))
    raw = evaluate(model, validation)
    if not settings.recalibrate or not held.any() or len(validation.states) < FEWEST:
        return FitReport(raw)
    recalibrated = _recalibrate(model, validation)
    return FitReport(recalibrated, raw, float(model.epistemic_scale.mean()))


def _weightiest(data: Transitions) -> Transitions:
    """Those of the largest weight: of the robot itself, once there are any."""
    return data if data.weights is None else data.part(data.weights == data.weights.max())


@torch.no_grad()
def residuals(model: DynamicsModel, data: Transitions) -> Residuals:
    """Errors and deviations of `model` on `data`, with its present epistemic scale."""
    prediction = model.predict(data.states, data.actions)
    scale = model.targets.std
    error = (data.next_states[:, : model.output_dim] - prediction.mean) / scale
    return Residuals(error, prediction.epistemic / scale, prediction.aleatoric / scale)


def evaluate(model: DynamicsModel, data: Transitions) -> Quality:
    """Measure how well `model` predicts `data`."""
    found = residuals(model, data)
    return _quality(found, torch.ones(model.output_dim))


def _stop_coasting_if_useless(model: DynamicsModel, data: Transitions) -> None:
    """From here on predict whole changes of positions where velocities leave no less of them.

    A half-cheetah's legs turn round within a period: velocities at its beginning tell nothing.
    """
    joints = len(model.task.spec.joint_names)
    moved = data.next_states[:, :joints] - data.states[:, :joints]
    left = moved - model.coast * data.states[:, joints : 2 * joints]
    units = model.task.units[:joints]
    if (left / units).square().sum() > (moved / units).square().sum():
        model.coast.zero_()


def _recalibrate(model: DynamicsModel, data: Transitions) -> Quality:
    """Scale the epistemic deviation; validate each half of `data` with the other's scale."""
    found = residuals(model, data)
    halves = [Residuals(*(entry[start::2] for entry in found)) for start in range(2)]
    model.epistemic_scale.copy_(epistemic_scale(found))
    if min(len(half.error) for half in halves) == 0:
        return _quality(found, model.epistemic_scale)
    crossed = [
        _quality(half, epistemic_scale(other))
        for half, other in zip(halves, reversed(halves), strict=True)
    ]
    error = math.sqrt(sum(quality.model_error**2 for quality in crossed) / 2)
    means = Quality(*(sum(entry) / 2 for entry in zip(*crossed, strict=True)))
    return means._replace(model_error=error)


def _quality(found: Residuals, scale: Tensor) -> Quality:
    std = found.std(scale)
    nll = 0.5 * (found.error / std) ** 2 + torch.log(std) + 0.5 * math.log(2 * math.pi)
    return Quality(
        model_error=float((found.error**2).mean().sqrt()),
        nll=float(nll.mean()),
        coverage=float((found.error.abs() < 2 * std).float().mean()),
        calibration_error=float(calibration_error(found, scale).mean()),
    )


class EpisodeError(NamedTuple):
    """How a model that was fitted before an episode predicts it."""

    surprise: float
    """Root mean square error of the mean [standard deviations of the targets]."""
    complexity: float | None
    """Σ‖σ‖² over the transitions, the episode's part of I_N (Eq. 9) [units of the state²]; None:
    another model played it."""


@torch.no_grad()
def evaluate_episode(model: DynamicsModel, episode: Transitions) -> EpisodeError:
    """Compare a new episode with what `model`, fitted before it, predicts.

    A fit sees the neighbours of its held-out transitions, but nothing of a new episode. So this
    error is larger than theirs, and it is the error that the planner of the episode had.
    """
    error = residuals(model, episode).error
    epistemic = model.predict(episode.states, episode.actions).epistemic
    return EpisodeError(float((error**2).mean().sqrt()), float((epistemic**2).sum()))
