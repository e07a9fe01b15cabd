"""The robots of the paper, each against its own numbers."""

import mujoco
import numpy as np
import pytest

from hucrl_ros.robots import make_robot
from hucrl_ros.robots.extras import Extras
from hucrl_ros.tasks import make_task

OBJECT_SPEEDS = 2
"""Entries of the pusher's state beyond the paper's: two poses tell them."""


def starts(robot, count: int = 400) -> np.ndarray:
    return np.stack([robot.initial_state(np.random.default_rng(k)) for k in range(count)])


@pytest.mark.parametrize(
    ("task", "state", "action", "limit", "period", "steps"),
    [
        ("pendulum", 2, 1, 1.0, 1 / 80, 400),
        ("cartpole", 4, 1, 3.0, 0.04, 200),
        ("reacher", 14 + 3, 7, 20.0, 0.02, 150),
        ("sparse_reacher", 14 + 3, 7, 20.0, 0.02, 150),
        ("pusher", 14 + 3 + OBJECT_SPEEDS, 7, 2.0, 0.04, 150),
        ("half_cheetah", 17, 6, 2.0, 0.05, 1000),
    ],
)
def test_sizes_limits_and_periods_are_the_papers(task, state, action, limit, period, steps):
    spec = make_robot(task).spec
    assert (spec.state_dim, spec.action_dim) == (state, action)
    assert set(spec.effort_limits) == {limit}
    assert spec.period == period
    assert make_task(task, 0.0).steps == steps


def test_the_cartpole_follows_its_equations_of_motion():
    """(M + m) ẍ + (m l/2) (cos θ θ̈ − sin θ θ̇²) = 100 u − ẋ, and the pole's, θ = 0 hanging."""
    robot = make_robot("cartpole")
    state, command = np.array([0.1, 0.9, 0.4, -1.3]), 1.7
    robot.set_state(state)
    robot.data.ctrl[:] = command
    mujoco.mj_forward(robot.model, robot.data)
    mass, arm, inertia = 5.02, 0.3, 0.189
    _, angle, speed, turning = state
    # The hinge turns about y: a positive angle moves the tip to negative x.
    matrix = np.array(
        [
            [10.47 + mass, -mass * arm * np.cos(angle)],
            [-mass * arm * np.cos(angle), inertia + mass * arm**2],
        ]
    )
    forces = [
        100.0 * command - speed - mass * arm * np.sin(angle) * turning**2,
        -turning - mass * 9.81 * arm * np.sin(angle),
    ]
    assert robot.data.qacc == pytest.approx(np.linalg.solve(matrix, forces), rel=1e-6)


def test_the_cartpole_stays_on_its_rail():
    robot = make_robot("cartpole")
    robot.reset(np.random.default_rng(0))
    positions = [robot.step(np.array([3.0]))[0] for _ in range(100)]
    assert 2.5 < max(positions) < 2.7


def test_the_cartpole_starts_near_hanging():
    drawn = starts(make_robot("cartpole"))
    assert drawn.mean(axis=0) == pytest.approx(np.zeros(4), abs=0.03)
    assert drawn.std(axis=0) == pytest.approx(np.full(4, 0.1), rel=0.15)


@pytest.mark.parametrize(("task", "tool", "base"), [("reacher", 0.168, 0), ("pusher", 0, -0.6)])
def test_the_arms_have_the_pr2s_joints_axes_and_lengths(task, tool, base):
    robot = make_robot(task)
    model = robot.model
    hinges = [model.joint(name) for name in robot.spec.joint_names]
    axes = ["xyz"[int(np.argmax(joint.axis))] for joint in hinges]
    assert axes == ["z", "y", "x", "y", "x", "y", "x"]
    assert [float(joint.damping[0]) for joint in hinges] == (
        [10, 10, 0.1, 1, 0.1, 0.1, 0.1] if task == "reacher" else [1, 1, *[0.1] * 5]
    )
    assert all(joint.armature[0] == 0.04 for joint in hinges)
    assert not model.opt.gravity.any()
    robot.set_state(np.zeros(robot.spec.state_dim))
    site = robot.data.site("tool" if task == "reacher" else "wrist").xpos
    assert site == pytest.approx([0.1 + 0.4 + 0.321 + tool, base, 0.0])


