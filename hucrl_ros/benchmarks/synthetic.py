"""Untrained bundles of any size, and a robot arm, to measure with."""

from dataclasses import replace
from pathlib import Path

import torch

from hucrl_ros.config.reward import RewardSettings, TaskSettings
from hucrl_ros.config.schema import (
    ExplorationSettings,
    ModelSettings,
    PlannerSettings,
    SafetySettings,
    SearchSettings,
    StrategyName,
)
from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.controller.manifest import BundleFields
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.models import make_model
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.robots import describe
from hucrl_ros.search import ActorCritic
from hucrl_ros.tasks import Task, make_task


def make_arm(action_penalty: float) -> Task:
    """The reacher with the goal always in the same place, so that no state has to hold it."""
    found = describe("reacher")
    robot, goal = found.robot, found.robot.context
    own = {
        "context": (),
        "stops": (),
        "start": {entry: draw for entry, draw in robot.start.items() if entry not in goal},
        "scales": {entry: scale for entry, scale in robot.scales.items() if entry not in goal},
        "state_bounds": {**robot.state_bounds, **dict.fromkeys(robot.joints)},
    }
    place = [robot.start[entry].mean for entry in goal]
    terms = [{"term": "distance", "of": "tool", "to": place}, {"term": "effort"}]
    arm = replace(
        found,
        robot=robot.model_copy(update=own),
        reward=RewardSettings.model_validate({"terms": terms}),
        task=TaskSettings(name="arm"),
    )
    return Task(arm, action_penalty)


def untrained_bundle(
    folder: Path,
    task: str | Task,
    model: ModelSettings,
    planner: PlannerSettings | None = None,
    search: SearchSettings | None = None,
    strategy: StrategyName = "optimistic",
    exploration: ExplorationSettings | None = None,
) -> Bundle:
    """Write and load a bundle of random networks that plans as a learned one does.

    Args:
        folder: Where to write it.
        task: Gives the robot and the reward; or its name.
        model: Kind and size of the dynamics model.
        planner: Planning in the tick; None: the default.
        search: Sizes of the policies; None: the default.
        strategy: What the tick imagines.
        exploration: How; None: the default.
    """
    task = make_task(task, 0.1) if isinstance(task, str) else task
    generator = torch.Generator().manual_seed(0)
    planner, search = planner or PlannerSettings(), search or SearchSettings()
    dynamics = make_model(task, model, generator)
    step = make_imagined_dynamics(strategy, dynamics, exploration or ExplorationSettings())
    step.start_episode(1, generator)
    actor_critic = ActorCritic(task, step.hallucination_dim, search, generator)
    fields = BundleFields(
        strategy=strategy,
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
