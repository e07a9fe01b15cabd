"""What networks see of joint stops and of points on a robot."""

from functools import partial

import mujoco
import numpy as np
import pytest
import torch

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models import Transitions, fit, make_model
from hucrl_ros.tasks import make_task
from hucrl_ros.tasks.geometry import GRAZED, VECTOR_UNIT, Geometry, Stop, Vector

ARMS = ("pusher", "reacher", "sparse_reacher")
close = partial(torch.testing.assert_close, atol=1e-5, rtol=0.0)


@pytest.mark.parametrize("name", ARMS)
def test_the_arms_stops_are_those_of_their_models(name):
    task = make_task(name, 0.0)
    model = task.robot().model
    joints = [model.joint(joint) for joint in task.spec.joint_names]
    limited = {i: joint.range for i, joint in enumerate(joints) if model.jnt_limited[joint.id]}
    assert {stop.joint for stop in task.geometry.stops} == set(limited)
    for joint, lower, upper in task.geometry.stops:
        np.testing.assert_allclose((lower, upper), limited[joint], atol=1e-3)


def test_the_model_sees_a_stop_that_a_joint_would_come_near_in_a_period():
    task = make_task("pusher", 0.0)
    (joint, lower, upper), *others = task.geometry.stops
    state = torch.zeros(6, task.spec.state_dim)
    speed = 0.05 / task.spec.period  # 0.05 rad in a period
    state[:, joint] = torch.tensor([0.0, upper - 0.1, upper, lower, upper - 0.1, lower])
    state[:, 7 + joint] = torch.tensor([0.0, 0.0, 0.0, 0.0, speed, -speed])
    modelled = task.geometry.modelled(state)
    close(modelled[:, 0], torch.tensor([0.0, 0.0, 0.0, 1.0, 0.0, 1.5]))
    close(modelled[:, 1 + len(others)], torch.tensor([0.0, 0.0, 1.0, 0.0, 0.5, 0.0]))


def test_the_model_sees_the_ends_of_a_rail():
    task = make_task("cartpole", 0.0)
    assert task.geometry.stops == ((0, -2.5, 2.5),)
    states = torch.zeros(3, 4)
    states[:, 0] = torch.tensor([0.0, 2.4, -2.5])
    states[1, 2] = 0.05 / task.spec.period  # half of the way that is seen
    close(task.geometry.modelled(states), torch.tensor([[0.0, 0.0], [0.0, 0.5], [1.0, 0.0]]))


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("pusher", [("wrist", "object"), ("right_tip", "object"), ("left_tip", "object")]),
        ("sparse_reacher", [("tool", "goal")]),
    ],
)
def test_vectors_are_those_of_mujoco(name, pairs):
    task = make_task(name, 0.0)
    robot, states = task.robot(), task.imagined_states(20, torch.Generator().manual_seed(0))
    seen = task.features(states)[:, -3 * len(pairs) :] * VECTOR_UNIT
    for state, vectors in zip(states.double().numpy(), seen, strict=True):
        robot.set_state(state)
        for (site, _), vector in zip(pairs, vectors.reshape(-1, 3), strict=True):
            expected = robot.data.site(site).xpos - state[14:17]
            np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_the_model_sees_vectors_where_the_robot_will_be_and_its_stops_hold_it():
    task = make_task("pusher", 0.0)
    states = task.imagined_states(20, torch.Generator().manual_seed(0))
    stops = task.geometry.stops
    lower, upper = (torch.tensor([stop[i] for stop in stops]) for i in (1, 2))
    later = states.clone()
    ahead = states[:, :7] + task.spec.period * states[:, 7:14]
    later[:, :7] = torch.minimum(torch.maximum(ahead, lower), upper)
    assert ((later[:, :7] - ahead).abs() > 0.01).any()
    found = task.geometry.modelled(states)[:, 2 * len(stops) :]
    close(found[:, :9], task.geometry.seen(later))
    later[:, 7:14] = 0.0
    close(found, task.geometry.modelled(later)[:, 2 * len(stops) :])


def test_the_model_does_not_see_the_context():
    task = make_task("reacher", 0.0)
    states = task.imagined_states(20, torch.Generator().manual_seed(0))
    other = states.clone()
    other[:, 14:] += 1.0
    torch.testing.assert_close(task.model_features(other), task.model_features(states))
    assert (task.features(other)[:, -3:] != task.features(states)[:, -3:]).all()


SLIDER = """<mujoco><compiler angle="radian"/><worldbody><body>
  <joint name="slide" type="slide" axis="1 0 0"/><geom size="0.1"/>
  <body pos="0 0 1"><joint name="hinge" axis="0 1 0" ref="0.5"/><geom size="0.1"/>
    <site name="tip" pos="0.2 0.1 0"/></body>
</body></worldbody></mujoco>"""


def test_only_coordinates_in_the_state_make_vectors():
    model = mujoco.MjModel.from_xml_string(SLIDER)
    spec = RobotSpec("slider", ("slide", "hinge"), ("slide",), (1.0,), 0.02, context=("goal_z",))
    vectors = [Vector("tip", "goal"), Vector("tip", "slide")]
    geometry = Geometry(spec, [Stop(1, -1.0, 1.0)], vectors, model)
    assert geometry.vectors == (Vector("tip", "goal"),)
    assert (geometry.seen_dim, geometry.modelled_dim) == (1, 2)
    state = torch.tensor([0.3, 0.5, 0.0, 0.0, 0.4])  # At its reference the hinge does nothing.
    close(geometry.seen(state), torch.tensor([(1.0 - 0.4) / VECTOR_UNIT]))


def test_a_grazed_stop_is_normalised_as_one_that_was_hit():
    task = make_task("reacher", 0.0)
    least = task.least_deviations
    ramps = slice(task.model_feature_dim - task.geometry.modelled_dim, None)
    assert (least[ramps] == GRAZED).all()
    assert least.sum() == pytest.approx(GRAZED * 2 * len(task.geometry.stops))
    model = make_model(task, ModelSettings(layers=(4,), fit_steps=1), torch.Generator())
    states = task.imagined_states(50, torch.Generator().manual_seed(0))
    states[:, :14] = 0.0
    joint, _, upper = task.geometry.stops[0]
    states[0, joint], states[0, 2] = upper - 0.09, 0.05
    fit(model, Transitions(states, torch.zeros(50, 7), states), torch.Generator())
    assert (model.inputs.std[: task.model_feature_dim][ramps] >= GRAZED).all()
    other = model.inputs.std[: ramps.start]
    assert ((other > 0) & (other < GRAZED)).any()
