"""The learner: what it writes, that it can be killed and done again, what it refuses."""

import dataclasses
import logging
import math
from typing import ClassVar, NamedTuple, get_args

import numpy as np
import pytest
import torch
from manifest_factory import write_manifest
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tiny_learning import STEPS, random_episode, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.schema import KERNEL_MODELS, ModelName, StrategyName
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.manifest import MANIFEST, BundleFields, dump_manifest, read_manifest
from hucrl_ros.errors import LearningError
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.dataset import RecordedEpisode, hash_of, join_transitions
from hucrl_ros.learning.learner import Learner
from hucrl_ros.models import FitReport, Quality
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.search import SearchResult, make_model_rollout
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.usefixtures("short_episodes")
EPISODES = [random_episode(seed) for seed in range(3)]


def silent(phase, share):
    """Nobody listens."""


class Written(NamedTuple):
    """What a bundle would have held."""

    fields: BundleFields
    weights: torch.Tensor
    beta: float
    imagined: object


class Notebook:
    """Stands in for the exporter: keeps what it is told to write."""

    def __init__(self, task, step, actors, discount, signing_key):
        self._step, self._actor_critic = step, actors
        self.written = {}

    def write(self, path, fields, imagined):
        weights = torch.cat(
            [p.detach().flatten().clone() for p in self._actor_critic.parameters()]
        )
        beta = float(self._step.state_dict().get("beta", math.nan))
        self.written[path.name] = Written(fields, weights, beta, imagined)


@pytest.fixture
def learner_of(tmp_path, monkeypatch):
    """Makes learners of one run that write nothing but their checkpoints."""
    monkeypatch.setattr("hucrl_ros.learning.learner.BundleExporter", Notebook)
    run = RunFolder(tmp_path / "run")

    def make(**changes):
        # Its bundles don't exist, so that they can't be judged.
        exploration = {"validation_episodes": 0, **changes.pop("exploration", {})}
        config = tiny_config(exploration=exploration, **changes)
        if not run.config_path.exists():
            RunFolder.create(run.root, config)
        return Learner(config, run)

    return make


def learned(learner, episodes):
    """What the bundle after `episodes` (a number) holds."""
    path = learner.learn_from(EPISODES[:episodes], silent)
    return learner._exporter.written[path.name]


@pytest.mark.parametrize("task", ["cartpole", "pusher", "reacher"])
def test_policies_are_not_tried_from_where_the_run_will_start(learner_of, task):
    learner = learner_of(task=task, seed=3)
    robot = learner.task.robot()
    flown = [robot.initial_state(np.random.default_rng((3, k))) for k in range(20)]
    apart = np.abs(learner.first.numpy()[:, None] - np.array(flown)[None]).max(axis=2)
    assert len(learner.first) > 1
    assert apart.min() > 1e-6


# Bundles


def test_killed_and_done_again_it_writes_the_same(tmp_path):
    run = RunFolder.create(tmp_path / "run", tiny_config())
    learner = Learner(run.config, run)
    first = read_manifest(learner.export_initial())
    assert (first.episode, first.random, first.report.predicted_return) == (0, True, None)
    for count in (1, 2):
        learner.learn_from(EPISODES[:count], silent)
    before = {k: load_bundle(run.bundle(k)).manifest for k in (1, 2)}
    checkpoints = {k: run.checkpoint(k).read_bytes() for k in (0, 1)}
    # Killed after it kept its weights and before the bundle was complete.
    manifest = run.bundle(2) / "manifest.yaml"
    manifest.unlink()
    bundle = Learner(run.config, run).learn_from(EPISODES[:2], silent)
    assert bundle == run.bundle(2)
    after = load_bundle(bundle)
    assert after.manifest.files == before[2].files != before[1].files
    assert after.manifest.data_hash == before[2].data_hash == hash_of(EPISODES[:2])
    assert {k: run.checkpoint(k).read_bytes() for k in (0, 1)} == checkpoints
    manifest, imagined = after.manifest, after.imagined
    assert (manifest.episode, manifest.random, manifest.steps) == (2, False, STEPS)
    assert imagined.rewards.sum() == pytest.approx(manifest.report.predicted_return, abs=1e-3)
    assert imagined.states[0] == pytest.approx([math.pi, 0.0])
    assert sorted(path.name for path in run.bundles.iterdir()) == [
        "bundle_000",
        "bundle_001",
        "bundle_002",
    ]


