import numpy as np
import pytest

from hucrl_ros.cli import main
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.optimum import find_optimum, pendulum_step
from hucrl_ros.planners.exact import Axis, Grid, backward_induction
from hucrl_ros.robots import make_robot
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
