"""Learning between two episodes: data → model → policies → bundle (Algorithm 2)."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import BundleFields, LearningReport, read_manifest
from hucrl_ros.errors import LearningError
from hucrl_ros.learning.attempts import Attempts, Known, return_from_task
from hucrl_ros.learning.dataset import RecordedEpisode, hash_of, join_transitions
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.learning.judge import Judge
from hucrl_ros.learning.prior import check_prior, prior_episodes, recorded
from hucrl_ros.learning.report import (
    imagined_episode,
    log_account,
    report_of,
    require_finite,
    revision,
)
from hucrl_ros.learning.weights import RunWeights
from hucrl_ros.models import (
    EpisodeError,
    Transitions,
    evaluate_episode,
    fit,
    kind_of,
    make_model,
)
from hucrl_ros.models.exploration import HallucinatedDynamics, make_imagined_dynamics
from hucrl_ros.run.combination import check_combination
from hucrl_ros.run.device import check_device, keep_freed_memory, moved_to
from hucrl_ros.run.flights import flights, origin_of
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import installed_versions
from hucrl_ros.search import ActorCritic, InitialStates
from hucrl_ros.tasks import make_task

Progress = Callable[[str, float], None]
"""Called with the phase (`fitting`, `searching`, `exporting`, `judging`) and its done share."""
START_DRAWS = 8
"""Initial states that are drawn to try policies from."""
STARTS = 104_729
"""Their stream of random numbers, beside a run's seed."""
logger = logging.getLogger(__name__)