def test_learning_goes_on_from_the_last_checkpoint(learner_of):
    one = learner_of()
    learned(one, 1)
    expected = learned(one, 2)
    assert torch.equal(learned(learner_of(), 2).weights, expected.weights)
    one.run.checkpoint(0).unlink()
    assert not torch.equal(learned(learner_of(), 2).weights, expected.weights)


def test_models_of_before_joints_went_on_by_themselves_go_on_as_they_were(learner_of):
    one = learner_of()
    learned(one, 1)
    path = one.run.checkpoint(0)
    old = {k: v for k, v in load_file(path).items() if not k.endswith(".coast")}
    assert len(old) < len(load_file(path))
    save_file(old, path)
    again = learner_of()
    learned(again, 2)
    assert not load_file(again.run.checkpoint(1))["step.model.coast"]


def steered(learner, strategy):
    """A learner of the same run, with a strategy that a person chose."""
    return Learner(learner.config.model_copy(update={"strategy": strategy}), learner.run)


def part(learner, start):
    return {k: v.clone() for k, v in learner._modules.state_dict().items() if k.startswith(start)}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("strategy", [name for name in get_args(StrategyName) if name != "greedy"])
def test_another_strategy_learns_on_from_the_same_model_and_back(learner_of, strategy):
    own = learner_of(strategy="greedy")
    assert learned(own, 1).fields.strategy == "greedy"
    assert safe_open(own.run.checkpoint(0), framework="pt").metadata() is None, "as ever"
    own.restore(0)
    chosen = steered(own, strategy)
    chosen.restore(0)
    assert same(part(chosen, "step.model."), part(own, "step.model."))
    assert same(part(chosen, "actors.policy."), part(own, "actors.policy."))
    written = learned(chosen, 2)
    assert written.fields.strategy == strategy and torch.isfinite(written.weights).all()
    assert learned(steered(own, strategy), 2).weights.equal(written.weights), (
        "done again: the same"
    )
    resumed = learner_of(strategy="greedy")
    for learner in (resumed, chosen):
        learner.restore(1)
    assert same(part(resumed, "step.model."), part(chosen, "step.model."))
    assert learned(resumed, 3).fields.strategy == "greedy"
    assert safe_open(own.run.checkpoint(2), framework="pt").metadata() is None


def test_what_an_older_bundle_earned_is_its_own(learner_of, caplog):
    learner = learner_of(strategy="greedy")
    for number, repeats in ((1, None), (2, None), (3, 1), (4, None)):
        path = learner.run.bundle(number)
        manifest = read_manifest(write_manifest(path, number))
        told = manifest.model_copy(update={"repeats": repeats})
        (path / MANIFEST).write_text(dump_manifest(told))
    returns = {0: 0.0, 1: 10.0, 2: 20.0, 3: 30.0, 4: 40.0, 5: 50.0}
    assert learner._earned(returns, {k: k for k in returns}) == {1: 20.0, 2: 20.0, 4: 40.0}
    flown = {0: 0, 1: 1, 2: 2, 3: 2, 4: 0, 5: 3}
    earned = learner._earned(returns, flown)
    assert earned == {2: 25.0, 1: 30.0}
    assert list(earned)[-1] == 1, "flew last"


