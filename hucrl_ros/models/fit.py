"""Fit of a model to transitions, and an honest judgement of it."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from hucrl_ros.models.base import DynamicsModel, Progress, Transitions
from hucrl_ros.models.calibration import Residuals, calibration_error, epistemic_scale

STILL = 0.01
"""Deviation of the changes of an entry that never changed [units of the entry]. An object that was
never touched may be imagined to move, but no more than objects do."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


class Quality(NamedTuple):
    """How well a model predicts transitions."""

    model_error: float
    """Root mean square error of the mean [standard deviations of the change of state]."""
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
    """Which `(count,)` of the transitions a fit never sees.

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
    """Fit `model` to all of `data` but the held-out transitions, which judge it.

    Args:
        model: Its normalisers are fitted, too; an ensemble goes on from its present weights.
        data: All transitions of a run, in their order.
        generator: Draws everything random.
        progress: Called with the share that is done.
    """
    settings = model.settings
    away = held_out(len(data.states), settings.holdout)
    kept = ~away
    features = torch.cat([model.task.model_features(data.states), data.actions], dim=-1)
    changes = (data.next_states - data.states)[:, : model.output_dim]
    if not model.fixed_inputs:
        least = torch.zeros(model.input_dim)
        least[: model.task.model_feature_dim] = model.task.least_deviations
        model.inputs.fit(features[kept], least=least)
    model.targets.fit(changes[kept], STILL * model.task.units[: model.output_dim])
    model.epistemic_scale.fill_(1.0)
    model.learn(model.inputs(features[kept]), model.targets(changes[kept]), generator, progress)
    judges = Transitions(*(entry[away if away.any() else kept] for entry in data))
    raw = evaluate(model, judges)
    if not settings.recalibrate or not away.any():
        return FitReport(raw)
    recalibrated = _recalibrate(model, judges)
    return FitReport(recalibrated, raw, float(model.epistemic_scale.mean()))


@torch.no_grad()
def residuals(model: DynamicsModel, data: Transitions) -> Residuals:
    """What `model` says of `data`, with the scale that it has."""
    prediction = model.predict(data.states, data.actions)
    scale = model.targets.std
    error = (data.next_states[:, : model.output_dim] - prediction.mean) / scale
    return Residuals(error, prediction.epistemic / scale, prediction.aleatoric / scale)


def evaluate(model: DynamicsModel, data: Transitions) -> Quality:
    """Judge `model` on `data`."""
    found = residuals(model, data)
    return _quality(found, torch.ones(model.output_dim))


def _recalibrate(model: DynamicsModel, data: Transitions) -> Quality:
    """Scale the epistemic deviation; judged on one half of `data` with the scale of the other."""
    found = residuals(model, data)
    halves = [Residuals(*(entry[start::2] for entry in found)) for start in range(2)]
    model.epistemic_scale.copy_(epistemic_scale(found))
    if min(len(half.error) for half in halves) == 0:
        return _quality(found, model.epistemic_scale)
    crossed = [
        _quality(judged, epistemic_scale(other))
        for judged, other in zip(halves, reversed(halves), strict=True)
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
