"""Robot and learner in processes that share no folder and no DDS, over real HTTP."""

import os
import shutil
import signal
import socket
import subprocess
import sys

import pytest
from quick_run import Up, quick_arguments
from remote_pair import files_in, free_port
from slow_network import Network
from test_foreign_driver import driver, robots_domain
from waiting import PATIENCE, wait_until

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.config.files import share_directory
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.summary import episode_return, read_summary
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros
__all__ = ["robots_domain"]


@pytest.fixture
def without_torch(tmp_path):
    """An environment in which nothing can import torch."""
    folder = tmp_path / "no_torch"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['torch'] = None\n")
    path = f"{folder}{os.pathsep}{share_directory()}"
    code = "import importlib.util as u; print(u.find_spec('torch')); import torch"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (1, "None\n")
    return {"PYTHONPATH": path}


class Elsewhere:
    """A `hucrl learner` under test; use it as a context manager."""

    def __init__(self, port, token, out, *words, environment=None):
        self.run = RunFolder(out)
        self.log = out.with_suffix(".log")
        address = f"http://127.0.0.1:{port}"
        given = ["--out", str(out), *(["--token-file", str(token)] if token else [])]
        variables = {k: v for k, v in os.environ.items() if not k.startswith("ROS_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hucrl_ros", "learner", "--robot", address, *given, *words],
                env={**variables, "PYTHONPATH": str(share_directory()), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=out.parent,
            )

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.process.kill()
        self.process.wait()

    @property
    def output(self):
        return self.log.read_text()

    def end(self):
        return self.process.wait(PATIENCE)


def robots_side(port, out, *words, **given):
    arguments = ["pendulum", "--no-figures", "--remote-learner", "--listen", f"127.0.0.1:{port}"]
    return Up(*arguments, *words, out=out, **given)


def token_of(robot):
    robot.wait_for_line("hucrl learner --robot ")
    return robot.run.token


def assert_tidy(run):
    """Nothing half-written is left, and no process had a word to say about an error."""
    assert not run.incoming.is_dir() or not any(p.is_file() for p in run.incoming.rglob("*"))
    names = {path.name for path in run.bundles.iterdir()}
    assert names == {f"bundle_{index:03d}" for index in range(len(names))}
    assert "Traceback" not in "".join(path.read_text() for path in run.logs.glob("*.log"))


def assert_summary_tells_the_bags_returns(run):
    task = make_task("pendulum", run.config.action_penalty)
    for episode in read_summary(run.summary).episodes:
        recorded = read_episode(run.root / episode.bag, task.spec, task.steps, run.config)
        assert episode.return_ == pytest.approx(episode_return(recorded, task), abs=1e-3)


@pytest.mark.slow
def test_a_learner_elsewhere_gives_the_bundles_that_one_here_gives(tmp_path, without_torch):
    words = [*quick_arguments(), "--episodes", "2", "--lockstep", "--seed", "3"]
    port = free_port()
    wrong = tmp_path / "wrong.token"
    wrong.write_text("w" * 32)
    wrong.chmod(0o600)
    with robots_side(port, tmp_path / "robot", *words, environment=without_torch) as robot:
        token = token_of(robot)
        assert token.stat().st_mode & 0o777 == 0o600
        secret = token.read_text().strip()
        wait_until(lambda: answers(port))
        with Elsewhere(port, wrong, tmp_path / "nobody") as nobody:
            assert nobody.end() == 1
        assert nobody.output.splitlines()[-1].endswith("the robot's side has another token")
        assert not nobody.run.config_path.exists()
        with Elsewhere(port, token, tmp_path / "learner") as learner:
            assert robot.end() == 0, robot.stderr + robot.logs
            assert learner.end() == 0, learner.output
        assert learner.output.splitlines()[-1].endswith("finished")
        assert secret not in robot.stdout + robot.stderr + robot.logs + learner.output
    with Up("pendulum", "--no-figures", *words, out=tmp_path / "alone") as alone:
        assert alone.end() == 0, alone.stderr
    for index in range(3):
        remote, local = (read_manifest(u.run.bundle(index)) for u in (robot, alone))
        assert remote.files == local.files
        assert remote.data_hash == local.data_hash
        assert remote.files == read_manifest(learner.run.bundle(index)).files
    for index in range(2):
        theirs, ours = (u.run.checkpoint(index).read_bytes() for u in (robot, alone))
        assert theirs == ours
    assert_tidy(robot.run)
    assert_summary_tells_the_bags_returns(robot.run)


@pytest.mark.slow
def test_what_a_run_begins_with_travels_to_the_learner(tmp_path, without_torch):
    """Bundle 0, learned from another run, and the next one are those that one here learns."""
    words = [*quick_arguments(), "--episodes", "1", "--lockstep"]
    with Up("pendulum", "--no-figures", *words, out=tmp_path / "other") as other:
        assert other.end() == 0, other.stderr
    source = ("--from", str(other.run.root))
    port = free_port()
    with robots_side(
        port, tmp_path / "robot", *words, *source, environment=without_torch
    ) as robot:
        token = token_of(robot)
        with Elsewhere(port, token, tmp_path / "learner") as learner:
            assert robot.end() == 0, robot.stderr + robot.logs
            assert learner.end() == 0, learner.output
    assert files_in(learner.run.prior) == files_in(robot.run.prior)
    with Up("pendulum", "--no-figures", *words, *source, out=tmp_path / "alone") as alone:
        assert alone.end() == 0, alone.stderr
    for index in range(2):
        remote, local = (read_manifest(u.run.bundle(index)) for u in (robot, alone))
        assert remote.files == local.files
        assert not remote.random
        theirs, ours = (u.run.checkpoint(index - 1).read_bytes() for u in (robot, alone))
        assert theirs == ours
    assert_tidy(robot.run)
    assert_summary_tells_the_bags_returns(robot.run)


def answers(port):
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@pytest.mark.slow
def test_whoever_is_killed_the_run_goes_on(tmp_path):
    words = [*quick_arguments(), "--episodes", "2", "--lockstep"]
    port, mirror = free_port(), tmp_path / "learner"
    with (
        Network(port, held=".mcap", after=20_000) as network,
        robots_side(port, tmp_path / "robot", *words) as robot,
    ):
        token = shutil.copy(token_of(robot), tmp_path / "token")
        with Elsewhere(network.port, token, mirror) as learner:
            assert network.is_holding.wait(PATIENCE), "in the middle of the first bag"
            part = learner.run.incoming / "episodes" / "episode_000" / "episode_000.mcap"
            wait_until(lambda: part.is_file() and part.stat().st_size)
            learner.process.send_signal(signal.SIGKILL)
            learner.end()
        had, whole = part.stat().st_size, robot.run.bag(0) / "episode_000.mcap"
        assert 0 < had < whole.stat().st_size
        assert learner.run.finished_episodes() == 0
        robot.wait_for_line("! learning from episode 0: the learner isn't heard since ")
        assert f"hucrl learner --robot http://127.0.0.1:{port}" in robot.stdout.splitlines()[-1]
        network.is_open.set()
        with Elsewhere(network.port, token, mirror) as learner:
            robot.wait_for_line("episode 0: learned")
            robot.wait_for_line("episode 1 (2 of 2): running")
            assert any(f"Range: bytes={had}-" in request for request in network.requests)
            robot.signal(signal.SIGKILL)
            robot.end()
            wait_until(lambda: robot.remaining() == [])
            with robots_side(port, robot.run.root, "--resume") as again:
                assert again.end() == 0, again.stderr
                assert learner.end() == 0, learner.output
    assert "answers again" in learner.output
    assert robot.run.finished_episodes() == 2
    assert_tidy(robot.run)
    assert_summary_tells_the_bags_returns(robot.run)


@pytest.mark.slow
def test_a_robot_without_torch_learns_from_one_that_has_it(tmp_path, robots_domain, without_torch):
    limits = {"safety__velocity_limits": [100.0]}  # the driver's pendulum may turn for ever
    words = [*quick_arguments(**limits), "--episodes", "1", "--no-simulator"]
    port = free_port()
    environment = {**without_torch, "ROS_DOMAIN_ID": os.environ["ROS_DOMAIN_ID"]}
    with (
        driver(rate=500, best_effort=True, effort="none"),
        robots_side(port, tmp_path / "robot", *words, environment=environment) as robot,
    ):
        token = token_of(robot)
        variable = {"HUCRL_TOKEN": token.read_text()}
        with Elsewhere(port, None, tmp_path / "learner", environment=variable) as learner:
            assert robot.end() == 0, robot.stderr + robot.logs
            assert learner.end() == 0, learner.output
    assert robot.run.on_robot.exists()
    assert read_manifest(robot.run.bundle(1)).episode == 1
    assert read_summary(robot.run.summary).episodes[0].fit_s is not None
    assert_tidy(robot.run)


PREPARE = """
import sys
from pathlib import Path
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run
prepare_run(RunOptions(sys.argv[1], out=Path(sys.argv[2]), remote_learner=True))
"""


@pytest.mark.parametrize("name", ["planar_arm", "furuta"])
def test_a_robot_of_ones_own_is_prepared_without_torch_as_with_it(tmp_path, without_torch, name):
    description = str(share_directory() / "config" / "examples" / name / f"{name}.yaml")
    subprocess.run(
        [sys.executable, "-c", PREPARE, description, str(tmp_path / "without")],
        env={**os.environ, **without_torch},
        check=True,
    )
    prepare_run(RunOptions(description, out=tmp_path / "with"))
    expected = files_in(tmp_path / "with")
    assert files_in(tmp_path / "without") == expected
    for path in expected:
        assert (tmp_path / "without" / path).read_bytes() == (
            tmp_path / "with" / path
        ).read_bytes()


def test_a_wrong_word_is_one_line(tmp_path, capsys):
    for words, line in (
        (["up", "pendulum", "--listen", "0.0.0.0:1"], "--listen: nobody is waited for"),
        (["up", "pendulum", "--remote-learner", "--listen", "x"], "expected HOST:PORT"),
        (["learner", "--robot", "http://r:1", "--token-file", "no"], "no: No such file"),
        (["learner"], "--robot"),
    ):
        assert main([*words, "--out", str(tmp_path / "run")]) == 2
        error = capsys.readouterr().err
        assert line in error
        assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()