def test_goals_of_the_reacher_are_drawn_around_the_papers_place():
    drawn = starts(make_robot("reacher"))
    assert not drawn[:, :14].any()
    assert drawn[:, 14:].mean(axis=0) == pytest.approx([0.0, 0.25, 0.0], abs=0.02)
    assert drawn[:, 14:].std(axis=0) == pytest.approx(np.full(3, 0.1), rel=0.1)


def test_the_reachers_goal_is_seen_where_it_is():
    robot = make_robot("reacher")
    state = robot.reset(np.random.default_rng(4))
    assert robot.data.body("goal").xpos == pytest.approx(state[14:])


def test_the_pusher_starts_with_the_object_beside_the_goal():
    drawn = starts(make_robot("pusher"))
    assert not drawn[:, :7].any()
    assert np.abs(drawn[:, 7:14]).max() <= 0.005
    assert drawn[:, 14:16].mean(axis=0) == pytest.approx([0.2, 0.1], abs=0.005)
    assert drawn[:, 14:16].std(axis=0) == pytest.approx([0.025, 0.025], rel=0.1)
    assert (drawn[:, 16] == -0.275).all()


def test_the_pushers_object_moves_when_it_is_pushed_and_only_then():
    robot = make_robot("pusher")
    start = robot.reset(np.random.default_rng(0))
    rested = [robot.step(np.zeros(7))[14:] for _ in range(20)]
    assert np.abs(np.stack(rested) - start[14:]).max() < 1e-12
    pushed = start.copy()
    pushed[14:17] = np.add(robot.data.body("r_wrist_roll_link").xpos, [0.0, 0.16, 0.0])
    pushed[16] = -0.275
    robot.model.body("object").pos[2] = 0.0  # as high as the fork
    robot.set_state(pushed)
    moved = [robot.step(np.array([2.0, *[0.0] * 6]))[14:] for _ in range(30)]
    assert moved[-1][1] > pushed[15] + 0.05
    steps = np.diff([state[:2] for state in moved], axis=0) / robot.spec.period
    np.testing.assert_allclose([state[3:] for state in moved[1:]], steps, atol=1e-12)


def test_an_object_is_put_as_fast_as_its_state_says_and_coasts():
    robot = make_robot("pusher")
    start = robot.reset(np.random.default_rng(0))
    start[17:] = 0.3, -0.1
    robot.set_state(start)
    np.testing.assert_allclose(robot.state, start, atol=1e-12)
    # Over a whole period it is slower on average than at its beginning.
    first = robot.step(np.zeros(7))
    assert (np.abs(first[17:]) < 0.9 * np.abs(start[17:])).all()
    for _ in range(50):
        robot.step(np.zeros(7))
    # Mass 0.04 kg over damping 0.5 N s/m: it coasts 0.08 s.
    way = robot.state[14:16] - start[14:16]
    np.testing.assert_allclose(way, 0.08 * start[17:], rtol=0.1)


def test_the_cheetah_stands_still_on_its_feet():
    robot = make_robot("half_cheetah")
    robot.reset(np.random.default_rng(0))
    states = np.stack([robot.step(np.zeros(6)) for _ in range(100)])
    assert np.abs(states[-1, 8:]).max() < 0.02
    assert abs(states[-1, 0]) < 0.2
    assert robot.model.body_mass.sum() == pytest.approx(14.0)


def test_the_cheetahs_speed_is_how_far_it_runs():
    robot = make_robot("half_cheetah")
    robot.set_state(np.array([*[0.0] * 16, 1.5]))
    assert robot.state[16] == 1.5
    before = float(robot.data.qpos[0])
    state = robot.step(np.zeros(6))
    assert robot.data.qpos[0] - before == pytest.approx(0.05 * (1.5 + state[16]) / 2, rel=0.1)


