"""All of an episode's efforts at once: against Riccati's equation and another way to plan."""

import numpy as np
import pytest
from own_robots import write
from shortened import shorten

from hucrl_ros.cli import main
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.trajectory_optimum import TrueSystem, optimise_episode
from hucrl_ros.tasks import make_task

PERIOD, STEPS, MASS, PRICE = 0.1, 30, 2.0, 0.05
MODEL = f"""<mujoco><option timestep="{PERIOD}" integrator="RK4" gravity="0 0 0"/><worldbody>
  <body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1" mass="{MASS}"/></body>
</worldbody><actuator><motor joint="rail" ctrlrange="-LIMIT LIMIT"/></actuator></mujoco>"""
TASK = {
    "robot": {
        "model": "mass.xml",
        "period": PERIOD,
        "steps": STEPS,
        "start": {"rail": {"low": -1.0, "high": 1.0}},
    },
    "reward": {"terms": [{"term": "position", "joint": "rail"}, {"term": "effort"}]},
    "constraints": [{"kind": "speed", "joint": "rail", "largest": 100.0}],
}


def mass_on_a_rail(folder, limit):
    """−x² − ρu² of a mass that its motor pushes."""
    path = write(folder, TASK)
    (folder / "mass.xml").write_text(MODEL.replace("LIMIT", str(limit)))
    return make_task(str(path), PRICE)


def riccati(start):
    """The largest return from `start`, where nothing limits the effort."""
    a = np.array([[1.0, PERIOD], [0.0, 1.0]])
    b = np.array([[PERIOD**2 / 2.0], [PERIOD]]) / MASS
    q, p = np.diag([1.0, 0.0]), np.zeros((2, 2))
    for _ in range(STEPS):
        gain = np.linalg.solve(PRICE + b.T @ p @ b, b.T @ p @ a)
        p = q + a.T @ p @ (a - b @ gain)
    return -float(start @ p @ start)


def test_a_linear_quadratic_episode_is_solved_exactly(tmp_path):
    task = mass_on_a_rail(tmp_path, limit=100.0)
    for seed in (0, 1):
        found = optimise_episode(task, iterations=20, tries=1, seed=seed, threads=1)
        assert found.total == pytest.approx(riccati(found.states[0]), rel=1e-5)
        again = task.rewards(found.states[:-1], found.actions).sum()
        assert again == pytest.approx(found.total, rel=1e-5)
        assert found.outside == 0


def test_efforts_stay_within_their_limits(tmp_path):
    task = mass_on_a_rail(tmp_path, limit=1.0)
    found = optimise_episode(task, iterations=20, tries=1, seed=0, threads=1)
    assert np.abs(found.actions).max() == pytest.approx(1.0)
    assert found.total < riccati(found.states[0])
    # Its efforts move MuJoCo's robot as it says.
    robot = task.robot()
    robot.set_state(found.states[0])
    states = [robot.step(effort) for effort in found.actions]
    assert states == pytest.approx(found.states[1:], abs=1e-5)


def test_the_best_of_all_tries_is_kept(monkeypatch):
    shorten(monkeypatch, 40)
    task = make_task("cartpole", 0.0)
    few = optimise_episode(task, iterations=10, tries=1, seed=0, threads=1)
    more = optimise_episode(task, iterations=10, tries=3, seed=0, threads=1)
    assert more.total >= few.total
    assert task.rewards(more.states[:-1], more.actions).sum() == pytest.approx(
        more.total, rel=1e-3
    )


def test_goals_stay_where_they_are(monkeypatch):
    shorten(monkeypatch, 5)
    task = make_task("reacher", 0.01)
    robot = task.robot()
    state = robot.reset(np.random.default_rng(3))
    system = TrueSystem(task, robot, np.zeros((5, 7)), threads=1)
    states = np.stack([state, state])
    states[1, :7] += 0.1
    actions = np.full((2, 7), 0.05)
    following, rewards = system.step(states, actions)
    system.close()
    limits = np.asarray(task.spec.effort_limits)
    assert rewards == pytest.approx(task.rewards(states, actions * limits))
    for number, begin in enumerate(states):
        robot.set_state(begin)
        assert following[number] == pytest.approx(robot.step(actions[number] * limits), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "reason"), [("pusher", "object_x"), ("half_cheetah", "rootx_velocity moves besides")]
)
def test_where_more_moves_than_the_joints_that_is_said(name, reason):
    with pytest.raises(ConfigError, match=reason):
        optimise_episode(make_task(name, 0.1), 1, 1, 0)


def test_the_command_has_a_row_for_each_episode(tmp_path, capsys):
    mass_on_a_rail(tmp_path, limit=100.0)
    words = ["optimum", str(tmp_path / "mine.yaml"), "--method", "ilqr", "--threads", "1"]
    more = ["--action-penalty", str(PRICE), "--episodes", "2", "--tries", "1"]
    assert main([*words, *more, "--csv", str(tmp_path / "rows.csv")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ", seed 0: return" in lines[0] and ", seed 1: return" in lines[1]
    assert "(ilqr, 1 particles x 30 steps x 100 iterations" in lines[0]
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 3
    assert main([*words, "--horizon", "10"]) == 2
    assert "--horizon: not with --method ilqr" in capsys.readouterr().err
