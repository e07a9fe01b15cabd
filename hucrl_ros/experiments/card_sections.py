"""The parts of a bundle's card, as names and what holds, or as tables."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hucrl_ros.config.schema import Config, Settings
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.controller.signature import signer_of
from hucrl_ros.datasets.trajectories import actions_of
from hucrl_ros.experiments.evaluation import Played
from hucrl_ros.run.summary import EpisodeSummary, Summary
from hucrl_ros.tasks import Task

BADLY = 0.5
"""An episode of which is said that it went badly got less than this share of the way from the
run's least return to its best."""
LONG = 60
"""Letters in a cell, of which a narrow table bears two."""
GROUPS = ("planner", "safety", "driver")
"""Settings that a bundle tells by itself."""


class Section(NamedTuple):
    """A part of the card."""

    title: str
    intro: str
    header: tuple[str, ...]
    """Empty: the rows are pairs of a name and what holds."""
    rows: tuple[tuple[str, ...], ...]

    @property
    def wide(self) -> bool:
        """Its rows need the page's whole width."""
        return bool(self.header) or sum(len(cell) > LONG for row in self.rows for cell in row) > 2


def _pairs(title: str, values: Mapping[str, str], intro: str = "") -> Section:
    return Section(title, intro, (), tuple((k, v) for k, v in values.items() if v))


def learned(manifest: Manifest) -> int:
    """Number of the run's episodes that it was learned from.

    One that flies again has learned from none of those since it was made.
    """
    made_for = manifest.episode if manifest.repeats is None else manifest.repeats
    return made_for if manifest.data_hash else 0


def transitions(manifest: Manifest, summary: Summary | None) -> int:
    """Those of the episodes of `learned`; without its run as many as whole episodes have."""
    count = learned(manifest)
    if summary is None:
        return count * manifest.steps
    return sum(episode.steps for episode in summary.episodes if episode.index < count)


def purpose(manifest: Manifest, task: Task) -> Section:
    """What it is for, and how it plays."""
    plays = "random efforts" if manifest.random else manifest.planner.algorithm
    repeats = "" if manifest.repeats is None else f", as in episode {manifest.repeats}"
    return _pairs(
        "Task and robot",
        {
            "Task": manifest.task,
            "Robot": manifest.robot,
            "Joints": ", ".join(manifest.joint_names),
            "Observed": ", ".join(manifest.observed),
            "Given for an episode": ", ".join(manifest.context),
            "Plays": f"episode {manifest.episode} by {plays}{repeats}",
            "Control": f"{manifest.steps} steps of {1e3 * manifest.period:g} ms, "
            f"{manifest.steps * manifest.period:g} s an episode",
            "Weight of the action's cost": f"{manifest.action_penalty:g}",
            "Exploration": f"{manifest.strategy}, β = {manifest.beta:g}",
            "Best possible return": "not known" if task.optimum is None else f"{task.optimum:g}",
        },
    )


def data(manifest: Manifest, summary: Summary | None) -> Section:
    """The recorded episodes behind it."""
    count = learned(manifest)
    steps = 0 if summary is None else transitions(manifest, summary)
    others = "those of the run that its own began with" if manifest.data_hash else "none"
    recorded = f"{steps} transitions, {steps * manifest.period:.1f} s of movement" if steps else ""
    again = manifest.repeats is not None
    hashed = f"SHA-256 of all {manifest.episode} when it flies again" if again else "SHA-256"
    return _pairs(
        "Data that it learned from",
        {
            "Episodes": f"{count} of its run" if count else others,
            "Recorded": recorded,
            "Played": "" if summary is None else summary.mode.replace("_", " "),
            "Seed": str(manifest.seed),
            hashed: manifest.data_hash,
        },
        "" if summary else "The bundle lies in no run's folder, so its episodes aren't known.",
    )


def curve(manifest: Manifest, summary: Summary | None) -> Section:
    """Each episode of the run up to the one that it was made for, and others that it played."""
    header = ("episode", "return", "predicted", "steps", "tick p99 [ms]", "clamps", "fallbacks")
    episodes = () if summary is None else summary.episodes
    return Section("Learning curve", "", header, tuple(_episode(e, manifest) for e in episodes))


def _episode(episode: EpisodeSummary, manifest: Manifest) -> tuple[str, ...]:
    this = " (this bundle)" if episode.flown == manifest.episode else ""
    return (
        f"{episode.index}{this}",
        f"{episode.return_:.1f}",
        _number(episode.predicted_return, ".1f"),
        str(episode.steps),
        _number(episode.tick_ms.p99 if episode.tick_ms else None, ".2f"),
        _number(episode.clamps, "d"),
        _number(episode.fallbacks, "d"),
    )


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def model(manifest: Manifest) -> Section:
    """How well its model predicts, and how well it knows."""
    report, form = manifest.report, "{:.4g}".format
    told: dict[str, tuple[float | None, Any]] = {
        "Error on held-out transitions [standard deviations]": (report.model_error, form),
        "Error on the last episode, before learning from it": (report.surprise, form),
        "Held-out changes within two predicted deviations": (report.coverage, "{:.1%}".format),
        "Mean |claimed − observed| coverage": (report.calibration_error, form),
        "Coverage before recalibration": (report.uncalibrated_coverage, "{:.1%}".format),
        "Negative log-likelihood": (report.nll, form),
        "Return that it predicts for itself": (report.predicted_return, "{:.1f}".format),
        "Return by models that it wasn't made with": (report.judged_return, "{:.1f}".format),
        "Fit and search [s]": (report.fit_s, lambda fit: f"{fit:.1f}, {report.search_s or 0:.1f}"),
    }
    values = {name: show(value) for name, (value, show) in told.items() if value is not None}
    kind = {"Model": manifest.model} if manifest.model else {}
    intro = "" if values else "Nothing was learned: the networks are untrained."
    return _pairs("Model and calibration", kind | values, intro)


