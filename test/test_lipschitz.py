"""η that is bounded in how fast it changes, whatever its weights."""

import pytest
import torch
from searching import generator

from hucrl_ros.search.actor_critic import Policy
from hucrl_ros.tasks import make_task

TASK = make_task("pendulum", 0.2)


def grown(lipschitz, layers=(16, 16)):
    """A policy with weights far larger than initial ones."""
    policy = Policy(TASK, 2, layers, generator(), lipschitz)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(20.0)
    return policy


def steepest(policy):
    """Largest change of an output over the largest change of a feature, at random places."""
    states = 3.0 * torch.randn(2000, 2, generator=generator(1))
    moved = states + 0.01 * torch.randn(2000, 2, generator=generator(2))
    with torch.no_grad():
        change = (policy(moved) - policy(states)).abs().amax(dim=-1)
    feature = (TASK.features(moved) - TASK.features(states)).abs().amax(dim=-1)
    return float((change / feature).max())


@pytest.mark.parametrize("constant", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("layers", [(16,), (16, 16)])
def test_large_weights_change_it_no_faster_than_allowed(constant, layers):
    assert 0.0 < steepest(grown(constant, layers)) <= constant * 1.001


def test_without_a_bound_it_may_jump():
    assert steepest(grown(0.0)) > 20.0


def test_small_weights_stay_as_they_are():
    free, bounded = (Policy(TASK, 2, (8,), generator(), bound) for bound in (0.0, 1e4))
    states = torch.randn(5, 2, generator=generator(1))
    torch.testing.assert_close(free(states), bounded(states))


@pytest.mark.parametrize(("bound", "reached"), [(2.0, True), (0.1, False)])
def test_it_learns_what_its_bound_allows(bound, reached):
    policy = Policy(TASK, 2, (16,), generator(), bound)
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.02)
    states = 3.0 * torch.randn(200, 2, generator=generator(1))
    target = 0.5 * torch.stack([torch.sin(states[:, 0]), torch.cos(states[:, 0])], dim=-1)
    for _ in range(150):
        optimiser.zero_grad()
        ((policy(states) - target) ** 2).mean().backward()
        optimiser.step()
    error = float(((policy(states) - target) ** 2).mean().detach())
    assert (error < 0.01) if reached else (error > 0.05)
    assert steepest(policy) <= 1.001 * bound
