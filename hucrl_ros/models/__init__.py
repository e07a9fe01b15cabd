"""Dynamics models that know how uncertain they are."""

from collections.abc import Callable
from typing import cast

import torch

from hucrl_ros.config.plugins import load
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Sampled, Transitions
from hucrl_ros.models.ensemble import DeterministicEnsemble, Ensemble
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


def make_model(task: Task, settings: ModelSettings, generator: torch.Generator) -> DynamicsModel:
    """Build the model that the settings name, untrained.

    Raises:
        ConfigError: the settings ask for more than this task's inputs allow, or name a plug-in
            that can't be loaded.
    """
    make = MODELS.get(settings.kind)
    if make is None:
        plugin = load("models", settings.kind, MODELS, DynamicsModel)  # type: ignore[type-abstract]
        make = cast(Maker, plugin)
    return make(task, settings, generator)


__all__ = [
    "MODELS",
    "DeterministicEnsemble",
    "DynamicsModel",
    "Ensemble",
    "EpisodeError",
    "FitReport",
    "Prediction",
    "Quality",
    "Sampled",
    "Transitions",
    "evaluate",
    "evaluate_episode",
    "fit",
    "make_model",
]
