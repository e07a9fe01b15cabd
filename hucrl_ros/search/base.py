"""What every policy search has in common: an actor-critic on imagined trajectories."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.errors import LearningError
from hucrl_ros.search.actors import Actors
from hucrl_ros.search.imagination import (
    Imagination,
    Imagined,
    Pool,
    Starts,
    finite_part,
    trace_targets,
)
from hucrl_ros.search.updates import GuardedAdam, descend

Weights = dict[str, Tensor]
logger = logging.getLogger(__name__)


class SearchResult(NamedTuple):
    """What a search found."""

    episode: Imagined
    """Imagined episodes of the best policies, one from each start that was asked for."""
    weights: Weights
    """State of the `Actors` that played them."""
    refused: int = 0
    """Gradient steps refused and imagined trajectories left out: something was not finite."""


class PolicySearch(ABC):
    """Improves π, η and V on the system that a step function imagines (Algorithm HDA).

    Each iteration imagines some steps of a pool of trajectories, moves the critic towards their
    TD(λ) targets (hallucinated value expansion) and lets the subclass improve the policies at
    the visited states. Now and then the policies are tried for a whole imagined episode, and
    the best ones are what to play; the next search goes on from the newest ones, because
    policies on their way to something better may look worse than doing nothing.

    What isn't finite is left out before it reaches a weight, counted, and reported.
    """

    needs_gradients: ClassVar[bool] = False
    """Whether the policies follow the gradient of the reward."""

    def __init__(self, settings: SearchSettings) -> None:
        self.settings = settings

    @abstractmethod
    def improve_policies(
        self,
        states: Tensor,
        imagination: Imagination,
        optimiser: GuardedAdam,
        generator: torch.Generator,
    ) -> None:
        """Improve π and η at `states` `(n, p)`; critic and step stay as they are."""

    def begin(
        self, imagination: Imagination, starts: Starts, optimiser: GuardedAdam
    ) -> list[GuardedAdam]:
        """Prepare for a search with these parts; returns further optimisers it will use."""
        return []

    def alternatives(self) -> Iterator[None]:
        """Give the actors other weights that are worth a trial, one set after the other.

        In the end they have those of before, from which the next search goes on.
        """
        yield from ()

    def improve(
        self,
        imagination: Imagination,
        starts: Starts,
        first: Tensor,
        generator: torch.Generator,
        progress: Callable[[float], None],
    ) -> SearchResult:
        """Improve policies and critic in place.

        Args:
            imagination: The imagined system, with the actors warm-started from the last
                episode's.
            starts: Where imagined trajectories start.
            first: `(n, p)` states in which episodes start, to try the policies from.
            generator: Draws everything random.
            progress: Called with the share that is done.

        Raises:
            LearningError: nothing finite came out.
        """
        settings, actors = self.settings, imagination.actors
        critic_optimiser, critic_schedule = self._adam(actors.critic.parameters())
        policy_optimiser, policy_schedule = self._adam(actors.policy_parameters())
        others = self.begin(imagination, starts, policy_optimiser)
        pool = Pool(starts, settings, generator)
        best = _Best(imagination, first)
        left_out = 0
        for done in range(1, settings.iterations + 1):
            imagined = finite_part(pool.advance(imagination))
            left_out += settings.pool - imagined.rewards.shape[1]
            if imagined.rewards.numel():
                self._fit_critic(imagined, actors, critic_optimiser, generator)
                with _frozen(imagination.step.parameters()), _frozen(actors.critic.parameters()):
                    states = imagined.states[:-1].flatten(0, 1)
                    self.improve_policies(states, imagination, policy_optimiser, generator)
            critic_schedule.step()
            policy_schedule.step()
            if done % settings.trial_interval == 0 or done == settings.iterations:
                best.consider()
            progress(done / settings.iterations)
        for _ in self.alternatives():
            best.consider()
        refused = sum(each.refused for each in (critic_optimiser, policy_optimiser, *others))
        if refused or left_out:
            logger.warning(
                "policy search: %d gradient steps were refused and %d imagined trajectories left "
                "out, because they were not finite; the last good policy stayed",
                refused,
                left_out,
            )
        return best.result(refused + left_out)

    def _fit_critic(
        self,
        imagined: Imagined,
        actors: Actors,
        optimiser: GuardedAdam,
        generator: torch.Generator,
    ) -> None:
        settings = self.settings
        with torch.no_grad():
            values = actors.critic(imagined.states)
        targets = trace_targets(imagined.rewards, values, settings.discount, settings.trace)
        states, targets = imagined.states[:-1].flatten(0, 1), targets.flatten()
        for _ in range(settings.critic_steps):
            index = torch.randint(len(states), (settings.batch_size,), generator=generator)
            error = (actors.critic(states[index]) - targets[index]) / actors.critic.scale
            descend((error**2).mean(), optimiser)

    def _adam(
        self, parameters: Iterable[nn.Parameter]
    ) -> tuple[GuardedAdam, torch.optim.lr_scheduler.LRScheduler]:
        settings = self.settings
        optimiser = GuardedAdam(parameters, settings.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
            optimiser, settings.iterations, eta_min=0.1 * settings.learning_rate
        )
        return optimiser, schedule


class _Best:
    """The actors with the best imagined episode so far."""

    def __init__(self, imagination: Imagination, first: Tensor) -> None:
        self._imagination, self._actors, self._first = imagination, imagination.actors, first
        self._weights: Weights = {}
        self._episode: Imagined | None = None
        self._score = -torch.inf

    def consider(self) -> None:
        """Try the present actors for an imagined episode."""
        steps = self._actors.task.steps
        # The same noise for every trial: a later one must not win by luck.
        generator = torch.Generator(self._first.device).manual_seed(0)
        episode = self._imagination.imagine(self._first, steps, generator)
        score = float(episode.rewards.sum(dim=0).mean())
        finite = all(bool(torch.isfinite(p).all()) for p in self._actors.parameters())
        if finite and score > self._score:
            self._score, self._episode = score, episode
            self._weights = {k: v.clone() for k, v in self._actors.state_dict().items()}

    def result(self, refused: int) -> SearchResult:
        """What to play."""
        if self._episode is None or not all(
            bool(torch.isfinite(p).all()) for p in self._actors.parameters()
        ):
            raise LearningError(
                "policy search: weights or imagined returns are not finite; "
                "nothing was learned from this episode"
            )
        return SearchResult(self._episode, self._weights, refused)


@contextmanager
def _frozen(parameters: Iterable[nn.Parameter]) -> Iterator[None]:
    """No gradients for `parameters` inside; it saves their computation."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in learning:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
