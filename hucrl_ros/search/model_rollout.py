"""Trajectories that the learned model imagines under the policies."""

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.models import Transitions
from hucrl_ros.models.exploration import ImaginedDynamics
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.tasks import Task


class Trajectories(NamedTuple):
    """Imagined trajectories of N particles over T steps."""

    states: Tensor
    """`(T + 1, N, p)`"""
    actions: Tensor
    """`(T, N, q)` efforts [N m or N]"""
    rewards: Tensor
    """`(T, N)`"""

    @property
    def mean_return(self) -> float:
        """Of the particles, not discounted."""
        return float(self.rewards.sum(dim=0).mean())


class InitialStates:
    """Where imagined trajectories start: states of the task, and recorded states."""

    def __init__(
        self, task: Task, visited: Tensor, share: float, recorded: Transitions | None = None
    ) -> None:
        """Mix two sources of initial states.

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

    def draw(self, count: int, generator: Generator) -> Tensor:
        """`(count, p)` initial states in random order."""
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


class ModelRollout:
    """Rolls policies out on imagined dynamics, without gradients."""

    def __init__(self, actor_critic: ActorCritic, dynamics: ImaginedDynamics) -> None:
        self.actor_critic = actor_critic
        self.dynamics = dynamics
        self.left_out = 0
        """What was imagined for a search so far and left out, because it was not finite."""

    @torch.no_grad()
    def imagine(
        self,
        states: Tensor,
        steps: int,
        generator: Generator | None = None,
        policy_noise: float = 0.0,
    ) -> Trajectories:
        """Roll π and η out.

        Args:
            states: Starts `(N, p)`.
            steps: T.
            generator: Draws the noise of policy and system; None: neither has any.
            policy_noise: Standard deviation added to π [shares of the effort limits].
        """
        count, spec = len(states), self.actor_critic.task.spec
        width = spec.action_dim + self.actor_critic.hallucination_dim
        offsets = torch.zeros(steps, count, width)
        noise = torch.zeros(steps, count, spec.predicted_dim)
        if generator is not None:
            for t in range(steps):
                drawn = torch.randn(count, spec.action_dim, generator=generator)
                offsets[t, :, : spec.action_dim] = policy_noise * drawn
                noise[t] = torch.randn(count, spec.predicted_dim, generator=generator)
        visited, joint = self._roll_out(states, offsets, noise, feedback=True)
        efforts = self.actor_critic.effort(joint[..., : spec.action_dim])
        return Trajectories(
            visited, efforts, self.dynamics.reward(self.actor_critic.task, visited[:-1], efforts)
        )

    @torch.no_grad()
    def hold(
        self, states: Tensor, joint: Tensor, noise: Tensor, feedback: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Hold (u, η) for T steps.

        Args:
            states: `(n, p)`.
            joint: (u, η) `(n, q + h)` in [-1, 1].
            noise: Standard normal `(T, n, m)`.
            feedback: Add them to what the policies answer at each step; the sum is clipped.

        Returns:
            States `(T + 1, n, p)` and rewards `(T, n)`.
        """
        held = joint.expand(len(noise), -1, -1)
        visited, applied = self._roll_out(states, held, noise, feedback)
        efforts = self.actor_critic.effort(applied[..., : self.actor_critic.task.spec.action_dim])
        return visited, self.dynamics.reward(self.actor_critic.task, visited[:-1], efforts)

    @torch.no_grad()
    def earned(self, imagined: Trajectories) -> Trajectories:
        """The same with what is earned, whatever was paid for constraints."""
        task = self.actor_critic.task
        if not self.dynamics.pays(task):
            return imagined
        earned = self.dynamics.earned(task, imagined.states[:-1], imagined.actions)
        return imagined._replace(rewards=earned)

    def idle(self, states: Tensor) -> Trajectories:
        """An episode from each of `states` `(n, p)` in which nothing is done."""
        task, width = self.actor_critic.task, self.actor_critic.hallucination_dim
        joint = torch.zeros(len(states), task.spec.action_dim + width)
        noise = torch.zeros(task.steps, len(states), task.spec.predicted_dim)
        visited, rewards = self.hold(states, joint, noise)
        return Trajectories(visited, torch.zeros(*noise.shape[:2], task.spec.action_dim), rewards)

    @torch.no_grad()
    def values_of(
        self,
        states: Tensor,
        candidates: Tensor,
        discount: float,
        generator: Generator,
        draws: int,
        steps: int = 1,
    ) -> Tensor:
        """Q of candidates that are tried for n imagined steps: Σ γ^t r(s_t, u_t) + γ^n V(s_n).

        After its first step, what a candidate differs from the policies' own answer by is added
        to what they answer on the way.

        Args:
            states: `(n, p)`.
            candidates: (u, η) to try at each state `(m, n, q + h)`, in [-1, 1].
            discount: γ.
            generator: Draws the noise, the same for all candidates of a state: none is better
                by luck.
            draws: K, an even number of draws that each value is the mean over, half of them the
                others with the sign changed: the best candidate would counteract their mean. 0:
                no noise.
            steps: n, how long a candidate lasts.

        Returns:
            `(m, n)`. A candidate whose value isn't finite counts as the worst of its state.
        """
        tried, count = candidates.shape[:2]
        shape = (1, count, self.actor_critic.task.spec.predicted_dim)
        drawn = torch.randn(steps, draws // 2, *shape, generator=generator)
        noise = torch.cat([drawn, -drawn], dim=1) if draws else torch.zeros(steps, 1, *shape)
        repeats = noise.shape[1]
        # The policies' answer to the first state is known: one step needs no more of them.
        rest = candidates - self.actor_critic.joint(states) if steps > 1 else candidates
        visited, rewards = self.hold(
            states.repeat(repeats * tried, 1),
            rest.repeat(repeats, 1, 1).flatten(0, 1),
            noise.expand(-1, -1, tried, -1, -1).flatten(1, 3),
            feedback=steps > 1,
        )
        weights = discount ** torch.arange(steps)
        returns = (weights[:, None] * rewards).sum(dim=0)
        values = returns + discount**steps * self._values(visited[-1])
        values = values.reshape(-1, tried, count).mean(dim=0)
        if values.isfinite().all():
            return values
        self.left_out += int((~values.isfinite()).sum())
        return _worst_where_not_finite(values)

    def _values(self, states: Tensor) -> Tensor:
        """The critic `(n,)` of states `(n, p)`."""
        values: Tensor = self.actor_critic.critic(states)
        return values

    def _roll_out(
        self, starts: Tensor, offsets: Tensor, noise: Tensor, feedback: bool
    ) -> tuple[Tensor, Tensor]:
        """Iterate the imagined dynamics.

        Args:
            starts: `(N, p)`.
            offsets: `(T, N, q + h)` added to (π, η).
            noise: Standard normal `(T, N, m)`.
            feedback: Whether to add the policies; else (u, η) are the offsets alone.

        Returns:
            States `(T + 1, N, p)`, and (u, η) `(T, N, q + h)` after clipping to [-1, 1].
        """
        states, visited, applied = starts, [starts], []
        action_dim = self.actor_critic.task.spec.action_dim
        for offset, disturbance in zip(offsets, noise, strict=True):
            joint = offset + self.actor_critic.joint(states) if feedback else offset
            joint = joint.clamp(-1.0, 1.0)
            effort = self.actor_critic.effort(joint[:, :action_dim])
            states = self.dynamics(states, effort, joint[:, action_dim:], disturbance)
            visited.append(states)
            applied.append(joint)
        return torch.stack(visited), torch.stack(applied)


class RolloutPool:
    """Imagined trajectories that continue from one iteration of a search to the next."""

    def __init__(
        self, starts: InitialStates, settings: SearchSettings, generator: Generator
    ) -> None:
        self._starts = starts
        self._settings = settings
        self._generator = generator
        self._states = starts.draw(settings.pool, generator)

    @torch.no_grad()
    def advance(self, rollout: ModelRollout) -> Trajectories:
        """Imagine `rollout_steps` of noisy π, and η; a share of the trajectories starts anew."""
        settings, generator = self._settings, self._generator
        fresh = self._starts.draw(settings.pool, generator)
        restart = torch.rand(settings.pool, 1, generator=generator) < settings.restart
        restart = restart | ~self._states.isfinite().all(dim=-1, keepdim=True)
        self._states = torch.where(restart, fresh, self._states)
        imagined = rollout.imagine(
            self._states, settings.rollout_steps, generator, settings.policy_noise
        )
        self._states = imagined.states[-1]
        return imagined


def finite_part(imagined: Trajectories) -> Trajectories:
    """The trajectories in which every number is finite."""
    finite = imagined.rewards.isfinite().all(dim=0)
    finite = finite & imagined.states.isfinite().all(dim=-1).all(dim=0)
    if finite.all():
        return imagined
    return Trajectories(*(entry[:, finite] for entry in imagined))


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
