"""The policy searches of one learning: from the newest policies, and from fresh ones."""

import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hucrl_ros.config.schema import SearchSettings
from hucrl_ros.models.exploration import ImaginedDynamics
from hucrl_ros.search import (
    ActorCritic,
    InitialStates,
    SearchResult,
    Trajectories,
    make_model_rollout,
    make_search,
)
from hucrl_ros.tasks import Task

COLLAPSE = 0.05
"""Share of the range of known returns by which a promise has to fall for fresh policies to be
tried as well. Certain of too much, a search may find that nothing is worth an effort any more."""
NOTHING = 0.01
"""Share of that range by which a promise has to be better than doing nothing."""
FALL = 0.5
"""Share of it by which a promise that pays for constraints has to fall for it to be as good as
nothing: away from the constraints there is always a little to be had."""
logger = logging.getLogger(__name__)


class Known(NamedTuple):
    """What a search's promise is compared with."""

    earned: Sequence[float] = ()
    """Returns of the run's episodes; none where they don't count."""
    promised: Sequence[float] = ()
    """The last promise, likewise."""


@torch.no_grad()
def return_from_task(dynamics: ImaginedDynamics, imagined: Trajectories) -> float:
    """Mean return of imagined episodes without a bonus, to be compared with what was earned.

    For a strategy without a task it is the bonus.
    """
    bonus = dynamics.bonus(imagined.states[:-1], imagined.actions)
    if bonus is None or not dynamics.for_task:
        return imagined.mean_return
    return imagined.mean_return - float(bonus.sum(dim=0).mean())


class Attempts:
    """Searches from the newest policies, and from fresh ones where that has collapsed.

    Where fresh ones find nothing worth an effort either, they learn to reach something first, and
    then to do so with little effort and away from constraints.
    """

    def __init__(
        self,
        task: Task,
        settings: SearchSettings,
        dynamics: ImaginedDynamics,
        actor_critic: ActorCritic,
        first: Tensor,
    ) -> None:
        """Prepare to search.

        Args:
            task: The run's task.
            settings: How policies are searched.
            dynamics: The model, as it is explored.
            actor_critic: Policies and critic; they are the newest when a search has ended.
            first: `(n, p)` states in which episodes may start.
        """
        self._task, self._settings = task, settings
        self._dynamics, self._actor_critic, self._first = dynamics, actor_critic, first

    def search(
        self,
        starts: InitialStates,
        number: int,
        known: Known,
        generator: torch.Generator,
        progress: Callable[[float], None],
    ) -> SearchResult:
        """Search as often as it takes; returns what promises most.

        Args:
            starts: Where imagined episodes begin.
            number: Of the learned episode that is to be played, from 1.
            known: What the promise is compared with.
            generator: Draws everything random.
            progress: Called with the share that is done.
        """
        rollout = make_model_rollout(self._actor_critic, self._dynamics)
        first = self._first.to(generator.device)

        def search(anew: bool, gentle: bool = False) -> SearchResult:
            if anew:
                width = self._dynamics.hallucination_dim
                fresh = ActorCritic(self._task, width, self._settings, generator)
                self._actor_critic.load_state_dict(fresh.state_dict())
            searching = make_search(self._settings)
            return searching.improve(rollout, starts, first, generator, progress, gentle)

        def better(found: SearchResult, gentle: bool) -> SearchResult:
            newest = {k: v.clone() for k, v in self._actor_critic.state_dict().items()}
            other = search(anew=True, gentle=gentle)
            logger.info(
                "policy search: promises %.1f, after %.1f was known: %s policies promise %.1f",
                found.promise,
                most,
                "gently taught" if gentle else "fresh",
                other.promise,
            )
            if other.score > found.score:
                return other
            self._actor_critic.load_state_dict(newest)
            return found

        found = search(anew=not self._settings.warm_start)
        idle = rollout.idle(first)
        least = return_from_task(self._dynamics, rollout.earned(idle))
        returns = [*known.earned, *known.promised] or [least]
        most, promise = max(returns), return_from_task(self._dynamics, found.episode)
        span = max(most, promise) - min(*returns, least)
        something = idle.mean_return + NOTHING * span
        # Nothing was paid for constraints in what is known.
        if promise < most - COLLAPSE * span or found.score < something:
            found = better(found, gentle=False)
            promise = return_from_task(self._dynamics, found.episode)
        # Where nothing is paid a gentle search would be another of the same.
        pays = self._dynamics.pays(self._task)
        # A planner earns more than its policies do. Where they promise little once more, as gently
        # taught ones did, those are tried again with twice as many episodes.
        once_more = known.promised and promise >= known.promised[0] - COLLAPSE * span
        due = not once_more or number & (number - 1) == 0
        fallen = found.score < something or (pays and due and promise < most - FALL * span)
        if fallen and (self._task.action_penalty > 0 or pays):
            found = better(found, gentle=True)
        return found
