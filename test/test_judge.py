"""The judge: returns against closed forms, and which bundle flies."""

import logging
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from bundle_factory import fields
from linear_system import LIMIT, A, B, PushedMass, optimal_gain, transitions

from hucrl_ros.config.schema import (
    Config,
    ExplorationSettings,
    PlannerSettings,
    SafetySettings,
)
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.manifest import (
    MANIFEST,
    LearningReport,
    dump_manifest,
    read_manifest,
)
from hucrl_ros.controller.signature import new_key
from hucrl_ros.controller.surprise import Level, Surprise
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import LearningError
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.learning.judge import Judge, Judged
from hucrl_ros.models import Transitions, fit, make_model
from hucrl_ros.models.exploration import HallucinatedDynamics
from hucrl_ros.models.fit import FitReport
from hucrl_ros.search import ActorCritic

START = np.array([0.5, 0.0])


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    """Two bundles that follow their policies: the optimal one, and one that does nothing."""
    task, config = PushedMass(), Config()
    generator = torch.Generator().manual_seed(0)
    model = make_model(task, config.model, generator)
    dynamics = HallucinatedDynamics(model, config.exploration)
    actors = ActorCritic(task, dynamics.hallucination_dim, config.search, generator)
    exporter = BundleExporter(task, dynamics, actors, 0.9)
    optimiser = torch.optim.Adam(actors.policy.parameters(), 3e-3)
    gain = torch.tensor(optimal_gain(), dtype=torch.float32)
    for _ in range(1500):
        states = 1.2 * torch.rand(256, 2, generator=generator) - 0.6
        error = actors.policy(states) + states @ gain.T / LIMIT
        optimiser.zero_grad()
        (error**2).mean().backward()
        optimiser.step()
    folder = tmp_path_factory.mktemp("bundles")
    follow = PlannerSettings(algorithm="policy")

    def write(name, episode):
        report = LearningReport(predicted_return=-1.0)
        exporter.write(folder / name, fields(episode=episode, planner=follow, report=report), None)

    write("optimal", 1)
    with torch.no_grad():
        for parameter in actors.policy.parameters():
            parameter.zero_()
    write("idle", 2)
    return folder


def judge_of(**exploration):
    model = {"kind": "rff", "features": 64, "holdout": 0.0}
    config = Config(model=model, exploration=ExplorationSettings(**exploration))
    return Judge(PushedMass(), config, torch.tensor(START, dtype=torch.float32)[None])


def true_return(gain):
    """Return of the effort −Ks from the start, by the matrices."""
    task, state, states, efforts = PushedMass(), START, [], []
    for _ in range(task.steps):
        states.append(state)
        efforts.append(np.clip(-gain @ state, -LIMIT, LIMIT))
        state = A @ state + B @ efforts[-1]
    return float(task.rewards(np.array(states), np.array(efforts)).sum())


def test_bundles_are_judged_by_what_they_earn(bundles):
    judge = judge_of(validation_episodes=2)
    generator = torch.Generator().manual_seed(1)
    judge.fit(Transitions(*transitions(300, generator)), 1)
    optimal, idle = (judge.play(bundles / name) for name in ("optimal", "idle"))
    assert optimal.mean == pytest.approx(true_return(optimal_gain()), rel=0.03)
    assert idle.mean == pytest.approx(true_return(np.zeros((1, 2))), rel=0.03)
    assert optimal.worst <= optimal.mean
    assert idle.score < optimal.score
    assert judge.play(bundles / "optimal") == optimal


def test_each_fit_judges_in_other_episodes(bundles):
    judge = judge_of(validation_episodes=2)
    data = Transitions(*transitions(300, torch.Generator().manual_seed(1)))
    found = []
    for episode in (1, 2, 1):
        judge.fit(data, episode)
        found.append(judge.play(bundles / "optimal"))
    assert found[0] == found[2] != found[1]


def test_starts_are_taken_in_any_order_and_each_before_one_comes_again(bundles):
    config = Config(exploration=ExplorationSettings(validation_episodes=5))
    starts = torch.arange(3.0)[:, None].repeat(1, 2)
    judge = Judge(PushedMass(), config, starts)
    seen = set()
    for episode in range(20):
        judge.fit(Transitions(*transitions(30, torch.Generator().manual_seed(1))), episode)
        first = judge._from[:, 0].tolist()
        assert sorted(first[:3]) == [0.0, 1.0, 2.0]
        assert first[3:] == first[:2]
        seen.add(first[0])
    assert seen == {0.0, 1.0, 2.0}


