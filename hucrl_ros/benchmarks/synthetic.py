"""Untrained bundles of any size, and a robot arm, to measure with."""

import math
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

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
from hucrl_ros.robots import Pr2Reacher, RobotSpec
from hucrl_ros.robots.pr2_reacher import GOAL_MEAN
from hucrl_ros.search import ActorCritic
from hucrl_ros.tasks import Task, make_task
from hucrl_ros.tasks.kinematics import ForwardKinematics
from hucrl_ros.tasks.reacher import JOINTS, MAX_SPEEDS, SPEED_SCALES


class Arm(Task):
    """The reacher with the goal always in the same place, so that no state has to hold it."""

    name = "arm"
    robot = Pr2Reacher
    steps = 150
    angles = tuple(range(JOINTS))
    scales = SPEED_SCALES
    reach = (*(math.inf,) * JOINTS, *MAX_SPEEDS)

    def __init__(self, action_penalty: float) -> None:
        super().__init__(action_penalty)
        self.tool = ForwardKinematics(Pr2Reacher().model, "tool", self.spec.joint_names)

    @property
    def spec(self) -> RobotSpec:
        """Seven joints."""
        return replace(Pr2Reacher.spec, context=())

    def reward(self, state: Tensor, action: Tensor) -> Tensor:
        """−‖tool − goal‖² − ρ ‖u‖² `(...)` of states `(..., 14)` and torques `(..., 7)` [N m]."""
        away = self.tool(state[..., :JOINTS]) - torch.tensor(GOAL_MEAN, dtype=state.dtype)
        penalty = self.action_penalty * (action**2).sum(dim=-1)
        return torch.as_tensor(-(away**2).sum(dim=-1) - penalty)

    def imagined_states(self, count: int, generator: torch.Generator) -> Tensor:
        """Stretched out, moving at random."""
        speeds = torch.tensor(SPEED_SCALES) * torch.randn(count, JOINTS, generator=generator)
        return torch.cat([torch.zeros(count, JOINTS), speeds], dim=-1)


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
