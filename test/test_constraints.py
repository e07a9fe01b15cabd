"""Every constraint against its closed form, its gradient, and its graph."""

import math
import re

import numpy as np
import onnxruntime
import pytest
import torch
from own_robots import ARM, EXAMPLES, PENDULUM, changed, modelled, refusal, task_of, write

from hucrl_ros.config.task_file import find_description, read_description, store_description
from hucrl_ros.robots.resolve import resolve
from hucrl_ros.tasks import Task, make_task
from hucrl_ros.tasks.constraints import ROOMS
from hucrl_ros.tasks.export_check import check_export, trace

# shoulder, elbow, their speeds, goal_x, goal_y
STATE = (math.pi / 2, -math.pi / 2, 0.5, -2.0, 0.3, 0.1)
"""The upper arm points along y, the forearm along x: the hand is at (0.3, 0.3, 0), and the elbow
at (0, 0.3, 0)."""
ACTION = (0.5, -1.0)
BOX = {"shape": "box", "center": [0.0, 0.3, 0.0], "half_sizes": [0.1, 0.2, 0.3]}
BALL = {"shape": "sphere", "center": [0.3, 0.0, 0.4], "radius": 0.1}
PIPE = {"shape": "capsule", "ends": [[0.0, 0.0, 0.0], [0.0, 0.2, 0.0]], "radius": 0.05}
FLOOR = {"shape": "half_space", "point": [0.0, -0.2, 0.0], "normal": [0.0, 3.0, 4.0]}
FUNCTIONS = """
import torch


def low(state, action, robot):
    return 1.0 - robot.position(state, "shoulder") - robot.effort(action, "elbow")


def two(state, action, robot):
    return state[..., :2]


def number(state, action, robot):
    return 1.0


def moving(state, action, robot):
    state[..., 0] -= 1.0
    return state[..., 0]


def broken(state, action, robot):
    return robot.site(state, "toe")[..., 0]


def unknown(state, action, robot):
    return state[..., 0] * float("nan")


def branching(state, action, robot):
    return 10.0 + state[..., 0] if bool((state[..., 0] > 0).any()) else 10.0 - state[..., 0]


def elsewhere(state, action, robot):
    return 10.0 + torch.as_tensor(state.detach().numpy())[..., 0]
"""


