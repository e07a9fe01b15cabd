"""A robot of one's own in the place of our simulator, under its own names of topics."""

import os
import subprocess
import sys

import numpy as np
import pytest
from fabricated_run import fabricate_run
from interfaces import described
from own_robots import ARM, changed, write
from quick_run import SETTINGS, Up, quick_arguments
from waiting import wait_until

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.messages import deserialize
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.session import node_environment, resume_command
from hucrl_ros.run.summary import read_summary
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.ros
STEPS = 25
TOPICS = {
    "joint_states": "/arm/joint_states",
    "commands": "/arm/efforts",
    "goal": "/camera/goal",
}


def test_it_learns_through_its_own_topics(tmp_path):
    path = write(tmp_path / "source", changed(ARM, steps=STEPS, topics=TOPICS))
    out = tmp_path / "run"
    overrides = {**SETTINGS, "mode": "real_time", "episodes": 2}
    run = prepare_run(RunOptions(str(path), overrides=overrides, out=out, on_robot=True))
    domain = 90 - int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    command = [sys.executable, "-m", "hucrl_ros.nodes.simulator", "--ros-args"]
    command += ["--params-file", str(run.config_path), "-p", f"run:={run.root}"]
    for own, topic in (("joint_states", 0), ("controller/commands", 1), ("goal", 2)):
        command += ["-r", f"{own}:={list(TOPICS.values())[topic]}"]
    # It is the test's child, which our parent watch must not take for an orphan.
    environment = node_environment(run, domain)
    with (tmp_path / "robot.log").open("w") as log:
        robot = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        wait_until(lambda: "s a period" in (tmp_path / "robot.log").read_text())
        words = [str(path), "--no-figures", "--no-simulator", "--resume"]
        with Up(*words, out=out, environment={"ROS_DOMAIN_ID": str(domain)}) as process:
            assert process.end() == 0, process.stderr + (tmp_path / "robot.log").read_text()
    finally:
        robot.terminate()
        robot.wait(timeout=20)
    summary = read_summary(run.summary)
    assert (summary.task, summary.mode) == ("mine", "real_time")
    task = make_task(summary.task, summary.action_penalty, run.robot)
    for episode in summary.episodes:
        recorded = read_episode(run.root / episode.bag, task.spec, task.steps, run.config)
        assert len(recorded.actions) == episode.steps
        assert episode.steps > STEPS // 2
        goals = recorded.states[:, 4:]
        assert (goals == goals[0]).all()
        assert goals[0].any()
    assert not (run.logs / "simulator.log").exists()
    assert run.on_robot.exists()
    assert resume_command(run).endswith("--resume --no-simulator")
    wait_until(lambda: process.remaining() == [])


@pytest.mark.parametrize("on_robot", [True, False], ids=["on a robot", "in simulation"])
def test_episodes_of_a_robot_and_of_a_simulator_do_not_mix(on_robot, tmp_path, capsys):
    run = fabricate_run(tmp_path / "run", mode="real_time", episodes=9)
    if on_robot:
        run.on_robot.touch()
    words = ["up", "pendulum", "--out", str(run.root), "--resume"]
    assert main([*words, *([] if on_robot else ["--no-simulator"])]) == 1
    error = capsys.readouterr().err
    assert f"was played {'on a robot; go on' if on_robot else 'in simulation; leave out'}" in error
    assert run.on_robot.exists() == on_robot


def test_a_robot_that_nothing_limits_is_refused_before_anything_is_made(tmp_path, capsys):
    assert main(["up", "pendulum", "--no-simulator", "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "nothing does" in error and "safety.velocity_limits=[...]" in error
    assert not (tmp_path / "run").exists()


def test_lockstep_without_a_simulator_is_refused(tmp_path, capsys):
    assert main(["up", "pendulum", "--no-simulator", "--lockstep"]) == 2
    assert "--no-simulator: a robot doesn't wait" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        pytest.param("velocity", (), marks=pytest.mark.slow),
        pytest.param("position", (), marks=pytest.mark.slow),
        ("position", ("--real-time",)),
    ],
)
def test_velocities_and_positions_are_played_by_nodes(command, words, tmp_path):
    """What the bag says acted is what the robot's physics makes of it, and nothing is refused."""
    path = write(tmp_path, changed(described(tmp_path, command), steps=STEPS))
    out = tmp_path / "run"
    arguments = [str(path), *quick_arguments(), "--no-figures", "--episodes", "2", *words]
    with Up(*arguments, out=out) as process:
        assert process.end() == 0, process.stderr + process.logs
    run = RunFolder.open(out)
    task = make_task(run.config.task, 0.0, run.robot)
    assert "refused" not in (run.logs / "simulator.log").read_text()
    robot = task.robot()
    for index in (0, 1):
        episode = read_episode(run.bag(index), task.spec, STEPS, run.config)
        off, moved = [], []
        for k in np.flatnonzero(episode.contiguous):
            state = episode.states[k]
            robot.set_state(state)
            off.append(robot.step(episode.actions[k]) - episode.states[k + 1])
            robot.set_state(state)
            moved.append(robot.step(np.zeros(task.spec.action_dim)) - episode.states[k + 1])
        # In real time two commands act in a period, for which their mean stands; the later the
        # machine is, the worse.
        share = 0.5 if words else 1e-3
        assert np.median(np.abs(off)) <= share * np.median(np.abs(moved)) + 1e-9
    commands = [m for m in read_contents(run.bag(1)).messages if m.is_of("controller/commands")]
    last = np.array(deserialize(commands[-1].data, commands[-1].type).data)
    places = episode.states[-1][: len(last)]
    aim = places if command == "position" else np.zeros(len(last))
    np.testing.assert_allclose(last, aim, atol=0.1 if words else 1e-9)
