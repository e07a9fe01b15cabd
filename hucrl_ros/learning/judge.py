"""Whether a new bundle earns its flight: it is played on models that it was not made with."""

import logging
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hucrl_ros.config.files import to_disk, write_atomically
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import MANIFEST, dump_manifest, read_manifest
from hucrl_ros.controller.signature import sign_for_run
from hucrl_ros.learning.report import require_finite
from hucrl_ros.models import Transitions, fit, kind_of, make_model
from hucrl_ros.models.exploration import ThompsonDynamics
from hucrl_ros.tasks import Task

ANOTHER = 7919
"""Added to a run's seed: its judge has other random features, initial weights and bootstraps."""
TOLERANCE = 0.02
"""Share of a run's range of returns by which a new bundle may do worse and still fly: a few
episodes tell no more, and its model has seen more than that of one that flew before."""
KEPT = ("episode", "data_hash", "planner", "safety")
"""What the manifest of a bundle that flies again has of the one that it is preferred to."""
OF_LEARNING = ("complexity", "fit_s", "search_s", "refused")
"""What its report has of that one's: what this learning took, and what it tells of the last
episode. The rest is about its own model; a surprise above all, as by that it was tried or not."""
logger = logging.getLogger(__name__)


class Judged(NamedTuple):
    """Returns of a bundle's imagined episodes."""

    mean: float
    """Their mean."""
    worst: float
    """The least of them."""
    missed: int = 0
    """Episodes that didn't end as the task's `success` asks."""

    @property
    def score(self) -> float:
        """Between the expected and the pessimistic return."""
        return (self.mean + self.worst) / 2.0

    @property
    def rank(self) -> tuple[int, float]:
        """Who asks for success wants it first: a return may hide a goal that is missed by far."""
        return -self.missed, self.score