def test_a_judge_whose_fit_diverged_judges_nothing(monkeypatch):
    judge = judge_of(validation_episodes=2)
    data = Transitions(*transitions(30, torch.Generator().manual_seed(1)))
    quality = fit(judge._dynamics.model, data, torch.Generator()).quality
    lost = FitReport(quality._replace(nll=math.nan))
    monkeypatch.setattr("hucrl_ros.learning.judge.fit", lambda *_: lost)
    with pytest.raises(LearningError, match="nll is nan"):
        judge.fit(data, 1)


def test_episodes_that_miss_the_goal_are_counted(bundles, monkeypatch):
    judge = judge_of(validation_episodes=2)
    generator = torch.Generator().manual_seed(1)
    judge.fit(Transitions(*transitions(300, generator)), 1)
    assert judge.play(bundles / "idle").missed == 0, "a task without success has none to miss"
    monkeypatch.setattr(judge._task, "success_distance", 0.1)
    monkeypatch.setattr(judge._task, "distance", lambda state: state[0].abs())
    assert judge.play(bundles / "optimal").missed == 0
    assert judge.play(bundles / "idle").missed == 2
    assert judge.play(bundles / "optimal", 0) == judge.play(bundles / "optimal")
    assert judge.play(bundles / "idle", 1) == judge.play(bundles / "idle")
    assert judge.play(bundles / "idle", 0).missed == 1, "one more than that decides"


def test_the_agent_is_told_what_the_guard_lets_through_instead(bundles, tmp_path, monkeypatch):
    judge = judge_of(validation_episodes=1)
    judge.fit(Transitions(*transitions(300, torch.Generator().manual_seed(1))), 1)
    told = []
    monkeypatch.setattr(Agent, "sent", lambda self, action: told.append(action.tolist()))
    judge.play(bundles / "optimal")
    assert told == []
    shutil.copytree(bundles / "optimal", tmp_path / "slow")
    manifest = read_manifest(tmp_path / "slow")
    slow = manifest.model_copy(update={"safety": SafetySettings(effort_rate=1e-3)})
    (tmp_path / "slow" / MANIFEST).write_text(dump_manifest(slow))
    judge.play(tmp_path / "slow")
    assert told and told[0] == pytest.approx([-1e-3 * LIMIT], rel=1e-6)


def test_where_functions_disagree_the_worst_counts():
    assert Judged(10.0, -10.0).score < Judged(5.0, 4.0).score


class Flights:
    """A run whose bundles have the scores that a test gives them."""

    key = ""
    """File of the key that signs what flies."""

    def __init__(self, bundles, tmp_path, monkeypatch):
        self._bundles, self._root, self._patch = bundles, tmp_path, monkeypatch
        self.reports = {}
        """More of what reports hold, by the number of their bundle."""

    def choose(self, scores, earned, promised, missed=(0, 0, 0)):
        """The manifest of what flies in episode 3; `scores` are of new and of 1 and 2."""
        for number, source in ((1, "optimal"), (2, "idle")):
            shutil.copytree(self._bundles / source, self._root / f"bundle_{number:03d}")
        new = self._root / ".new"
        shutil.copytree(self._bundles / "idle", new)
        text = (new / "manifest.yaml").read_text()
        # With a bonus, which isn't compared with what is earned without one.
        text = text.replace("episode: 2", "episode: 3").replace("-1.0", "1000.0", 1)
        (new / "manifest.yaml").write_text(text)
        for path, number in ((self.bundle(1), 1), (self.bundle(2), 2), (new, 3)):
            told = read_manifest(path)
            report = told.report.model_copy(update=self.reports.get(number, {}))
            told = told.model_copy(update={"report": report})
            (path / MANIFEST).write_text(dump_manifest(told))
        judge = judge_of(least_gain=0.1)
        judge._key = self.key
        paths = new, self.bundle(1), self.bundle(2)
        found = {paths[k]: Judged(scores[k], scores[k], missed[k]) for k in range(3)}

        def play(path, most=None):
            self.played += 1
            self.most.append(most)
            return found[path]

        self.played, self.most = 0, []
        self._patch.setattr(judge, "play", play)
        judge.choose(new, self.bundle(3), earned, self.bundle, promised, span=100.0)
        assert not new.exists()
        load_bundle(self.bundle(3), PushedMass().spec)
        return read_manifest(self.bundle(3))

    def bundle(self, episode):
        return self._root / f"bundle_{episode:03d}"


@pytest.fixture
def flights(bundles, tmp_path, monkeypatch):
    return Flights(bundles, tmp_path, monkeypatch)


