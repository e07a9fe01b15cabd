import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from shortened import shorten

from hucrl_ros.cli import main
from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.optimum import (
    OracleRow,
    TrueRollouts,
    append_row,
    find_optimum,
    pendulum_step,
    plan_episode,
)
from hucrl_ros.planners.exact import Axis, Grid, backward_induction
from hucrl_ros.robots import MujocoRobot, make_robot
from hucrl_ros.tasks import known_optimum, make_task


def both(step, rewards):
    return lambda state, action: (step(state, action), rewards(state, action))


def test_equation_of_motion_equals_the_mujoco_robot_over_an_episode():
    rng = np.random.default_rng(0)
    robot = make_robot("pendulum")
    state = robot.reset(rng)[None]
    for torque in rng.uniform(-1, 1, (400, 1)):
        state = pendulum_step(state, torque[None])
        np.testing.assert_allclose(state[0], robot.step(torque), atol=1e-5)


def test_linear_interpolation_is_exact_for_planes_and_wraps_around():
    grid = Grid(Axis(0.0, 1.0, 4, periodic=True), Axis(-2.0, 2.0, 5))
    plane = 3.0 * grid.states[:, 1] - 1.0
    states = np.array([[0.1, 0.3], [0.99, -1.7], [7.3, 1.9], [-0.4, 2.0]])
    indices, weights = grid.stencil(states)
    np.testing.assert_allclose((plane[indices] * weights).sum(-1), 3.0 * states[:, 1] - 1.0)
    # Between the last value (0.75) and 1.0, which is the first again.
    first = grid.states[:, 0]
    indices, weights = grid.stencil(np.array([[0.875, 0.0]]))
    assert (first[indices] * weights).sum() == pytest.approx(0.375)


def test_states_beyond_an_end_count_as_the_end():
    grid = Grid(Axis(0.0, 1.0, 3), Axis(0.0, 1.0, 3))
    indices, weights = grid.stencil(np.array([[5.0, -5.0]]))
    np.testing.assert_allclose((grid.states[indices[0]] * weights[0][:, None]).sum(0), [1.0, 0.0])


def test_walk_to_the_origin_has_its_closed_form_value():
    # x moves one node left, right or not at all; reward -|x|; the value is known by counting.
    grid = Grid(Axis(-5.0, 5.0, 11), Axis(0.0, 1.0, 2))

    def step(state, action):
        return np.stack([state[:, 0] + action[:, 0], state[:, 1]], axis=-1)

    def rewards(state, action):
        return -np.abs(state[:, 0])

    table = backward_induction(both(step, rewards), grid, np.array([[-1.0], [0.0], [1.0]]), 4)
    np.testing.assert_allclose(table.at(0, np.array([[5.0, 0.0]])), -(5 + 4 + 3 + 2))
    np.testing.assert_allclose(table.at(0, np.array([[-2.0, 0.5]])), -(2 + 1))
    np.testing.assert_allclose(table.at(3, np.array([[3.0, 0.0]])), -3)
    np.testing.assert_allclose(table.at(4, np.array([[3.0, 0.0]])), 0)


def test_linear_quadratic_problem_agrees_with_the_riccati_equation():
    a = np.array([[1.0, 0.1], [0.0, 1.0]])
    b = np.array([[0.005], [0.1]])
    q, r = np.diag([1.0, 0.1]), np.array([[0.5]])
    p = np.zeros((2, 2))
    for _ in range(20):
        gain = np.linalg.solve(r + b.T @ p @ b, b.T @ p @ a)
        p = q + a.T @ p @ (a - b @ gain)

    def step(state, action):
        return state @ a.T + action @ b.T

    def rewards(state, action):
        return -(state**2 @ np.diag(q)) - action[:, 0] ** 2 * r[0, 0]

    grid = Grid(Axis(-3.0, 3.0, 241), Axis(-3.0, 3.0, 241))
    table = backward_induction(both(step, rewards), grid, np.linspace(-3, 3, 61)[:, None], 20)
    for start in ([1.0, 0.0], [0.5, 0.5], [-1.0, 0.7]):
        exact = -np.array(start) @ p @ np.array(start)
        assert table.at(0, np.array([start]))[0] == pytest.approx(exact, rel=0.01)


def test_coarse_grid_finds_a_swing_up_close_to_the_known_optimum():
    found = find_optimum(make_task("pendulum", 0.2), grid_points=101, torques=21)
    known = known_optimum("pendulum", 0.2)
    assert known - 10 < found.value < known + 2
    assert known - 3 < found.achieved < known + 2
    assert found.states.shape == (401, 2)
    assert found.actions.shape == (400, 1)
    rewards = make_task("pendulum", 0.2).rewards(found.states[:-1], found.actions)
    assert rewards.sum() == pytest.approx(found.achieved)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", [0.0, 0.1, 0.2])