def test_a_bundle_whose_newest_flight_a_surprise_ended_flies_no_more(learner_of):
    learner = learner_of()
    for number, repeats in ((1, None), (2, None), (3, 1), (4, None)):
        path = learner.run.bundle(number)
        manifest = read_manifest(write_manifest(path, number))
        told = manifest.model_copy(update={"repeats": repeats})
        (path / MANIFEST).write_text(dump_manifest(told))
    flown = {k: k for k in range(5)}
    returns = {0: 0.0, 1: 90.0, 2: 20.0, 3: 70.0, 4: 40.0}
    assert learner._earned(returns, flown) == {1: 80.0, 2: 20.0, 4: 40.0}
    del returns[3]  # bundle 1, again
    assert learner._earned(returns, flown) == {2: 20.0, 4: 40.0}
    assert learner._earned({0: 0.0, 3: 70.0, 4: 40.0}, flown) == {1: 70.0, 4: 40.0}
    assert learner._earned({0: 0.0}, flown) == {}


def test_complexity_is_of_the_model_that_played(learner_of):
    learner = learner_of()
    learned(learner, 1)
    learned(learner, 2)
    learner.restore(0)
    newest, another = EPISODES[1]._replace(flown=1), EPISODES[1]._replace(flown=0)
    assert learner._error_in(EPISODES[1], 2) == learner._error_in(newest, 2)
    assert learner._error_in(newest, 2).complexity > 0.0
    assert learner._error_in(another, 2).complexity is None
    assert learner._error_in(another, 2).surprise == learner._error_in(newest, 2).surprise


def test_complexity_of_a_bundle_that_flew_again_is_of_its_own_model(learner_of):
    learner = learner_of()
    for count in (1, 2):
        learned(learner, count)
    learner.restore(0)
    played_by_1 = learner._error_in(EPISODES[2], 2).complexity
    learner.restore(1)
    newest, weights = learner._error_in(EPISODES[2], 3), part(learner, "step.")
    path = learner.run.bundle(2)
    manifest = read_manifest(write_manifest(path, 2))
    (path / MANIFEST).write_text(dump_manifest(manifest.model_copy(update={"repeats": 1})))
    again = learner._error_in(EPISODES[2], 3)
    assert again.complexity == played_by_1 != newest.complexity
    assert again.surprise == newest.surprise
    assert same(part(learner, "step."), weights), "learning goes on from the newest model"
    learner.run.checkpoint(0).unlink()
    assert learner._error_in(EPISODES[2], 3) == newest._replace(complexity=None)


def test_a_missing_checkpoint_is_said_in_the_log(learner_of, caplog):
    with caplog.at_level(logging.WARNING, logger="hucrl_ros.learning.learner"):
        learned(learner_of(), 1)
        assert caplog.messages == []  # there is none before the first learning
        learner_of().run.checkpoint(0).unlink()
        learned(learner_of(), 2)
    assert len(caplog.messages) == 1
    assert "episode_000.safetensors is missing" in caplog.messages[0]


def test_a_checkpoint_that_cannot_be_written_is_one_line(learner_of):
    learner = learner_of()
    checkpoint = learner.run.checkpoint(0)
    checkpoint.with_name(f".{checkpoint.name}").mkdir(parents=True)
    with pytest.raises(LearningError, match=r"episode_000.safetensors: can't be written: .*I/O"):
        learned(learner, 1)


def test_weights_that_do_not_fit_are_refused_before_another_episode_is_played(
    learner_of, monkeypatch
):
    learner = learner_of()
    learner.run.checkpoint(0).write_bytes(b"\x00" * 100)
    learner_of()  # Of an episode that isn't finished.
    monkeypatch.setattr(RunFolder, "finished_episodes", lambda self: 1)
    with pytest.raises(LearningError, match=r"episode_000.safetensors: .*of another version"):
        learner_of()


@pytest.mark.parametrize("spoil", ["garbage", "another run's"])
def test_weights_that_are_not_the_runs_are_refused_in_one_line(learner_of, spoil, tmp_path):
    learner = learner_of()
    path = learner.run.checkpoint(0)
    if spoil == "garbage":
        path.write_bytes(b"\x00" * 100)
    else:
        config = tiny_config(model={"heads": 3, "layers": (8,), "fit_steps": 1})
        other = Learner(config, RunFolder.create(tmp_path / "other", config))
        other.learn_from(EPISODES[:1], silent)
        path.write_bytes(other.run.checkpoint(0).read_bytes())
    with pytest.raises(LearningError, match=r"episode_000.safetensors: not this run's") as caught:
        learned(learner, 2)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", get_args(StrategyName))
