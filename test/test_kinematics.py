"""Forward kinematics against MuJoCo's own, in torch and in ONNX."""

import mujoco
import numpy as np
import onnxruntime
import pytest
import torch

from hucrl_ros.robots import make_robot
from hucrl_ros.tasks.export_check import trace
from hucrl_ros.tasks.kinematics import ForwardKinematics

POSES = 10_000
ALL_KINDS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body pos="0.1 0.2 0.3" euler="0.3 -0.2 0.9">
      <joint name="lift" type="slide" axis="0.6 0 0.8" ref="0.2"/>
      <geom size="0.1"/>
      <body pos="0 0.4 0" quat="0.5 0.5 -0.5 0.5">
        <joint name="a" axis="1 2 3" pos="0.05 -0.1 0.2" ref="0.7"/>
        <joint name="b" axis="0 1 0"/>
        <geom size="0.1"/>
        <body pos="0.3 0 0.1">
          <geom size="0.1"/>
          <body pos="0.3 0 0.1">
            <joint name="c" axis="0 0 -1" pos="0.3 0 0"/>
            <geom size="0.1"/>
            <body pos="0 0.2 0">
              <joint name="rail" type="slide" axis="0 1 1"/>
              <joint name="d" axis="1 0 0"/>
              <geom size="0.1"/>
              <site name="tip" pos="0.1 0.2 0.3"/>
            </body>
          </body>
        </body>
      </body>
    </body>
    <body name="aside">
      <joint name="other" axis="1 0 0"/>
      <geom size="0.1"/>
    </body>
    <site name="nail" pos="1 2 3"/>
  </worldbody>
</mujoco>
"""


def joint_names(model) -> list[str]:
    return [model.joint(i).name for i in range(model.njnt)]


def mujoco_positions(model, site: str, poses: np.ndarray) -> np.ndarray:
    data = mujoco.MjData(model)
    positions = np.empty((len(poses), 3))
    for k, pose in enumerate(poses):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        positions[k] = data.site(site).xpos
    return positions


def random_poses(joints: int, count: int = POSES) -> np.ndarray:
    return np.random.default_rng(0).uniform(-np.pi, np.pi, (count, joints))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_arms_tool_is_where_mujoco_has_it(dtype):
    model = make_robot("reacher").model
    kinematics = ForwardKinematics(model, "tool", joint_names(model))
    poses = random_poses(7)
    expected = mujoco_positions(model, "tool", poses)
    found = kinematics(torch.as_tensor(poses, dtype=dtype)).numpy()
    assert np.ptp(expected, axis=0).min() > 1.0
    assert np.abs(found - expected).max() < (1e-12 if dtype is torch.float64 else 1e-6)


def test_joints_of_all_kinds_in_any_order_are_followed():
    model = mujoco.MjModel.from_xml_string(ALL_KINDS)
    names = joint_names(model)
    poses = random_poses(len(names), 500)
    expected = mujoco_positions(model, "tip", poses)
    order = np.random.default_rng(1).permutation(len(names))
    kinematics = ForwardKinematics(model, "tip", [names[i] for i in order])
    found = kinematics(torch.as_tensor(poses[:, order])).numpy()
    assert np.abs(found - expected).max() < 1e-12


def test_a_site_that_no_joint_moves_stays():
    model = mujoco.MjModel.from_xml_string(ALL_KINDS)
    kinematics = ForwardKinematics(model, "nail", joint_names(model))
    expected = torch.tensor([1.0, 2.0, 3.0]).expand(4, 5, 3)
    torch.testing.assert_close(kinematics(torch.randn(4, 5, len(joint_names(model)))), expected)


def test_its_gradient_is_mujocos_jacobian():
    model = make_robot("reacher").model
    kinematics = ForwardKinematics(model, "tool", joint_names(model))
    data, jacobian = mujoco.MjData(model), np.empty((3, 7))
    data.qpos[:] = random_poses(7, 1)[0]
    mujoco.mj_forward(model, data)
    mujoco.mj_jacSite(model, data, jacobian, None, model.site("tool").id)
    found = torch.autograd.functional.jacobian(kinematics, torch.as_tensor(data.qpos.copy()))
    assert np.abs(found.numpy() - jacobian).max() < 1e-12


def test_onnx_runtime_computes_the_same():
    model = make_robot("reacher").model
    kinematics = ForwardKinematics(model, "tool", joint_names(model))
    poses = torch.as_tensor(random_poses(7, 50), dtype=torch.float32)
    content = trace(kinematics, {"poses": poses[:3]}, ["places"])
    session = onnxruntime.InferenceSession(content)
    (found,) = session.run(None, {"poses": poses.numpy()})
    assert np.abs(found - kinematics(poses).numpy()).max() < 1e-6


def test_a_joint_that_nobody_reports_is_refused():
    model = mujoco.MjModel.from_xml_string(ALL_KINDS)
    names = [name for name in joint_names(model) if name != "c"]
    with pytest.raises(
        ValueError, match=r"site 'tip' hangs at joint 'c'; expected only .* lift, a"
    ):
        ForwardKinematics(model, "tip", names)


GOAL = """<mujoco><worldbody>
  <body><joint name="j" axis="0 0 1"/><geom size="0.02" mass="1"/></body>
  <body name="goal" mocap="true" pos="0.3 0 0.1"><site name="above" pos="0 0 0.05"/></body>
</worldbody></mujoco>"""


def test_a_site_on_the_goal_stands_nowhere_by_itself():
    with pytest.raises(ValueError, match="hangs on 'goal', which is put where a goal is"):
        ForwardKinematics(mujoco.MjModel.from_xml_string(GOAL), "above", ["j"])
