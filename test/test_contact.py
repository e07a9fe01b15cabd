"""How links press against an object, against MuJoCo and by hand."""

import math
from functools import partial

import mujoco
import numpy as np
import pytest
import torch
from own_robots import pushing, task_of
from touching import touching

from hucrl_ros.tasks import make_task
from hucrl_ros.tasks.contact import (
    FLATTEST,
    NEAR_CONTACT,
    Contact,
    Shape,
    links_against,
    shape_of,
)

CYLINDER = Shape(radius=0.05, half_height=0.04, rounding=0.0, level=False)
BALL = Shape(radius=0.0, half_height=0.0, rounding=0.05, level=False)
PILL = Shape(radius=0.0, half_height=0.04, rounding=0.05, level=False)
PUCK = CYLINDER._replace(level=True)
REACH = 0.02


close = partial(torch.testing.assert_close, atol=1e-5, rtol=0.0)


def pressed(shape, first, second, place=(0.0, 0.0, 0.0), count=1):
    """The contact of one link, or of `count` links in the same place."""
    contact = Contact(shape, [REACH + shape.rounding] * count)
    ends = [torch.tensor(end).double().expand(count, 3) for end in (first, second)]
    return contact(*ends, torch.tensor(place).double())


def at(gap):
    """The ramp of a gap [m]."""
    return 1.0 - gap / NEAR_CONTACT


@pytest.mark.parametrize("shape", [CYLINDER, BALL, PILL, PUCK])
@pytest.mark.parametrize("gap", [0.004, 0.0, -0.012])
def test_a_link_beside_an_object_pushes_it_away(shape, gap):
    away = 0.07 + gap
    along_y = pressed(shape, (-away, -0.1, 0.0), (-away, 0.3, 0.0))
    close(along_y, torch.tensor([at(gap), 0.0, 0.0]).double())
    place = (0.3, -0.2, 0.5)
    tip = (place[0], place[1] + away, place[2])
    towards_it = pressed(shape, (tip[0], tip[1] + 0.2, tip[2]), tip, place)
    close(towards_it, torch.tensor([0.0, -at(gap), 0.0]).double())
    ball = pressed(shape, tip, tip, place)
    close(ball, towards_it)


def test_a_link_above_presses_down_and_one_beyond_an_edge_slants():
    down = pressed(CYLINDER, (-0.2, 0.01, 0.06), (0.2, 0.01, 0.06))
    close(down, torch.tensor([0.0, 0.0, -1.0]).double())
    side = REACH / math.sqrt(2.0)
    slanted = pressed(CYLINDER, (0.05 + side, 0.0, 0.04 + side), (0.05 + side, 0.0, 0.2))
    close(slanted, torch.tensor([-1.0, 0.0, -1.0]).double() / math.sqrt(2.0))
    over_a_ball = pressed(BALL, (0.0, -0.2, 0.068), (0.0, 0.2, 0.068))
    close(over_a_ball, torch.tensor([0.0, 0.0, -at(-0.002)]).double())


@pytest.mark.parametrize("gap", [0.002, -0.003])
@pytest.mark.parametrize("angle", [0.2, 0.5, 1.2])
def test_what_moves_level_gives_way_sideways_as_far_as_a_wedge_drives_it(angle, gap):
    """Pressed on its rim under an angle, to first order it has to go gap / sin(angle)."""
    slope, rise = math.sin(angle), math.cos(angle)
    x, z = 0.05 + (REACH + gap) * slope, 0.04 + (REACH + gap) * rise
    down = at(gap) * rise
    sideways = pressed(PUCK, (x, -0.1, z), (x, 0.1, z))
    close(sideways, torch.tensor([-max(at(gap / slope), 0.0), 0.0, -down]).double())


def test_a_link_on_top_of_what_moves_level_pushes_it_less_and_less():
    angles = torch.linspace(0.0, math.asin(FLATTEST), 20).tolist()
    pushes = []
    for angle in angles:
        x, z = 0.05 + REACH * math.sin(angle), 0.04 + REACH * math.cos(angle)
        pushes.append(-float(pressed(PUCK, (x, 0.0, z), (x, 0.0, z))[0]))
    np.testing.assert_allclose(pushes, np.sin(angles) / FLATTEST, atol=1e-3)
    on_top = pressed(PUCK, (-0.2, 0.01, 0.06), (0.2, 0.01, 0.06))
    close(on_top, torch.tensor([0.0, 0.0, -1.0]).double())


