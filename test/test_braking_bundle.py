"""A random bundle of a robot with constraints keeps them; one without plays as ever."""

import numpy as np
import pytest
import torch
from bundle_factory import DISCOUNT, fields

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import (
    ExplorationSettings,
    ModelSettings,
    SafetySettings,
    SearchSettings,
)
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.guard import Guard
from hucrl_ros.experiments.evaluation import with_settings
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.models import Ensemble
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.robots import describe
from hucrl_ros.search import ActorCritic
from hucrl_ros.tasks import Task

SHORT_RAIL = share_directory() / "config" / "examples" / "short_rail" / "short_rail.yaml"


@pytest.fixture(scope="module")
def exporter():
    task = Task(describe(str(SHORT_RAIL)), 0.0)
    generator = torch.Generator().manual_seed(0)
    model = Ensemble(task, ModelSettings(heads=2, layers=(8,)), generator)
    dynamics = make_imagined_dynamics("greedy", model, ExplorationSettings())
    networks = SearchSettings(policy_layers=(8,), critic_layers=(8,))
    actors = ActorCritic(task, 0, networks, generator)
    return task, BundleExporter(task, dynamics, actors, DISCOUNT)


def written(exporter, folder, **changes):
    task, writer = exporter
    writer.write(folder, fields("greedy", random=True, **changes), None)
    return task, load_bundle(folder)


def play(task, bundle, seed, steps=200, safety=None):
    """Largest distance of the cart from the middle [m], and the share of ticks changed."""
    safety = safety or bundle.manifest.safety
    agent, guard = Agent(bundle, None, safety=safety), Guard(task.spec, safety)
    robot, furthest, changed = task.robot(), 0.0, []
    agent.start_episode(seed)
    state = robot.reset(np.random.default_rng(seed))
    for _ in range(steps):
        tick = agent.act(state)
        changed.append(tick.filtered)
        state = robot.step(guard.check(tick.action, state).action)
        furthest = max(furthest, abs(state[0]))
    return furthest, np.mean(changed)


def test_the_manifest_tells_what_the_motors_promise(exporter, tmp_path):
    _, bundle = written(exporter, tmp_path / "bundle")
    manifest = bundle.manifest
    assert manifest.deceleration == pytest.approx((300 / 15.49,), rel=1e-3)
    assert manifest.acceleration[0] > manifest.deceleration[0]
    assert manifest.steady_speed == ()


@pytest.mark.parametrize(
    "changes",
    [{}, {"random_bandwidth": 1.0}, {"safety": SafetySettings(effort_rate=0.2)}],
    ids=["new in each period", "smooth", "their rate limited"],
)
def test_the_cart_stays_on_its_short_rail(changes, exporter, tmp_path):
    task, bundle = written(exporter, tmp_path / "bundle", **changes)
    for seed in range(5):
        furthest, changed = play(task, bundle, seed)
        assert furthest < 1.0
        assert 0.0 < changed < 0.8


@pytest.mark.parametrize("share", [0.2, 0.5])
@pytest.mark.parametrize("tightened", ["in the bundle's settings", "while it runs"])
def test_with_less_effort_than_was_promised_of_the_cart_stays_too(
    share, tightened, exporter, tmp_path
):
    task, bundle = written(exporter, tmp_path / "bundle")
    limit = share * task.spec.effort_limits[0]
    safety = SafetySettings(effort_limits=[limit])
    if tightened == "in the bundle's settings":
        bundle, safety = with_settings(bundle, {"safety.effort_limits": [limit]}), None
    furthest = [play(task, bundle, seed, 500, safety)[0] for seed in range(5)]
    assert max(furthest) < 1.0


def test_without_constraints_nothing_is_changed(exporter, tmp_path):
    task, bundle = written(exporter, tmp_path / "bundle")
    manifest = bundle.manifest.model_copy(update={"constraints": ()})
    furthest, changed = play(task, type(bundle)(**{**vars(bundle), "manifest": manifest}), 0)
    assert changed == 0.0 and furthest > 1.0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"deceleration": (1.0, 2.0)}, "deceleration has 2 entries"),
        ({"acceleration": ()}, "one is missing"),
        ({"deceleration": (0.0,)}, "greater than 0"),
    ],
)
def test_a_manifest_that_promises_nonsense_is_refused(changes, reason, exporter, tmp_path):
    _, bundle = written(exporter, tmp_path / "bundle")
    with pytest.raises(ValueError, match=reason):
        type(bundle.manifest)(**{**dict(bundle.manifest), **changes})