def test_known_optima_hold_at_the_default_grid(penalty):
    found = find_optimum(make_task("pendulum", penalty))
    assert found.achieved == pytest.approx(known_optimum("pendulum", penalty), abs=0.6)
    assert found.value == pytest.approx(found.achieved, abs=0.8)


@pytest.mark.parametrize(
    ("grid", "torques", "message"), [(4, 21, "grid = 4"), (101, 20, "torques = 20")]
)
def test_useless_grid_is_refused_by_name(grid, torques, message):
    with pytest.raises(ConfigError, match=message):
        find_optimum(make_task("pendulum", 0.2), grid, torques)


def test_command_prints_one_line_for_each_penalty(capsys):
    words = ["optimum", "pendulum", "--action-penalty", "0", "0.2", "--grid", "61"]
    assert main([*words, "--torques", "11"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [text.split(":")[0] for text in lines] == ["rho 0", "rho 0.2"]
    assert "61 x 61 states, 11 torques" in lines[0]


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


RAIL = Path(__file__).parents[1] / "config/examples/short_rail/short_rail.yaml"


@pytest.fixture
def short_rail():
    return make_task(str(RAIL), 0.0)


def test_a_state_beyond_a_constraint_costs_more_than_any_return(short_rail):
    robot = short_rail.robot()
    robot.set_state(np.array([0.9, np.pi, 0.0, 0.0]))  # Upright, with all rewards, near the end.
    imagine = TrueRollouts(short_rail, robot, 20, tail=5, threads=1)
    shares = np.zeros((3, 20, 1), np.float32)
    shares[1], shares[2] = 1.0, 0.5  # Over the end of the rail, far and less far.
    still, far, near = imagine(shares, np.zeros((20, 4), np.float32), 1.0).returns
    imagine.close()
    assert still > 0.0 > near > far
    assert near < -25 * short_rail.reward_range


def test_planning_stays_on_the_rail_and_says_where_it_could_not(short_rail, monkeypatch):
    shorten(monkeypatch, 30)
    planned = plan_episode(short_rail, SETTINGS, tail=0, seed=0, threads=1)
    assert planned.outside == 0
    over = np.array([0.9, np.pi, 3.0, 0.0])  # 3 m/s, a tenth of a metre before the end.
    monkeypatch.setattr(MujocoRobot, "initial_state", lambda self, rng: over)
    planned = plan_episode(short_rail, SETTINGS, tail=0, seed=0, threads=1)
    assert planned.outside == (np.abs(planned.states[:, 0]) > 1.0).sum() > 0
    row = OracleRow.of(short_rail, SETTINGS, 0, 0, planned)
    assert f", {planned.outside} states beyond a constraint (cem" in row.line()


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


def test_a_table_with_other_columns_is_refused_before_anything_is_planned(tmp_path, capsys):
    path = tmp_path / "oracle.csv"
    path.write_text("task,total\npendulum,1.0\n")
    assert main(["optimum", "cartpole", "--method", "planner", "--csv", str(path)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--csv {path}: its columns are task, total; expected task, action_penalty," in line
    assert path.read_text() == "task,total\npendulum,1.0\n"


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
        ("--horizon 0", "optimum: --horizon = 0: at least 1"),
        ("--particles -3", "optimum: --particles = -3: at least 2"),
        ("--iterations 0", "optimum: --iterations = 0: at least 1"),
        ("--noise nan", "optimum: --noise = nan: at least 0"),
        ("--noise 2000", "optimum: command line: planner.noise = 2000"),
    ],
)
def test_options_out_of_range_are_refused(option, message, capsys):
    code = main(["optimum", "cartpole", "--method", "planner", *option.split()])
    assert code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["--grid 5", "--grid 1000000", "--torques 100000001"])
def test_a_grid_that_is_too_coarse_or_fits_no_memory_is_refused(typed, capsys):
    option, value = typed.split()
    assert main(["optimum", "pendulum", option, value]) == 2
    assert f"{option} = {value}: from " in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--episodes", "--seed", "--horizon"])
def test_what_a_grid_has_no_use_for_is_refused(option, capsys):
    assert main(["optimum", "pendulum", option, "3"]) == 2
    assert f"{option}: not with --method grid" in capsys.readouterr().err


def test_a_task_without_an_equation_is_sent_to_the_planner(capsys):
    assert main(["optimum", "reacher"]) == 2
    assert "--method planner needs none" in capsys.readouterr().err