class Judge(torch.nn.Module):
    """Another model of the same kind; each episode is played on another function drawn from it.

    Whoever searched on a model found its errors, too. So a bundle is believed where models that
    it has never seen agree, with the planner in the loop and without any optimism: the functions
    are drawn as Thompson sampling does, and have their noise.
    """

    def __init__(self, task: Task, config: Config, starts: Tensor) -> None:
        """Prepare to judge a run's bundles; `fit` has to follow.

        Args:
            task: The run's task.
            config: The run's settings.
            starts: `(n, p)` states in which episodes may start.
        """
        super().__init__()
        self._seed = config.seed + ANOTHER
        generator = torch.Generator().manual_seed(self._seed)
        self._task, self._settings, self._starts = task, config.exploration, starts
        self._key = config.control.signing_key
        settings = config.model.model_copy(update={"kind": kind_of(config.model, task)})
        self._dynamics = ThompsonDynamics(
            make_model(task, settings, generator), config.exploration
        )

    def fit(self, data: Transitions, episode: int) -> None:
        """Fit to all of a run's transitions, and draw what the next bundles are judged in.

        Starts, functions and noise are the same for all bundles until the next fit, and others
        then: a bundle that flies again earns it elsewhere.

        Args:
            data: The transitions.
            episode: Number of the episode that is to be played.

        Raises:
            LearningError: the fit diverged.
        """
        generator = torch.Generator().manual_seed(self._seed * 100_003 + episode)
        require_finite(fit(self._dynamics.model, data, generator))
        count, most = self._settings.validation_episodes, torch.iinfo(torch.int64).max
        order = torch.randperm(len(self._starts), generator=generator)
        self._from = self._starts[order.repeat(-(-count // len(order)))[:count]]
        self._draws = torch.randint(most, (count,), generator=generator).tolist()

    @torch.no_grad()
    def play(self, bundle: Path, most: int | None = None) -> Judged:
        """Play a bundle's episodes, until more than `most` of them have missed the goal."""
        loaded, task = load_bundle(bundle, self._task.spec), self._task
        agent, guard = Agent(loaded, None), Guard(task.spec, loaded.manifest.safety)
        totals, missed = [], 0
        for index, (state, draw) in enumerate(zip(self._from, self._draws, strict=True)):
            generator = torch.Generator().manual_seed(draw)
            self._dynamics.start_episode(index, generator)
            agent.start_episode(index)
            guard.reset()
            states, efforts = [], []
            for _ in range(task.steps):
                states.append(state.double().numpy())
                command = guard.check(agent.act(states[-1]).action, states[-1])
                if command.clamped or command.safe:
                    agent.sent(command.action)
                efforts.append(command.action)
                applied = torch.as_tensor(efforts[-1], dtype=torch.float32)
                noise = torch.randn(task.spec.predicted_dim, generator=generator)
                state = self._dynamics(state, applied, applied[:0], noise)
            totals.append(float(task.rewards(np.stack(states), np.stack(efforts)).sum()))
            if task.success_distance < math.inf:
                missed += int(task.distance(state) > task.success_distance)
            if most is not None and missed > most:
                break
        return Judged(float(np.mean(totals)), min(totals), missed)

    def choose(
        self,
        new: Path,
        path: Path,
        earned: Mapping[int, float],
        bundle_of: Callable[[int], Path],
        promised: float,
        span: float,
    ) -> None:
        """Let the new bundle fly, or one that flew before, once more.

        The new one flies if it misses the task's goal no more often than the bundle that earned
        most and the last one that flew, and does no worse, but for `TOLERANCE`, than they; or if
        it promises a gain that is worth an exploration. The others play only where it misses, or
        does worse than the better one of them has earned, and until they have missed more often.

        Args:
            new: The new bundle, which is moved or removed.
            path: What flies.
            earned: Mean return of each bundle that flew, by its episode; the last one last.
            bundle_of: Folder of an episode's bundle.
            promised: What the new one's search promises of the task's reward, without a bonus.
            span: Largest less least return of the run's episodes.
        """
        manifest = read_manifest(new)
        played = list(dict.fromkeys((max(earned, key=lambda k: earned[k]), list(earned)[-1])))
        rivals, judged = [new], [self.play(new)]
        if judged[0].missed or judged[0].score < max(earned.values()) - TOLERANCE * span:
            for episode in played:
                rivals.append(bundle_of(episode))
                judged.append(self.play(rivals[-1], min(each.missed for each in judged)))
        best = max(range(len(rivals)), key=lambda i: judged[i].rank)
        no_worse = judged[0].score >= judged[best].score - TOLERANCE * span
        if judged[0].missed <= judged[best].missed and no_worse:
            best = 0
        if promised - judged[best].mean >= self._settings.least_gain * span:
            best = 0
        logger.info(
            "bundle %d: judged %s, the new one first, then %s; promised %.1f; %s flies",
            manifest.episode,
            ", ".join(
                f"{each.mean:.1f} (worst {each.worst:.1f}, missed {each.missed})"
                for each in judged
            ),
            played[: len(rivals) - 1] or "none",
            promised,
            f"bundle {played[best - 1]}" if best else "it",
        )
        flying = read_manifest(rivals[best])
        report = flying.report
        if best:
            shutil.rmtree(new)
            shutil.copytree(rivals[best], new)
            again = {name: getattr(manifest, name) for name in KEPT}
            learned = {name: getattr(manifest.report, name) for name in OF_LEARNING}
            report = report.model_copy(update=learned)
            manifest = flying.model_copy(update={**again, "repeats": played[best - 1]})
        found = {"judged_return": judged[best].mean, "judged_misses": judged[best].missed}
        manifest = manifest.model_copy(update={"report": report.model_copy(update=found)})
        write_atomically(new / MANIFEST, dump_manifest(manifest))
        sign_for_run(new, self._key)
        to_disk(*new.iterdir())
        shutil.rmtree(path, ignore_errors=True)
        new.rename(path)
