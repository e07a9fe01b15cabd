"""`hucrl up` with real processes and real DDS: it learns, and survives what can happen."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from bag_messages import actions_so_far
from fabricated_run import play_random, record
from quick_run import Up, quick_arguments
from waiting import PATIENCE, wait_until

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.asked import RunOptions, parse_setting
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.summary import episode_return, read_summary
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros


def learned_run(root, **changes) -> RunFolder:
    """A run that has its first bundle and no episode yet."""
    arguments = quick_arguments(**changes)[1::2]
    overrides = dict(parse_setting(text) for text in arguments)
    run = prepare_run(RunOptions("pendulum", overrides=overrides, out=root))
    Learner(run.config, run).export_initial()
    return run


@pytest.fixture(scope="module")
def fresh_run(tmp_path_factory):
    """Copies of a run in real time whose first bundle exists, which makes a start quicker."""
    base = learned_run(tmp_path_factory.mktemp("base") / "run", episodes=2, mode="real_time")

    def copy(folder):
        shutil.copytree(base.root, folder)
        return folder

    return copy


def up(*arguments, out):
    return Up("pendulum", "--no-figures", *arguments, out=out)


def assert_all_gone(process):
    wait_until(lambda: process.remaining() == [])
    assert "Traceback" not in process.logs
    assert "Traceback" not in process.stderr


def assert_returns_are_those_of_the_bags(run):
    config, summary = run.config, read_summary(run.summary)
    task = make_task(config.task, config.action_penalty)
    for episode in summary.episodes:
        recorded = read_episode(run.root / episode.bag, task.spec, task.steps)
        assert episode.steps == len(recorded.actions) == task.steps
        assert episode.return_ == pytest.approx(episode_return(recorded, task), abs=1e-9)
        assert load_bundle(run.root / episode.bundle, task.spec).manifest.episode == episode.index


def test_a_whole_run_learns_and_leaves_everything_in_its_folder(tmp_path):
    arguments = [*quick_arguments(), "--episodes", "2", "--lockstep", "--seed", "3"]
    with up(*arguments, out=tmp_path / "run") as process:
        assert process.end() == 0, process.stderr
        assert_all_gone(process)
    run = process.run
    summary = read_summary(run.summary)
    assert (summary.mode, summary.seed, summary.optimum) == ("lockstep", 3, 278.5)
    assert [episode.index for episode in summary.episodes] == [0, 1]
    assert summary.best_return == max(episode.return_ for episode in summary.episodes)
    assert summary.events == ()
    assert 0 < summary.wall_s < PATIENCE
    assert summary.cpu_s > 1
    assert_returns_are_those_of_the_bags(run)
    first, second = summary.episodes
    assert first.predicted_return is None
    promised = read_manifest(run.bundle(1)).report.predicted_return
    assert second.predicted_return == promised is not None
    for episode in summary.episodes:
        assert episode.tick_ms.p50 <= episode.tick_ms.p99 <= episode.tick_ms.max
        assert (episode.fallbacks, episode.clamps) == (0, 0)
        assert episode.fit_s > 0
        assert episode.search_s > 0
    assert read_manifest(run.bundle(2)).episode == 2
    last_line = process.stdout.splitlines()[-1]
    assert last_line.startswith(f"best return {summary.best_return:.1f} of 278.5 possible")
    names = ("simulator", "controller", "recorder", "learner", "supervisor", "watchdog")
    assert {path.name for path in run.logs.iterdir()} == {f"{name}.log" for name in names}
    check_that_a_finished_run_says_so(run)


def check_that_a_finished_run_says_so(run):
    with up("--resume", out=run.root) as process:
        assert process.end() == 0, process.stderr
    assert "finished already" in process.stdout
    assert "ROS_DOMAIN_ID" not in process.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (
            ["--config", "{typo}"],
            "typo.yaml: unknown key 'planner.horizn'; did you mean 'horizon'",
        ),
        (["--set", "planner.horizn=3"], "unknown key 'planner.horizn'; did you mean 'horizon'"),
        (["--episodes", "0"], "episodes = 0"),
        (["--config", "{missing}"], "missing.yaml: No such file"),
        (["--resume"], "no config.yaml"),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(tmp_path, capsys, arguments, named):
    typo = tmp_path / "typo.yaml"
    typo.write_text("/**: {ros__parameters: {planner: {horizn: 3}}}\n")
    paths = {"typo": typo, "missing": tmp_path / "missing.yaml"}
    arguments = [text.format(**paths) for text in arguments]
    code = main(["up", "pendulum", *arguments, "--out", str(tmp_path / "run")])
    error = capsys.readouterr().err
    assert code == (1 if arguments == ["--resume"] else 2)
    assert error.startswith("hucrl up: ")
    assert named in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_changed_setting_is_refused_when_a_run_is_resumed(fresh_run, tmp_path, capsys):
    folder = fresh_run(tmp_path / "run")
    before = (folder / "config.yaml").read_text()
    assert main(["up", "pendulum", "--out", str(folder), "--resume", "--seed", "9"]) == 2
    error = capsys.readouterr().err
    assert "seed = 9" in error
    assert "has 0" in error
    assert error.count("\n") == 1
    assert (folder / "config.yaml").read_text() == before


def test_a_killed_controller_is_reported_with_the_watchdogs_answer(fresh_run, tmp_path):
    with up("--resume", out=fresh_run(tmp_path / "run")) as process:
        process.wait_for_line(": running")
        task, bag = make_task("pendulum", 0.2), process.run.bag(0)
        wait_until(lambda: actions_so_far(bag, task.spec, task.steps) > 20)
        process.node("controller").kill()
        assert process.end() == 1
        assert_all_gone(process)
    run = process.run
    (event,) = read_summary(run.summary).events
    assert event.startswith("episode 0, step ")
    assert 0 < int(event.split()[3].rstrip(":")) < 400
    assert "controller was killed by signal 9 (SIGKILL)" in event
    assert "the watchdog sent the safe command" in event
    command = f"hucrl up pendulum --out {run.root.name} --resume"
    assert process.stderr == f"hucrl up: {event}; continue with: {command}\n"
    assert run.finished_episodes() == 0
    interrupted = run.episodes / "episode_000_interrupted_1"
    bag = read_episode(interrupted, task.spec, task.steps)
    assert bag.interrupted
    assert len(bag.actions) > 10


@pytest.mark.slow
def test_an_interrupted_run_continues_with_the_same_episode(fresh_run, tmp_path):
    with up("--resume", out=fresh_run(tmp_path / "run")) as process:
        process.wait_for_line(": running")
        process.node("controller").kill()
        assert process.end() == 1
    run = process.run
    assert [path.name for path in run.episodes.iterdir()] == ["episode_000_interrupted_1"]
    with up("--resume", out=run.root) as process:
        process.wait_for_line("episode 0: return")
        process.signal(signal.SIGINT)
        assert process.end() == 130
    assert run.finished_episodes() == 1
    assert (run.episodes / "episode_000_interrupted_1").is_dir()
    summary = read_summary(run.summary)
    assert "controller was killed" in summary.events[0]
    assert "stopped on request" in summary.events[-1]
    assert_returns_are_those_of_the_bags(run)


@pytest.mark.parametrize(
    "phase",
    [*(pytest.param(k, marks=pytest.mark.slow) for k in ("waiting", "resetting")), "running"],
)
def test_ctrl_c_ends_everything_at_once(fresh_run, tmp_path, phase):
    with up("--resume", out=fresh_run(tmp_path / "run")) as process:
        process.wait_for_line(phase)
        process.signal(signal.SIGINT)
        assert process.end() == 130
        assert_all_gone(process)
        assert process.stderr == ""
    assert process.run.finished_episodes() == 0


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.4, 0.8, 1.2])
def test_ctrl_c_at_the_very_start_leaves_nothing(fresh_run, tmp_path, delay):
    with up("--resume", out=fresh_run(tmp_path / "run")) as process:
        process.wait_for_line("ROS_DOMAIN_ID")
        time.sleep(delay)
        process.signal(signal.SIGINT)
        assert process.end() == 130
        assert_all_gone(process)


@pytest.mark.slow
def test_a_learner_killed_in_mid_fit_learns_the_same_after_resume(tmp_path):
    arguments = [*quick_arguments(model__fit_steps=3000), "--episodes", "1", "--lockstep"]
    with up(*arguments, out=tmp_path / "run") as process:
        process.wait_for_line("fitting")
        process.node("learner").kill()
        assert process.end() == 1
        assert_all_gone(process)
    run = process.run
    (event,) = read_summary(run.summary).events
    assert event == "learning from episode 0: learner was killed by signal 9 (SIGKILL)"
    assert process.stderr.startswith(f"hucrl up: {event}; continue with: hucrl up pendulum")
    assert run.finished_episodes() == 1
    assert not run.bundle(1).exists()
    with up("--resume", out=run.root) as process:
        assert process.end() == 0, process.stderr
    other = RunFolder(tmp_path / "uninterrupted")
    shutil.copytree(run.root, other.root, ignore=shutil.ignore_patterns("bundle_*", "*.safetens*"))
    Learner(other.config, other).learn(lambda phase, share: None)
    resumed, uninterrupted = read_manifest(run.bundle(1)), read_manifest(other.bundle(1))
    assert resumed.data_hash == uninterrupted.data_hash
    assert resumed.files == uninterrupted.files
    assert read_summary(run.summary).episodes[0].fit_s > 0


@pytest.mark.slow
def test_a_run_begins_with_another_one_and_goes_on_without_it(tmp_path):
    source = learned_run(tmp_path / "source", episodes=1)
    record(source.bag(0), *play_random(np.random.default_rng(0)), np.ones(400))
    Learner(source.config, source).learn(lambda phase, share: None)
    arguments = [*quick_arguments(), "--episodes", "1", "--lockstep"]
    with up(*arguments, "--from", str(source.root), out=tmp_path / "run") as process:
        process.wait_for_line(": running")
        shutil.rmtree(source.root)
        process.signal(signal.SIGINT)
        process.end()
        assert_all_gone(process)
    run = process.run
    assert not read_manifest(run.bundle(0)).random
    assert not run.bundle(1).exists()
    with up("--resume", out=run.root) as process:
        assert process.end() == 0, process.stderr
    assert_returns_are_those_of_the_bags(run)
    assert read_manifest(run.bundle(1)).report.surprise is not None


@pytest.mark.slow
def test_two_runs_at_once_do_not_disturb_each_other(tmp_path):
    arguments = [*quick_arguments(), "--episodes", "2", "--lockstep"]
    with (
        up(*arguments, out=tmp_path / "one") as one,
        up(*arguments, out=tmp_path / "two") as two,
    ):
        assert (one.end(), two.end()) == (0, 0), one.stderr + two.stderr
    first_lines = {process.stdout.splitlines()[0].split("=")[1] for process in (one, two)}
    assert len(first_lines) == 2
    for process in (one, two):
        assert_returns_are_those_of_the_bags(process.run)
    # In lockstep nothing depends on time, so the same seed gives the same run.
    returns = [
        [episode.return_ for episode in read_summary(process.run.summary).episodes]
        for process in (one, two)
    ]
    assert returns[0] == returns[1]


@pytest.mark.slow
def test_a_run_cannot_be_played_twice_at_the_same_time(fresh_run, tmp_path):
    folder = fresh_run(tmp_path / "run")
    with up("--resume", out=folder) as one:
        one.wait_for_line("running")
        with up("--resume", out=folder) as other:
            assert other.end() == 1
        assert other.stderr == f"hucrl up: {folder}: process {one.pid} is playing this run\n"
        one.wait_for_line("episode 0: return")
        one.signal(signal.SIGINT)
        assert one.end() == 130


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simulator", "recorder", "watchdog", "supervisor"])
def test_any_node_that_dies_ends_the_run_with_one_line_that_names_it(fresh_run, tmp_path, name):
    with up("--resume", out=fresh_run(tmp_path / "run")) as process:
        process.wait_for_line(": running")
        process.node(name).kill()
        assert process.end() == 1
        assert_all_gone(process)
    (event,) = read_summary(process.run.summary).events
    assert f"{name} was killed by signal 9 (SIGKILL)" in event
    assert process.stderr.count("\n") == 1
    assert event in process.stderr
    assert process.run.finished_episodes() == 0


@pytest.mark.slow
def test_nodes_stop_safely_when_hucrl_up_itself_is_killed(fresh_run, tmp_path):
    with up("--resume", out=fresh_run(tmp_path / "run")) as process:
        process.wait_for_line(": running")
        process.signal(signal.SIGKILL)
        process.end()
        wait_until(lambda: not process.remaining())
    assert (process.run.episodes / "episode_000_interrupted_1" / "metadata.yaml").is_file()


@pytest.mark.slow
def test_a_damaged_bundle_ends_the_run_with_one_line(fresh_run, tmp_path):
    folder = fresh_run(tmp_path / "run")
    policy = folder / "bundles" / "bundle_000" / "policy.onnx"
    policy.write_bytes(policy.read_bytes()[:-1] + b"\0")
    with up("--resume", out=folder) as process:
        assert process.end() == 1
        assert_all_gone(process)
    assert "controller: " in process.stderr
    assert "policy.onnx" in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_ctrl_c_in_mid_fit_ends_everything_at_once(tmp_path):
    arguments = [*quick_arguments(model__fit_steps=10**6), "--episodes", "1", "--lockstep"]
    with up(*arguments, out=tmp_path / "run") as process:
        process.wait_for_line("fitting")
        process.signal(signal.SIGINT)
        assert process.end() == 130
        assert_all_gone(process)
    assert process.run.finished_episodes() == 1
    assert read_summary(process.run.summary).events == (
        "learning from episode 0: stopped on request",
    )


@pytest.mark.slow
def test_a_damaged_bag_ends_a_resumed_run_with_one_line(fresh_run, tmp_path):
    folder = fresh_run(tmp_path / "run")
    record(RunFolder(folder).bag(0), *play_random(np.random.default_rng(0)), np.ones(400))
    (mcap,) = RunFolder(folder).bag(0).glob("*.mcap")
    data = bytearray(mcap.read_bytes())
    data[len(data) // 2] ^= 0xFF
    mcap.write_bytes(data)
    with up("--resume", out=folder) as process:
        assert process.end() == 1
        assert_all_gone(process)
    assert "episode_000" in process.stderr
    assert "damaged" in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_terminal_gets_a_live_view_and_its_cursor_back(fresh_run, tmp_path):
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "hucrl_ros", "up", "pendulum", "--resume", "--no-figures"]
    process = subprocess.Popen(
        [*command, "--out", str(fresh_run(tmp_path / "run"))],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(follower)
    try:
        seen = read_terminal(leader, lambda text: b"running" in text)
        process.send_signal(signal.SIGINT)
        seen += read_terminal(leader, lambda text: process.poll() is not None)
    finally:
        process.terminate()
        os.close(leader)
    assert process.wait(PATIENCE) == 130
    text = seen.decode()
    for shown in ("return", "predicted", "error", "p50 ms", "p99 ms", "misses", "step", "stopped"):
        assert shown in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def read_terminal(leader, enough):
    seen, deadline = b"", time.monotonic() + PATIENCE
    while not enough(seen):
        assert time.monotonic() < deadline, seen
        if select.select([leader], [], [], 0.2)[0]:
            try:
                seen += os.read(leader, 65536)
            except OSError:  # Everybody at the other end has closed it.
                break
    return seen