def test_seeds_decide_everything(learner_of, strategy):
    first = learned(learner_of(strategy=strategy), 1)
    torch.rand(3)
    again = learned(learner_of(strategy=strategy), 1)
    other = learned(learner_of(strategy=strategy, seed=1), 1)
    assert torch.equal(first.weights, again.weights)
    assert not torch.equal(first.weights, other.weights)
    assert first.fields.strategy == strategy


KERNEL = {"features": 16, "nodes": 2, "max_points": 20, "heads": 2, "layers": (8,), "fit_steps": 5}


@pytest.mark.parametrize("kind", get_args(ModelName))
def test_every_kind_of_model_is_learned_reported_and_goes_on(learner_of, kind):
    def learner():
        return learner_of(model={"kind": kind, **KERNEL})

    one = learner()
    first, fields = learned(one, 1).fields.report, learned(one, 2).fields
    assert fields.model == ("rff" if kind == "auto" else kind)
    second = fields.report
    assert (first.surprise, first.complexity) == (None, None)  # Nothing was learned before it.
    assert second.surprise > 0.0
    assert second.complexity > 0.0
    assert 0.0 <= second.calibration_error < 1.0
    assert second.epistemic_scale is None
    assert (second.information_gain is not None) == (fields.model in KERNEL_MODELS)
    again = learned(learner(), 2)
    times = {"fit_s": None, "search_s": None}
    assert again.fields.report.model_copy(update=times) == second.model_copy(update=times)


def test_recalibration_is_reported_with_what_was_before_it(learner_of):
    report = learned(learner_of(model={**KERNEL, "recalibrate": True, "holdout": 0.5}), 1)
    report = report.fields.report
    assert report.epistemic_scale > 0.0
    assert 0.0 <= report.uncalibrated_coverage <= 1.0
    assert 0.0 <= report.uncalibrated_error < 1.0


def test_beta_of_the_confidence_interval_reaches_the_manifest(learner_of):
    learner = learner_of(
        model={"kind": "gp", **KERNEL}, exploration={"schedule": "confidence", "norm_bound": 2.0}
    )
    bundle = learned(learner, 1)
    gain, noise = bundle.fields.report.information_gain, learner.model.noise_ratio
    expected = 2.0 + 4.0 * noise * math.sqrt(gain + 1.0 + math.log(10.0))
    assert bundle.fields.beta == bundle.beta == pytest.approx(expected)


class StagedSearch:
    """Finds that weights of 1 play best, and ends at weights of 2."""

    promises: ClassVar[list[float]] = []
    """Returns of its next searches; the task's, where there are none."""
    begun: ClassVar[list[bool]] = []
    """Whether each search began at what the last one ended with."""

    gentle: ClassVar[list[bool]] = []
    """Whether each was gentle."""

    def improve(self, rollout, starts, first, draws, progress, gentle=False):
        actors = rollout.actor_critic
        self.gentle.append(gentle)
        self.begun.append(all(bool((p == 2.0).all()) for p in actors.parameters()))
        best = {name: torch.ones_like(value) for name, value in actors.state_dict().items()}
        with torch.no_grad():
            for parameter in actors.parameters():
                parameter.fill_(2.0)
        episode = rollout.imagine(first, 3)
        if self.promises:
            rewards = torch.zeros_like(episode.rewards)
            rewards[0] = self.promises.pop(0)
            episode = episode._replace(rewards=rewards)
            best = {name: value + float(rewards[0, 0]) for name, value in best.items()}
        return SearchResult(episode, best)


@pytest.fixture
def staged(monkeypatch):
    monkeypatch.setattr("hucrl_ros.learning.attempts.make_search", lambda settings: StagedSearch())
    monkeypatch.setattr(StagedSearch, "promises", [])
    monkeypatch.setattr(StagedSearch, "begun", [])
    monkeypatch.setattr(StagedSearch, "gentle", [])
    return StagedSearch


