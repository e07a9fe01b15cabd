"""Dynamics models that know how uncertain they are."""

import logging
from collections.abc import Callable
from typing import cast

import torch

from hucrl_ros.config.plugins import load
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Sampled, Transitions
from hucrl_ros.models.ensemble import DeterministicEnsemble, Ensemble, Heads
from hucrl_ros.models.fit import (
    EpisodeError,
    FitReport,
    Quality,
    evaluate,
    evaluate_episode,
    fit,
)
from hucrl_ros.models.fourier import quadrature_fourier, random_fourier
from hucrl_ros.models.gaussian_process import GaussianProcess
from hucrl_ros.tasks import Task

Maker = Callable[[Task, ModelSettings, torch.Generator], DynamicsModel]

MODELS: dict[str, Maker] = {
    "probabilistic_ensemble": Ensemble,
    "deterministic_ensemble": DeterministicEnsemble,
    "gp": GaussianProcess,
    "rff": random_fourier,
    "qff": quadrature_fourier,
}


ONE_JOINT, TWO_JOINTS = 2, 4
"""Predicted entries of the state up to which `auto` takes Fourier features, a Gaussian process."""
OF_ENSEMBLES = (
    "heads",
    "layers",
    "activation",
    "prior_units",
    "prior_scale",
    "fit_steps",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "bootstrap",
)
"""Settings that models with a prior don't look at."""
logger = logging.getLogger(__name__)


def kind_of(settings: ModelSettings, task: Task) -> str:
    """The kind of model that the settings name, or that `auto` takes for the task."""
    if settings.kind != "auto":
        return settings.kind
    entries = task.spec.predicted_dim
    if entries > TWO_JOINTS:
        return "probabilistic_ensemble"
    return "gp" if entries > ONE_JOINT else "rff"


def make_model(task: Task, settings: ModelSettings, generator: torch.Generator) -> DynamicsModel:
    """Build the model that the settings name, untrained.

    Raises:
        ConfigError: the settings ask for more than this task's inputs allow, or name a plug-in
            that can't be loaded.
    """
    kind = kind_of(settings, task)
    if kind != settings.kind:
        entries = task.spec.predicted_dim
        logger.info("model.kind = auto: %s, for %d entries of the state", kind, entries)
        default = ModelSettings()
        ignored = [k for k in OF_ENSEMBLES if getattr(settings, k) != getattr(default, k)]
        if ignored and kind != "probabilistic_ensemble":
            names = ", ".join(f"model.{name}" for name in ignored)
            logger.info("%s: for ensembles, ignored by %s", names, kind)
    make = MODELS.get(kind)
    if make is None:
        plugin = load("models", kind, MODELS, DynamicsModel)  # type: ignore[type-abstract]
        make = cast(Maker, plugin)
    return make(task, settings, generator)


__all__ = [
    "MODELS",
    "DeterministicEnsemble",
    "DynamicsModel",
    "Ensemble",
    "EpisodeError",
    "FitReport",
    "Heads",
    "Prediction",
    "Quality",
    "Sampled",
    "Transitions",
    "evaluate",
    "evaluate_episode",
    "fit",
    "kind_of",
    "make_model",
]
