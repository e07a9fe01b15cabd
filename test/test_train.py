"""Whole runs in one process, and `hucrl train`."""

import json
import math
import re
import shutil

import numpy as np
import pytest
import yaml
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.manifest import MANIFEST, dump_manifest, read_manifest
from hucrl_ros.controller.ticks import Source
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import TickStatistics, read_summary, write_summary
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.usefixtures("short_episodes")


def trained(root, **changes):
    """A finished run and what it reported."""
    config, reported = tiny_config(**changes), []
    run = RunFolder.create(root, config)
    summary = train(config, run, reported.append)
    return run, summary, reported


def outcome(summary):
    """What a run's seed decides."""
    return [(e.return_, e.predicted_return, e.complexity) for e in summary.episodes]


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


def test_each_episode_says_how_it_was_played_and_learned_from(one_run):
    run, _, _ = one_run
    first, second = json.loads(run.summary.read_text())["episodes"]
    for index, episode in enumerate((first, second)):
        assert episode["bag"] == f"episodes/episode_{index:03d}"
        assert (episode["clamps"], episode["fallbacks"]) == (0, 0)
        assert episode["tick_ms"]["p50"] <= episode["tick_ms"]["max"]
        assert episode["fit_s"] > 0.0
        assert episode["search_s"] > 0.0
    assert first["promised_return"] is None  # it plays random torques
    assert second["promised_return"] == read_manifest(run.bundle(1)).report.predicted_return


def test_each_episode_is_played_with_its_own_bundle(one_run):
    run, summary, _ = one_run
    for episode in summary.episodes:
        manifest = load_bundle(run.root / episode.bundle).manifest
        assert manifest.episode == episode.index
        assert manifest.random == (episode.index == 0)


def test_bags_hold_what_robot_and_task_did(one_run):
    run, summary, _ = one_run
    task = make_task("pendulum", 0.2)
    for index, source in enumerate((Source.RANDOM, Source.PLANNED)):
        played = read_episode(run.bag(index), task.spec, task.steps)
        assert played.states.shape == (STEPS + 1, 2)
        assert played.states[0].tolist() == [math.pi, 0.0]
        assert np.abs(played.actions).max() <= 1.0
        assert played.contiguous.all()
        assert played.events == []
        assert set(played.ticks["source"]) == {source}
        np.testing.assert_array_equal(played.ticks["action"], played.actions)
        robot = task.robot()
        robot.set_state(played.states[0])
        for k in range(STEPS):
            np.testing.assert_array_equal(robot.step(played.actions[k]), played.states[k + 1])
        rewards = task.rewards(played.states[:-1], played.actions)
        assert summary.episodes[index].return_ == pytest.approx(float(rewards.sum()))


def test_the_same_seed_gives_the_same_run_summarised_after_every_episode(
    one_run, tmp_path, monkeypatch
):
    run, summary, _ = one_run
    learn_from, summarised = Learner.learn_from, []

    def noting(learner, episodes, progress):
        summarised.append(len(read_summary(learner.run.summary).episodes))
        return learn_from(learner, episodes, progress)

    monkeypatch.setattr(Learner, "learn_from", noting)
    again, same, _ = trained(tmp_path / "same", seed=3)
    assert outcome(same) == outcome(summary)
    for k in (0, 1):
        assert again.checkpoint(k).read_bytes() == run.checkpoint(k).read_bytes()
    assert summarised == [1, 2]


def test_the_seed_decides_what_is_played(one_run, tmp_path):
    _, summary, _ = one_run
    _, other, _ = trained(tmp_path / "other", seed=4)
    assert other.episodes[0].return_ != summary.episodes[0].return_


class Stop(BaseException):
    """Stops a training in a test."""


@pytest.mark.parametrize(
    ("owner", "name", "last_call", "left", "finished"),
    [
        (ControlLoop, "answer", STEPS + 8, "episode_001_interrupted_1", 1),
        (Learner, "learn_from", 2, "episode_001", 2),
    ],
    ids=["while it plays", "while it learns"],
)
def test_a_stopped_run_goes_on_to_the_same_end(
    owner, name, last_call, left, finished, one_run, tmp_path, monkeypatch
):
    expected, summary, _ = one_run
    run = RunFolder.create(tmp_path / "run", tiny_config(seed=3))
    done, calls = getattr(owner, name), []

    def stopping(*arguments):
        calls.append(arguments)
        if len(calls) == last_call:
            raise Stop
        return done(*arguments)

    with monkeypatch.context() as patch, pytest.raises(Stop):
        patch.setattr(owner, name, stopping)
        train(run.config, run)
    assert left in {path.name for path in run.episodes.iterdir()}
    assert run.finished_episodes() == finished

    reported = []
    resumed = train(run.config, run, reported.append)
    assert outcome(resumed) == outcome(summary)
    assert list(resumed.episodes) == reported
    assert run.checkpoint(1).read_bytes() == expected.checkpoint(1).read_bytes()
    assert train(run.config, run).episodes == resumed.episodes  # nothing is left to do


@pytest.mark.parametrize("later", ["episodes/episode_001", "bundles/bundle_001"])
def test_a_run_that_lost_an_episode_is_refused_by_its_name(one_run, tmp_path, later):
    run = RunFolder(tmp_path / "run")
    shutil.copytree(one_run[0].root, run.root)
    shutil.rmtree(run.bag(0))
    for path in (run.bag(1), run.bundle(1), run.bundle(2)):
        if path != run.root / later:
            shutil.rmtree(path)
    name = later.partition("/")[2]
    with pytest.raises(RunError, match=f"episode_000: .* but {name} came after it"):
        train(run.config, run)
    assert (run.root / later).is_dir()


