"""Trajectories of the imagined system."""

from typing import NamedTuple

import torch
from torch import Tensor

from hucrl_ros.config import SearchSettings
from hucrl_ros.exploration import Step
from hucrl_ros.models import Transitions
from hucrl_ros.search.actors import Actors
from hucrl_ros.tasks import Task


class Imagined(NamedTuple):
    """Imagined trajectories of N particles over T steps."""

    states: Tensor
    """`(T + 1, N, p)`"""
    actions: Tensor
    """`(T, N, q)` efforts [N m or N]"""
    rewards: Tensor
    """`(T, N)`"""


class Starts:
    """Where imagined trajectories start: states of the task, and states that were visited."""

    def __init__(
        self, task: Task, visited: Tensor, share: float, recorded: Transitions | None = None
    ) -> None:
        """Mix starts.

        Args:
            task: Gives `imagined_states`.
            visited: `(n, p)` recorded states.
            share: Part of the starts that are recorded states, in [0, 1].
            recorded: Real transitions, for searches that learn from them too.
        """
        self.recorded = recorded
        self._task = task
        self._visited = visited
        self._share = share

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """`(count, p)` starts in random order."""
        states = self._task.imagined_states(count, generator)
        states = states[torch.randperm(count, generator=generator)]
        if not len(self._visited):
            return states
        visited = self._visited[torch.randint(len(self._visited), (count,), generator=generator)]
        use = torch.rand(count, 1, generator=generator) < self._share
        predicted = self._task.spec.predicted_dim
        # A visited state under another goal is as good a start as under its own.
        use = use & (torch.arange(states.shape[1]) < predicted)
        return torch.where(use, visited, states)


class Pool:
    """Imagined trajectories that go on from one iteration to the next."""

    def __init__(
        self, starts: Starts, settings: SearchSettings, generator: torch.Generator
    ) -> None:
        self._starts = starts
        self._settings = settings
        self._generator = generator
        self._states = starts.draw(settings.pool, generator)

    @torch.no_grad()
    def advance(self, actors: Actors, step: Step) -> Imagined:
        """Follow noisy π and η for `rollout_steps`, a few trajectories starting anew."""
        settings, generator = self._settings, self._generator
        fresh = self._starts.draw(settings.pool, generator)
        restart = torch.rand(settings.pool, 1, generator=generator) < settings.restart
        restart = restart | ~self._states.isfinite().all(dim=-1, keepdim=True)
        self._states = torch.where(restart, fresh, self._states)
        imagined = imagine(
            self._states, actors, step, settings.rollout_steps, generator, settings.policy_noise
        )
        self._states = imagined.states[-1]
        return imagined


@torch.no_grad()
def imagine(
    states: Tensor,
    actors: Actors,
    step: Step,
    steps: int,
    generator: torch.Generator | None = None,
    policy_noise: float = 0.0,
) -> Imagined:
    """Roll π and η out.

    Args:
        states: Starts `(N, p)`.
        actors: Policies.
        step: The imagined system.
        steps: T.
        generator: Draws the noise of policy and system; None: neither has any.
        policy_noise: Standard deviation added to π [shares of the effort limits].
    """
    visited, efforts, rewards = [states], [], []
    noise = torch.zeros(len(states), actors.task.spec.predicted_dim)
    for _ in range(steps):
        action = actors.policy(states)
        if generator is not None:
            action = action + policy_noise * torch.randn(action.shape, generator=generator)
            noise = torch.randn(noise.shape, generator=generator)
        effort = actors.effort(action.clamp(-1.0, 1.0))
        efforts.append(effort)
        rewards.append(actors.task.reward(states, effort))
        states = step(states, effort, actors.eta(states), noise)
        visited.append(states)
    return Imagined(torch.stack(visited), torch.stack(efforts), torch.stack(rewards))


def finite_part(imagined: Imagined) -> Imagined:
    """The trajectories in which every number is finite."""
    finite = imagined.rewards.isfinite().all(dim=0)
    finite = finite & imagined.states.isfinite().all(dim=-1).all(dim=0)
    if finite.all():
        return imagined
    return Imagined(*(entry[:, finite] for entry in imagined))


def one_step_values(
    states: Tensor,
    candidates: Tensor,
    actors: Actors,
    step: Step,
    discount: float,
    generator: torch.Generator,
) -> Tensor:
    """Q of candidates by one imagined step and the critic: r(s, u) + γ V(s').

    Args:
        states: `(n, p)`.
        candidates: (u, η) to try at each state `(m, n, q + h)`, in [-1, 1].
        actors: Critic and effort limits.
        step: The imagined system.
        discount: γ.
        generator: Draws one noise for all candidates of a state: none is better by luck.

    Returns:
        `(m, n)`. A candidate whose value isn't finite counts as the worst of its state.
    """
    action_dim, predicted_dim = actors.task.spec.action_dim, actors.task.spec.predicted_dim
    repeated = states.expand(len(candidates), -1, -1)
    efforts = actors.effort(candidates[..., :action_dim])
    noise = torch.randn(len(states), predicted_dim, generator=generator)
    noise = noise.expand(len(candidates), -1, -1)
    following = step(repeated, efforts, candidates[..., action_dim:], noise)
    values: Tensor = actors.task.reward(repeated, efforts) + discount * actors.critic(following)
    return values if values.isfinite().all() else _worst_where_not_finite(values)


def _worst_where_not_finite(values: Tensor) -> Tensor:
    finite = values.isfinite()
    worst = values.where(finite, torch.inf).amin(dim=0)
    return values.where(finite, worst.where(worst.isfinite(), 0.0))


def trace_targets(rewards: Tensor, values: Tensor, discount: float, trace: float) -> Tensor:
    """TD(λ) targets `(T, N)`.

    Args:
        rewards: `(T, N)`.
        values: Critic of all states `(T + 1, N)`.
        discount: γ.
        trace: λ.
    """
    targets = torch.empty_like(rewards)
    following = values[-1]
    for t in reversed(range(len(rewards))):
        bootstrap = (1.0 - trace) * values[t + 1] + trace * following
        following = targets[t] = rewards[t] + discount * bootstrap
    return targets