def test_the_nearest_points_of_a_line_that_leans_over_a_rim_are_found():
    """Against a fine grid along the line."""
    generator = torch.Generator().manual_seed(0)
    place = torch.zeros(500, 3).double()
    first = torch.randn(500, 1, 3, generator=generator).double() * torch.tensor([0.1, 0.1, 0.05])
    second = torch.randn(500, 1, 3, generator=generator).double() * torch.tensor([0.1, 0.1, 0.05])
    contact = Contact(CYLINDER, [REACH])
    share = contact._nearest_share(first, second - first).clamp(0.0, 1.0)
    shares = torch.linspace(0.0, 1.0, 4001).double()[:, None, None, None]

    def away(share):
        point = first + share * (second - first)
        return (point - contact._mark(point)).norm(dim=-1)

    outside = away(shares).amin(dim=0) > 0.0
    assert outside.sum() > 200
    assert (away(share) - away(shares).amin(dim=0))[outside].max() < 5e-4
    assert (away(share)[~outside] < 5e-3).all()
    assert contact(first, second, place).isfinite().all()


def test_what_is_far_does_not_press_and_links_add_up():
    assert not pressed(CYLINDER, (0.081, -1.0, 0.0), (0.081, 1.0, 0.0)).any()
    assert not pressed(CYLINDER, (-1.0, 0.0, 0.071), (1.0, 0.0, 0.071)).any()
    once = pressed(CYLINDER, (0.07, -1.0, 0.0), (0.07, 1.0, 0.0))
    assert once.any()
    close(pressed(CYLINDER, (0.07, -1.0, 0.0), (0.07, 1.0, 0.0), count=3), 3.0 * once)


@pytest.mark.parametrize("shape", [CYLINDER, BALL, PILL, PUCK])
def test_gradients_are_finite_where_directions_are_not_defined(shape):
    for end in ((0.0, 0.0, 0.0), (0.05, 0.0, 0.04), (0.0, 0.0, 0.04), (0.2, 0.0, 0.0)):
        ends = torch.tensor([end]).requires_grad_()
        pushed = Contact(shape, [REACH])(ends, ends, torch.zeros(3))
        pushed.sum().backward()
        assert pushed.isfinite().all()
        assert ends.grad.isfinite().all()


LINKS = """<mujoco><worldbody>
  <body name="object" pos="0 0 0.1"><joint type="slide" axis="1 0 0"/>{object}</body>
  <geom type="capsule" size="0.1" fromto="0 0 0 1 0 0"/>
  <body><joint name="one"/>
    <geom type="capsule" size="0.02" fromto="0 0.1 0.2 0.3 0.1 0.2"/>
    <geom type="sphere" size="0.03" pos="0.1 0.2 0.3"/>
    <geom type="box" size="0.1 0.1 0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 1" contype="0" conaffinity="0"/>
    <geom type="sphere" size="0.04" contype="2" conaffinity="4"/>
  </body></worldbody></mujoco>"""


def model_of(geom):
    model = mujoco.MjModel.from_xml_string(LINKS.format(object=geom))
    return model, int(model.body("object").id)


@pytest.mark.parametrize(
    ("geom", "shape"),
    [
        ('<geom type="sphere" size="0.05"/>', Shape(0.0, 0.0, 0.05, True)),
        ('<geom type="cylinder" size="0.05 0.04"/>', Shape(0.05, 0.04, 0.0, True)),
        ('<geom type="capsule" size="0.05 0.04"/>', Shape(0.0, 0.04, 0.05, True)),
        (
            '<geom type="cylinder" size="0.05 0.04"/>'
            '<geom type="box" size="1 1 1" contype="0" conaffinity="0"/>',
            Shape(0.05, 0.04, 0.0, True),
        ),
        ('<geom type="cylinder" size="0.05 0.04" euler="90 0 0"/>', None),
        ('<geom type="box" size="0.05 0.05 0.05"/>', None),
        ('<geom type="sphere" size="0.05" pos="0 0.1 0"/>', None),
        ('<geom type="sphere" size="0.05"/><geom type="sphere" size="0.04"/>', None),
        ('<geom type="sphere" size="0.05" contype="0" conaffinity="0"/>', None),
    ],
)
def test_upright_round_objects_are_known(geom, shape):
    assert shape_of(*model_of(geom)) == shape


@pytest.mark.parametrize(
    ("axis", "turned", "level"),
    [("1 2 0", "", True), ("0 0 1", "", False), ("1 0 1", "", False), ("0 0 1", "90 0 0", True)],
)
def test_what_a_joint_moves_up_is_not_level(axis, turned, level):
    joint = f'<joint type="slide" axis="{axis}"/>'
    text = LINKS.replace('<joint type="slide" axis="1 0 0"/>', joint)
    text = text.replace('pos="0 0 0.1"', f'pos="0 0 0.1" euler="{turned or "0 0 0"}"')
    model = mujoco.MjModel.from_xml_string(text.format(object='<geom size="0.05"/>'))
    assert shape_of(model, int(model.body("object").id)).level == level