@pytest.mark.usefixtures("staged")
def test_the_best_policies_are_played_and_the_newest_are_kept(learner_of):
    learner = learner_of()
    assert (learned(learner, 1).weights == 1.0).all()
    kept = load_file(learner.run.checkpoint(0))
    actors = {name for name, _ in learner.actor_critic.named_parameters()}
    assert all((kept[f"actors.{name}"] == 2.0).all() for name in actors)


@pytest.mark.parametrize(("fresh", "taken"), [(200.0, 200.0), (90.0, 100.0)])
def test_a_search_that_promises_much_less_than_was_known_begins_anew(
    learner_of, staged, monkeypatch, fresh, taken
):
    learner = learner_of()
    staged.promises = [300.0]
    learned(learner, 1)
    monkeypatch.setattr(learner, "last_promise", lambda episode: [300.0])
    staged.promises = [100.0, fresh]
    bundle = learned(learner, 2)
    assert staged.begun == [False, True, False]
    assert not any(staged.gentle)
    assert bundle.fields.report.predicted_return == taken
    assert (bundle.weights == 1.0 + taken).all()


@pytest.mark.parametrize(("gently", "taken"), [(200.0, 200.0), (-3.0, 0.0)])
def test_where_fresh_policies_do_nothing_either_the_action_penalty_grows_from_0(
    learner_of, staged, monkeypatch, gently, taken
):
    learner = learner_of()
    staged.promises = [300.0]
    learned(learner, 1)
    idle = make_model_rollout(learner.actor_critic, learner.dynamics).idle(learner.first)
    idle = idle.mean_return
    monkeypatch.setattr(learner, "last_promise", lambda episode: [300.0])
    staged.promises, staged.gentle[:] = [idle, idle - 1.0, idle + gently], []
    bundle = learned(learner, 2)
    assert staged.gentle == [False, False, True]
    assert bundle.fields.report.predicted_return == pytest.approx(idle + taken)


def test_without_an_action_penalty_no_search_is_gentle(learner_of, staged):
    learner = learner_of(action_penalty=0.0)
    staged.promises = [-1e3, -1e3]
    learned(learner, 1)
    assert staged.gentle == [False, False]


def test_where_constraints_are_paid_for_a_search_may_be_gentle_without_an_action_penalty(
    learner_of, staged, monkeypatch
):
    learner = learner_of(action_penalty=0.0)
    monkeypatch.setattr(type(learner.dynamics), "pays", lambda self, task: True)
    monkeypatch.setattr(type(learner.dynamics), "reward", type(learner.dynamics).earned)
    staged.promises = [-1e3, -1e3]
    learned(learner, 1)
    assert staged.gentle == [False, False, True]


def test_what_gently_taught_policies_promise_is_not_asked_anew_in_each_episode(
    learner_of, staged, monkeypatch
):
    """A planner earns 300, its policies promise 100; another search is four times as long."""
    learner = learner_of(action_penalty=0.0)
    monkeypatch.setattr(type(learner.dynamics), "pays", lambda self, task: True)
    monkeypatch.setattr(type(learner.dynamics), "reward", type(learner.dynamics).earned)
    monkeypatch.setattr(learner, "_return_of", lambda episode: 300.0)
    tried = {}
    for before in (100.0, 250.0):
        monkeypatch.setattr(learner, "last_promise", lambda episode, told=before: [told])
        for number in (1, 2, 3, 4, 5):
            monkeypatch.setattr(learner, "_learned_episode", lambda episode, told=number: told)
            staged.promises, staged.gentle[:] = [100.0, 50.0, 60.0], []
            learned(learner, 1)
            tried[before, number] = any(staged.gentle)
    assert [tried[100.0, number] for number in (1, 2, 3, 4, 5)] == [True, True, False, True, False]
    assert all(tried[250.0, number] for number in (1, 2, 3, 4, 5)), "it has fallen"


