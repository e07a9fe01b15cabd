"""A picture of a robot at a start shows its constraints, and nothing half-written is left."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
from PIL import Image

from hucrl_ros.config.constraints import PositionConstraint
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.still import MOST_LIMITED, draw_limits, render_still
from hucrl_ros.robots import MujocoRobot, describe

EXAMPLES = Path(__file__).parents[1] / "config/examples"
POST = Path(__file__).parent / "reacher_post.yaml"


def test_a_post_is_drawn_where_it_stands(tmp_path):
    render_still(tmp_path / "robot.png", POST)
    assert [path.name for path in tmp_path.iterdir()] == ["robot.png"]
    with Image.open(tmp_path / "robot.png") as image:
        red, green, blue = np.asarray(image, int).transpose(2, 0, 1)
    orange = (red > 150) & (green < 130) & (blue < 60)
    assert orange.mean() > 0.05


@pytest.mark.parametrize(
    ("path", "drawn"),
    [
        (EXAMPLES / "short_rail/short_rail.yaml", [-1.0, 1.0]),
        (EXAMPLES / "furuta/furuta_arm.yaml", [-1.57, 1.57]),
    ],
)
def test_a_joint_is_drawn_at_its_limits(path, drawn, monkeypatch):
    found, added, scene = describe(str(path)), [], type("Scene", (), {"ngeom": 0, "geoms": []})
    robot = MujocoRobot(found)
    (limit,) = found.constraints
    joint = robot.spec.joint_names.index(limit.joint)
    monkeypatch.setattr(mujoco, "mjv_addGeoms", lambda *_: added.append(robot.state[joint]))
    before = robot.state
    draw_limits(scene, robot, found.constraints)
    assert added == pytest.approx(drawn)
    np.testing.assert_array_equal(robot.state, before)
    draw_limits(scene, robot, found.constraints * (MOST_LIMITED + 1))
    assert len(added) == 2 * (MOST_LIMITED + 2), "one joint's limits, however many they are"


def test_limits_of_many_joints_are_left_out(monkeypatch):
    robot = MujocoRobot(describe("reacher"))
    limited = [
        PositionConstraint(kind="position", joint=joint, low=-1.0, high=1.0)
        for joint in robot.spec.joint_names
    ]
    monkeypatch.setattr(mujoco, "mjv_addGeoms", lambda *_: pytest.fail("drawn"))
    assert len(limited) > MOST_LIMITED
    draw_limits(None, robot, limited)


@pytest.mark.parametrize(
    ("name", "library", "said"),
    [
        ("nowhere/robot.png", "egl", "nowhere/robot.png: can't be written: No such file"),
        ("robot.png", "wrong", "robot.png: no picture, as MuJoCo can't draw here (wrong: "),
    ],
)
def test_what_prevents_a_picture_is_said_in_one_line(tmp_path, monkeypatch, name, library, said):
    monkeypatch.setenv("MUJOCO_GL", library)
    with pytest.raises(ConfigError) as error:
        render_still(tmp_path / name, POST)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not list(tmp_path.iterdir())
