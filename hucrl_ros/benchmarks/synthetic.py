"""Untrained bundles of any size, to measure with."""

from pathlib import Path

import torch

from hucrl_ros.config.schema import (
    ExplorationSettings,
    ModelSettings,
    PlannerSettings,
    SafetySettings,
    SearchSettings,
)
from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.controller.manifest import BundleFields
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.models import make_model
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.search import ActorCritic
from hucrl_ros.tasks import Task, make_task


def untrained_bundle(
    folder: Path,
    task: str | Task,
    model: ModelSettings,
    planner: PlannerSettings | None = None,
    search: SearchSettings | None = None,
) -> Bundle:
    """Write and load a bundle of random networks that plans as a learned one does.

    Args:
        folder: Where to write it.
        task: Gives the robot and the reward; or its name.
        model: Kind and size of the dynamics model.
        planner: Planning in the tick; None: the default.
        search: Sizes of the policies; None: the default.
    """
    task = make_task(task, 0.1) if isinstance(task, str) else task
    generator = torch.Generator().manual_seed(0)
    planner, search = planner or PlannerSettings(), search or SearchSettings()
    dynamics = make_model(task, model, generator)
    step = make_imagined_dynamics("optimistic", dynamics, ExplorationSettings())
    actor_critic = ActorCritic(task, step.hallucination_dim, search, generator)
    fields = BundleFields(
        strategy="optimistic",
        seed=0,
        episode=1,
        random=False,
        beta=1.0,
        planner=planner,
        safety=SafetySettings(),
        data_hash="",
        versions={"torch": torch.__version__},
        revision="untrained",
    )
    exporter = BundleExporter(task, step, actor_critic, search.discount)
    exporter.write(folder, fields, None)
    return load_bundle(folder)
