"""Searches inside the learner: each goes on from its checkpoint, exports, reports, or refuses."""

import logging

import pytest
import torch
from tiny_learning import STEPS, random_episode, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.errors import ConfigError
from hucrl_ros.learning.learner import Learner
from hucrl_ros.learning.worker import Status
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.search import SEARCHES, SearchResult
from hucrl_ros.tasks import Task, make_task

pytestmark = pytest.mark.usefixtures("short_episodes")
EPISODES = [random_episode(seed) for seed in range(2)]
OFF_POLICY = {"expansion_steps": 2, "batch_size": 8, "policy_steps": 2, "bptt_horizon": 2}


def silent(phase, share):
    """Nobody listens."""


def learner_of(folder, algorithm):
    search = {**tiny_config().search.model_dump(), **OFF_POLICY, "algorithm": algorithm}
    run = RunFolder(folder)
    for path in (run.checkpoint(0), run.bundle(0)):
        path.parent.mkdir(exist_ok=True)
    return Learner(tiny_config(search=search), run)


class Reports(list):
    """Stands in for the exporter: keeps the reports of what it is told to write."""

    def write(self, path, fields, imagined):
        self.append(fields.report)


@pytest.mark.parametrize("algorithm", SEARCHES)
def test_a_search_learns_and_goes_on_from_its_checkpoint(tmp_path, algorithm):
    reports = Reports()
    for count in (1, 2):
        learner = learner_of(tmp_path, algorithm)
        learner._exporter = reports
        learner.learn_from(EPISODES[:count], silent)
    assert [report.refused for report in reports] == [0, 0]
    assert reports[1].complexity > 0.0


def test_a_bundle_of_policies_that_the_library_trained_agrees_with_torch(tmp_path):
    bundle = learner_of(tmp_path, "sac").learn_from(EPISODES[:1], silent)
    load_bundle(bundle, make_task("pendulum", 0.2).spec)  # parity is checked here


def test_what_a_search_refused_is_in_the_manifest_and_on_the_topic(tmp_path, monkeypatch):
    learner = learner_of(tmp_path, "lookahead")
    learner._exporter = reports = Reports()
    search = learner._attempts.search

    def careless(*arguments) -> SearchResult:
        return search(*arguments)._replace(refused=7)

    monkeypatch.setattr(learner._attempts, "search", careless)
    learner.learn_from(EPISODES[:1], silent)
    (report,) = reports
    assert report.refused == 7
    assert Status("done", report=report).values["refused"] == 7
    assert "refused" not in Status("done", report=LearningReport()).values


def test_the_account_of_a_run_is_logged(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "hucrl_ros.learning.report"):
        learner = learner_of(tmp_path, "lookahead")
        learner._exporter = Reports()
        learner.learn_from(EPISODES[:1], silent)
    task = make_task("pendulum", 0.2)
    gained = task.rewards(EPISODES[0].states[:-1], EPISODES[0].actions).sum()
    (line,) = [record.getMessage() for record in caplog.records if "regret" in record.message]
    assert line.startswith(
        f"episode 0: return {gained:.1f}, regret of the run {task.optimum - gained:.1f}, "
        "complexity unknown"
    )


def test_a_search_that_makes_no_sense_is_refused_before_the_first_episode(tmp_path, monkeypatch):
    def jump(self, state, action):
        return (torch.cos(state[..., 0]) > 0.95).to(state.dtype)

    monkeypatch.setattr(Task, "reward", jump)
    with pytest.raises(ConfigError, match="none with respect to the state; choose one of"):
        learner_of(tmp_path, "bptt")