@pytest.mark.parametrize(
    "name", ["gaol_x", "goal", "goal_w", "r_wrist_velocity", "gaol_x_velocity"]
)
def test_a_state_entry_that_the_mjcf_lacks_is_refused(name):
    with pytest.raises(ValueError, match=f"state entry '{name}': the MJCF has no such body"):
        Extras(make_robot("reacher").model, (name,))


def test_a_goal_has_no_velocity():
    with pytest.raises(ValueError, match="state entry 'goal_x_velocity' of body 'goal': only one"):
        Extras(make_robot("reacher").model, ("goal_x", "goal_x_velocity"))


BELT = """<mujoco><worldbody><body name="puck">
  <joint name="puck_x" type="slide" axis="-1 0 0"/><geom size="0.1"/>
</body></worldbody></mujoco>"""


def test_a_velocity_is_that_of_the_observed_body_not_of_a_joint_with_its_name():
    model = mujoco.MjModel.from_xml_string(BELT)
    qpos, qvel = np.zeros(1), np.array([2.0])
    data = mujoco.MjData(model)
    assert Extras(model, ("puck_x", "puck_x_velocity")).read(data, qpos, qvel)[1] == -2.0
    assert Extras(model, ("puck_x_velocity",)).read(data, qpos, qvel)[0] == 2.0


TURNED = """<mujoco><worldbody><body name="puck" pos="1 2 3" euler="30 -20 90">
  <joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
  <joint type="slide" axis="0 0 1"/><geom size="0.1"/>
</body></worldbody></mujoco>"""


def test_an_object_of_a_turned_body_is_where_its_state_says():
    model = mujoco.MjModel.from_xml_string(TURNED)
    data = mujoco.MjData(model)
    names = [f"puck_{axis}" for axis in "xyz"]
    state = np.array([0.3, -0.2, 0.1, 0.5, -1.0, 2.0])
    extras = Extras(model, [*names, *(f"{name}_velocity" for name in names)])
    extras.write(data, state)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.body("puck").xpos, state[:3], atol=1e-12)
    np.testing.assert_allclose(data.body("puck").cvel[3:], state[3:], atol=1e-12)
    np.testing.assert_allclose(extras.read(data, data.qpos, data.qvel), state, atol=1e-12)


def test_an_object_on_a_ramp_is_where_its_state_says():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><body name="puck" pos="0 0 1"><joint type="slide" axis="1 0 0.5"/>
        <geom size="0.1"/></body></worldbody></mujoco>"""
    )
    for names, state in (
        (["puck_x"], [0.2]),
        (["puck_z", "puck_x", "puck_x_velocity"], [1.1, 0.2, 0.7]),
    ):
        data, extras = mujoco.MjData(model), Extras(model, names)
        extras.write(data, np.array(state))
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(data.body("puck").xpos, [0.2, 0.0, 1.1], atol=1e-12)
        np.testing.assert_allclose(extras.read(data, data.qpos, data.qvel), state, atol=1e-12)


def test_a_quarter_turn_that_is_rounded_keeps_no_object_where_it_is():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><compiler angle="radian"/><worldbody><body name="puck" euler="0 1.57 0">
        <joint type="slide" axis="0 0 1"/><geom size="0.1"/></body></worldbody></mujoco>"""
    )
    data, extras = mujoco.MjData(model), Extras(model, ["puck_x", "puck_z"])
    extras.write(data, np.array([0.3, 0.0]))
    assert extras.read(data, data.qpos, data.qvel) == pytest.approx([0.3, 0.0], abs=1e-3)


def test_a_link_of_the_robot_is_no_observed_body():
    with pytest.raises(ValueError, match="of body 'r_wrist_roll_link': only a mocap body"):
        Extras(make_robot("reacher").model, ("r_wrist_roll_link_x",))
