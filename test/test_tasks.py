"""Tasks: one contract for all, closed forms of the pendulum's reward and features."""

import math

import numpy as np
import pytest
import torch

from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots import make_robot
from hucrl_ros.tasks import make_task
from hucrl_ros.tasks.terms import tolerance

EACH_TASK = pytest.mark.parametrize("name", known_tasks())


def pendulum_reward(angle: float, speed: float, torque: float, penalty: float) -> float:
    task = make_task("pendulum", penalty)
    return float(
        task.reward(
            torch.tensor([angle, speed], dtype=torch.float64),
            torch.tensor([torque], dtype=torch.float64),
        )
    )


def samples(task, count: int = 50):
    generator = torch.Generator().manual_seed(0)
    states = task.imagined_states(count, generator)
    limits = torch.tensor(task.spec.effort_limits)
    actions = (2 * torch.rand(count, task.spec.action_dim, generator=generator) - 1) * limits
    return states, actions


@EACH_TASK
def test_shapes_are_as_the_spec_says(name):
    task = make_task(name, 0.1)
    states, actions = samples(task)
    assert states.shape == (50, task.spec.state_dim)
    assert task.features(states).shape == (50, task.feature_dim)
    assert task.reward(states, actions).shape == (50,)
    batch = task.reward(states.reshape(5, 10, -1), actions.reshape(5, 10, -1))
    assert torch.equal(batch.flatten(), task.reward(states, actions))


@EACH_TASK
def test_the_spec_is_its_robots(name):
    task = make_task(name, 0.0)
    assert task.spec == make_robot(name).spec
    assert task.steps > 0
    assert task.name == name


@EACH_TASK
def test_rewards_of_arrays_are_those_of_tensors_in_double_precision(name):
    task = make_task(name, 0.1)
    states, actions = (tensor.double() for tensor in samples(task))
    rewards = task.rewards(states.numpy(), actions.numpy())
    assert rewards.dtype == np.float64
    assert np.array_equal(rewards, task.reward(states, actions).numpy())


@EACH_TASK
def test_imagined_starts_depend_on_the_generator_alone(name):
    task = make_task(name, 0.1)
    drawn = [task.imagined_states(9, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].isfinite().all()


@EACH_TASK
def test_a_task_learns_nothing_itself(name):
    assert list(make_task(name, 0.1).parameters()) == []


@EACH_TASK
def test_the_action_penalty_never_raises_a_reward(name):
    states, actions = samples(make_task(name, 0.0))
    assert (
        make_task(name, 0.2).reward(states, actions)
        <= make_task(name, 0.0).reward(states, actions)
    ).all()


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        (0.0, 1.0),
        (0.5, 1.0),
        (-0.5, 1.0),
        (0.75, 0.1),  # at the margin
        (-0.75, 0.1),
        (0.625, 0.1**0.25),  # half-way: a Gaussian
        (1.0, 0.1**4),  # twice the margin
    ],
)
def test_tolerance_is_one_inside_and_a_gaussian_outside(x, expected):
    value = tolerance(torch.tensor(x, dtype=torch.float64), -0.5, 0.5, 0.25)
    assert float(value) == pytest.approx(expected, rel=1e-12)


def test_tolerance_has_a_finite_gradient_everywhere():
    x = torch.linspace(-3, 3, 601, requires_grad=True)
    tolerance(x, -0.5, 0.5, 0.25).sum().backward()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize(
    ("angle", "speed", "torque", "penalty", "expected"),
    [
        (0.0, 0.0, 0.0, 0.2, 1.0),  # upright, at rest, no torque
        (2 * math.pi, 0.5, 0.1, 0.2, 1.0),  # all three at the edge of their free band
        (math.pi, 0.0, 0.0, 0.2, 0.0),  # hanging
        (math.pi, 0.0, 1.0, 0.2, -0.2),  # hanging, full torque: the penalty alone
        (math.acos(0.85), 0.0, 0.0, 0.0, 0.1),  # cos θ one margin below 0.95
        (0.0, 1.0, 0.0, 0.0, 0.1),  # ω one margin above 0.5
        (0.0, -1.0, 0.0, 0.0, 0.1),
        (math.acos(0.85), 1.0, 0.0, 0.0, 0.01),  # the two factors multiply
        (0.0, 0.0, 0.2, 0.1, 1.0 + 0.1 * (0.1 - 1.0)),  # u one margin above 0.1
        (0.0, 0.0, -0.2, 0.1, 1.0 + 0.1 * (0.1 - 1.0)),
        (0.0, 0.0, 1.0, 0.0, 1.0),  # torque is free at ρ = 0
    ],
)
def test_the_pendulums_reward_has_its_closed_form(angle, speed, torque, penalty, expected):
    reward = pendulum_reward(angle, speed, torque, penalty)
    assert reward == pytest.approx(expected, abs=1e-12)


def test_the_pendulums_features_are_cosine_sine_and_scaled_speed():
    state = torch.tensor([math.pi / 6, -3.0], dtype=torch.float64)
    expected = torch.tensor([math.sqrt(3) / 2, 0.5, -3.0 / 5.0], dtype=torch.float64)
    torch.testing.assert_close(make_task("pendulum", 0.0).features(state), expected)


def test_the_pendulums_features_and_reward_ignore_whole_turns():
    task = make_task("pendulum", 0.2)
    states, actions = (tensor.double() for tensor in samples(task))
    turned = states + torch.tensor([4 * math.pi, 0.0], dtype=torch.float64)
    torch.testing.assert_close(task.features(turned), task.features(states))
    torch.testing.assert_close(task.reward(turned, actions), task.reward(states, actions))


@pytest.mark.parametrize("count", [2, 9, 64])
def test_half_of_the_pendulums_imagined_starts_hang_at_rest(count):
    states = make_task("pendulum", 0.0).imagined_states(count, torch.Generator().manual_seed(0))
    hanging = torch.tensor([math.pi, 0.0])
    assert len(states) == count
    assert (states == hanging).all(dim=1).sum() == count - count // 2
    assert states[:, 0].abs().max() <= math.pi + 1e-6


@pytest.mark.parametrize(("penalty", "optimum"), [(0.0, 299.2), (0.1, 288.4), (0.2, 278.5)])
def test_the_pendulums_optimum_is_known_for_the_papers_penalties(penalty, optimum):
    assert make_task("pendulum", penalty).optimum == optimum


def test_an_optimum_that_nobody_computed_is_none():
    assert make_task("pendulum", 0.15).optimum is None


def test_an_unknown_task_is_named_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"task: 'pendelum' is unknown; known tasks: .*pendulum"):
        make_task("pendelum", 0.0)
