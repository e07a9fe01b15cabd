"""Rewards of the paper's tasks against closed forms, on poses whose geometry is plain."""

import math

import numpy as np
import pytest
import torch

from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.tasks import make_task

STRETCHED = 0.1 + 0.4 + 0.321
"""[m] From the shoulder to the wrist of the stretched arm."""


def reward(task, state, action, penalty=0.0):
    made = make_task(task, penalty)
    return float(
        made.reward(
            torch.tensor(state, dtype=torch.float64), torch.tensor(action, dtype=torch.float64)
        )
    )


@pytest.mark.parametrize(
    ("position", "angle", "command", "penalty", "expected"),
    [
        (0.0, math.pi, 0.0, 0.05, 1.0),  # upright in the middle
        (0.0, 0.0, 0.0, 0.0, math.exp(-4.0)),  # hanging: 1.2 m below the goal
        (0.6, math.pi, 0.0, 0.0, math.exp(-1.0)),  # upright, one length aside
        (-0.6, math.pi, 0.0, 0.0, math.exp(-1.0)),
        (0.6, math.pi / 2, 0.0, 0.0, math.exp(-1.0)),  # level, the tip below the goal
        (0.0, math.pi, 3.0, 0.05, 1.0 - 0.05 * 9.0),
        (0.0, 3 * math.pi, -2.0, 0.2, 1.0 - 0.2 * 4.0),  # a turn later
    ],
)
def test_the_cartpoles_reward(position, angle, command, penalty, expected):
    state = [position, angle, 0.7, -0.3]
    assert reward("cartpole", state, [command], penalty) == pytest.approx(expected, rel=1e-12)


def test_doing_nothing_with_the_cartpole_earns_next_to_nothing():
    states, actions = np.zeros((200, 4)), np.zeros((200, 1))
    assert make_task("cartpole", 0.1).rewards(states, actions).sum() == pytest.approx(
        3.66, abs=0.01
    )


ARM = [0.0] * 14
TOOL = STRETCHED + 0.168
TORQUES = [1.0, -2.0, 0.0, 0.5, 0.0, 0.0, 3.0]
SQUARED = 1.0 + 4.0 + 0.25 + 9.0


@pytest.mark.parametrize(
    ("goal", "distance"),
    [
        ((TOOL, 0.0, 0.0), 0.0),
        ((TOOL - 0.3, 0.4, 0.0), 0.5),
        ((TOOL, 0.0, -0.2), 0.2),
    ],
)
def test_the_reachers_rewards(goal, distance):
    state = [*ARM, *goal]
    dense = -(distance**2) - 0.01 * SQUARED
    assert reward("reacher", state, TORQUES, 0.01) == pytest.approx(dense, abs=1e-12)
    near = math.exp(-(distance**2) / 0.45**2)
    sparse = near + 0.1 * (math.exp(-SQUARED) - 1.0)
    assert reward("sparse_reacher", state, TORQUES, 0.1) == pytest.approx(sparse, abs=1e-12)
    assert reward("sparse_reacher", state, [0.0] * 7, 0.1) == pytest.approx(near, abs=1e-12)


def test_the_reacher_turned_to_the_left_reaches_to_the_left():
    state = [math.pi / 2, *[0.0] * 13, 0.0, TOOL, 0.0]
    assert reward("reacher", state, [0.0] * 7) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("place", "to_wrist", "to_goal"),
    [
        ((0.45, -0.05, -0.275), (STRETCHED - 0.45) ** 2 + 0.55**2 + 0.275**2, 0.0),
        ((STRETCHED, -0.6, 0.0), 0.0, (STRETCHED - 0.45) ** 2 + 0.55**2 + 0.275**2),
    ],
)
def test_the_pushers_reward(place, to_wrist, to_goal):
    expected = -0.5 * to_wrist - 1.25 * to_goal - 0.1 * SQUARED
    assert reward("pusher", [*ARM, *place], TORQUES, 0.1) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("speed", "earned"), [(-2.0, -2.0), (3.0, 3.0), (10.0, 10.0), (12.0, 10.0)]
)
def test_the_cheetahs_reward_is_its_speed_up_to_ten(speed, earned):
    command = [1.0, -1.0, 2.0, 0.0, 0.0, 0.5]
    expected = earned - 0.1 * 6.25
    assert reward("half_cheetah", [*[0.5] * 16, speed], command, 0.1) == pytest.approx(expected)


@pytest.mark.parametrize("name", known_tasks())
def test_a_reward_has_a_gradient_wherever_imagination_starts(name):
    task = make_task(name, 0.1)
    states = task.imagined_states(20, torch.Generator().manual_seed(0)).requires_grad_()
    actions = torch.zeros(20, task.spec.action_dim, requires_grad=True)
    task.reward(states, actions).sum().backward()
    assert states.grad.isfinite().all()
    assert actions.grad.isfinite().all()


@pytest.mark.parametrize("name", known_tasks())
def test_imagined_and_real_starts_lie_within_the_reach(name):
    task = make_task(name, 0.0)
    least, largest = task.bounds
    predicted = task.spec.predicted_dim
    assert least.shape == largest.shape == (predicted,)
    imagined = task.imagined_states(200, torch.Generator().manual_seed(0))[:, :predicted]
    within = (least <= imagined) & (imagined <= largest)
    assert within.float().mean() > 0.99
    real = torch.tensor(task.robot().initial_state(np.random.default_rng(0)))[:predicted]
    assert ((least <= real) & (real <= largest)).all()


@pytest.mark.parametrize("name", ["reacher", "sparse_reacher", "pusher"])
def test_no_joint_is_imagined_far_beyond_its_stops(name):
    task, model = make_task(name, 0.0), make_task(name, 0.0).robot().model
    for index, joint in enumerate(task.spec.joint_names):
        least, largest = task.bounds[:, index].tolist()
        low, high = model.joint(joint).range
        if model.jnt_limited[model.joint(joint).id]:
            assert least == pytest.approx(low - 0.3, abs=1e-3)
            assert largest == pytest.approx(high + 0.3, abs=1e-3)
        else:
            assert (least, largest) == (-np.inf, np.inf)


@pytest.mark.parametrize("name", known_tasks())
def test_the_model_sees_everything_but_the_context(name):
    task = make_task(name, 0.0)
    states = task.imagined_states(5, torch.Generator().manual_seed(0))
    other = states.clone()
    other[:, task.spec.predicted_dim :] += 1.0
    assert torch.equal(task.model_features(states), task.model_features(other))
    assert task.model_features(states).shape == (5, task.model_feature_dim)
    assert torch.equal(task.features(states), task.features(other)) == (not task.spec.context)
