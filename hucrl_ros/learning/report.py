"""What is told of learning: in the manifest, and in the log."""

import logging
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path

import hucrl_ros
from hucrl_ros.controller.bundle import ImaginedEpisode
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.errors import LearningError
from hucrl_ros.models import DynamicsModel, EpisodeError, FitReport
from hucrl_ros.search import SearchResult, Trajectories
from hucrl_ros.tasks import Task

logger = logging.getLogger(__name__)


def require_finite(fitted: FitReport) -> None:
    """Refuse a fit that diverged.

    Raises:
        LearningError: names what is not finite.
    """
    for name, value in fitted.quality._asdict().items():
        if not math.isfinite(value):
            raise LearningError(
                f"model fit: {name} is {value}; a smaller model.learning_rate may help"
            )


def report_of(
    model: DynamicsModel,
    fitted: FitReport | None,
    error: EpisodeError | None,
    found: SearchResult,
    fit_s: float,
    search_s: float,
) -> LearningReport:
    """What a manifest says of fit, None where there was none, and search."""
    raw = fitted.uncalibrated if fitted else None
    return LearningReport(
        **(fitted.quality._asdict() if fitted else {}),
        uncalibrated_coverage=raw.coverage if raw else None,
        uncalibrated_error=raw.calibration_error if raw else None,
        epistemic_scale=fitted.epistemic_scale if fitted and raw else None,
        **(error._asdict() if error else {}),
        information_gain=model.information_gain,
        fit_s=round(fit_s, 3),
        search_s=round(search_s, 3),
        refused=found.refused,
        predicted_return=found.promise,
    )


def log_account(
    task: Task, last: int, returns: Mapping[int, float], report: LearningReport
) -> None:
    """Say in the log what a run's last episode brought.

    Args:
        task: Its task.
        last: The episode's number.
        returns: Of the episodes, by their numbers; those that a surprise ended have none.
        report: Of the learning that follows it.
    """
    optimum, earned = task.optimum, returns.get(last)
    regret = None if optimum is None else optimum * len(returns) - sum(returns.values())
    gain = report.information_gain
    logger.info(
        "episode %d: return %s, regret of the run %s, complexity %s, information gain %s",
        last,
        "none, as a surprise ended it" if earned is None else f"{earned:.1f}",
        "unknown" if regret is None else f"{regret:.1f}",
        "unknown" if report.complexity is None else f"{report.complexity:.3g}",
        "unknown" if gain is None else f"{gain:.1f} nats",
    )


def imagined_episode(imagined: Trajectories) -> ImaginedEpisode:
    """The first of several imagined episodes, for a bundle."""
    states, actions, rewards = (entry[:, 0].double().cpu().numpy() for entry in imagined)
    return ImaginedEpisode(states, actions, rewards)


def revision() -> str:
    """The checkout's commit, or the package's version where there is none."""
    folder = Path(hucrl_ros.__file__).parent
    command = ["git", "-C", str(folder), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return hucrl_ros.__version__
    return done.stdout.strip() if done.returncode == 0 else hucrl_ros.__version__