def successes(played: Sequence[Played], task: Task) -> int:
    """How many episodes ended at their goal."""
    return sum(episode.distance <= task.success_distance for episode in played)


def starts(played: Sequence[Played], task: Task, seed: int) -> Section:
    """What it achieved when it was played for this card."""
    title = "Fresh starts in simulation"
    if not played:
        return Section(title, "None were played.", (), ())
    returns = np.array([episode.total for episode in played])
    tick_ms = np.concatenate([episode.tick_ms for episode in played])
    values = {
        "Return": f"mean {returns.mean():.1f}, least {returns.min():.1f}, best "
        f"{returns.max():.1f}, standard deviation {returns.std():.1f}",
        "Tick on this machine [ms]": "p50 {:.2f}, p99 {:.2f}".format(
            *np.percentile(tick_ms, [50, 99])
        ),
        "Commands changed by the guard": str(sum(episode.clamps for episode in played)),
        "Ticks without a plan": str(sum(episode.fallbacks for episode in played)),
    }
    if np.isfinite(task.success_distance):
        distances = np.array([episode.distance for episode in played])
        values["At the goal"] = (
            f"{successes(played, task)} of {len(played)} end within "
            f"{100 * task.success_distance:g} cm; mean distance {100 * distances.mean():.1f} cm"
        )
    beyond = sum(bool((task.rooms(e.states[:-1], e.actions) < 0).any()) for e in played)
    if task.constraint_names:
        values["Beyond a constraint"] = f"{beyond} of {len(played)} episodes"
    intro = (
        f"{len(played)} episodes of the described model, seeds {seed} to "
        f"{seed + len(played) - 1}; physics waits for each command."
    )
    return _pairs(title, values, intro)


def limits(manifest: Manifest, task: Task) -> Section:
    """What the guard lets through, and what the filter keeps."""
    joints = zip(*actions_of(task), manifest.effort_limits, strict=True)
    return _pairs(
        "Limits",
        {
            "Commands": manifest.command,
            **{name: f"±{limit:g} {unit}" for name, unit, limit in joints},
            **{f"safety.{key}": _shown(value) for key, value in manifest.safety if value},
            "Not set in safety": ", ".join(key for key, value in manifest.safety if not value),
            **{f"Must never happen ({k})": x for k, x in enumerate(manifest.constraints, 1)},
        },
        "" if manifest.constraints else "No constraint is described.",
    )


def failures(manifest: Manifest, summary: Summary | None) -> Section:
    """What went wrong while it was learned."""
    found = [("learning", f"{manifest.report.refused} gradient steps or imagined trajectories "
              "were refused")] if manifest.report.refused else []  # fmt: skip
    if summary is not None:
        returns = [episode.return_ for episode in summary.episodes if not episode.cut] or [0.0]
        enough = min(returns) + BADLY * (max(returns) - min(returns))
        for episode in summary.episodes:
            found += [(f"episode {episode.index}", what) for what in _bad(episode, enough)]
        found += [("event", event) for event in summary.events]
    intro = "" if found else "None are known."
    if summary is None:
        intro = f"{intro} Without its run, what its episodes came to isn't known.".strip()
    return Section("Known failures", intro, (), tuple(found))


def _bad(episode: EpisodeSummary, enough: float) -> Iterator[str]:
    if episode.cut:
        yield f"ended by a surprise after {episode.steps} steps"
    elif episode.predicted_return is not None and episode.return_ < enough:
        yield f"went badly: return {episode.return_:.1f}, predicted {episode.predicted_return:.1f}"
    for what, count in (episode.outside or {}).items():
        yield f"{count} states beyond: {what}"
    if episode.misses:
        yield f"{episode.misses} ticks later than the period"


def settings(manifest: Manifest, config: Config | None) -> Section:
    """Those that differ from the defaults of the program, with the latter."""
    if config is not None:
        pairs = _differences(config, Config())
    else:
        standard = Config()
        groups = ((name, getattr(manifest, name), getattr(standard, name)) for name in GROUPS)
        pairs = [pair for name, own, usual in groups for pair in _differences(own, usual, name)]
    intro = "" if pairs else "All are the defaults."
    return Section(
        "Settings", intro, ("setting", "value", "default") if pairs else (), tuple(pairs)
    )


def _differences(own: Settings, usual: Settings, group: str = "") -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key, value in own:
        default, name = getattr(usual, key), f"{group}.{key}" if group else key
        if isinstance(value, Settings):
            found += _differences(value, default, name)
        elif value != default:
            found.append((name, _shown(value), _shown(default)))
    return found


def _shown(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ", ".join(map(_shown, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)


def origin(bundle: Bundle) -> Section:
    """Who made and signed it, and of what it consists."""
    manifest = bundle.manifest
    signer = signer_of(bundle.path)
    versions = ", ".join(f"{name} {number}" for name, number in manifest.versions.items())
    return _pairs(
        "Origin",
        {
            "Signed by": signer or "nobody",
            "SHA-256 of manifest.yaml": bundle.digest,
            **manifest.files,
            "Revision": manifest.revision,
            "Versions": versions,
        },
        "All hashes, shapes and outputs were checked when this card was made.",
    )
