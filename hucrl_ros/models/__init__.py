"""Dynamics models that tell what they don't know."""

from collections.abc import Callable

import torch

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models.base import DynamicsModel, Prediction, Sampled, Transitions
from hucrl_ros.models.deterministic_ensemble import DeterministicEnsemble
from hucrl_ros.models.ensemble import Ensemble
from hucrl_ros.models.fit import FitReport, Quality, evaluate, fit
from hucrl_ros.models.fourier import FourierModel, quadrature_fourier, random_fourier
from hucrl_ros.models.gaussian_process import GaussianProcess
from hucrl_ros.tasks import Task

MODELS: dict[str, Callable[[Task, ModelSettings, torch.Generator], DynamicsModel]] = {
    "probabilistic_ensemble": Ensemble,
    "deterministic_ensemble": DeterministicEnsemble,
    "gp": GaussianProcess,
    "rff": random_fourier,
    "qff": quadrature_fourier,
}


def make_model(task: Task, settings: ModelSettings, generator: torch.Generator) -> DynamicsModel:
    """Build the model that the settings name, untrained.

    Raises:
        ConfigError: the settings ask for more than this task's inputs allow.
    """
    return MODELS[settings.kind](task, settings, generator)


__all__ = [
    "MODELS",
    "DeterministicEnsemble",
    "DynamicsModel",
    "Ensemble",
    "FitReport",
    "FourierModel",
    "GaussianProcess",
    "Prediction",
    "Quality",
    "Sampled",
    "Transitions",
    "evaluate",
    "fit",
    "make_model",
]