def described(*limits, **robot):
    """The planar arm with another point, at its elbow."""
    sites = {**ARM["robot"]["sites"], "knee": {"body": "forearm"}}
    document = changed(ARM, sites=sites, start={**ARM["robot"]["start"], "elbow": 0.5}, **robot)
    return {**document, "constraints": [{"margin": 1.0, **limit} for limit in limits]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arm")
    (folder / "mine.py").write_text(FUNCTIONS)
    return folder


def limited(folder, *limits):
    return task_of(folder, described(*limits, joint_limits=False))


def room(task, state=STATE, action=ACTION):
    state, action = (torch.tensor([x], dtype=torch.float64) for x in (state, action))
    return task.room(state, action)[0].tolist()


LIMITS = [
    ({"kind": "position", "joint": "shoulder", "low": -1.0, "high": 4.0}, 4.0 - math.pi / 2),
    ({"kind": "position", "joint": "shoulder", "low": -1.0}, 1.0 + math.pi / 2),
    ({"kind": "position", "joint": "shoulder", "high": 1.0}, 1.0 - math.pi / 2),
    ({"kind": "position", "joint": "elbow", "margin": 0.2}, 5.0 * (2.6 - math.pi / 2)),
    ({"kind": "speed", "joint": "elbow", "largest": 3.0}, 1.0),
    ({"kind": "speed", "joint": "elbow", "largest": 1.5}, -0.5),
    ({"kind": "power", "joint": "elbow", "largest": 5.0, "margin": 0.5}, 6.0),
    ({"kind": "inside", "of": "knee", "region": BOX}, 0.1),
    ({"kind": "inside", "of": "knee", "region": BOX, "radius": 0.02}, 0.08),
    ({"kind": "inside", "of": "hand", "region": BOX}, -0.2),
    ({"kind": "outside", "of": [0.4, 0.1, 0.7], "region": BOX}, math.hypot(0.3, 0.4)),
    ({"kind": "outside", "of": "hand", "region": BALL, "radius": 0.05}, 0.5 - 0.15),
    ({"kind": "outside", "of": "goal", "region": {**BALL, "center": [0.3, 0.1, 0.4]}}, 0.3),
    ({"kind": "outside", "of": "hand", "region": PIPE}, math.hypot(0.3, 0.1) - 0.05),
    ({"kind": "outside", "of": [0.07, 0.1, 0.0], "region": PIPE}, 0.02),
    ({"kind": "inside", "of": "hand", "region": FLOOR, "radius": 0.1}, 0.3 - 0.1),
    ({"kind": "outside", "of": "hand", "region": FLOOR}, -0.3),
    ({"kind": "apart", "of": "hand", "to": "goal", "distance": 0.05}, 0.2 - 0.05),
    ({"kind": "apart", "of": ["hand", "knee"], "to": "goal", "distance": 0.05}, 0.15),
    (
        {"kind": "apart", "of": ["knee", "hand"], "to": [[0.1, 0.0, 0.2], [0.1, 0.9, 0.2]]}
        | {"distance": 0.05},
        0.15,
    ),
    (
        {"kind": "apart", "of": ["knee", "hand"], "to": [[0.5, 0.1, 0.2], [0.8, 0.7, 0.2]]}
        | {"distance": 0.01},
        math.hypot(0.2 * 2 / math.sqrt(5) + 0.2 / math.sqrt(5), 0.2) - 0.01,
    ),
    ({"kind": "function", "function": "mine.py:low"}, 2.0 - math.pi / 2),
]


@pytest.mark.parametrize(("limit", "expected"), LIMITS)
def test_the_room_is_the_signed_distance_in_margins(folder, limit, expected, monkeypatch):
    # Some of them don't hold where episodes start.
    monkeypatch.setattr("hucrl_ros.tasks.constraints.ROUNDING", math.inf)
    assert room(limited(folder, limit)) == [pytest.approx(expected, abs=1e-9)]


GEARED = """<mujoco><worldbody><body>
  <joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1"/>
</body></worldbody>
<actuator><motor joint="rail" ctrlrange="-3 3" gear="100"/></actuator></mujoco>"""


def test_power_is_what_reaches_the_joint_through_a_gear(tmp_path):
    document = modelled(tmp_path, GEARED)
    limit = {"kind": "power", "joint": "rail", "largest": 400.0, "margin": 20.0}
    task = task_of(tmp_path, {**document, "constraints": [limit]})
    assert room(task, (0.0, 1.0), (3.0,)) == [pytest.approx((400.0 - 3.0 * 100.0) / 20.0)]


def test_every_kind_has_a_case():
    kinds = {limit["kind"] for limit, _ in LIMITS}
    assert kinds == {*ROOMS, "function"}


@pytest.fixture(scope="module")
def every(folder):
    """All of the cases at once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("hucrl_ros.tasks.constraints.ROUNDING", math.inf)
        return limited(folder, *(limit for limit, _ in LIMITS))


def drawn(task, count):
    generator = torch.Generator().manual_seed(3)
    states = task.imagined_states(count, generator)
    return states, torch.randn(count, task.spec.action_dim, generator=generator)


def test_gradients_are_those_of_finite_differences(every):
    states, actions = (x.double() for x in drawn(every, 40))
    states.requires_grad_(True)
    actions.requires_grad_(True)
    step = 1e-6
    for k, values in enumerate(every.room(states, actions).sum(dim=0)):
        for source in (states, actions):
            found = torch.autograd.grad(values, source, retain_graph=True, allow_unused=True)[0]
            found = torch.zeros_like(source) if found is None else found
            for column in range(source.shape[1]):
                way = torch.zeros_like(source)
                way[:, column] = step
                both = [
                    every.room(states + s * way, actions)
                    if source is states
                    else every.room(states, actions + s * way)
                    for s in (1.0, -1.0)
                ]
                slope = (both[0] - both[1])[:, k] / (2 * step)
                torch.testing.assert_close(found[:, column], slope, atol=1e-5, rtol=1e-4)


def test_batches_of_any_shape_have_the_same_rooms(every):
    states, actions = drawn(every, 12)
    flat = every.room(states, actions)
    assert flat.shape == (12, len(LIMITS))
    nested = every.room(states.reshape(3, 2, 2, -1), actions.reshape(3, 2, 2, -1))
    assert nested.shape == (3, 2, 2, len(LIMITS))
    torch.testing.assert_close(nested.reshape(12, -1), flat)
    assert every.room(states[0], actions[0]).shape == (len(LIMITS),)


def test_rooms_and_their_gradients_are_finite_where_distances_vanish(folder):
    at_hand = {"shape": "sphere", "center": [0.3, 0.3, 0.0], "radius": 0.1}
    task = limited(
        folder,
        {"kind": "outside", "of": "hand", "region": at_hand},
        {"kind": "apart", "of": ["knee", "hand"], "to": ["knee", "hand"], "distance": 1e-6},
        {"kind": "apart", "of": ["hand", "hand"], "to": ["hand", "goal"], "distance": 1e-6},
    )
    state = torch.tensor([STATE], dtype=torch.float64, requires_grad=True)
    found = task.room(state, torch.tensor([ACTION], dtype=torch.float64))
    assert found[0].tolist() == pytest.approx([-0.1, 0.0, 0.0], abs=1e-5)
    found.sum().backward()
    assert state.grad.isfinite().all()


@pytest.mark.parametrize("case", range(200))
def test_lines_are_as_far_apart_as_the_nearest_of_many_of_their_points(case):
    from hucrl_ros.tasks.constraints import _between

    draws = np.random.default_rng(case)
    ends = draws.normal(size=(4, 3))
    if case % 4 == 1:  # parallel
        ends[3] = ends[2] + draws.normal() * (ends[1] - ends[0])
    if case % 4 == 2:  # in a plane
        ends[:, 2] = 0.0
    shares = np.linspace(0.0, 1.0, 401)[:, None]
    one, two = (a + shares * (b - a) for a, b in (ends[:2], ends[2:]))
    nearest = np.linalg.norm(one[:, None] - two[None], axis=-1).min()
    found = torch.linalg.vector_norm(_between(*torch.as_tensor(ends)))
    assert float(found) == pytest.approx(nearest, abs=0.02)
    assert float(found) <= nearest + 1e-9


class _Rooms(torch.nn.Module):
    def __init__(self, task):
        super().__init__()
        self.task = task

    def forward(self, state, action):
        return self.task.room(state, action)


def test_onnx_computes_what_torch_does_for_every_kind(every):
    few, many = drawn(every, 3), drawn(every, 50)
    content = trace(_Rooms(every), dict(zip(("state", "action"), few, strict=True)), ["room"])
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    inputs = dict(zip(("state", "action"), (x.numpy() for x in many), strict=True))
    (found,) = session.run(None, inputs)
    np.testing.assert_allclose(found, every.room(*many), rtol=1e-4, atol=1e-4)


# What a description leaves out


def test_limits_of_joints_are_constraints_by_default():
    task = make_task("cartpole", 0.0)
    assert task.constraint_names == ("position of cart_joint -2.5 … 2.5",)
    state = torch.tensor([[2.4, 0.0, 0.0, 0.0]])
    assert task.room(state, torch.zeros(1, 1)).item() == pytest.approx(1.0, abs=1e-5)


def test_limits_of_the_description_go_before_those_of_the_model(tmp_path):
    task = task_of(tmp_path, changed(ARM, limits={"elbow": [-1.0, 2.0]}))
    (limit,) = task.described.constraints
    assert (limit.low, limit.high, limit.margin) == (-1.0, 2.0, pytest.approx(0.06))


def test_a_joints_own_constraint_takes_the_place_of_the_default(tmp_path):
    own = {"kind": "position", "joint": "elbow", "high": 1.0, "about": "the cable"}
    task = task_of(tmp_path, {**ARM, "constraints": [own]})
    assert task.constraint_names == ("position of elbow -2.6 … 1 (the cable)",)
    assert task.described.constraints[0].margin == pytest.approx(0.072)
    other = {"kind": "speed", "joint": "elbow", "largest": 4.0}
    task = task_of(tmp_path, {**ARM, "constraints": [other]})
    assert task.constraint_names == ("speed of elbow ≤ 4", "position of elbow -2.6 … 2.6")
    assert task.described.constraints[0].margin == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"low": -90, "high": 90}, "low = -90 is beyond the limits of 'elbow', -2.6 … 2.6 (the"),
        ({"high": 3.0}, "high = 3 is beyond the limits of 'elbow', -2.6 … 2.6 (the model's or"),
        ({"low": 4.0}, "low = 4 is beyond the limits of 'elbow', -2.6 … 2.6 (the model's or"),
    ],
)
def test_a_joints_own_constraint_is_not_wider_than_the_model(tmp_path, limit, message):
    own = {"kind": "position", "joint": "elbow", "margin": 0.1, **limit}
    document = {**ARM, "constraints": [own]}
    found = refusal(tmp_path, document)
    assert f"constraints.0 (position): {message}" in found
    assert found.endswith("expected a value within them, or robot.joint_limits: false")
    # Where the model's limits are dropped, no more than an order is expected.
    document = changed(document, joint_limits=False)
    if limit != {"low": 4.0}:
        assert len(task_of(tmp_path, document).constraint_names) == 1
    else:
        assert "low = 4 isn't less than high = 2.6; which" in refusal(tmp_path, document)


def test_limits_as_they_are_in_the_model_are_accepted(tmp_path):
    own = {"kind": "position", "joint": "elbow", "low": -2.6, "high": 2.6, "margin": 0.1}
    assert task_of(tmp_path, {**ARM, "constraints": [own]}).constraint_names
    wider = changed(ARM, limits={"elbow": [-3.0, 3.0]})
    own = {"kind": "position", "joint": "elbow", "low": -2.9, "high": 2.9}
    assert task_of(tmp_path, {**wider, "constraints": [own]}).constraint_names
    # A joint without limits takes any.
    own = {"kind": "position", "joint": "shoulder", "low": -90.0, "high": 90.0}
    assert task_of(tmp_path, {**ARM, "constraints": [own]}).constraint_names


def test_the_default_can_be_turned_off(tmp_path):
    task = task_of(tmp_path, changed(ARM, joint_limits=False))
    assert task.constraint_names == ()
    assert task.reward_range == 0.0
    states, actions = drawn(task, 7)
    assert task.room(states, actions).shape == (7, 0)


def test_a_robot_without_limits_has_no_constraint():
    assert make_task("pendulum", 0.2).constraint_names == ()


def test_a_second_task_of_a_robot_has_its_constraints(tmp_path, folder):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "mine.py").write_text(FUNCTIONS)
    theirs = {"kind": "function", "function": "mine.py:low", "margin": 1.0}
    write(tmp_path / "one", described(theirs), "arm.yaml")
    mine = {"kind": "speed", "joint": "elbow", "largest": 4.0}
    second = {"robot": "one/arm.yaml", "constraints": [mine], "task": {"name": "second"}}
    task = task_of(tmp_path, {**second, "reward": {"terms": [{"term": "effort"}]}})
    assert [limit.kind for limit in task.described.constraints] == [
        "function",
        "speed",
        "position",
    ]
    assert room(task)[0] == pytest.approx(2.0 - math.pi / 2)


def test_two_walls_that_meet_in_a_point_are_told_apart(folder):
    walls = [{**FLOOR, "normal": normal} for normal in ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0])]
    limits = [{"kind": "inside", "of": "hand", "region": wall} for wall in (*walls, PIPE)]
    assert read_description(write(folder, described(*limits))).constraint_names == (
        "hand inside half-space at (0.0, -0.2, 0.0) [0]",
        "hand inside half-space at (0.0, -0.2, 0.0) [1]",
        "hand inside capsule of 0.05 m, (0.0, 0.0, 0.0)–(0.0, 0.2, 0.0)",
    )


def test_a_run_keeps_the_constraints(tmp_path, folder):
    limits = [LIMITS[0][0], LIMITS[-1][0]]
    found = resolve(read_description(write(folder, described(*limits))))
    store_description(found, tmp_path / "robot")
    kept = find_description(tmp_path / "robot", found.name)
    assert kept.same_as(found)
    assert resolve(kept).constraints == kept.constraints
    assert room(Task(kept, 0.0)) == room(Task(found, 0.0))
    other = resolve(read_description(write(folder, described(*limits[:1]))))
    assert not kept.same_as(other)
    assert kept.same_task_as(other)


def test_the_example_keeps_the_cart_within_a_metre():
    task = Task(resolve(read_description(EXAMPLES / "short_rail" / "short_rail.yaml")), 0.1)
    states = torch.tensor([[0.9, 0, 0, 0], [-1.0, 0, 0, 0], [1.1, 0, 0, 0]])
    actions = torch.ones(3, 1)
    assert task.room(states, actions).squeeze(1).tolist() == pytest.approx([2, 0, -2], abs=1e-4)
    usual = make_task("cartpole", 0.1)
    assert torch.equal(task.reward(states, actions), usual.reward(states, actions))


# What is refused


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"kind": "speeds"}, "constraints.0: unknown 'speeds'; did you mean 'speed'?"),
        ({"kind": "position"}, "constraints.0.position.joint is missing"),
        ({"kind": "speed", "joint": "elbow"}, "constraints.0.speed.largest is missing"),
        (
            {"kind": "position", "joint": "hip"},
            "constraints.0 (position): 'hip' is no joint; known: shoulder, elbow",
        ),
        (
            {"kind": "position", "joint": "shoulder"},
            "constraints.0 (position): 'shoulder' has no limits in the model; give low or high",
        ),
        (
            {"kind": "position", "joint": "shoulder", "low": -1.0, "margin": None},
            "constraints.0 (position): margin is missing",
        ),
        (
            {"kind": "position", "joint": "elbow", "low": 1.0, "high": 0.0},
            "constraints.0.position: low = 1 isn't less than high = 0",
        ),
        (
            {"kind": "position", "joint": "elbow", "low": 0.0, "margin": 1.3},
            "constraints.0.position: margin = 1.3 leaves no room between low = 0 and high = 2.6",
        ),
        (
            {"kind": "speed", "joint": "elbow", "largest": 1.0, "margin": 1.0},
            "constraints.0.speed: margin = 1 leaves no room below largest = 1",
        ),
        (
            {"kind": "speed", "joint": "hip", "largest": 2.0},
            "constraints.0 (speed): 'hip' is no joint",
        ),
        ({"kind": "power", "joint": "hip", "largest": 2.0}, "constraints.0 (power): 'hip' is no"),
        (
            {"kind": "inside", "of": "toe", "region": BALL},
            "constraints.0 (inside): the model has no site 'toe'; known: ",
        ),
        (
            {"kind": "inside", "of": "hand", "region": BALL},
            "constraints.0 (inside): hand inside sphere of 0.1 m at (0.3, 0.0, 0.4): episodes "
            "start ",
        ),
        (
            {"kind": "inside", "of": "hand", "region": {"shape": "ball"}},
            "constraints.0.inside.region: unknown 'ball'",
        ),
        (
            {"kind": "outside", "of": "hand", "region": {**FLOOR, "normal": [0, 0, 0]}},
            "constraints.0.outside.region.half_space.normal: [0.0, 0.0, 0.0]: expected a dir",
        ),
        (
            {"kind": "outside", "of": "hand", "region": {**BOX, "half_sizes": [1, 0, 1]}},
            "constraints.0.outside.region.box.half_sizes: [1.0, 0.0, 1.0]: expected three pos",
        ),
        (
            {"kind": "outside", "of": [0, 0], "region": BALL},
            "constraints.0.outside.of: [0, 0]: expected the name of a site or body, or three "
            "numbers [m], 2 given",
        ),
        (
            {"kind": "outside", "of": "hand", "region": {**PIPE, "ends": ["hand", 3]}},
            "constraints.0.outside.region.capsule.ends.1: 3: expected the name of a site or body,",
        ),
        *(
            (
                {"kind": "apart", "of": "hand", "to": place, "distance": 0.1},
                f"constraints.0.apart.to: {place!r}: expected the name of a site or body, three "
                "numbers [m], or two of these",
            )
            for place in ([0, 0], ["hand"] * 3, ["hand", [0, 0]], 3)
        ),
        ({"kind": "function", "function": "no.py:f"}, "constraints.0.function = 'no.py:f': no s"),
        ({"kind": "function", "function": "mine.py:f"}, "mine.py: has no function 'f'"),
        ({"kind": "function", "function": "mine.py:two"}, "the room of 64 states is (64, 2)"),
        ({"kind": "function", "function": "mine.py:number"}, "the room is a float, not"),
        ({"kind": "function", "function": "mine.py:moving"}, "the room changes the states or act"),
        ({"kind": "function", "function": "mine.py:broken"}, "the model has no site 'toe'"),
        ({"kind": "function", "function": "mine.py:unknown"}, "constraints.0 (function): the"),
    ],
)
def test_a_wrong_constraint_is_one_line(folder, limit, message):
    found = refusal(folder, described(limit, joint_limits=False))
    assert message in found
    assert "mine." in found


def test_all_drawn_starts_have_to_keep_a_constraint(tmp_path):
    own = {"kind": "position", "joint": "elbow", "low": -1.0, "high": 1.0}

    def starting(elbow):
        start = {**ARM["robot"]["start"], "elbow": elbow}
        return {**changed(ARM, start=start), "constraints": [own]}

    found = refusal(tmp_path, starting({"low": -2.0, "high": 2.0}))
    place = "constraints.0 (position): position of elbow -1 … 1: episodes start "
    beyond, count = re.search(
        re.escape(place) + r"(\S+) beyond the limit, (\d+) of 501 starts tried; narrow", found
    ).groups()
    assert 0.9 < float(beyond) <= 1.0
    assert 200 < int(count) < 300
    assert found == refusal(tmp_path, starting({"low": -2.0, "high": 2.0}))
    assert "episodes start 0.5 beyond" in refusal(tmp_path, starting(1.5))
    assert task_of(tmp_path, starting({"low": -1.0, "high": 1.0})).constraint_names


def test_power_is_of_efforts_alone(folder):
    limit = {"kind": "power", "joint": "elbow", "largest": 2.0}
    servos = {"shoulder": {"kv": 1.0}, "elbow": {"kv": 1.0}}
    document = described(limit, command="velocity", command_limits=[1.0, 1.0], servos=servos)
    assert "constraints.0 (power): robot.command = velocity" in refusal(folder, document)


@pytest.mark.parametrize("name", ["branching", "elsewhere"])
def test_a_function_that_cannot_be_exported_is_refused(folder, name):
    task = limited(folder, {"kind": "function", "function": f"mine.py:{name}"})
    with pytest.raises(Exception, match=r"mine\.py: .*the room ") as caught:
        check_export(task)
    assert "\n" not in str(caught.value)


def test_constraints_that_can_be_exported_are_accepted(every):
    check_export(every)


def test_what_is_no_list_of_constraints_is_refused(tmp_path):
    assert "constraints" in refusal(tmp_path, {**PENDULUM, "constraints": {"kind": "speed"}})
