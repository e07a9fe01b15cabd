"""The torch side: one module that computes everything a bundle's graphs compute."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from hucrl_ros.models.exploration import Step
from hucrl_ros.search import Actors
from hucrl_ros.tasks import Task


class PartsOutput(NamedTuple):
    """Outputs of `Parts`, named like the tensors of the exported graph."""

    pi: Tensor
    """`(N, q)` π(s), shares of the effort limits."""
    eta: Tensor
    """`(N, h)` η(s)."""
    value: Tensor
    """`(N,)` critic."""
    applied: Tensor
    """`(N, q + h)` clipped sum of policies and offset."""
    action: Tensor
    """`(N, q)` efforts [N m or N]."""
    mean: Tensor
    """`(N, m)` predicted entries of the next state, expected by the ensemble."""
    epistemic: Tensor
    """`(N, m)` their deviation between heads."""
    aleatoric: Tensor
    """`(N, m)` their noise."""
    reward: Tensor
    """`(N,)`."""
    next_state: Tensor
    """`(N, p)` next state imagined by the exploration strategy."""


class RolloutOutput(NamedTuple):
    """Imagined trajectories of N particles."""

    returns: Tensor
    """`(N,)` discounted rewards plus the discounted critic at the end."""
    states: Tensor
    """`(N, H + 1, p)`."""
    actions: Tensor
    """`(N, H, q + h)` after clipping, in [-1, 1]."""


class Parts(nn.Module):
    """All parts of one planning step in one module, exported once and then cut into graphs."""

    def __init__(self, task: Task, step: Step, actors: Actors) -> None:
        super().__init__()
        self.task = task
        self.step = step
        self.actors = actors

    def forward(
        self, state: Tensor, offset: Tensor, noise: Tensor, feedback: Tensor
    ) -> PartsOutput:
        """One step of Algorithm 7's imagination.

        Args:
            state: `(N, p)`.
            offset: `(N, q + h)` added to the policies, in [-1, 1] units.
            noise: `(m,)` standard normal.
            feedback: `()`; 1 adds the policies, 0 plans open loop.
        """
        pi, eta = self.actors.policy(state), self.actors.eta(state)
        applied = torch.clamp(feedback * torch.cat([pi, eta], dim=-1) + offset, -1.0, 1.0)
        action_dim = pi.shape[-1]
        action = self.actors.effort(applied[..., :action_dim])
        belief = self.step.model.predict(state, action)
        return PartsOutput(
            pi=pi,
            eta=eta,
            value=self.actors.critic(state),
            applied=applied,
            action=action,
            mean=belief.mean,
            epistemic=belief.epistemic,
            aleatoric=belief.aleatoric,
            reward=self.task.reward(state, action),
            next_state=self.step(state, action, applied[..., action_dim:], noise),
        )

    def imagined_step(
        self, state: Tensor, applied: Tensor, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Next state `(N, p)` and reward `(N,)`, what `step.onnx` must compute.

        Args:
            state: `(N, p)`.
            applied: `(N, q + h)` in [-1, 1].
            noise: `(m,)` standard normal.
        """
        action_dim = self.task.spec.action_dim
        action = self.actors.effort(applied[..., :action_dim])
        following: Tensor = self.step(state, action, applied[..., action_dim:], noise)
        return following, self.task.reward(state, action)

    def rollout(
        self, state: Tensor, offsets: Tensor, noise: Tensor, feedback: Tensor, discount: float
    ) -> RolloutOutput:
        """What `rollout.onnx` must compute.

        Args:
            state: `(p,)` start of all particles.
            offsets: `(N, H, q + h)`.
            noise: `(H, m)`.
            feedback: `()`.
            discount: γ.
        """
        states, actions = [state.expand(len(offsets), -1)], []
        returns = torch.zeros(len(offsets))
        for t in range(offsets.shape[1]):
            output = self(states[-1], offsets[:, t], noise[t], feedback)
            returns = returns + discount**t * output.reward
            states.append(output.next_state)
            actions.append(output.applied)
        returns = returns + discount ** offsets.shape[1] * self.actors.critic(states[-1])
        return RolloutOutput(returns, torch.stack(states, dim=1), torch.stack(actions, dim=1))
