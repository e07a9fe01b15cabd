"""Maximum-likelihood fit of an ensemble to transitions."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hucrl_ros.models.ensemble import Ensemble


class Transitions(NamedTuple):
    """Recorded transitions."""

    states: Tensor
    """`(n, p)`"""
    actions: Tensor
    """`(n, q)`"""
    next_states: Tensor
    """`(n, p)`"""


class FitReport(NamedTuple):
    """How well a model predicts transitions that it was not fitted to."""

    model_error: float
    """Root mean square error of the mean [standard deviations of the change of state]."""
    nll: float
    """Mean negative log-likelihood of the total Gaussian [nats an entry, normalised targets]."""
    coverage: float
    """Share of entries within two total standard deviations (0.954 for a perfect Gaussian)."""


def fit(
    model: Ensemble,
    data: Transitions,
    generator: torch.Generator,
    progress: Callable[[float], None] = lambda share: None,
) -> FitReport:
    """Fit all heads of `model` to `data`, from their present weights on.

    Each head sees its own Poisson(1) weight of every transition (online bootstrap), in batches
    of its own. The loss is the Gaussian negative log-likelihood, each term scaled by its own
    standard deviation (β-NLL with β = 0.5, Seitzer et al., 2022): without that, terms that are
    already predicted well drown the others.
    """
    settings = model.settings
    order = torch.randperm(len(data.states), generator=generator)
    held_out = order[: math.floor(settings.holdout * len(order))]
    kept = order[len(held_out) :]
    features = torch.cat([model.task.model_features(data.states), data.actions], dim=-1)
    changes = (data.next_states - data.states)[:, : model.task.spec.predicted_dim]
    model.inputs.fit(features[kept])
    model.targets.fit(changes[kept])
    inputs = model.inputs(features[kept])
    targets = model.targets(changes[kept])
    weights = torch.ones(settings.heads, len(kept))
    if settings.bootstrap:
        weights = torch.poisson(weights, generator=generator)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimiser, settings.fit_steps, eta_min=0.05 * settings.learning_rate
    )
    size = min(settings.batch_size, len(kept))
    for done in range(settings.fit_steps):
        index = torch.randint(len(kept), (settings.heads, size), generator=generator)
        mean, std = model.normalised_heads(inputs[index])
        loss = _beta_nll(mean, std, targets[index])
        optimiser.zero_grad(set_to_none=True)
        (loss * weights.gather(1, index)).mean(dim=1).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        progress((done + 1) / settings.fit_steps)
    judged = held_out if len(held_out) else kept
    return evaluate(model, Transitions(*(entry[judged] for entry in data)))


def _beta_nll(mean: Tensor, std: Tensor, target: Tensor) -> Tensor:
    nll = 0.5 * ((target - mean) / std) ** 2 + torch.log(std)
    return (nll * std.detach()).sum(dim=-1)


@torch.no_grad()
def evaluate(model: Ensemble, data: Transitions) -> FitReport:
    """Judge `model` on `data`."""
    prediction = model.predict(data.states, data.actions)
    scale = model.targets.std
    following = data.next_states[:, : model.task.spec.predicted_dim]
    error = (following - prediction.mean) / scale
    std = (prediction.epistemic**2 + prediction.aleatoric**2).sqrt() / scale
    nll = 0.5 * (error / std) ** 2 + torch.log(std) + 0.5 * math.log(2 * math.pi)
    return FitReport(
        model_error=float((error**2).mean().sqrt()),
        nll=float(nll.mean()),
        coverage=float((error.abs() < 2 * std).float().mean()),
    )
