"""What RViz gets of constraints."""

import mujoco
import numpy as np
import pytest

pytest.importorskip("visualization_msgs", reason="markers are ROS 2's messages")

from test_regions import REGIONS
from visualization_msgs.msg import Marker

from hucrl_ros.config.constraints import InsideConstraint, OutsideConstraint, SpeedConstraint
from hucrl_ros.nodes.region_markers import region_markers
from hucrl_ros.robots.regions import ALLOWED, FORBIDDEN

KINDS = {"inside": InsideConstraint, "outside": OutsideConstraint}
LIMITS = [
    SpeedConstraint(kind="speed", joint="elbow", largest=1.0),
    *(KINDS[kind](kind=kind, of="hand", region=region) for kind, region in REGIONS),
]


def axis(marker):
    """Where its own z axis points `(3,)`."""
    turn, matrix = marker.pose.orientation, np.empty(9)
    mujoco.mju_quat2Mat(matrix, np.array([turn.w, turn.x, turn.y, turn.z]))
    return matrix.reshape(3, 3)[:, 2]


def rgba(marker):
    return pytest.approx([marker.color.r, marker.color.g, marker.color.b, marker.color.a])


def triple(value):
    return [value.x, value.y, value.z]


def test_regions_that_stand_still_are_told_where_they_are():
    box, tube, first, second, plane = region_markers(LIMITS).markers
    assert [marker.id for marker in (box, tube, first, second, plane)] == [0, 1, 2, 3, 4]
    assert {box.header.frame_id, plane.header.frame_id} == {"world"}
    assert (box.type, box.ns, rgba(box)) == (Marker.CUBE, "inside", ALLOWED)
    assert triple(box.pose.position) == [0.0, 0.0, 0.1]
    assert triple(box.scale) == [4.0, 6.0, 8.0]
    assert (tube.type, tube.ns, rgba(tube)) == (Marker.CYLINDER, "outside", FORBIDDEN)
    assert triple(tube.pose.position) == pytest.approx([1.0, 0.0, 0.3])
    assert triple(tube.scale) == pytest.approx([0.2, 0.2, 0.6])
    assert axis(tube) == pytest.approx([0.0, 0.0, 1.0])
    assert first.type == second.type == Marker.SPHERE
    assert triple(first.pose.position) == [1.0, 0.0, 0.0]
    assert triple(second.pose.position) == [1.0, 0.0, 0.6]
    assert triple(plane.pose.position) == [0.0, -1.0, 0.0]
    assert axis(plane) == pytest.approx([0.0, 1.0, 0.0])


@pytest.mark.parametrize("normal", [(0, 0, 2), (0, 0, -3), (1, -2, 0.5), (-0.1, 0, -5)])
def test_a_plane_is_turned_to_its_normal(normal):
    region = {"shape": "half_space", "point": [0.0, 0.0, 0.0], "normal": normal}
    limit = InsideConstraint(kind="inside", of="hand", region=region)
    (plane,) = region_markers([limit]).markers
    assert axis(plane) == pytest.approx(np.array(normal) / np.linalg.norm(normal))


def test_a_robot_without_regions_has_no_markers():
    assert region_markers(LIMITS[:1]).markers == []
