"""The geoms of a model as triangles."""

import mujoco
import numpy as np
import pytest

from hucrl_ros.robots.shapes import colour_of, floor_height, shapes

PRIMITIVES = """
<mujoco>
  <asset>
    <material name="red" rgba="1 0 0 1"/>
    <mesh name="wedge" vertex="0 0 0  1 0 0  0 1 0  0 0 1  1 1 0"/>
  </asset>
  <worldbody>
    <geom type="plane" size="1 1 0.1" pos="0 0 -0.25"/>
    <body pos="1 2 3" euler="10 20 30">
      <freejoint/>
      <geom name="ball" type="sphere" size="0.3" pos="0.1 0 0" material="red"/>
      <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3" euler="40 0 10"/>
      <geom name="pill" type="capsule" size="0.1 0.4" pos="0 0.2 0" euler="0 50 0"/>
      <geom name="can" type="cylinder" size="0.2 0.5" pos="0 0 0.7" euler="20 0 0"/>
      <geom name="brick" type="box" size="0.1 0.2 0.3" pos="-0.4 0 0" euler="0 0 70"/>
      <geom name="wedge" type="mesh" mesh="wedge" pos="0.3 0.3 0"/>
      <geom name="ghost" type="sphere" size="0.1" rgba="1 1 1 0"/>
      <geom name="collision" type="sphere" size="0.1" group="3"/>
    </body>
  </worldbody>
</mujoco>
"""


@pytest.fixture(scope="module")
def model():
    return mujoco.MjModel.from_xml_string(PRIMITIVES)


def test_what_is_seen_is_drawn_and_nothing_else(model):
    found = {shape.name.partition("_")[2] for shape in shapes(model)}
    assert found == {"ball", "egg", "pill", "can", "brick", "wedge"}
    assert {shape.body for shape in shapes(model)} == {1}
    assert floor_height(model) == -0.25


def test_a_wall_is_no_floor():
    wall = '<geom type="plane" size="1 1 0.1" pos="1 0 0.5" euler="0 -90 0"/>'
    walled = PRIMITIVES.replace("<worldbody>", f"<worldbody>{wall}")
    assert floor_height(mujoco.MjModel.from_xml_string(walled)) == -0.25
    alone = f"<mujoco><worldbody>{wall}</worldbody></mujoco>"
    assert floor_height(mujoco.MjModel.from_xml_string(alone)) is None


@pytest.mark.parametrize("name", ["ball", "egg", "pill", "can", "brick"])
def test_each_vertex_is_where_mujoco_has_the_surface(model, name):
    (shape,) = [each for each in shapes(model) if each.name.endswith(name)]
    geom = model.geom(name)
    rotation = np.zeros(9)
    mujoco.mju_quat2Mat(rotation, geom.quat)
    centre, turned = np.array(geom.pos), rotation.reshape(3, 3)
    for vertex in shape.vertices[:: max(1, len(shape.vertices) // 50)]:
        # Just inside the rim of a cylinder, which a ray may miss.
        outside = centre + 3.0 * turned @ ((0.9999, 0.9999, 1.0) * (turned.T @ (vertex - centre)))
        distance = mujoco.mju_rayGeom(
            centre, rotation, geom.size, outside, centre - outside, int(geom.type[0]), None
        )
        # In units of the way to the centre, of which the surface leaves a third.
        assert distance == pytest.approx(2.0 / 3.0, abs=1e-3)


def test_faces_look_outward(model):
    for shape in shapes(model):
        corners = shape.vertices[shape.faces]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        outward = corners.mean(axis=1) - shape.vertices.mean(axis=0)
        assert np.mean((normals * outward).sum(axis=1) >= -1e-9) > 0.99


def test_a_mesh_is_mujocos_own(model):
    (shape,) = [each for each in shapes(model) if each.name.endswith("wedge")]
    volume = np.einsum(
        "fi,fi->f",
        shape.vertices[shape.faces[:, 0]],
        np.cross(shape.vertices[shape.faces[:, 1]], shape.vertices[shape.faces[:, 2]]),
    ).sum()
    assert len(shape.vertices) == model.mesh_vertnum[0]
    assert volume / 6.0 == pytest.approx(2.0 / 6.0, rel=1e-6)  # of the wedge's two tetrahedra


def test_a_geom_has_the_colour_of_its_material(model):
    assert colour_of(model, model.geom("ball").id).tolist() == [1.0, 0.0, 0.0, 1.0]
