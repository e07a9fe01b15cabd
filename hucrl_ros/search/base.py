"""What every policy search has in common: an actor-critic on imagined trajectories."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import ClassVar, NamedTuple

import torch
from torch import Generator, Tensor, nn

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.errors import LearningError
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.search.model_rollout import (
    InitialStates,
    ModelRollout,
    RolloutPool,
    Trajectories,
    finite_part,
    trace_targets,
)

MAX_GRADIENT = 1.0
"""Longer gradients are shortened to this."""
GENTLE_ROUNDS = 4
"""A gentle search has so many times as many rounds."""
GENTLE_RAMP = (0.4, 0.8)
"""Shares of these rounds between which penalties grow from 0 to what they are."""


class GuardedAdam(torch.optim.Adam):
    """Adam on clipped gradients; a step whose gradient isn't finite is refused and counted."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.refused = 0
        """Steps refused so far."""
        super().__init__(parameters, lr=lr, fused=True)

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Go a step, or leave weights and moments as they are."""
        assert closure is None
        parameters = [p for group in self.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT)
        if torch.isfinite(norm):
            super().step()
        else:
            self.refused += 1


def descend(loss: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """One step of gradient descent."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()


Weights = dict[str, Tensor]
logger = logging.getLogger(__name__)


class SearchResult(NamedTuple):
    """What a search found."""

    episode: Trajectories
    """Imagined episodes of the best policies, one from each start that was asked for; with what
    is earned, whatever was paid for constraints."""
    weights: Weights
    """State of the `ActorCritic` that played them."""
    refused: int = 0
    """Gradient steps refused, and imagined trajectories, steps and candidates left out: something
    was not finite."""
    paid: float = 0.0
    """Mean over the episodes of what was paid for coming near constraints."""

    @property
    def promise(self) -> float:
        """Mean return of the episodes."""
        return self.episode.mean_return

    @property
    def score(self) -> float:
        """What was maximised."""
        return self.promise - self.paid