class Learner:
    """Turns the episodes of a run into its next bundle.

    Learning from episode k starts at the weights kept after episode k - 1 and draws from a
    generator of (seed, k) alone. So it can be killed and done again with the same result. A run
    that began with another one learns its bundle 0 from that one's policies and episodes.
    """

    def __init__(self, config: Config, run: RunFolder) -> None:
        """Build modules for `config`; nothing is written yet.

        Raises:
            ConfigError: a setting doesn't go with the task, or with what the run began with.
            LearningError: the newest weights that the run has kept aren't its own, or those that
                it began with don't fit its settings.
        """
        keep_freed_memory()
        self.config = config
        self.run = run
        self.task = make_task(config.task, config.action_penalty, run.robot)
        check_combination(config, self.task)
        check_device(config.device)
        generator = torch.Generator().manual_seed(config.seed)
        self.model = make_model(self.task, config.model, generator)
        self.dynamics = make_imagined_dynamics(config.strategy, self.model, config.exploration)
        self.actor_critic = ActorCritic(
            self.task, self.dynamics.hallucination_dim, config.search, generator
        )
        # A stream of its own: (seed, k) is what episode k itself starts from.
        draws, robot = np.random.default_rng((STARTS, config.seed)), self.task.robot()
        starts = [robot.initial_state(draws) for _ in range(START_DRAWS)]
        self.first = torch.as_tensor(np.unique(starts, axis=0), dtype=torch.float32)
        """`(n, p)` states in which episodes may start."""
        self._judge = Judge(self.task, config, self.first)
        # The judge counts the task's reward: where that is none, each bundle flies.
        self._judges = bool(config.exploration.validation_episodes) and self.dynamics.for_task
        self._modules = torch.nn.ModuleDict(
            {"step": self.dynamics, "actors": self.actor_critic, "judge": self._judge}
        )
        self._attempts = Attempts(
            self.task, config.search, self.dynamics, self.actor_critic, self.first
        )
        self._exporter = BundleExporter(
            self.task,
            self.dynamics,
            self.actor_critic,
            config.search.discount,
            config.control.signing_key,
        )
        check_prior(run, config, self.task, self.model)
        self._prior = prior_episodes(run, self.task)
        self._weights = RunWeights(run, config, self.task, self._modules)
        self._recorded: list[RecordedEpisode] = []
        kept = run.newest_checkpoint()
        if kept is not None:  # One that can't be continued is refused before another episode.
            self.restore(kept)

    def export_initial(self, episode: int = 0) -> Path:
        """Write a random episode's bundle, which plays random efforts; returns its folder."""
        self._modules.load_state_dict(self._weights.untrained)
        path = self.run.bundle(episode)
        self._exporter.write(path, self._fields(episode, LearningReport(), ""), None)
        return path

    def learn(self, progress: Progress) -> Path:
        """Learn from all finished episodes in the run's bags; returns the next bundle's folder.

        Raises:
            BagError: a bag can't be read.
            LearningError: nothing finite came out.
        """
        known = sum(each.finished for each in self._recorded)
        for index in range(known, self.run.finished_episodes()):
            self._recorded += recorded(self.run, index, self.task, self.config)
        return self.learn_from(self._recorded, progress)

    def learn_from(self, played: Sequence[RecordedEpisode], progress: Progress) -> Path:
        """Learn from episodes 0, 1, ... in order; returns the folder of the next bundle.

        Args:
            played: The episodes, each after its interrupted attempts, if these count.
            progress: Is told how far it is.

        Raises:
            LearningError: there is nothing finite to learn from, or nothing finite came out.
        """
        episodes = [each for each in played if each.finished]
        if not episodes and not self._weights.inherited and not self._prior:
            raise LearningError(f"{self.run.root}: no finished episode to learn from")
        last, following = len(episodes) - 1, len(episodes)
        self.restore(last - 1)
        device = self.config.device
        generator = torch.Generator(device).manual_seed(self.config.seed * 100_003 + following)
        path = self.run.bundle(following)
        if following < self.config.exploration.random_episodes:
            self._exporter.write(path, self._fields(following, LearningReport(), ""), None)
            return path
        every = [*self._prior, *played]
        transitions = join_transitions(every, self.run.root) if every else self._nothing
        some = len(transitions.states) > 0
        error = self._error_in(episodes[-1], following) if episodes else None
        if following == max(self.config.exploration.random_episodes, 1) and not self._prior:
            self._weights.forget_model()
        returns = {k: self._return_of(each) for k, each in enumerate(episodes) if not each.cut}
        # Where the task's reward is none, returns tell nothing of what is searched.
        known = list(returns.values()) if self.dynamics.for_task else []
        before = self.last_promise(last) if self.dynamics.for_task else []
        began = time.perf_counter()
        progress("fitting", 0.0)
        with moved_to(device, self._modules):
            data = transitions.to(device)
            quality = None
            if some:
                quality = fit(self.model, data, generator, lambda x: progress("fitting", x))
                require_finite(quality)
            fitted = time.perf_counter()
            number = self._learned_episode(following)
            self.dynamics.start_episode(number, generator)
            found = self._attempts.search(
                *(self._starts(data), number, Known(known, before), generator),
                lambda share: progress("searching", share),
            )
            promise = return_from_task(self.dynamics, found.episode)
        searched = time.perf_counter()
        if self._judges and some:
            self._judge.fit(transitions, following)
        flown = {k: k if each.flown is None else each.flown for k, each in enumerate(episodes)}
        earned = self._earned(returns, flown) if self._judges and some else {}
        self._weights.save(last, promise if earned or promise != found.promise else None)
        self.actor_critic.load_state_dict(found.weights)
        report = report_of(self.model, quality, error, found, fitted - began, searched - fitted)
        if episodes:
            log_account(self.task, last, returns, report)
        progress("exporting", 0.0)
        new = path.with_name(f".new_{path.name}") if earned else path
        self._exporter.write(
            new,
            self._fields(following, report, hash_of(every)),
            imagined_episode(found.episode),
        )
        if earned:
            progress("judging", 0.0)
            # What a difference of returns is worth, the other run's tell, too.
            whole = [each for each in self._prior if each.finished and not each.cut]
            scale = [*returns.values(), *map(self._return_of, whole)]
            span = max(scale) - min(scale)
            self._judge.choose(new, path, earned, self.run.bundle, promise, span)
        return path

    def _return_of(self, episode: RecordedEpisode) -> float:
        return float(self.task.rewards(episode.states[:-1], episode.actions).sum())

    @property
    def _nothing(self) -> Transitions:
        state, action = self.task.spec.state_dim, self.task.spec.action_dim
        return Transitions(*(torch.zeros(0, width) for width in (state, action, state)))

    def _earned(self, returns: Mapping[int, float], flown: Mapping[int, int]) -> dict[int, float]:
        """Mean return of each bundle by the episode that it was made for; the last one last.

        One whose newest flight a surprise ended is wrong about the robot as it is now. It counts
        no more, or it would fly, and end so, again and again.

        Args:
            returns: Of the episodes, by their numbers; those that a surprise ended have none.
            flown: Number of the bundle that played each of them.
        """
        random = self.config.exploration.random_episodes
        found = flights(self.run, random, returns, flown)
        known = {k: v for k, v in flown.items() if self.run.bundle(v).is_dir()}
        ended = {origin_of(self.run, v): k not in returns for k, v in known.items()}
        return {k: sum(v.values()) / len(v) for k, v in found.items() if not ended[k]}

    def last_promise(self, episode: int) -> list[float]:
        """Return that the search for `episode` promised, if there was one that did.

        That is the promise of the episode's bundle, unless an older one flew in it again. A
        search with another strategy may have promised something else.
        """
        path = self.run.bundle(episode)
        if not path.is_dir():
            return []
        kept, manifest = self._weights.promise(episode - 1), read_manifest(path)
        if kept is not None:
            return [kept.value] if kept.strategy == self.config.strategy else []
        promised = manifest.report.predicted_return
        if promised is None or manifest.strategy != self.config.strategy:
            return []
        return [promised] if manifest.repeats is None else []

    def _starts(self, data: Transitions) -> InitialStates:
        """Where imagined episodes begin."""
        own = data
        if own.weights is not None:  # Another robot's transitions are none of this one.
            own = own.part(own.weights == 1.0)
        return InitialStates(self.task, data.states, self.config.search.visited_starts, own)

    def _error_in(self, played: RecordedEpisode, following: int) -> EpisodeError | None:
        """Error of the model in the last episode; None where no model had been fitted before.

        Its complexity is under the model of the bundle that played it, which an older one may
        have been that flew again, or None; what surprises is always the newest model.
        """
        if self._learned_episode(following) <= 1 or not played.contiguous.any():
            return None
        episode = join_transitions([played], self.run.root)
        found = evaluate_episode(self.model, episode)
        newest = following - 1
        if played.flown not in (None, newest):
            return found._replace(complexity=None)
        bundle = self.run.bundle(newest)
        repeats = read_manifest(bundle).repeats if bundle.is_dir() else None
        if repeats is None:
            return found
        if not self.run.checkpoint(repeats - 1).is_file():
            return found._replace(complexity=None)
        self.restore(repeats - 1)
        of_played = evaluate_episode(self.model, episode).complexity
        self.restore(newest - 1)
        return found._replace(complexity=of_played)

    def _learned_episode(self, episode: int) -> int:
        """Number of an episode, counted from 1 for the first that isn't random."""
        return episode - self.config.exploration.random_episodes + 1

    def restore(self, episode: int) -> None:
        """Go back to the weights after learning from `episode`.

        Raises:
            LearningError: the kept weights aren't this run's.
        """
        if not self._weights.restore(episode) and self._learned_episode(episode + 1) >= 1:
            path = self.run.checkpoint(episode)
            logger.warning("%s is missing: learning starts at untrained weights", path)

    def _fields(self, episode: int, report: LearningReport, data_hash: str) -> BundleFields:
        exploration = self.config.exploration
        return BundleFields(
            strategy=self.config.strategy,
            model=kind_of(self.config.model, self.task),
            seed=self.config.seed,
            episode=episode,
            random=episode < exploration.random_episodes,
            random_share=exploration.random_share,
            random_bandwidth=exploration.random_bandwidth,
            beta=float(self.dynamics.beta)
            if isinstance(self.dynamics, HallucinatedDynamics)
            else 0.0,
            planner=self.config.planner,
            safety=self.config.safety,
            driver=self.config.driver,
            report=report,
            data_hash=data_hash,
            versions=installed_versions(),
            revision=revision(),
        )
