"""Learning between two episodes: data → model → policies → bundle (Algorithm 2)."""

import logging
import textwrap
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from hucrl_ros.config.files import to_disk
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import BundleFields, LearningReport, read_manifest
from hucrl_ros.errors import LearningError
from hucrl_ros.learning.dataset import RecordedEpisode, hash_of, join_transitions
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.learning.judge import Judge
from hucrl_ros.learning.prior import check_prior, prior_episodes, prior_weights, recorded
from hucrl_ros.learning.report import (
    imagined_episode,
    log_account,
    report_of,
    require_finite,
    revision,
)
from hucrl_ros.models import (
    EpisodeError,
    Heads,
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
from hucrl_ros.search import (
    ActorCritic,
    InitialStates,
    SearchResult,
    Trajectories,
    make_model_rollout,
    make_search,
)
from hucrl_ros.tasks import make_task

Progress = Callable[[str, float], None]
"""Called with the phase (`fitting`, `searching`, `exporting`, `judging`) and its done share."""
COLLAPSE = 0.05
"""Share of the range of known returns by which a promise has to fall for fresh policies to be
tried as well. Certain of too much, a search may find that nothing is worth an effort any more."""
NOTHING = 0.01
"""Share of that range by which a promise has to be better than doing nothing."""
FALL = 0.5
"""Share of it by which a promise that pays for constraints has to fall for it to be as good as
nothing: away from the constraints there is always a little to be had."""
STRATEGY = "strategy"
"""Key in a checkpoint's metadata: only where it isn't the one of the run's settings."""
PROMISE = "promise"
"""Another: what the search promised of the task's reward; only where another bundle may fly than
the one that it made, or where a bonus is part of what that one promises."""
BOOTSTRAPS = "bootstraps"
"""Another: the ensembles' `bootstrap_seed`; only where they aren't those of the run's own seed, as
it began with the heads of another run."""
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
        # Not the strategy that the run began with: a person chose another one.
        self._strategy = run.config.strategy if run.config_path.is_file() else config.strategy
        self._steered = config.strategy != self._strategy
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
        # The keys are those of the weights in kept checkpoints.
        self._modules = torch.nn.ModuleDict(
            {"step": self.dynamics, "actors": self.actor_critic, "judge": self._judge}
        )
        self._untrained = {k: v.clone() for k, v in self._modules.state_dict().items()}
        self._own = self._first_bootstraps = _bootstraps(self._modules)
        self._exporter = BundleExporter(
            self.task,
            self.dynamics,
            self.actor_critic,
            config.search.discount,
            config.control.signing_key,
        )
        check_prior(run, config, self.task, self.model)
        self._prior = prior_episodes(run, self.task)
        self._initial = self._untrained
        inherited = prior_weights(run)
        if inherited is not None:
            # What was taught for a task may be explored from.
            other = RunFolder(run.prior).config
            self._load(
                inherited,
                "model or layers aren't those of the run that it is of",
                other.strategy != config.strategy,
            )
            if BOOTSTRAPS not in self._told(inherited):
                self._take_bootstraps(self._bootstraps_of(other))
            self._first_bootstraps = _bootstraps(self._modules)
            self._initial = {k: v.clone() for k, v in self._modules.state_dict().items()}
        self._recorded: list[RecordedEpisode] = []
        kept = run.newest_checkpoint()
        if kept is not None:  # One that can't be continued is refused before another episode.
            self.restore(kept)

    def export_initial(self, episode: int = 0) -> Path:
        """Write a random episode's bundle, which plays random efforts; returns its folder."""
        self._modules.load_state_dict(self._untrained)
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
        if not episodes and self._initial is self._untrained and not self._prior:
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
            self._forget_model()
        returns = {k: self._return_of(each) for k, each in enumerate(episodes) if not each.cut}
        # Where the task's reward is none, returns tell nothing of what is searched.
        known = list(returns.values()) if self.dynamics.for_task else []
        before = self._last_promise(last) if self.dynamics.for_task else []
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
            found = self._search(
                *(data, number, known, before, generator),
                lambda share: progress("searching", share),
            )
            promise = self._return_from_task(found.episode)
        searched = time.perf_counter()
        if self._judges and some:
            self._judge.fit(transitions, following)
        flown = {k: k if each.flown is None else each.flown for k, each in enumerate(episodes)}
        earned = self._earned(returns, flown) if self._judges and some else {}
        self._save(last, promise if earned or promise != found.promise else None)
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

    def _forget_model(self) -> None:
        """Of a run whose data don't count, the model has done all that it is for."""
        if self._initial is not self._untrained:
            models = {k: v for k, v in self._untrained.items() if not k.startswith("actors.")}
            self._modules.load_state_dict(models, strict=False)
            self._take_bootstraps(self._own)

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

    def _last_promise(self, episode: int) -> list[float]:
        """Return that the search for `episode` promised, if there was one that did.

        That is the promise of the episode's bundle, unless an older one flew in it again. A
        search with another strategy may have promised something else.
        """
        path = self.run.bundle(episode)
        if not path.is_dir():
            return []
        told, manifest = self._told(self.run.checkpoint(episode - 1)), read_manifest(path)
        if PROMISE in told:
            searched = told.get(STRATEGY, self._strategy)
            return [float(told[PROMISE])] if searched == self.config.strategy else []
        promised = manifest.report.predicted_return
        if promised is None or manifest.strategy != self.config.strategy:
            return []
        return [promised] if manifest.repeats is None else []

    @torch.no_grad()
    def _return_from_task(self, imagined: Trajectories) -> float:
        """Mean return of imagined episodes without a bonus, to be compared with what was earned.

        For a strategy without a task it is the bonus.
        """
        bonus = self.dynamics.bonus(imagined.states[:-1], imagined.actions)
        if bonus is None or not self.dynamics.for_task:
            return imagined.mean_return
        return imagined.mean_return - float(bonus.sum(dim=0).mean())

    def _search(
        self,
        transitions: Transitions,
        number: int,
        returns: Sequence[float],
        before: Sequence[float],
        generator: torch.Generator,
        progress: Callable[[float], None],
    ) -> SearchResult:
        """Search from the newest policies, and from fresh ones where that has collapsed.

        Where fresh ones find nothing worth an effort either, they learn to reach something
        first, and then to do so with little effort and away from constraints.

        Args:
            transitions: All that was recorded.
            number: Of the learned episode that is to be played, from 1.
            returns: Those that were earned; none where they don't count.
            before: The last promise, likewise.
            generator: Draws everything random.
            progress: Called with the share that is done.
        """
        settings = self.config.search
        own = transitions
        if own.weights is not None:  # Another robot's transitions are none of this one.
            own = own.part(own.weights == 1.0)
        starts = InitialStates(self.task, transitions.states, settings.visited_starts, own)

        rollout = make_model_rollout(self.actor_critic, self.dynamics)
        first = self.first.to(generator.device)

        def search(anew: bool, gentle: bool = False) -> SearchResult:
            if anew:
                width = self.dynamics.hallucination_dim
                fresh = ActorCritic(self.task, width, settings, generator)
                self.actor_critic.load_state_dict(fresh.state_dict())
            searching = make_search(settings)
            return searching.improve(rollout, starts, first, generator, progress, gentle)

        def better(found: SearchResult, gentle: bool) -> SearchResult:
            newest = {k: v.clone() for k, v in self.actor_critic.state_dict().items()}
            other = search(anew=True, gentle=gentle)
            logger.info(
                "policy search: promises %.1f, after %.1f was known: %s policies promise %.1f",
                found.promise,
                max(known),
                "gently taught" if gentle else "fresh",
                other.promise,
            )
            if other.score > found.score:
                return other
            self.actor_critic.load_state_dict(newest)
            return found

        found = search(anew=not settings.warm_start)
        idle = rollout.idle(first)
        least = self._return_from_task(rollout.earned(idle))
        known = [*returns, *before] or [least]
        promise = self._return_from_task(found.episode)
        span = max(*known, promise) - min(*known, least)
        something = idle.mean_return + NOTHING * span
        # Nothing was paid for constraints in what is known.
        if promise < max(known) - COLLAPSE * span or found.score < something:
            found = better(found, gentle=False)
            promise = self._return_from_task(found.episode)
        # Where nothing is paid a gentle search would be another of the same.
        pays = self.dynamics.pays(self.task)
        # A planner earns more than its policies do. Where they promise little once more, as gently
        # taught ones did, those are tried again with twice as many episodes.
        once_more = before and promise >= before[0] - COLLAPSE * span
        due = not once_more or number & (number - 1) == 0
        fallen = found.score < something or (pays and due and promise < max(known) - FALL * span)
        if fallen and (self.task.action_penalty > 0 or pays):
            found = better(found, gentle=True)
        return found

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
        path = self.run.checkpoint(episode)
        if not path.is_file():
            if self._learned_episode(episode + 1) >= 1:
                logger.warning("%s is missing: learning starts at untrained weights", path)
            self._modules.load_state_dict(self._initial)
            self._take_bootstraps(self._first_bootstraps)
            return
        self._load(path, "not this run's weights, or of another version of this program")

    def _load(self, path: Path, reason: str, other_strategy: bool = False) -> None:
        try:
            weights = load_file(path)
            told = self._told(path)
            if other_strategy or self._steered or STRATEGY in told:
                weights = self._with_own_policies(weights)
            self._modules.load_state_dict(weights)
            seeds = told.get(BOOTSTRAPS)
            self._take_bootstraps(self._own if seeds is None else map(int, seeds.split()))
        except (SafetensorError, OSError, RuntimeError) as error:
            words = textwrap.shorten(str(error), 200)  # Torch names each weight that differs.
            raise LearningError(f"{path}: {reason}: {words}") from None

    def _bootstraps_of(self, config: Config) -> list[int]:
        """Those of a run with such settings that has begun with none."""
        if not self._own:
            return []
        generator = torch.Generator().manual_seed(config.seed)
        model = make_model(self.task, config.model, generator)
        return [*_bootstraps(model), *_bootstraps(Judge(self.task, config, self.first))]

    def _take_bootstraps(self, seeds: Iterable[int]) -> None:
        for heads, seed in zip(_heads(self._modules), seeds, strict=True):
            heads.bootstrap_seed = seed

    def _told(self, path: Path) -> dict[str, str]:
        """What stands beside the weights in a checkpoint."""
        if not path.is_file():
            return {}
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
        return metadata

    def _with_own_policies(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights, with untrained ones where another strategy has none, or of another size.

        Model and judge have the same ones with each strategy.
        """
        own = {
            name: weights[name] if name in weights and weights[name].shape == v.shape else v
            for name, v in self._untrained.items()
            if _of_strategy(name)
        }
        return own | {k: v for k, v in weights.items() if not _of_strategy(k)}

    def _save(self, episode: int, promise: float | None) -> None:
        path = self.run.checkpoint(episode)
        temporary = path.with_name(f".{path.name}")
        weights = {k: v.detach().contiguous() for k, v in self._modules.state_dict().items()}
        about: dict[str, str] = {STRATEGY: self.config.strategy} if self._steered else {}
        if _bootstraps(self._modules) != self._own:
            about[BOOTSTRAPS] = " ".join(map(str, _bootstraps(self._modules)))
        if promise is not None:
            about[PROMISE] = repr(promise)
        try:
            save_file(weights, temporary, about or None)
            to_disk(temporary)
        except (SafetensorError, OSError) as error:
            raise LearningError(f"{path}: can't be written: {error}") from None
        temporary.replace(path)

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


def _heads(module: torch.nn.Module) -> list[Heads]:
    return [each for each in module.modules() if isinstance(each, Heads)]


def _bootstraps(module: torch.nn.Module) -> list[int]:
    """Seeds of the bootstraps of all ensembles in it."""
    return [heads.bootstrap_seed for heads in _heads(module)]


def _of_strategy(name: str) -> bool:
    """Whether a strategy decides which weights of that name there are."""
    return name.startswith("actors.") or name == "step.beta"
