"""`hucrl teach`: other tasks from the bags of a run that explored for none."""

import shutil

import pytest
import torch
from linear_system import PushedMass, next_state
from searching import search, settings_of
from tiny_learning import short_episodes, tiny_config  # noqa: F401
from torch import nn

from hucrl_ros.cli import main
from hucrl_ros.config.files import override
from hucrl_ros.config.schema import ExplorationSettings, ModelSettings
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.errors import LearningError, RunError
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.learner import Learner
from hucrl_ros.models import Prediction
from hucrl_ros.models.base import Normaliser
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import taught_run


class UnsureAway(nn.Module):
    """The pushed mass, known at the origin, and the less the further away."""

    def __init__(self):
        super().__init__()
        self.task, self.settings = PushedMass(0.0), ModelSettings()
        self.targets, self.output_dim = Normaliser(2), 2
        self.information_gain = self.noise_ratio = None

    def predict(self, state, action):
        mean = next_state(state, action)
        unsure = 0.05 * state.abs()
        return Prediction(mean, unsure, torch.full_like(mean, 0.01), torch.diag_embed(unsure))


def reach_of(strategy):
    """Mean distance from the origin along the imagined episodes of what a search found."""
    step = make_imagined_dynamics(strategy, UnsureAway(), ExplorationSettings())
    _, found = search(settings_of(iterations=40), step)
    return float(found.episode.states[..., 0].abs().mean())


def test_opax_goes_where_the_model_is_unsure_and_greedy_where_the_task_is():
    assert reach_of("greedy") < 0.2
    assert reach_of("opax") > 1.5  # of a reach of 2


@pytest.fixture(scope="module")
def explored(tmp_path_factory, short_episodes):  # noqa: F811
    """A finished run of opax."""
    run = RunFolder.create(tmp_path_factory.mktemp("opax") / "run", tiny_config(strategy="opax"))
    train(run.config, run)
    return run


def test_any_reward_is_learned_from_the_bags_of_another_run(explored, tmp_path, capsys):
    words = ["teach", str(explored.root), "--out", str(tmp_path / "new")]
    few = ["--set", "teach.iterations=3", "--set", "teach.algorithm=pathwise"]
    assert main([*words, *few, "--action-penalty", "0.5"]) == 0
    new = RunFolder.open(tmp_path / "new")
    assert str(new.bundle(2)) in capsys.readouterr().out
    assert new.finished_episodes() == explored.finished_episodes() == 2
    assert (new.config.search.iterations, new.config.search.algorithm) == (3, "pathwise")
    manifest = load_bundle(new.bundle(2)).manifest
    assert (manifest.strategy, manifest.action_penalty) == ("greedy", 0.5)
    assert not manifest.random
    # The same data, and none of the other run's model.
    assert manifest.data_hash == load_bundle(explored.bundle(2)).manifest.data_hash
    assert manifest.report.surprise is None
    assert main(["evaluate", str(new.bundle(2))]) == 0


def test_what_is_said_of_the_search_goes_before_what_teaching_takes(explored, tmp_path):
    said = {"search.iterations": 2, "teach.iterations": 3}
    new = taught_run(explored, RunOptions("pendulum", None, said, tmp_path / "new"))
    assert new.config.search.iterations == 2
    assert new.config.search.algorithm == "lookahead", "the run's own"


def test_bags_of_another_robot_teach_nothing(explored, tmp_path, capsys):
    words = ["teach", str(explored.root), "--task", "cartpole", "--out", str(tmp_path / "new")]
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "its robot 'cartpole' differs from 'pendulum'" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("error", [LearningError("loss is nan"), KeyboardInterrupt()])
def test_what_could_not_be_taught_leaves_no_run(error, explored, tmp_path, monkeypatch):
    def fail(learner, progress):
        raise error

    words = ["teach", str(explored.root), "--out", str(tmp_path / "new")]
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "learn", fail)
        assert main(words) in (1, 130)
    taught_run(explored, RunOptions("pendulum", None, {}, tmp_path / "new"))  # not refused


def test_what_lay_in_the_folder_stays_there(explored, tmp_path, monkeypatch):
    def fail(learner, progress):
        raise KeyboardInterrupt

    (tmp_path / "new" / "logs").mkdir(parents=True)
    (tmp_path / "new" / "logs" / "monday.txt").write_text("the user's")
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "learn", fail)
        assert main(["teach", str(explored.root), "--out", str(tmp_path / "new")]) == 130
    left = [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    assert left == [tmp_path / "new" / "logs" / "monday.txt"]
    (tmp_path / "other" / "robot").mkdir(parents=True)
    (tmp_path / "other" / "robot" / "arm.stl").write_text("the user's, too")
    with pytest.raises(RunError, match="remove the folder, or take another"):
        taught_run(explored, RunOptions("pendulum", None, {}, tmp_path / "other"))
    assert (tmp_path / "other" / "robot" / "arm.stl").exists()


def test_a_run_that_somebody_plays_meanwhile_is_not_taken_from_them(explored, tmp_path):
    import hucrl_ros.learning.learner as module

    out = tmp_path / "new"

    class Slow(module.Learner):
        def learn(self, progress):
            with pytest.raises(RunError, match="is playing this run"), self.run.locked():
                pass
            return super().learn(progress)

    few = ["--set", "teach.iterations=2", "--set", "teach.algorithm=pathwise"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Learner", Slow)
        assert main(["teach", str(explored.root), "--out", str(out), *few]) == 0


def test_how_the_source_was_reset_is_no_matter_of_who_is_taught(explored, tmp_path):
    source = RunFolder(shutil.copytree(explored.root, tmp_path / "source"))
    source.change(override(source.config, {"mode": "real_time", "driver.reset": "home"}))
    taught = taught_run(source, RunOptions("pendulum", None, {"home.time": 1.0}, tmp_path / "new"))
    assert taught.config.driver.reset == "home", "by which its bags are read"


@pytest.mark.parametrize("on_robot", [True, False])
def test_what_a_robots_episodes_taught_is_filtered_as_on_the_robot(explored, tmp_path, on_robot):
    source = RunFolder(shutil.copytree(explored.root, tmp_path / "source"))
    if on_robot:
        source.on_robot.touch()
    for name, given in (("new", {}), ("unfiltered", {"safety.filter": False})):
        taught = taught_run(source, RunOptions("pendulum", None, given, tmp_path / name))
        assert taught.config.safety.filter == (on_robot and not given)
        assert not taught.on_robot.exists(), "no robot plays it"


def test_a_device_or_key_that_is_not_there_is_refused_before_the_learning(explored, tmp_path):
    out = tmp_path / "new"
    for wrong in (["--device", "cuda"], ["--set", f"control.signing_key={tmp_path / 'none'}"]):
        assert main(["teach", str(explored.root), "--out", str(out), *wrong]) in (1, 2)
        assert not out.exists()


def test_interrupted_attempts_are_taught_from_too(explored, tmp_path):
    source = RunFolder(shutil.copytree(explored.root, tmp_path / "source"))
    shutil.copytree(source.bag(0), source.next_unfinished_name(1))
    taught = taught_run(source, RunOptions("pendulum", None, {}, tmp_path / "new"))
    assert [path.name for path in taught.interrupted(1)] == ["episode_001_interrupted_1"]


def test_a_run_without_episodes_teaches_nothing(tmp_path, capsys):
    RunFolder.create(tmp_path / "run", tiny_config())
    assert main(["teach", str(tmp_path / "run"), "--out", str(tmp_path / "new")]) == 1
    assert "no finished episode" in capsys.readouterr().err
