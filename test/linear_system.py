"""A pushed mass with quadratic cost: a task whose optimum is a matrix equation."""

from contextlib import nullcontext

import numpy as np
import torch
from scipy.linalg import solve_discrete_are
from torch import nn

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.tasks import Task

DISCOUNT = 0.9
PERIOD = 0.2
LIMIT = 4.0
A = np.array([[1.0, PERIOD], [0.0, 1.0]])
B = np.array([[0.0], [PERIOD]])
STATE_COST = np.diag([1.0, 0.1])
EFFORT_COST = np.array([[0.05]])


def optimal_value_matrix():
    """P of the optimal value -s'Ps of the discounted problem."""
    root = np.sqrt(DISCOUNT)
    return solve_discrete_are(root * A, root * B, STATE_COST, EFFORT_COST)


def optimal_gain():
    """K of the optimal effort -Ks."""
    p = DISCOUNT * optimal_value_matrix()
    return np.linalg.solve(EFFORT_COST + B.T @ p @ B, B.T @ p @ A)


def optimistic_solution(scales):
    """P and K of the problem in which η moves the next state by `scales` * η, at no cost.

    The Riccati recursion of the augmented input (u, η); right where η needs no more than 1.
    """
    inputs = np.hstack([B, np.diag(scales)[:, np.array(scales) > 0]])
    cost = np.zeros((inputs.shape[1],) * 2)
    cost[:1, :1] = EFFORT_COST
    value = STATE_COST.copy()
    for _ in range(500):
        ahead = DISCOUNT * value
        gain = np.linalg.solve(cost + inputs.T @ ahead @ inputs, inputs.T @ ahead @ A)
        value = STATE_COST + A.T @ ahead @ (A - inputs @ gain)
    return value, gain


class PushedMass(Task):
    """Bring a mass on a rail to the origin: r = -(s'Qs + u'Ru)."""

    name = "pushed_mass"
    steps = 30
    angles = ()
    scales = (1.0, 1.0)
    state_bounds = (2.0, 3.0)

    def __init__(self, action_penalty=0.0):
        nn.Module.__init__(self)
        self.action_penalty = action_penalty
        self.geometry = None

    @property
    def spec(self):
        return RobotSpec("mass", ("rail",), ("rail",), (LIMIT,), PERIOD)

    @property
    def starts(self):
        return torch.zeros(1, 2)

    def reward(self, state, action):
        state_cost, effort_cost = (
            torch.tensor(cost, dtype=state.dtype) for cost in (STATE_COST, EFFORT_COST)
        )
        return -(state @ state_cost * state).sum(-1) - (action @ effort_cost * action).sum(-1)

    def counting(self, share):
        return nullcontext()  # It has no action penalty.

    def imagined_states(self, count, generator):
        uniform = 2.0 * torch.rand(count, 2, generator=generator) - 1.0
        return 0.5 * uniform


class ExactStep(nn.Module):
    """The true next state, moved by η where the system is uncertain, within the reach."""

    def __init__(self, uncertainty=0.0):
        """`uncertainty`: β σ of both state entries, or of each."""
        super().__init__()
        self.uncertainty = torch.as_tensor(uncertainty)
        self.hallucination_dim = 2 if self.uncertainty.any() else 0

    def pays(self, task):
        return False

    def counting(self, task, share):
        return task.counting(share)

    def reward(self, task, state, action):
        return task.reward(state, action)

    def forward(self, state, action, eta, noise):
        following = next_state(state, action)
        if self.hallucination_dim:
            following = following + self.uncertainty * eta
        reach = torch.tensor(PushedMass.state_bounds)
        return torch.maximum(torch.minimum(following, reach), -reach)


def next_state(state, action):
    """`(..., 2)` states that follow exactly."""
    a, b = (torch.tensor(matrix, dtype=state.dtype) for matrix in (A, B))
    return state @ a.T + action @ b.T


def transitions(count, generator, noise=0.0, scale=1.0):
    """Random transitions `(states, actions, next states)` from a box of half-width `scale`."""
    states = scale * (2.0 * torch.rand(count, 2, generator=generator) - 1.0)
    actions = LIMIT * (2.0 * torch.rand(count, 1, generator=generator) - 1.0)
    following = next_state(states, actions)
    return states, actions, following + noise * torch.randn(count, 2, generator=generator)
