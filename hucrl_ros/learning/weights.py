"""The weights that a run's learnings hand on: kept after each episode, and gone back to."""

import logging
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from hucrl_ros.config.files import to_disk
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import LearningError
from hucrl_ros.learning.judge import Judge
from hucrl_ros.learning.prior import prior_weights
from hucrl_ros.models import Heads, make_model
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import Task

STRATEGY = "strategy"
"""Key in a checkpoint's metadata: only where it isn't the one of the run's settings."""
PROMISE = "promise"
"""Another: what the search promised of the task's reward; only where another bundle may fly than
the one that it made, or where a bonus is part of what that one promises."""
BOOTSTRAPS = "bootstraps"
"""Another: the ensembles' `bootstrap_seed`; only where they aren't those of the run's own seed, as
it began with the heads of another run."""
logger = logging.getLogger(__name__)


class Promise(NamedTuple):
    """What a search promised."""

    value: float
    """Return of the task's reward."""
    strategy: str
    """With which exploration."""


class RunWeights:
    """Model, policies and judge of a run as they were after each of its learnings.

    A run that began with another one begins at that one's newest weights.
    """

    def __init__(
        self, run: RunFolder, config: Config, task: Task, modules: torch.nn.ModuleDict
    ) -> None:
        """Take the modules as they are for untrained, then load what the run began with.

        Args:
            run: Has the checkpoints; what it began with is in its `prior/`.
            config: Settings of this learning; the run's own may have another strategy.
            task: The run's task.
            modules: `step`, `actors` and `judge`, which are the keys of the weights in
                checkpoints.

        Raises:
            LearningError: the weights that the run began with don't fit its settings.
        """
        self._run, self._config, self._task, self._modules = run, config, task, modules
        # Not the strategy that the run began with: a person chose another one.
        self._strategy = run.config.strategy if run.config_path.is_file() else config.strategy
        self._steered = config.strategy != self._strategy
        self.untrained = self._now()
        """Those that the modules were made with."""
        self._initial = self.untrained
        self._own = self._first_bootstraps = _bootstraps(modules)
        inherited = prior_weights(run)
        if inherited is None:
            return
        # What was taught for a task may be explored from.
        other = RunFolder(run.prior).config
        self._load(
            inherited,
            "model or layers aren't those of the run that it is of",
            other.strategy != config.strategy,
        )
        if BOOTSTRAPS not in _told(inherited):
            self._take_bootstraps(self._bootstraps_of(other))
        self._first_bootstraps = _bootstraps(modules)
        self._initial = self._now()

    @property
    def inherited(self) -> bool:
        """Whether the run begins at weights of another one."""
        return self._initial is not self.untrained

    def restore(self, episode: int) -> bool:
        """Go back to the weights after learning from `episode`, or to the first ones.

        Returns:
            Whether the run has kept any.

        Raises:
            LearningError: the kept weights aren't this run's.
        """
        path = self._run.checkpoint(episode)
        if path.is_file():
            self._load(path, "not this run's weights, or of another version of this program")
            return True
        self._modules.load_state_dict(self._initial)
        self._take_bootstraps(self._first_bootstraps)
        return False

    def forget_model(self) -> None:
        """Of a run whose data don't count, the model has done all that it is for."""
        if self.inherited:
            models = {k: v for k, v in self.untrained.items() if not k.startswith("actors.")}
            self._modules.load_state_dict(models, strict=False)
            self._take_bootstraps(self._own)

    def save(self, episode: int, promise: float | None) -> None:
        """Keep the modules' weights as those after learning from `episode`.

        Args:
            episode: Its number.
            promise: What the search promised, where the bundle won't say so.

        Raises:
            LearningError: the file can't be written.
        """
        path = self._run.checkpoint(episode)
        temporary = path.with_name(f".{path.name}")
        weights = {k: v.detach().contiguous() for k, v in self._modules.state_dict().items()}
        about: dict[str, str] = {STRATEGY: self._config.strategy} if self._steered else {}
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

    def promise(self, episode: int) -> Promise | None:
        """What the search after `episode` promised; None: its bundle says so."""
        told = _told(self._run.checkpoint(episode))
        if PROMISE not in told:
            return None
        return Promise(float(told[PROMISE]), told.get(STRATEGY, self._strategy))

    def _now(self) -> dict[str, Tensor]:
        return {k: v.clone() for k, v in self._modules.state_dict().items()}

    def _load(self, path: Path, reason: str, other_strategy: bool = False) -> None:
        try:
            weights = load_file(path)
            told = _told(path)
            if other_strategy or self._steered or STRATEGY in told:
                weights = self._with_own_policies(weights)
            # Models of before didn't know that joints go on at their velocities.
            still = {k: 0 * v for k, v in self.untrained.items() if k.endswith(".coast")}
            weights = still | weights
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
        model = make_model(self._task, config.model, generator)
        # Where it would begin is of no matter.
        return [*_bootstraps(model), *_bootstraps(Judge(self._task, config, torch.empty(0)))]

    def _take_bootstraps(self, seeds: Iterable[int]) -> None:
        for heads, seed in zip(_heads(self._modules), seeds, strict=True):
            heads.bootstrap_seed = seed

    def _with_own_policies(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        """The weights, with untrained ones where another strategy has none, or of another size.

        Model and judge have the same ones with each strategy.
        """
        own = {
            name: weights[name] if name in weights and weights[name].shape == v.shape else v
            for name, v in self.untrained.items()
            if _of_strategy(name)
        }
        return own | {k: v for k, v in weights.items() if not _of_strategy(k)}


def _told(path: Path) -> dict[str, str]:
    """What stands beside the weights in a checkpoint."""
    if not path.is_file():
        return {}
    with safe_open(path, framework="pt") as file:
        metadata: dict[str, str] = file.metadata() or {}
    return metadata


def _heads(module: torch.nn.Module) -> list[Heads]:
    return [each for each in module.modules() if isinstance(each, Heads)]


def _bootstraps(module: torch.nn.Module) -> list[int]:
    """Seeds of the bootstraps of all ensembles in it."""
    return [heads.bootstrap_seed for heads in _heads(module)]


def _of_strategy(name: str) -> bool:
    """Whether a strategy decides which weights of that name there are."""
    return name.startswith("actors.") or name == "step.beta"