@pytest.mark.parametrize("score", [70.0, 50.0])
def test_what_flies_is_signed_as_it_is_then(flights, tmp_path_factory, score):
    flights.key = str(tmp_path_factory.mktemp("keys") / "key")
    public = new_key(Path(flights.key))
    flights.choose((score, 60.0, 40.0), {1: 61.0, 2: 39.0}, promised=60.0)
    Trust(None, [public]).read_manifest(flights.bundle(3))


def test_a_better_bundle_flies(flights):
    flying = flights.choose((70.0, 60.0, 50.0), {1: 61.0, 2: 52.0}, promised=71.0)
    assert (flying.episode, flying.repeats) == (3, None)
    assert flying.report.judged_return == 70.0


@pytest.mark.parametrize(("score", "played"), [(59.5, 1), (58.5, 3)])
def test_older_bundles_play_only_where_the_new_one_does_worse_than_they_earned(
    flights, score, played
):
    flights.choose((score, 60.0, 40.0), {1: 61.0, 2: 39.0}, promised=60.0)
    assert flights.played == played


def test_the_bundle_that_proved_itself_flies_again_instead_of_a_worse_one(flights, caplog):
    caplog.set_level(logging.INFO)
    flying = flights.choose((50.0, 60.0, 40.0), {1: 61.0, 2: 39.0}, promised=69.0)
    assert (flying.episode, flying.repeats) == (3, 1)
    assert flying.report.judged_return == 60.0
    assert flying.report.predicted_return == -1.0  # its own, not the other's
    assert flying.files == read_manifest(flights.bundle(1)).files
    assert "judged 50.0" in caplog.text
    assert "bundle 1 flies" in caplog.text


def test_a_bundle_that_flies_again_tells_of_its_own_model(flights):
    told = {"model_error": 0.5, "nll": 2.0, "coverage": 0.5, "surprise": 3.0}
    learning = {"complexity": 4.0, "fit_s": 5.0, "search_s": 6.0, "refused": 7}
    flights.reports = {3: {**told, **learning}}
    flying = flights.choose((50.0, 60.0, 40.0), {1: 61.0, 2: 39.0}, promised=69.0)
    report = flying.report.model_dump()
    assert {name: report[name] for name in told} == dict.fromkeys(told)
    assert {name: report[name] for name in learning} == learning
    flying = flying.model_copy(update={"safety": SafetySettings(surprise=2.0)})
    watch = Surprise(flying, flying.safety)
    watch.recall(9.0)
    assert watch.level is Level.WARY, "no model before it was tried on an episode"


def test_a_new_bundle_that_flies_tells_of_its_own_learning(flights):
    flights.reports = {3: {"surprise": 3.0, "nll": 2.0, "fit_s": 5.0}}
    report = flights.choose((70.0, 60.0, 50.0), {1: 61.0, 2: 52.0}, promised=71.0).report
    assert (report.surprise, report.nll, report.fit_s) == (3.0, 2.0, 5.0)


@pytest.mark.parametrize(("score", "repeats"), [(58.5, None), (57.5, 1)])
def test_of_bundles_as_good_the_new_one_flies(flights, score, repeats):
    flying = flights.choose((score, 60.0, 40.0), {1: 61.0, 2: 39.0}, promised=60.0)
    assert flying.repeats == repeats


@pytest.mark.parametrize(
    ("missed", "repeats"),
    [((0, 4, 4), None), ((1, 4, 0), 2), ((4, 4, 4), 1), ((1, 0, 0), 1)],
    ids=["the new one reaches it", "the last one reaches it", "nobody does", "both old ones do"],
)
def test_who_reaches_the_goal_flies_though_another_may_earn_more(flights, missed, repeats):
    flying = flights.choose((50.0, 60.0, 40.0), {1: 61.0, 2: 39.0}, 45.0, missed)
    assert flying.repeats == repeats
    assert flying.report.judged_misses == missed[repeats or 0]
    assert flights.most == [None, missed[0], min(missed[:2])]


def test_a_new_bundle_that_misses_meets_the_old_ones_though_it_earns_enough(flights):
    flying = flights.choose((70.0, 60.0, 40.0), {1: 61.0, 2: 39.0}, 65.0, missed=(1, 0, 0))
    assert (flights.played, flying.repeats) == (3, 1)


def test_the_last_bundle_may_be_the_best_though_another_earned_more(flights):
    flying = flights.choose((50.0, 40.0, 60.0), {1: 61.0, 2: 39.0}, promised=50.0)
    assert flying.repeats == 2


def test_a_bundle_that_promises_enough_explores(flights):
    flying = flights.choose((50.0, 60.0, 40.0), {1: 61.0, 2: 39.0}, promised=70.0)
    assert flying.repeats is None