def test_a_promise_of_what_doing_nothing_earns_is_not_believed_at_once(learner_of, staged):
    learner = learner_of()
    learner.learn_from(EPISODES[:1], silent)
    idle = make_model_rollout(learner.actor_critic, learner.dynamics).idle(learner.first)
    idle = idle.mean_return
    staged.promises, staged.begun[:] = [idle, 200.0], []
    assert learned(learner_of(), 1).fields.report.predicted_return == pytest.approx(200.0)
    assert len(staged.begun) == 2


def test_the_promise_of_a_search_whose_bundle_did_not_fly_is_the_last_one(learner_of, staged):
    learner = learner_of(exploration={"validation_episodes": 1})
    path = learner.run.bundle(1)
    write_manifest(path, 1)
    chosen = []
    learner._judge.choose = lambda *told: chosen.append(told[4])
    staged.promises = [200.0]
    learner.learn_from(EPISODES[:2], silent)
    assert chosen == [200.0]
    manifest = read_manifest(write_manifest(learner.run.bundle(2), 2))
    report = manifest.report.model_copy(update={"predicted_return": 300.0})
    again = manifest.model_copy(update={"repeats": 1, "report": report})
    (learner.run.bundle(2) / MANIFEST).write_text(dump_manifest(again))
    assert learner.last_promise(2) == [200.0]
    assert steered(learner, "greedy").last_promise(2) == []
    staged.promises, staged.begun[:] = [199.0], []
    learner.learn_from(EPISODES[:3], silent)
    assert len(staged.begun) == 1, "300 would be a fall"
    learner.run.checkpoint(1).unlink()
    assert learner.last_promise(2) == [], "by an older version: nobody knows"


def test_a_bonus_is_not_compared_with_what_was_earned_without_one(learner_of, staged):
    learner = learner_of(strategy="sombrl", exploration={"validation_episodes": 1, "beta": 1e3})
    write_manifest(learner.run.bundle(1), 1)
    chosen = []
    learner._judge.choose = lambda *told: chosen.append(told[4])
    path = learner.learn_from(EPISODES[:2], silent)
    written = learner._exporter.written[f".new_{path.name}"]
    promised, imagined = written.fields.report.predicted_return, written.imagined
    of_task = learner.task.rewards(imagined.states[:-1], imagined.actions).sum()
    assert promised > of_task + 100.0
    assert chosen == [pytest.approx(of_task, abs=0.1)]
    assert learner.last_promise(2) == []  # its bundle isn't there
    write_manifest(path, 2)
    assert learner.last_promise(2) == chosen


def test_a_promise_that_shrinks_a_little_is_taken(learner_of, staged, monkeypatch):
    learner = learner_of()
    monkeypatch.setattr(learner, "last_promise", lambda episode: [300.0])
    staged.promises = [290.0]
    assert learned(learner, 1).fields.report.predicted_return == 290.0
    assert len(staged.begun) == 1


def test_a_cold_start_forgets_the_last_policies(learner_of):
    search = {"iterations": 1, "pool": 8, "policy_layers": (8,), "critic_layers": (8,)}
    warm, cold = (learner_of(search={**search, "warm_start": warm}) for warm in (True, False))
    learned(warm, 1)
    assert not torch.equal(learned(warm, 2).weights, learned(cold, 2).weights)


def test_random_episodes_are_played_with_random_bundles(learner_of):
    learner = learner_of(exploration={"random_episodes": 2})
    assert learned(learner, 1).fields.random
    assert learned(learner, 1).imagined is None
    assert not learner.run.checkpoint(0).exists()
    second = learned(learner, 2)
    assert not second.fields.random
    assert second.fields.episode == 2


@pytest.mark.parametrize("random_episodes", [1, 2])
def test_the_manifest_names_the_beta_that_was_learned_with(learner_of, random_episodes):
    exploration = {"random_episodes": random_episodes, "beta": 3.0, "beta_decay": 0.5}
    learner = learner_of(exploration=exploration)
    betas = []
    for count in range(random_episodes, 4):
        bundle = learned(learner, count)
        assert bundle.beta == bundle.fields.beta
        betas.append(bundle.beta)
    assert betas == [3.0, 1.5, 1.0][: len(betas)]


