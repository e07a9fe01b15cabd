"""Dynamics models that tell what they don't know."""

from hucrl_ros.models.ensemble import Ensemble, Prediction
from hucrl_ros.models.fit import FitReport, Transitions, evaluate, fit

__all__ = ["Ensemble", "FitReport", "Prediction", "Transitions", "evaluate", "fit"]
