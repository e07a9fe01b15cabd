"""Planning on the true dynamics."""

import csv

import numpy as np
import pytest
import torch
from shortened import shorten

from hucrl_ros.cli import main
from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.experiments.oracle import OracleRow, TrueRollouts, append_row, plan_episode
from hucrl_ros.robots import MujocoRobot
from hucrl_ros.tasks import make_task

HORIZON, PARTICLES = 4, 3
SETTINGS = PlannerSettings(algorithm="cem", particles=16, horizon=6, iterations=2, elites=3)


@pytest.fixture
def short(monkeypatch):
    shorten(monkeypatch, 6)


@pytest.mark.parametrize("name", known_tasks())
def test_particles_go_where_the_robot_goes(name):
    task = make_task(name, 0.1)
    robot, twin = task.robot(), task.robot()
    limits = np.asarray(task.spec.effort_limits)
    robot.reset(np.random.default_rng(0))
    twin.reset(np.random.default_rng(0))
    robot.step(0.3 * limits)
    twin.step(0.3 * limits)
    shares = np.random.default_rng(1).uniform(-1, 1, (PARTICLES, HORIZON, len(limits)))
    imagine = TrueRollouts(task, robot, HORIZON, tail=0, threads=2)
    rollouts = imagine(shares.astype(np.float32), np.zeros((HORIZON, 1), np.float32), 1.0)
    imagine.close()
    efforts = shares[1].astype(np.float32).astype(np.float64) * limits
    states = np.stack([twin.state, *(twin.step(effort) for effort in efforts)])
    # A physics step begins where the last one's contact forces left off; rollouts begin anew.
    assert rollouts.states[1] == pytest.approx(states, rel=1e-4, abs=1e-4)
    expected = task.rewards(states[:-1], efforts).sum()
    assert rollouts.returns[1] == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_rollouts_leave_the_robot_where_it_is():
    task = make_task("cartpole", 0.0)
    robot = task.robot()
    before = robot.reset(np.random.default_rng(0))
    imagine = TrueRollouts(task, robot, HORIZON, tail=0, threads=1)
    imagine(np.ones((PARTICLES, HORIZON, 1), np.float32), np.zeros((HORIZON, 4), np.float32), 1.0)
    imagine.close()
    assert np.array_equal(robot.state, before)


def test_the_tail_counts_the_last_state_again():
    task = make_task("cartpole", 0.0)
    robot = task.robot()
    robot.set_state(np.array([0.0, np.pi, 0.0, 0.0]))
    returns = []
    for tail in (0, 10):
        imagine = TrueRollouts(task, robot, HORIZON, tail, threads=1)
        offsets = np.zeros((1, HORIZON, 1), np.float32)
        returns.append(imagine(offsets, np.zeros((HORIZON, 4), np.float32), 1.0).returns[0])
        imagine.close()
    assert returns == pytest.approx([HORIZON, HORIZON + 10], rel=1e-3)


def test_planning_keeps_a_pole_up_that_would_fall(short, monkeypatch):
    upright = np.array([0.0, np.pi + 0.2, 0.0, 1.0])
    monkeypatch.setattr(MujocoRobot, "initial_state", lambda self, rng: upright)
    shorten(monkeypatch, 25)
    task = make_task("cartpole", 0.0)
    robot = task.robot()
    robot.set_state(upright)
    idle = np.stack([upright, *(robot.step(np.zeros(1)) for _ in range(25))])
    planned = plan_episode(task, SETTINGS, tail=0, seed=0, threads=1)
    assert planned.total > task.rewards(idle[:-1], np.zeros((25, 1))).sum() + 2.0
    assert abs(planned.states[-1, 1] - np.pi) < 0.8


def test_equal_seeds_plan_equal_episodes(short):
    task = make_task("cartpole", 0.0)
    one, two, other = (plan_episode(task, SETTINGS, 0, seed, threads=1) for seed in (3, 3, 4))
    assert np.array_equal(one.states, two.states)
    assert not np.array_equal(one.states, other.states)
    assert one.total == pytest.approx(task.rewards(one.states[:-1], one.actions).sum())


def test_the_distance_of_a_row_is_the_tasks_at_the_end(short):
    task = make_task("cartpole", 0.0)
    row = OracleRow.of(task, SETTINGS, 0, 3, plan_episode(task, SETTINGS, 0, 3, threads=1))
    assert np.isnan(row.distance) and "from the goal" not in row.line()
    arm = make_task("reacher", 0.0)
    state = torch.zeros(17, dtype=torch.float64)
    assert float(arm.distance(state)) == pytest.approx(0.989)
    assert "98.9 cm from the goal" in row._replace(distance=0.989).line()


def test_rows_are_appended_below_their_names(tmp_path, short):
    task = make_task("cartpole", 0.0)
    row = OracleRow.of(task, SETTINGS, 0, 3, plan_episode(task, SETTINGS, 0, 3, threads=1))
    append_row(tmp_path / "new" / "oracle.csv", row)
    append_row(tmp_path / "new" / "oracle.csv", row._replace(seed=4))
    with (tmp_path / "new" / "oracle.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert [r["seed"] for r in rows] == ["3", "4"]
    assert float(rows[0]["total"]) == row.total


def test_the_command_prints_and_keeps_a_line_for_each_episode(tmp_path, capsys, short):
    path = tmp_path / "oracle.csv"
    words = f"optimum cartpole --method planner --action-penalty 0 0.1 --episodes 2 --csv {path}"
    code = main([*words.split(), "--particles", "8", "--horizon", "3", "--iterations", "1"])
    out = capsys.readouterr().out.splitlines()
    assert code == 0
    assert len(out) == 4
    assert out[2].startswith("cartpole, rho 0.1, seed 0: return ")
    assert len(path.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--episodes 0", "--episodes = 0: at least 1"),
        ("--threads 0", "--threads = 0: at least 1"),
        ("--horizon 0", "horizon"),
    ],
)
def test_options_out_of_range_are_refused(option, message, capsys):
    code = main(["optimum", "cartpole", "--method", "planner", *option.split()])
    assert code == 2
    assert message in capsys.readouterr().err


def test_a_task_without_an_equation_is_sent_to_the_planner(capsys):
    assert main(["optimum", "reacher"]) == 2
    assert "--method planner needs none" in capsys.readouterr().err
