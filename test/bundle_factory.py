"""Bundles of small untrained networks, exported once a process."""

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import (
    ExplorationSettings,
    ModelSettings,
    PlannerSettings,
    SafetySettings,
    SearchSettings,
)
from hucrl_ros.controller.bundle import ImaginedEpisode
from hucrl_ros.controller.manifest import BundleFields
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.models import Ensemble
from hucrl_ros.models.exploration import ImaginedDynamics, make_imagined_dynamics
from hucrl_ros.search import ActorCritic
from hucrl_ros.tasks import Task, make_task

STRATEGIES = ("optimistic", "greedy", "thompson", "sombrl", "opax")
PLANNER = PlannerSettings(particles=16, horizon=6, iterations=3, elites=4)
DISCOUNT = 0.97


class Learned(NamedTuple):
    """What a learner holds."""

    task: Task
    model: Ensemble
    dynamics: ImaginedDynamics
    actor_critic: ActorCritic
    exporter: BundleExporter


SHORT_RAIL = str(share_directory() / "config" / "examples" / "short_rail" / "short_rail.yaml")
"""A task with a constraint."""


def learned(strategy="optimistic", task="pendulum"):
    """Modules of a strategy and their exporter; tests may change the weights."""
    return _learned(strategy, task, make_task(task, 0.2).steps)


@functools.cache
def _learned(strategy, name, steps):  # tests may have shortened them
    task = make_task(name, 0.2)
    generator = torch.Generator().manual_seed(0)
    model = Ensemble(task, ModelSettings(heads=3, layers=(8, 8)), generator)
    dynamics = make_imagined_dynamics(strategy, model, ExplorationSettings())
    networks = SearchSettings(policy_layers=(8,), critic_layers=(8,))
    actors = ActorCritic(task, dynamics.hallucination_dim, networks, generator)
    exporter = BundleExporter(task, dynamics, actors, DISCOUNT)
    result = Learned(task, model, dynamics, actors, exporter)
    shake(result, seed=0)
    return result


def shake(modules, seed):
    """Give every parameter and every buffer another value, as learning does."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in (*modules.model.parameters(), *modules.actor_critic.parameters()):
            parameter.normal_(0.0, 0.4, generator=generator)
        modules.model.inputs.mean.normal_(0.0, 0.1, generator=generator)
        modules.model.inputs.std.uniform_(0.5, 2.0, generator=generator)
        modules.model.targets.mean.normal_(0.0, 0.01, generator=generator)
        modules.model.targets.std.uniform_(0.05, 0.2, generator=generator)
        modules.model.epistemic_scale.uniform_(0.5, 2.0, generator=generator)
    modules.dynamics.start_episode(1 + seed, generator)


def fields(strategy="optimistic", **changes):
    values = {
        "strategy": strategy,
        "seed": 0,
        "episode": 1,
        "random": False,
        "beta": 1.0,
        "planner": PLANNER,
        "safety": SafetySettings(),
        "data_hash": "",
        "versions": {"torch": torch.__version__},
        "revision": "test",
    }
    return BundleFields(**{**values, **changes})


def imagined_episode(steps=3, state_dim=2, action_dim=1):
    states = np.zeros((steps + 1, state_dim))
    return ImaginedEpisode(states, np.zeros((steps, action_dim)), np.zeros(steps))


def write_bundle(path: Path, strategy="optimistic", task="pendulum", **changes):
    """A bundle with the present weights; `changes` are fields of the manifest."""
    modules = learned(strategy, task)
    spec = modules.task.spec
    episode = imagined_episode(state_dim=spec.state_dim, action_dim=spec.action_dim)
    modules.exporter.write(path, fields(strategy, **changes), episode)
    return path
