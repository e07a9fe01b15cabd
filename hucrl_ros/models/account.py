"""What an episode tells of the model that played it."""

from typing import NamedTuple

import torch

from hucrl_ros.models.base import DynamicsModel, Transitions
from hucrl_ros.models.fit import residuals


class Visit(NamedTuple):
    """An episode under a model that was fitted before it."""

    surprise: float
    """Root mean square error of the mean [standard deviations of the change of state]."""
    complexity: float
    """Σ‖σ‖² over the transitions, the episode's part of I_N (Eq. 9) [units of the state²]."""


@torch.no_grad()
def visit(model: DynamicsModel, episode: Transitions) -> Visit:
    """Compare an episode with what `model` expected of it.

    Neighbours of a held-out transition enter the fit; of a new episode, nothing does. So this
    error is the harder one, and tells what the planner of the episode had to live with.
    """
    error = residuals(model, episode).error
    epistemic = model.predict(episode.states, episode.actions).epistemic
    return Visit(float((error**2).mean().sqrt()), float((epistemic**2).sum()))
