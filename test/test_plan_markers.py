import numpy as np
from visualization_msgs.msg import Marker

from hucrl_ros.nodes.plan_publisher import OPTIMISTIC, plan_markers


def test_each_joint_is_a_line_in_its_phase_plane():
    states = np.array([[0.0, 1.0, 10.0, 11.0], [2.0, 3.0, 12.0, 13.0]], np.float32)
    first, second = plan_markers("optimistic", states, 2, OPTIMISTIC)
    assert [(p.x, p.y) for p in first.points] == [(0.0, 10.0), (2.0, 12.0)]
    assert [(p.x, p.y) for p in second.points] == [(1.0, 11.0), (3.0, 13.0)]
    assert (first.ns, first.id, second.id) == ("optimistic", 0, 1)
    assert first.type == Marker.LINE_STRIP
    assert first.color.a == 1.0 and first.scale.x > 0.0