class PolicySearch(ABC):
    """Improves π, η and V on the dynamics that a strategy imagines (Algorithm HDA).

    Each iteration imagines some steps of a pool of trajectories, moves the critic towards their
    TD(λ) targets (hallucinated value expansion) and lets the subclass improve the policies at
    the visited states. Every `trial_interval` iterations the policies play a whole imagined
    episode; the best ones go into the bundle. The next search continues from the newest ones,
    because policies on their way to something better may look worse than doing nothing.

    Values that are not finite are left out before they reach a weight, counted, and reported.
    """

    needs_gradients: ClassVar[bool] = False
    """Whether the policies follow the gradient of the reward."""

    def __init__(self, settings: SearchSettings) -> None:
        self.settings = settings
        self.rounds = settings.iterations
        """Of the search that is under way."""

    @abstractmethod
    def improve_policies(
        self, states: Tensor, rollout: ModelRollout, optimiser: GuardedAdam, generator: Generator
    ) -> None:
        """Improve π and η at `states` `(n, p)`; critic and dynamics stay as they are."""

    def begin(
        self, rollout: ModelRollout, starts: InitialStates, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Prepare for a search; returns the optimisers that it uses besides `optimiser`."""
        return []

    def alternatives(self) -> Iterator[None]:
        """Load other weights that are worth a trial into the policies, one set after the other.

        Afterwards the policies have their own weights again.
        """
        yield from ()

    def improve(
        self,
        rollout: ModelRollout,
        starts: InitialStates,
        first: Tensor,
        generator: Generator,
        progress: Callable[[float], None],
        gentle: bool = False,
    ) -> SearchResult:
        """Improve policies and critic in place.

        A gentle search begins without the action penalty, and pays nothing for constraints. From
        "do nothing" each way to something better may lead through what costs more than it brings
        as yet.

        Args:
            rollout: Imagined dynamics, policies and critic, warm-started from the last
                episode's.
            starts: Where imagined trajectories start.
            first: `(n, p)` states in which episodes start, to try the policies from.
            generator: Draws everything random.
            progress: Called with the share that is done.
            gentle: Let both grow from 0, in more rounds.

        Raises:
            LearningError: nothing finite came out.
        """
        settings, actor_critic, dynamics = self.settings, rollout.actor_critic, rollout.dynamics
        self.rounds = rounds = settings.iterations * (GENTLE_ROUNDS if gentle else 1)
        critic_optimiser, critic_schedule = self._adam(actor_critic.critic.parameters(), rounds)
        policy_optimiser, policy_schedule = self._adam(actor_critic.policy_parameters(), rounds)
        others = self.begin(rollout, starts, policy_optimiser)
        pool = RolloutPool(starts, settings, generator)
        best = _Best(rollout, first)
        before = rollout.left_out
        for done in range(1, rounds + 1):
            share = _ramp((done - 1) / rounds)
            with dynamics.counting(actor_critic.task, share) if gentle else nullcontext():
                imagined = finite_part(pool.advance(rollout))
                rollout.left_out += settings.pool - imagined.rewards.shape[1]
                self._round(imagined, rollout, critic_optimiser, policy_optimiser, generator)
            critic_schedule.step()
            policy_schedule.step()
            if done % settings.trial_interval == 0 or done == rounds:
                best.consider()
            progress(done / rounds)
        for _ in self.alternatives():
            best.consider()
        refused = sum(each.refused for each in (critic_optimiser, policy_optimiser, *others))
        left_out = rollout.left_out - before
        if refused or left_out:
            logger.warning(
                "policy search: %d gradient steps were refused and %d imagined trajectories left "
                "out (or steps, or candidates), because they were not finite; the last good "
                "policy stayed",
                refused,
                left_out,
            )
        return best.result(refused + left_out)

    def _round(
        self,
        imagined: Trajectories,
        rollout: ModelRollout,
        critic_optimiser: GuardedAdam,
        policy_optimiser: GuardedAdam,
        generator: Generator,
    ) -> None:
        """Improve critic and policies once."""
        if not imagined.rewards.numel():
            return
        actor_critic = rollout.actor_critic
        self._fit_critic(imagined, actor_critic, critic_optimiser, generator)
        with _frozen(rollout.dynamics.parameters()), _frozen(actor_critic.critic.parameters()):
            states = imagined.states[:-1].flatten(0, 1)
            self.improve_policies(states, rollout, policy_optimiser, generator)

    def _fit_critic(
        self,
        imagined: Trajectories,
        actor_critic: ActorCritic,
        optimiser: GuardedAdam,
        generator: Generator,
    ) -> None:
        settings = self.settings
        with torch.no_grad():
            values = actor_critic.critic(imagined.states)
        targets = trace_targets(imagined.rewards, values, settings.discount, settings.trace)
        states, targets = imagined.states[:-1].flatten(0, 1), targets.flatten()
        for _ in range(settings.critic_steps):
            index = torch.randint(len(states), (settings.batch_size,), generator=generator)
            error = (
                actor_critic.critic(states[index]) - targets[index]
            ) / actor_critic.critic.scale
            descend((error**2).mean(), optimiser)

    def _adam(
        self, parameters: Iterable[nn.Parameter], rounds: int
    ) -> tuple[GuardedAdam, torch.optim.lr_scheduler.LRScheduler]:
        settings = self.settings
        optimiser = GuardedAdam(parameters, settings.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimiser, rounds, eta_min=0.1 * settings.learning_rate
        )
        return optimiser, schedule


def _ramp(done: float) -> float:
    """Share of the penalties that counts in a gentle search of which `done` is done."""
    begin, end = GENTLE_RAMP
    return min(max((done - begin) / (end - begin), 0.0), 1.0)


class _Best:
    """The policies with the best imagined episode so far."""

    def __init__(self, rollout: ModelRollout, first: Tensor) -> None:
        self._rollout, self._actor_critic, self._first = rollout, rollout.actor_critic, first
        self._weights: Weights = {}
        self._episode: Trajectories | None = None
        self._score = -torch.inf

    def consider(self) -> None:
        """Imagine an episode of the present policies."""
        steps = self._actor_critic.task.steps
        # The same noise for every trial: a later one must not win by luck.
        generator = torch.Generator(self._first.device).manual_seed(0)
        episode = self._rollout.imagine(self._first, steps, generator)
        score = episode.mean_return
        finite = all(bool(torch.isfinite(p).all()) for p in self._actor_critic.parameters())
        if finite and score > self._score:
            self._score, self._episode = score, episode
            self._weights = {k: v.clone() for k, v in self._actor_critic.state_dict().items()}

    def result(self, refused: int) -> SearchResult:
        """The best policies and their episode."""
        if self._episode is None or not all(
            bool(torch.isfinite(p).all()) for p in self._actor_critic.parameters()
        ):
            raise LearningError(
                "policy search: weights or imagined returns are not finite; "
                "nothing was learned from this episode"
            )
        told = self._rollout.earned(self._episode)
        paid = told.mean_return - self._episode.mean_return
        return SearchResult(told, self._weights, refused, paid)


@contextmanager
def _frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """Inside, no gradients of `parameters` are computed."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
