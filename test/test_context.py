"""A goal in the state: what predicts it (nothing), what sees it, and what leaves it alone."""

import dataclasses

import numpy as np
import pytest
import torch
from shortened import shorten

from hucrl_ros.config.schema import (
    Config,
    ExplorationSettings,
    ModelSettings,
    PlannerSettings,
    SafetySettings,
    SearchSettings,
)
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.guard import Guard
from hucrl_ros.errors import BundleError
from hucrl_ros.experiments.train import train
from hucrl_ros.models import Ensemble, Transitions, fit
from hucrl_ros.models.exploration import STRATEGIES, make_imagined_dynamics
from hucrl_ros.robots import make_robot
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.search import ActorCritic, InitialStates, ModelRollout
from hucrl_ros.tasks import make_task

JOINTS, GOAL = 14, 3
MODEL = ModelSettings(heads=2, layers=(8,), fit_steps=5)
SEARCH = SearchSettings(policy_layers=(8,), critic_layers=(8,), iterations=1, pool=8)
PLANNER = PlannerSettings(particles=4, horizon=3, iterations=1, elites=2)


def modules(strategy="optimistic"):
    task, generator = make_task("reacher", 0.0), torch.Generator().manual_seed(0)
    step = make_imagined_dynamics(
        strategy, Ensemble(task, MODEL, generator), ExplorationSettings()
    )
    return task, step, ActorCritic(task, step.hallucination_dim, SEARCH, generator)


def some_states(task, count=6):
    return task.imagined_states(count, torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Two short episodes of the reacher, learned from."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch, 10)
        groups = {"model": MODEL, "search": SEARCH, "planner": PLANNER}
        values = {"task": "reacher", "episodes": 2, "action_penalty": 0.0}
        config = Config.model_validate({**values, **groups})
        folder = RunFolder.create(tmp_path_factory.mktemp("runs") / "arm", config)
        train(config, folder)
        yield folder


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_imagined_goal_stays_where_it_is(strategy):
    task, step, actors = modules(strategy)
    states = some_states(task)
    imagined = ModelRollout(actors, step).imagine(states, 5, torch.Generator().manual_seed(0), 0.3)
    assert torch.equal(imagined.states[:, :, JOINTS:], states[:, JOINTS:].expand(6, -1, -1))
    assert (imagined.states[1:, :, :JOINTS] != imagined.states[:-1, :, :JOINTS]).any()


def test_only_what_moves_is_predicted_and_hallucinated():
    task, step, _ = modules()
    states = some_states(task)
    belief = step.model.predict(states, torch.zeros(6, 7))
    assert all(entry.shape == (6, JOINTS) for entry in belief[:3])
    assert step.hallucination_dim == JOINTS
    assert len(step.model.targets.std) == JOINTS


def test_the_models_belief_does_not_depend_on_the_goal_but_the_policies_do():
    task, step, actors = modules()
    states = some_states(task)
    moved = states.clone()
    moved[:, JOINTS:] += 0.2
    actions = torch.ones(6, 7)
    assert torch.equal(
        step.model.predict(states, actions)[0], step.model.predict(moved, actions)[0]
    )
    for network in (actors.policy, actors.hallucination, actors.critic):
        assert not torch.equal(network(states), network(moved))


def test_a_goal_that_jumps_in_the_data_is_nothing_to_learn():
    task, step, _ = modules()
    generator = torch.Generator().manual_seed(1)
    states = some_states(task, 40)
    following = torch.cat([step.model.without_change(states), states[:, JOINTS:] + 100.0], dim=1)
    fit(step.model, Transitions(states, torch.zeros(40, 7), following), generator)
    assert not step.model.targets.mean.any()


def test_visited_states_are_imagined_again_under_new_goals():
    task, generator = make_task("reacher", 0.0), torch.Generator().manual_seed(0)
    visited = torch.full((5, JOINTS + GOAL), 7.0)
    drawn = InitialStates(task, visited, share=1.0).draw(50, generator)
    assert (drawn[:, :JOINTS] == 7.0).all()
    assert len(drawn[:, JOINTS:].unique(dim=0)) == 50
    assert drawn[:, JOINTS:].abs().max() < 1.0


def test_the_bundle_names_the_goals_entries_and_plans_for_the_goal(run):
    bundle = load_bundle(run.bundle(1), make_robot("reacher").spec)
    manifest = bundle.manifest
    assert manifest.context == ("goal_x", "goal_y", "goal_z")
    assert manifest.hallucination_dim == len(manifest.target_std) == JOINTS
    agent = Agent(bundle, None)
    robot = make_robot("reacher")
    actions = []
    for goal in (0.1, 0.4):
        state = robot.reset(np.random.default_rng(0))
        state[JOINTS:] = goal
        agent.start_episode(0)
        tick = agent.act(state)
        actions.append(tick.action)
        for plan in (tick.optimistic, agent.expected_plan()):
            assert plan.shape == (PLANNER.horizon + 1, JOINTS + GOAL)
            assert plan[:, JOINTS:] == pytest.approx(goal)
    assert not np.array_equal(*actions)


def test_a_bundle_for_another_context_is_refused(run):
    without_goal = dataclasses.replace(make_robot("reacher").spec, context=())
    with pytest.raises(BundleError, match="context is \\('goal_x', 'goal_y', 'goal_z'\\)"):
        load_bundle(run.bundle(1), without_goal)


def test_the_guard_looks_at_the_joints_alone():
    limits = (-1.0, 1.0) * 7
    guard = Guard(make_robot("reacher").spec, SafetySettings(position_limits=limits))
    state = np.zeros(JOINTS + GOAL)
    state[0], state[JOINTS:] = 1.1, 50.0
    effort = guard.check(np.full(7, 5.0), state).action
    assert effort.tolist() == [0.0, *[5.0] * 6]
    assert guard.check(np.full(7, 5.0), state[:JOINTS]).safe  # no goal known: no state