def test_progress_names_the_phases_in_order(learner_of):
    seen = []
    learner_of().learn_from(EPISODES[:1], lambda phase, share: seen.append((phase, share)))
    phases = [phase for phase, _ in seen]
    assert list(dict.fromkeys(phases)) == ["fitting", "searching", "exporting"]
    assert ("fitting", 1.0) in seen
    assert ("searching", 1.0) in seen


def test_stopped_learning_can_be_done_again_by_the_same_learner(learner_of):
    expected = learned(learner_of(), 1).weights
    for phase_to_stop in ("fitting", "searching"):
        learner = learner_of()

        def stop(phase, share, at=phase_to_stop):
            if phase == at and share > 0.4:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            learner.learn_from(EPISODES[:1], stop)
        assert torch.equal(learned(learner, 1).weights, expected)


# What it refuses


def spoiled(part, value, contiguous=True):
    states, actions, kept = (array.copy() for array in EPISODES[1][:3])
    {"states": states, "actions": actions}[part][7] = value
    kept[6:8] = contiguous
    return RecordedEpisode(states, actions, kept)


@pytest.mark.parametrize("part", ["states", "actions"])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_data_that_is_not_finite_is_refused_and_nothing_is_written(learner_of, part, value):
    learner = learner_of()
    with pytest.raises(LearningError, match=rf"episode 1: {part} hold (nan|inf)") as caught:
        learner.learn_from([EPISODES[0], spoiled(part, value)], silent)
    assert "\n" not in str(caught.value)
    assert str(learner.run.root) in str(caught.value)
    assert learner._exporter.written == {}
    assert list(learner.run.checkpoints.iterdir()) == []
    assert torch.isfinite(learned(learner, 2).weights).all()  # it goes on with good data


def test_gaps_are_not_learned_from():
    hole = spoiled("states", math.nan, contiguous=False)
    joined = join_transitions([EPISODES[0], hole], "run")
    assert len(joined.states) == 2 * STEPS - 2
    kept = np.delete(EPISODES[1].states[:-1], [6, 7], axis=0)
    np.testing.assert_allclose(joined.states[STEPS:], kept, rtol=1e-6)
    following = np.delete(EPISODES[1].states[1:], [6, 7], axis=0)
    np.testing.assert_allclose(joined.next_states[STEPS:], following, rtol=1e-6)
    np.testing.assert_allclose(joined.actions[:STEPS], EPISODES[0].actions, rtol=1e-6)


def test_no_episode_and_no_transition_are_refused(learner_of):
    with pytest.raises(LearningError, match="no finished episode"):
        learner_of().learn_from([], silent)
    with pytest.raises(LearningError, match="no finished episode"):
        learner_of().learn(silent)