def test_what_is_fixed_to_an_object_counts_as_part_of_it():
    ball = '<geom type="sphere" size="0.05"/>'
    ghost = '<body><geom size="0.1" contype="0" conaffinity="0"/></body>'
    assert shape_of(*model_of(ball + ghost)) is not None
    assert shape_of(*model_of(f'{ball}<body pos="0 0 1"><geom size="0.1"/></body>')) is None


def test_excluded_links_do_not_push():
    excluded = '<contact><exclude body1="arm" body2="object"/></contact></mujoco>'
    text = LINKS.replace("<body><joint", '<body name="arm"><joint').replace("</mujoco>", excluded)
    model = mujoco.MjModel.from_xml_string(text.format(object='<geom size="0.05"/>'))
    assert links_against(model, int(model.body("object").id), ("one",)) == []


def test_links_are_the_round_parts_that_move_and_collide():
    model, body = model_of('<geom type="sphere" size="0.05"/>')
    capsule, sphere = links_against(model, body, ("one",))
    assert (capsule.radius, sphere.radius) == (0.02, 0.03)
    assert {capsule.first.place, capsule.second.place} == {(0.0, 0.1, 0.2), (0.3, 0.1, 0.2)}
    assert sphere.first == sphere.second
    assert sphere.first.place == (0.1, 0.2, 0.3)
    assert links_against(model, body, ("another",)) == []


def test_the_pushers_contact_is_that_of_mujoco():
    task = make_task("pusher", 0.0)
    states = touching(task, 1000)
    found = task.geometry.modelled(states)[:, -3:].numpy()
    robot = task.robot()
    model, body = robot.model, robot.model.geom("object").id
    names = ("fork", "right_tine", "left_tine")
    errors, touched = [], 0
    for state, push in zip(states.double().numpy(), found, strict=True):
        robot.set_state(state)
        mujoco.mj_forward(model, robot.data)
        expected, depth = np.zeros(3), 0.0
        for name in names:
            points = np.zeros(6)
            gap = mujoco.mj_geomDistance(model, robot.data, model.geom(name).id, body, 1.0, points)
            way = np.sign(gap) * (points[3:] - points[:3])
            way /= np.linalg.norm(way)
            depth = min(depth, gap)
            slope = np.linalg.norm(way[:2])
            sideways = max(at(gap / max(slope, FLATTEST)), 0.0) * min(slope / FLATTEST, 1.0)
            expected[:2] += sideways * way[:2] / max(slope, 1e-9)
            expected[2] += max(at(gap), 0.0) * way[2]
        # Beyond it, the shortest way out of a cylinder may be up.
        if depth > -0.01:
            touched += expected.any()
            errors.append(np.abs(push - expected).max())
    assert touched > 100
    assert np.quantile(errors, 0.6) < 1e-4
    assert np.quantile(errors, 0.95) < 5e-3


def test_the_object_goes_where_the_model_sees_it_pushed():
    task = make_task("pusher", 0.0)
    robot = task.robot()
    states = touching(task, 1000).double().numpy()
    seen = task.geometry.modelled(torch.as_tensor(states).float())[:, -3:].numpy()
    ways, pushes = [], []
    for state, push in zip(states, seen, strict=True):
        if not (1.0 < np.linalg.norm(push[:2]) < 3.0 and abs(push[2]) < 0.01):
            continue
        robot.set_state(state)
        ways.append(robot.step(np.zeros(7))[14:16] - state[14:16])
        pushes.append(push[:2])
    ways, pushes = np.array(ways), np.array(pushes)
    moved = (ways != 0.0).any(axis=1)
    assert moved.sum() > 30
    assert moved.mean() > 0.9
    ways, pushes = ways[moved], pushes[moved]
    lengths = np.linalg.norm(ways, axis=1) * np.linalg.norm(pushes, axis=1)
    cosines = (ways * pushes).sum(axis=1) / lengths
    assert np.median(cosines) > 0.999


def test_an_object_may_have_its_shape_in_a_part_of_it(tmp_path):
    """Nothing is known of the contact then, and nothing is wrong."""
    part = (
        '<geom size=".03" contype="0" conaffinity="0"/>'
        '<body pos="0 0 .02"><geom size=".03"/></body>'
    )
    task_of(tmp_path, pushing(tmp_path, part))
