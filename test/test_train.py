"""Whole runs in one process, and `hucrl train`."""

import json
import math
import re

import numpy as np
import pytest
import yaml
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.cli import main
from hucrl_ros.experiments.train import play, train
from hucrl_ros.learner import Learner
from hucrl_ros.runs import RunFolder
from hucrl_ros.runtime.bundle import load_bundle
from hucrl_ros.runtime.manifest import read_manifest
from hucrl_ros.summary import read_summary
from hucrl_ros.tasks import make_task

pytestmark = [pytest.mark.usefixtures("short_episodes"), pytest.mark.timeout(300)]


def trained(root, **changes):
    """A finished run and what it reported."""
    config, reported = tiny_config(**changes), []
    run = RunFolder.create(root, config)
    summary = train(config, run, reported.append)
    return run, summary, reported


@pytest.fixture(scope="module")
def one_run(tmp_path_factory, short_episodes):  # noqa: F811
    return trained(tmp_path_factory.mktemp("train") / "run", seed=3)


def test_a_run_leaves_a_summary_of_all_its_episodes(one_run):
    run, summary, reported = one_run
    assert read_summary(run.summary) == summary
    assert list(summary.episodes) == reported
    assert (summary.mode, summary.seed) == ("in_process", 3)
    assert summary.optimum == make_task("pendulum", 0.2).optimum
    assert summary.best_return == max(episode.return_ for episode in summary.episodes)
    assert [episode.index for episode in summary.episodes] == [0, 1]
    assert all(episode.steps == STEPS for episode in summary.episodes)
    assert summary.cpu_s > 0.0
    assert summary.wall_s > 0.0


def test_fields_of_ros_are_null_and_the_others_are_not(one_run):
    run, _, _ = one_run
    first, second = json.loads(run.summary.read_text())["episodes"]
    for episode in (first, second):
        assert episode["bag"] is None
        assert episode["misses"] is None
        assert (episode["clamps"], episode["fallbacks"]) == (0, 0)
        assert episode["tick_ms"]["p50"] <= episode["tick_ms"]["max"]
        assert episode["fit_s"] > 0.0
        assert episode["search_s"] > 0.0
    assert first["promised_return"] is None  # it plays random torques
    assert second["promised_return"] == read_manifest(run.bundle(1)).report.promised_return


def test_each_episode_is_played_with_its_own_bundle(one_run):
    run, summary, _ = one_run
    for episode in summary.episodes:
        manifest = load_bundle(run.root / episode.bundle).manifest
        assert manifest.episode == episode.index
        assert manifest.random == (episode.index == 0)


def test_played_states_and_return_are_those_of_robot_and_task(one_run):
    run, summary, _ = one_run
    config, task = run.config, make_task("pendulum", 0.2)
    played, episode = play(task, config, run, 0)
    assert episode.return_ == summary.episodes[0].return_
    assert played.states.shape == (STEPS + 1, 2)
    assert np.abs(played.actions).max() <= 1.0
    assert played.states[0].tolist() == [math.pi, 0.0]
    robot = task.robot()
    robot.set_state(played.states[0])
    for k in range(STEPS):
        np.testing.assert_array_equal(robot.step(played.actions[k]), played.states[k + 1])
    rewards = task.rewards(played.states[:-1], played.actions)
    assert episode.return_ == pytest.approx(float(rewards.sum()))


def test_the_same_seed_gives_the_same_run_summarised_after_every_episode(
    one_run, tmp_path, monkeypatch
):
    run, summary, _ = one_run
    learn_from, summarised = Learner.learn_from, []

    def noting(learner, episodes, progress):
        path = learner.run.summary
        summarised.append(len(read_summary(path).episodes) if path.exists() else 0)
        return learn_from(learner, episodes, progress)

    monkeypatch.setattr(Learner, "learn_from", noting)
    again, same, _ = trained(tmp_path / "same", seed=3)
    for one, other in zip(summary.episodes, same.episodes, strict=True):
        assert (other.return_, other.promised_return) == (one.return_, one.promised_return)
    for k in (0, 1):
        assert again.checkpoint(k).read_bytes() == run.checkpoint(k).read_bytes()
    assert summarised == [0, 1]


@pytest.mark.parametrize("index", [0, 1])
def test_the_seed_decides_what_is_played(one_run, index):
    run, summary, _ = one_run
    task, played = make_task("pendulum", 0.2), []
    for seed in (3, 3, 4):
        config = run.config.model_copy(update={"seed": seed})
        recorded, episode = play(task, config, run, index)
        played.append(recorded.actions)
        assert seed != 3 or episode.return_ == summary.episodes[index].return_
    assert np.array_equal(played[0], played[1])
    assert not np.array_equal(played[0], played[2])


# hucrl train


@pytest.fixture
def tiny_file(tmp_path):
    """The tiny settings as a file."""
    path = tmp_path / "tiny.yaml"
    values = tiny_config().model_dump(mode="json", include={"model", "search", "planner"})
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
    return path


def test_the_command_trains_and_says_what_came_out(tiny_file, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--strategy", "greedy", "--seed", "5", "--action-penalty", "0.1", "--no-figures"]
    sets = ["--set", "search.iterations=1", "--set", "model.heads=1"]
    code = main(
        ["train", "pendulum", "--config", str(tiny_file), "--episodes", "2", *options, *sets]
    )
    assert code == 0
    folder, heading, *rows = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"runs/train-pendulum-greedy-\d{8}-\d{6}", folder)
    run = RunFolder.open(tmp_path / folder)
    summary, config = read_summary(run.summary), run.config
    assert (config.strategy, config.seed, config.action_penalty) == ("greedy", 5, 0.1)
    assert (config.search.iterations, config.model.heads, config.search.pool) == (1, 1, 8)
    for episode, row in zip(summary.episodes, rows[:2], strict=True):
        assert len(row) == len(heading)
        assert row.split()[:2] == [str(episode.index), f"{episode.return_:.1f}"]
    assert rows[2:-1] == [f"bundles  {folder}/bundles", f"summary  {folder}/summary.json"]
    best = max(summary.episodes, key=lambda episode: episode.return_)
    optimum = make_task("pendulum", 0.1).optimum
    possible = f"{best.return_:.1f} of {optimum:g} possible"
    assert rows[-1] == f"best return {possible}, in episode {best.index}"


def test_a_run_that_lies_there_is_kept(tmp_path, capsys):
    run = RunFolder.create(tmp_path / "run", tiny_config())
    before = run.config_path.read_bytes()
    assert main(["train", "pendulum", "--out", str(run.root)]) == 1
    error = capsys.readouterr().err
    assert error == f"hucrl train: {run.root}: a run lies there already; choose another folder\n"
    assert run.config_path.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["pendelum"], "task: 'pendelum' is unknown; known tasks: cartpole, half"),
        (["pendulum", "--episodes", "0"], "episodes = 0"),
        (["pendulum", "--seed", "-1"], "seed = -1"),
        (["pendulum", "--set", "model.haeds=3"], "did you mean 'heads'?"),
        (["pendulum", "--set", "model.heads"], "expected KEY=VALUE"),
    ],
)
def test_a_wrong_setting_is_one_line_and_makes_no_folder(
    arguments, problem, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["train", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert problem in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--resume", "--real-time", "--lockstep"])
def test_options_that_mean_nothing_without_ros_are_refused(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        main(["train", "pendulum", option])
    assert caught.value.code == 2
    assert f"unrecognized arguments: {option}" in capsys.readouterr().err