@pytest.mark.parametrize("usable", [0, STEPS // 2 - 1])
def test_an_episode_at_another_rate_is_refused_and_not_learned_from(learner_of, usable):
    kept = np.arange(STEPS) < usable
    learner = learner_of()
    with pytest.raises(LearningError, match=rf"episode 1: {usable} of {STEPS} transitions") as e:
        learner.learn_from([EPISODES[0], RecordedEpisode(*EPISODES[0][:2], kept)], silent)
    assert "\n" not in str(e.value)
    assert learner._exporter.written == {}


@pytest.mark.parametrize("usable", [0, 1])
def test_of_an_episode_that_a_surprise_ended_what_there_is_is_learned_from(learner_of, usable):
    kept = np.arange(STEPS) < usable
    cut = RecordedEpisode(*EPISODES[1][:2], kept, cut=True)
    joined = join_transitions([EPISODES[0], cut], "run")
    assert len(joined.states) == STEPS + usable
    learner = learner_of()
    learned(learner, 1)
    path = learner.learn_from([EPISODES[0], cut], silent)
    report = learner._exporter.written[path.name].fields.report
    assert (report.surprise is None) == (not usable)
    assert report.model_error is not None


def test_the_log_names_the_episode_that_was_learned_from(learner_of, caplog):
    caplog.set_level(logging.INFO, logger="hucrl_ros.learning.report")
    cut = EPISODES[1]._replace(cut=True)
    learner = learner_of()
    learned(learner, 1)
    learner.learn_from([EPISODES[0], cut], silent)
    learner.learn_from([EPISODES[0], cut, EPISODES[2]], silent)
    said = [r.message for r in caplog.records if r.name == "hucrl_ros.learning.report"]
    lines = [message.partition(", regret")[0] for message in said]
    first, last = (learner._return_of(EPISODES[k]) for k in (0, 2))
    assert lines == [
        f"episode 0: return {first:.1f}",
        "episode 1: return none, as a surprise ended it",
        f"episode 2: return {last:.1f}",
    ]


def test_a_surprise_at_once_in_a_run_without_other_data_ends_no_learning(learner_of, monkeypatch):
    learner = learner_of(exploration={"validation_episodes": 2})
    begun = part(learner, "step.model.")
    at_once = RecordedEpisode(
        EPISODES[0].states[:1], np.zeros((0, 1)), np.zeros(0, bool), cut=True
    )
    weights = learner._weights
    monkeypatch.setattr(weights, "_initial", dict(weights.untrained))  # as after --from
    assert len(join_transitions([at_once], "run").states) == 0
    path = learner.learn_from([at_once], silent)
    assert torch.isfinite(learner._exporter.written[path.name].weights).all()
    assert same(part(learner, "step.model."), begun)


def test_a_bag_that_is_refused_is_named_and_moved_away_its_episode_is_played_again(
    tmp_path, monkeypatch
):
    def at_another_rate(*read):
        whole = read_episode(*read)
        return dataclasses.replace(whole, contiguous=np.zeros_like(whole.contiguous))

    run = RunFolder.create(tmp_path / "run", tiny_config(episodes=1))
    with monkeypatch.context() as patch:
        patch.setattr("hucrl_ros.learning.prior.read_episode", at_another_rate)
        for _ in range(2):
            with pytest.raises(LearningError, match=r"move this bag away.*--resume") as caught:
                train(run.config, run)
            assert str(caught.value).startswith(f"{run.bag(0)}: 0 of {STEPS} transitions")
    run.bag(0).rename(tmp_path / "moved")
    assert len(train(run.config, run).episodes) == 1
    assert load_bundle(run.bundle(1)).manifest.data_hash


def test_a_fit_that_diverged_is_refused(learner_of, monkeypatch):
    diverged = FitReport(Quality(0.1, math.nan, 0.9, 0.1))
    monkeypatch.setattr("hucrl_ros.learning.learner.fit", lambda *_: diverged)
    learner = learner_of()
    with pytest.raises(LearningError, match=r"model fit: nll is nan; .*learning_rate"):
        learned(learner, 1)
    assert learner._exporter.written == {}


def test_a_search_that_diverged_leaves_no_bundle(learner_of, monkeypatch):
    task = make_task("pendulum", 0.2)
    learner = learner_of()
    monkeypatch.setattr(
        type(task), "reward", lambda self, state, action: math.nan * state.sum(dim=-1)
    )
    with (
        pytest.warns(UserWarning, match="lr_scheduler"),
        pytest.raises(LearningError, match="not finite"),
    ):
        learned(learner, 1)
    assert learner._exporter.written == {}
    assert list(learner.run.checkpoints.iterdir()) == []


def test_the_hash_is_of_all_that_was_recorded():
    assert hash_of(EPISODES[:2]) == hash_of(EPISODES[:2])
    changed = [EPISODES[0], spoiled("actions", 0.5)]
    assert len({hash_of(EPISODES[:1]), hash_of(EPISODES[:2]), hash_of(changed)}) == 3
