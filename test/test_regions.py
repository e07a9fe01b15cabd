"""What is drawn of constraints."""

import mujoco
import numpy as np
import pytest
from own_robots import ARM, changed, resolved

from hucrl_ros.robots import MujocoRobot
from hucrl_ros.robots.regions import ALLOWED, FORBIDDEN, draw_regions

REGIONS = [
    ("inside", {"shape": "box", "center": [0.0, 0.0, 0.1], "half_sizes": [2.0, 3.0, 4.0]}),
    ("outside", {"shape": "sphere", "center": "hand", "radius": 0.02}),
    ("outside", {"shape": "sphere", "center": "goal", "radius": 0.02}),
    ("outside", {"shape": "capsule", "ends": [[1.0, 0, 0], [1.0, 0, 0.6]], "radius": 0.1}),
    ("inside", {"shape": "half_space", "point": [0, -1.0, 0], "normal": [0.0, 2.0, 0.0]}),
]


@pytest.fixture
def arm(tmp_path):
    limits = [{"kind": kind, "of": [5.0, 5.0, 5.0], "region": region} for kind, region in REGIONS]
    found = resolved(tmp_path, {**changed(ARM, joint_limits=False), "constraints": limits})
    robot = MujocoRobot(found)
    robot.set_state(np.array([np.pi / 2, 0.0, 0.0, 0.0, 0.3, 0.1]))
    return found, robot


def test_regions_are_drawn_where_they_are(arm):
    found, robot = arm
    scene = mujoco.MjvScene(robot.model, maxgeom=20)
    draw_regions(scene, robot.model, robot.data, found.constraints)
    drawn = scene.geoms[: scene.ngeom]
    kinds = mujoco.mjtGeom
    assert [kinds(shape.type) for shape in drawn] == [
        kinds.mjGEOM_BOX,
        kinds.mjGEOM_SPHERE,
        kinds.mjGEOM_SPHERE,
        kinds.mjGEOM_CAPSULE,
        kinds.mjGEOM_BOX,
    ]
    places = np.array([shape.pos for shape in drawn])
    expected = [[0, 0, 0.1], [0, 0.6, 0], [0.3, 0.1, 0], [1, 0, 0.3], [0, -1, 0]]
    np.testing.assert_allclose(places, expected, atol=1e-6)
    np.testing.assert_allclose(drawn[0].size, [2, 3, 4])
    np.testing.assert_allclose(drawn[4].mat[:, 2], [0, 1, 0], atol=1e-6)
    colours = [ALLOWED if kind == "inside" else FORBIDDEN for kind, _ in REGIONS]
    np.testing.assert_allclose([shape.rgba for shape in drawn], colours, rtol=1e-6)


def test_a_full_scene_takes_no_more(arm):
    found, robot = arm
    scene = mujoco.MjvScene(robot.model, maxgeom=2)
    draw_regions(scene, robot.model, robot.data, found.constraints)
    assert scene.ngeom == 2