def test_two_processes_do_not_train_one_run(tmp_path):
    run = RunFolder.create(tmp_path / "run", tiny_config())
    with run.locked(), pytest.raises(RunError, match="is playing this run"):
        train(run.config, run)


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
    assert "INFO bundle 2: judged" in (run.logs / "train.log").read_text()
    summary, config = read_summary(run.summary), run.config
    assert (config.strategy, config.seed, config.action_penalty) == ("greedy", 5, 0.1)
    assert (config.search.iterations, config.model.heads, config.search.pool) == (1, 1, 8)
    for episode, row in zip(summary.episodes, rows[:2], strict=True):
        assert len(row) == len(heading)
        assert row.split()[:2] == [str(episode.index), f"{episode.return_:.1f}"]
    places = {"bags": "episodes", "bundles": "bundles", "summary": "summary.json"}
    assert rows[2:-1] == [f"{name:<8} {folder}/{place}" for name, place in places.items()]
    best = max(summary.episodes, key=lambda episode: episode.return_)
    optimum = make_task("pendulum", 0.1).optimum
    possible = f"{best.return_:.1f} of {optimum:g} possible"
    player = f"{folder}/bundles/bundle_{best.index:03d}" if best.index else "random efforts"
    assert rows[-1] == f"best return {possible}, in episode {best.index}, by {player}"
    slow = TickStatistics(p50=7.0, p99=8.0, p999=8.0, max=9.0)  # of 12.5 ms
    last = summary.episodes[-1].model_copy(update={"tick_ms": slow, "return_": 10.0})
    most = {"filtered": {"wall": last.steps // 2, "floor": 1}}
    last = last.model_copy(update=most)
    lucky = summary.episodes[0].model_copy(update={"return_": 20.0, **most})
    write_summary(run.summary, summary.model_copy(update={"episodes": (lucky, last)}))
    manifest = read_manifest(run.bundle(1))
    report = manifest.report.model_copy(update={"judged_return": 15.0})
    told = dump_manifest(manifest.model_copy(update={"report": report}))
    (run.bundle(1) / MANIFEST).write_text(told)
    assert main(["train", "pendulum", "--out", folder, "--resume", "--no-figures"]) == 0
    rows = capsys.readouterr().out.splitlines()
    (said,) = [row for row in rows if row.startswith("ticks")]
    (steady,) = [row for row in rows if row.startswith("steady")]
    (held,) = [row for row in rows if row.startswith("filter")]
    assert f"{last.steps // 2 + 1} of {last.steps} actions of episode 1" in held
    assert f"{folder}/bundles/bundle_001, which earned 10.0 on average, and 15.0" in steady
    assert rows[-1].endswith("in episode 0, by random efforts")
    assert not any(row.startswith("newest") for row in rows)
    assert "7.0 ms of the period's 12.5 ms" in said
    assert f"hucrl tune {folder}/bundles/bundle_002 --headroom 0.5" in said


def test_where_nobody_judges_the_newest_bundle_is_named(tiny_file, tmp_path, capsys):
    words = ["train", "pendulum", "--config", str(tiny_file), "--no-figures", "--episodes", "1"]
    words += ["--set", "exploration.validation_episodes=0", "--out", str(tmp_path / "a run")]
    assert main(words) == 0
    rows = capsys.readouterr().out.splitlines()
    assert f"newest   {tmp_path}/a run/bundles/bundle_001, which has learned" in rows[-2]
    assert f"`hucrl teach '{tmp_path}/a run' --out DIR`" in rows[-2]  # can be pasted


def test_auto_is_said_at_the_start_kept_and_taken_again(tiny_file, tmp_path, caplog):
    run = RunFolder(tmp_path / "run")
    words = ["train", "pendulum", "--out", str(run.root), "--no-figures"]
    chosen = ["--set", "model.kind=auto", "--set", "model.features=8"]
    assert main([*words, "--config", str(tiny_file), "--episodes", "1", *chosen]) == 0
    assert main([*words, "--episodes", "2", "--resume"]) == 0
    assert caplog.messages.count("model.kind = auto: rff, for 2 entries of the state") == 2
    assert run.config.model.kind == "auto"
    assert [read_manifest(run.bundle(index)).model for index in range(3)] == ["rff"] * 3


def test_a_run_that_lies_there_is_kept(tmp_path, capsys):
    run = RunFolder.create(tmp_path / "run", tiny_config())
    before = run.config_path.read_bytes()
    assert main(["train", "pendulum", "--out", str(run.root)]) == 1
    error = capsys.readouterr().err
    assert error == (
        f"hucrl train: {run.root}: a run lies there already; `hucrl up` and `hucrl train` "
        "continue it with --resume; or take another --out DIR\n"
    )
    assert run.config_path.read_bytes() == before


def test_a_finished_run_is_left_as_it_is(one_run, capsys):
    run, _, _ = one_run
    before = run.summary.read_bytes()
    words = ["train", "pendulum", "--out", str(run.root), "--resume", "--no-figures"]
    assert main(words) == 0
    assert f"{run.root}: finished already" in capsys.readouterr().out
    assert run.summary.read_bytes() == before


def test_a_robots_run_does_not_go_on_in_simulation(one_run, tmp_path, capsys):
    run = RunFolder(tmp_path / "run")
    shutil.copytree(one_run[0].root, run.root)
    run.on_robot.touch()
    words = ["train", "pendulum", "--out", str(run.root), "--resume", "--episodes", "3"]
    assert main(words) == 1
    assert "was played on a robot; go on with `hucrl up --no-sim" in capsys.readouterr().err
    assert run.finished_episodes() == 2


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


@pytest.mark.parametrize("option", ["--real-time", "--lockstep"])
def test_options_that_mean_nothing_without_ros_are_refused(option, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "pendulum", option]) == 2
    assert f"No such option: {option}" in capsys.readouterr().err
