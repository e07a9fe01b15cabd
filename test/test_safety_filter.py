"""The safety filter: what it lets through can be stopped, whatever the model holds possible."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from bundle_factory import learned, shake
from bundle_factory import write_bundle as write
from hypothesis import given, settings
from hypothesis import strategies as st
from interfaces import described
from own_robots import task_of
from sliding_mass import Drive, Knocked, Slide, filter_of, wall

from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import ControlSettings, ModelSettings, SafetySettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.backup import BRAKING, Joints, backups
from hucrl_ros.controller.braking import BrakingRule
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.engines.fan import Fan
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.motors import Motors
from hucrl_ros.controller.safety_filter import BLENDS, SafetyFilter, make_safety_filter
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.timing import DelayCompensation, InForce
from hucrl_ros.experiments.train import train
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run

MARGIN = 0.05
ARMS = [str(Path(__file__).with_name(name)) for name in ("reacher_post.yaml", "pusher_fence.yaml")]


def drive(slide, found, wanted, eta, start=(0.0, 0.0), rate=np.inf, before=0.0, hurried=0.0):
    """Places that a slide gets to, and how often the filter overruled what was wanted.

    `rate`: of the guard behind it, which had sent the effort `before`. `hurried`: how probable it
    is that there is no time for another fan.
    """
    hurry = np.random.default_rng(len(wanted))
    state, places, overruled, sent = np.array(start), [], 0, np.array([before])
    found.start_episode()
    found.obey(sent)
    for share, doubt in zip(wanted, eta, strict=True):
        let = found.check(state, np.array([share]), go_on=lambda: bool(hurry.random() >= hurried))
        overruled += let.overruled
        assert np.all(abs(let.action) <= 1.0)
        sent = np.clip(let.action, sent - rate, sent + rate)
        found.obey(sent)
        state = slide.step(state, sent, doubt)
        places.append(state[0])
    return np.array(places), overruled


def _backups(found, state, home):
    return backups(found.spec, found.joints, state, home, found._expect, found._limits)


def test_an_action_far_from_every_wall_goes_through_as_it_is():
    slide = Slide()
    found = filter_of(slide, wall(-100.0, 100.0, MARGIN))
    for share in (-1.0, 0.3, 1.0):
        let = found.check(np.array([0.5, 2.0]), np.array([share]))
        assert (let.action, let.overruled, let.constraint, let.proved) == (share, False, -1, True)


def test_full_effort_towards_a_wall_ends_before_it():
    slide = Slide()
    places, overruled = drive(
        slide, filter_of(slide, wall(-1.0, 1.0, MARGIN)), [1.0] * 200, [0.0] * 200
    )
    assert places.max() <= 1.0 - MARGIN + 1e-3
    assert places.max() > 0.8  # It isn't kept from where it may be.
    assert overruled > 0


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_what_is_refused_is_near_the_largest_safe_set(speed):
    """A mass of speed v can stop within v²/2a: from further away coasting is let through."""
    slide, wall_at = Slide(gain=0.5), 10.0
    found = filter_of(slide, wall(-wall_at, wall_at, MARGIN), horizon=60)
    inside = wall_at - MARGIN

    def allowed(place):
        found.start_episode()
        found.check(np.zeros(2), np.zeros(1))
        return not found.check(np.array([place, speed]), np.zeros(1)).overruled

    least = speed * slide.period + speed**2 / 2.0 / slide.fastest_stop
    assert not allowed(inside - 0.98 * least)
    # The backup brakes by a share of the speed in a period, and never harder than it can.
    assert allowed(inside - 1.1 * least - 4.0 * speed * slide.period)


def test_the_constraint_that_asked_is_named():
    slide = Slide()

    def room(states, actions):
        place = states[:, 0]
        return np.stack([50.0 - place, (1.0 - place) / MARGIN, 50.0 + place], axis=1)

    found = filter_of(slide, room)
    let = [found.check(np.array([x, 0.5]), np.ones(1)) for x in (0.0, 0.92)]
    assert [each.constraint for each in let] == [-1, 1]


def test_who_is_outside_is_let_in_and_no_further_out():
    slide = Slide()
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN))
    state = np.array([1.3, 0.0])
    inward = found.check(state, np.array([-0.4]))
    assert (inward.action[0], inward.overruled) == (-0.4, False)
    outward = found.check(state, np.array([0.4]))
    assert outward.overruled
    assert outward.action[0] <= 0.0


@pytest.mark.parametrize(
    "speed",
    [1e-3, 1e-2, *(pytest.param(s, marks=pytest.mark.slow) for s in (5e-6, 2e-3))],
)
@pytest.mark.parametrize("rule", [True, False])
def test_what_rounding_leaves_is_lost_once_and_not_in_each_tick(speed, rule):
    slide, state = Slide(), np.array([1.0 - 1.001 * MARGIN, 0.0])
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), promised=float(rule))
    guard = found._rule or found
    for _ in range(4000):
        let = guard.check(state, np.array([(speed - state[1]) / slide.gain]))
        state = slide.step(state, let.action, 0.0)
        assert state[0] <= 1.0 - MARGIN * (1.0 - 3e-3)


def test_doubt_keeps_a_robot_further_away():
    reached = []
    for doubt in (0.0, 0.1, 0.3):
        slide = Slide(gain=0.8, doubt=doubt)
        places, _ = drive(
            slide, filter_of(slide, wall(-1.0, 1.0, MARGIN)), [1.0] * 150, [0.0] * 150
        )
        reached.append(places.max())
    assert reached == sorted(reached, reverse=True)
    assert reached[0] - reached[-1] > 0.02


@pytest.mark.parametrize("doubt", [0.05, 0.15])
@pytest.mark.parametrize("share", [0.5, 1.0])
@pytest.mark.parametrize("steady", [True, False])
def test_what_is_doubted_until_a_command_acts_is_held_possible(doubt, share, steady):
    """A command comes late, and its state is predicted: by the mean, which isn't what happens."""
    slide, draws = Slide(gain=0.5, doubt=doubt), np.random.default_rng(0)
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=12)
    state, acts, farthest = np.zeros(2), np.zeros(1), 0.0
    late, soon = (
        Slide(gain=part * slide.gain, doubt=part * doubt, period=part * slide.period)
        for part in (share, 1.0 - share)
    )
    for _ in range(200):
        eta = 1.0 if steady else np.sign(draws.standard_normal())
        ahead = late.step(state, acts, 0.0)
        let = found.check(ahead, np.ones(1), False, state, [InForce(acts, share)])
        assert let.proved
        state = soon.step(late.step(state, acts, eta), let.action, eta)
        acts, farthest = let.action, max(farthest, state[0])
    assert 0.8 < farthest <= 1.0 - MARGIN + 2e-3


@pytest.mark.parametrize("true", [0, 1])
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_what_a_head_says_until_a_command_acts_is_held_possible(true, share):
    """One of two heads is right; their mean predicts where commands act, a period late."""
    slide, lean = Slide(gain=0.5), 0.15
    heads = [slide._replace(slope=lean), slide._replace(slope=-lean)]
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=12, heads=heads)

    def part_of(slide, part):
        return slide._replace(
            gain=part * slide.gain, slope=part * slide.slope, period=part * slide.period
        )

    state, acts, farthest = np.zeros(2), np.zeros(1), 0.0
    for _ in range(200):
        ahead = part_of(slide, share).step(state, acts, 0.0)
        let = found.check(ahead, np.ones(1), False, state, [InForce(acts, share)])
        state = part_of(heads[true], share).step(state, acts, 0.0)
        state = part_of(heads[true], 1.0 - share).step(state, let.action, 0.0)
        acts, farthest = let.action, max(farthest, state[0])
    assert 0.8 < farthest <= 1.0 - MARGIN + 5e-3


def test_an_agent_tells_its_filter_how_the_robot_comes_to_where_an_action_acts(tmp_path):
    bundle = untrained_bundle(tmp_path / "bundle", "cartpole", ModelSettings(kind="gp"))
    agent, asked = Agent(bundle, None, safety=SafetySettings(filter=True)), []
    check = agent._filter.check
    agent._filter.check = lambda *told: asked.append(told) or check(*told)
    state, coming = np.array([0.1, 0.0, 0.2, 0.0]), [InForce(np.ones(1), 1.0)]
    agent.act(state, coming=coming)
    ahead, *_, measured, given, _ = asked[0]
    assert measured.tolist() == state.tolist()
    assert ahead.tolist() != state.tolist()
    assert given == coming


@pytest.mark.parametrize("largest", [100.0, 3000.0])
def test_doubt_counts_in_large_units_too(largest):
    """A rotor's margin is more than a hundred times the step by which slopes are found."""
    slide = Slide(gain=largest / 30.0, doubt=largest / 50.0)

    def room(states, actions):
        return (largest - abs(states[:, 1:])) / (0.05 * largest)

    found, state, speeds = filter_of(slide, room, horizon=12), np.zeros(2), []
    for _ in range(60):
        let = found.check(state, np.ones(1))
        assert let.proved
        state = slide.step(state, let.action, 1.0)
        speeds.append(state[1])
    assert 0.8 * largest < max(speeds) <= 0.9501 * largest


def test_a_wary_filter_holds_more_possible():
    slide = Slide(gain=0.8, doubt=0.15)
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN))
    found.check(np.zeros(2), np.zeros(1))
    places = np.linspace(0.0, 0.95, 96)

    def last(wary):
        free = [
            x for x in places if not found.check(np.array([x, 1.0]), np.zeros(1), wary).overruled
        ]
        return max(free, default=0.0)

    assert last(wary=True) < last(wary=False)


@pytest.mark.parametrize(("joint", "allowed"), [("cart", True), ("pole", False)])
def test_what_no_action_stops_has_to_be_inside_in_the_same_time_again(joint, allowed):
    """At the fan's end both joints move on equally fast; only the cart can be stopped."""
    spec = RobotSpec("cart", ("cart", "pole"), ("cart",), (1.0,), 0.05)
    entry, horizon = spec.joint_names.index(joint), 20

    def expect(states, shares):
        following = states.copy()
        following[:, 2] += 0.5 * shares[:, 0]
        return following

    def fans(state, first, backup, patterns, beta, away, begins):
        ahead = state + 0.1 * np.arange(horizon + 1)[:, None] * [1.0, 1.0, 0.0, 0.0] / horizon
        shape = (len(first), len(patterns))
        return Fan(np.broadcast_to(ahead, (*shape, *ahead.shape)), np.zeros((*shape, horizon, 1)))

    def room(states, actions):
        return (0.15 - states[:, entry : entry + 1]) / 0.01

    def deviate(states, shares):
        return np.zeros_like(states)

    fans.horizon = horizon
    found = SafetyFilter(spec, (), room, fans, expect, deviate, np.ones(1), 1.0)
    let = found.check(np.array([0.0, 0.0, 0.1, 0.1]), np.zeros(1))
    assert let.proved == allowed


@pytest.mark.parametrize("most", [np.inf, 3.0])
def test_what_is_cut_off_where_there_is_room_may_be_of_a_joint_without_a_motor(most):
    """Nothing that is tried shows any difference; the pole swings on all the same."""
    spec = RobotSpec("cart", ("cart", "pole"), ("cart",), (1.0,), 0.05)
    horizon = 20

    def expect(states, shares):
        following = states.copy()
        following[:, 1] += spec.period * states[:, 3]
        following[:, 2] += 0.5 * shares[:, 0]
        return following

    def fans(state, first, backup, patterns, beta, away, begins):
        ahead = state + spec.period * np.arange(horizon + 1)[:, None] * [0.0, state[3], 0.0, 0.0]
        shape = (len(first), len(patterns))
        return Fan(np.broadcast_to(ahead, (*shape, *ahead.shape)), np.zeros((*shape, horizon, 1)))

    def room(states, actions):
        return np.minimum((4.0 - states[:, 1:2]) / 0.05, most)

    def deviate(states, shares):
        return np.zeros_like(states)

    fans.horizon = horizon
    found = SafetyFilter(spec, (), room, fans, expect, deviate, np.ones(1), 1.0)
    proved = [found.check(np.array([0.0, at, 0.0, 1.0]), np.zeros(1)).proved for at in (1.5, 2.5)]
    assert proved == [True, False], "at 3.5 and 4.5 after the same time again"


@pytest.mark.parametrize("tip", [0.0, 0.1])
@pytest.mark.parametrize(("horizon", "wall_at"), [(12, 5.0), (20, 10.0)])
def test_a_cart_that_carries_a_joint_without_a_motor_reckons_all_of_its_way(tip, horizon, wall_at):
    """A weak one, whose fans are shorter than its way to rest; what is kept is of both joints."""
    cart = Knocked(gain=0.02, doubt=0.0, knock=0.0)

    def room(states, actions):
        place = states[:, :1] + tip * np.sin(states[:, 1:2])
        return np.minimum(wall_at - place, place + wall_at) / MARGIN

    found = filter_of(cart, room, horizon=horizon, promised=1.0)
    state, farthest = np.zeros(4), 0.0
    for _ in range(300):
        let = found.check(state, np.ones(1))
        state = cart.step(state, let.action, 0.0)
        farthest = max(farthest, state[0])
    assert 0.9 * wall_at < farthest <= wall_at


@pytest.mark.parametrize("seen", ["observed", "context"])
def test_an_object_that_was_pushed_rolls_on_when_the_arm_has_stopped(seen):
    """No action stops it, as little as a pole; what stays for an episode is stopped already."""
    spec = RobotSpec("arm", ("arm",), ("arm",), (1.0,), 0.05, **{seen: ("ball",)})
    horizon, rolls = 12, seen == "observed"

    def expect(states, shares):
        return states[:, : spec.predicted_dim] + [0.0, 0.5, *[0.0] * rolls] * shares

    def fans(state, first, backup, patterns, beta, away, begins):
        ahead = state + np.arange(horizon + 1)[:, None] * [0.0, 0.0, 0.05 * rolls]
        shape = (len(first), len(patterns))
        return Fan(np.broadcast_to(ahead, (*shape, *ahead.shape)), np.zeros((*shape, horizon, 1)))

    def room(states, actions):
        return (1.0 - states[:, 2:3]) / 0.02

    def deviate(states, shares):
        return np.zeros((len(states), spec.predicted_dim))

    fans.horizon = horizon
    found = SafetyFilter(spec, (), room, fans, expect, deviate, np.ones(1), 1.0)
    proved = [found.check(np.array([0.0, 0.0, x]), np.zeros(1)).proved for x in (-0.5, 0.3)]
    assert proved == [True, not rolls]


def test_what_is_not_finite_is_not_let_through():
    slide = Slide()

    def room(states, actions):
        return np.where(states[:, :1] > 0.5, np.nan, 1.0e3)

    found = filter_of(slide, room)
    found.check(np.zeros(2), np.zeros(1))
    let = found.check(np.array([0.4, 1.0]), np.ones(1))
    assert let.overruled


@pytest.mark.parametrize("blind", ["fans", "room"])
@pytest.mark.parametrize("promised", [0.0, 1.0])
def test_where_nothing_is_a_number_it_brakes(blind, promised):
    """At the first tick, with a wall ahead: there is no proof yet that could be gone on with."""
    slide, room = Slide(), wall(-1.0, 1.0, MARGIN)
    nowhere = lambda states, _: np.full((len(states), 1), np.nan)  # noqa: E731
    found = filter_of(slide, nowhere if blind == "room" else room, promised=promised)
    if blind == "fans":
        fans = found._fans
        found._fans = lambda *asked: fans(*asked)._replace(
            states=np.full_like(fans(*asked).states, np.nan)
        )
    let = found.check(np.array([0.9, 2.0]), np.ones(1))
    assert let.overruled
    assert not let.proved
    assert let.action[0] < 0.0


def test_the_backup_proved_before_acts_where_nothing_is_proved():
    slide = Slide()
    rooms = [wall(-1.0, 1.0, MARGIN)]

    def room(states, actions):
        return rooms[0](states, actions)

    found = filter_of(slide, room)
    assert found.check(np.array([0.2, 0.4]), np.zeros(1)).proved
    rooms[0] = lambda states, actions: np.where(states[:, :1] == 0.21, 5.0, -5.0)
    let = found.check(np.array([0.21, 0.4]), np.ones(1))
    assert not let.proved
    assert let.overruled
    assert let.action[0] < 0.0  # It brakes.


def test_whoever_takes_over_knows_the_proof_and_where_the_episode_began():
    slide = Slide()
    before, found = (filter_of(slide, wall(-1.0, 1.0, MARGIN)) for _ in range(2))
    assert before.check(np.array([0.2, 0.4]), np.zeros(1)).proved
    found.go_on_from(before)
    assert found._home == pytest.approx([0.2])
    found._rooms._room = lambda states, _: np.full((len(states), 1), np.nan)
    let = found.check(np.array([0.22, 0.4]), np.ones(1))
    assert not let.proved
    assert let.action < 0.0
    assert found._backup.place == pytest.approx(before._backup.place)
    for rate in (np.inf, 0.5):
        found = filter_of(slide, wall(-1.0, 1.0, MARGIN), rate=rate)
        found.go_on_from(before)
        assert found._sure == (rate == np.inf), "who may change less proves less"


def test_an_episode_begins_with_no_proof_and_no_load_of_the_one_before():
    found = filter_of(Slide(), wall(-1.0, 1.0, MARGIN), promised=1.0)
    assert found.check(np.array([0.1, 0.2]), np.array([0.3])).proved
    found.start_episode()
    known = found._home, found._backup, found._sure, found._rule._speed
    assert known == (None, None, False, None)
    assert not found._sent.any() and not found._rule._sent.any()


def test_who_is_kept_by_an_old_proof_stays_where_it_came_to_rest():
    """Something pushes that the model doesn't know; by damping alone the mass would creep on."""
    slide, pushed = Slide(), Slide(slope=0.05)
    state, horizon = np.array([0.2, 0.4]), 30
    rooms = [wall(-1.0, 1.0, MARGIN)]

    def room(states, actions):
        return rooms[0](states, actions)

    found = filter_of(slide, room, horizon=horizon)
    assert found.check(state, np.zeros(1)).proved
    found._remember(_backups(found, state, state[:1])[-1])
    # There is room here, and none in any fan.
    rooms[0] = lambda states, actions: np.full((len(states), 1), 5.0 if len(states) < 9 else -5.0)
    places = []
    for _ in range(400):
        let = found.check(state, np.ones(1))
        assert not let.proved
        state = pushed.step(state, let.action, 0.0)
        places.append(state[0])
    creeping = slide.period * pushed.slope / BRAKING  # in a period
    assert places[horizon - 1] - places[horizon - 2] == pytest.approx(creeping, rel=0.1)
    assert places[-1] - places[horizon] < 0.05 < 400 * creeping


@pytest.mark.parametrize(("home", "left"), [(-5.0, 5.0), (0.2, 1e-3)])
def test_a_way_home_is_not_followed_further_than_it_was_looked(home, left):
    """Far from home the robot stops where the proof ends: what comes behind, nobody knows."""
    slide, horizon = Slide(gain=0.1), 12
    rooms = [wall(-10.0, 10.0, MARGIN)]
    found = filter_of(slide, lambda *asked: rooms[0](*asked), horizon=horizon)
    found.check(np.array([home, 0.0]), np.zeros(1))
    state = np.array([0.205, 0.0])
    assert found.check(state, np.zeros(1)).proved
    found._remember(_backups(found, state, np.array([home]))[0])
    rooms[0] = lambda states, actions: np.full((len(states), 1), 5.0 if len(states) < 9 else -5.0)
    for _ in range(200):
        state = slide.step(state, found.check(state, np.ones(1)).action, 0.0)
    assert abs(state[1]) < 1e-3
    assert abs(state[0] - home) == pytest.approx(left, abs=0.5 if left > 1.0 else left)


@pytest.mark.parametrize("command", ["velocity", "position"])
@pytest.mark.parametrize(("home", "left"), [(-9.0, 7.0), (0.2, 1e-3)])
def test_nor_is_a_drive_sent_further_home(command, home, left):
    drive = Drive(command, limit=1.0 if command == "velocity" else 0.05, speed=0.8)
    found, state = filter_of(drive, wall(-50.0, 50.0, MARGIN), horizon=20), np.zeros(2)
    found.check(state, np.zeros(1))
    found._remember(_backups(found, state, np.array([home]))[0])
    places = []
    for _ in range(300):
        state = drive.step(state, found._go_on(state, found._backup), 0.0)
        places.append(state[0])
    np.testing.assert_allclose(places[-1], places[-50], atol=1e-6)
    assert abs(places[-1] - home) >= left - 1e-9 if left > 1.0 else abs(places[-1] - home) < left


@pytest.mark.parametrize("second", [0.1, 0.0])
def test_nor_is_one_of_whose_motors_one_does_nothing(second):
    """As far as the model knows: that backup doesn't promise to brake each joint."""
    pair, horizon = Pair((0.0, 0.0), np.array([0.1, second]), 12), 12
    rooms = [wall(-10.0, 10.0, MARGIN)]
    found = pair.filter([], lambda *asked: rooms[0](*asked))
    found.check(np.array([-5.0, 0.0, 0.0, 0.0]), np.zeros(2))
    state = np.array([0.2, 0.0, 0.0, 0.0])
    assert found.check(state, np.zeros(2)).proved
    assert found._backup.stiffness.any(), "the way home"
    rooms[0] = lambda states, actions: np.full((len(states), 1), np.nan)
    places = []
    for _ in range(200):
        let = found.check(state, np.zeros(2))
        state = pair.expect(state[None], let.action[None])[0]
        places.append(state[0])
    assert abs(state[2]) < 1e-3
    assert abs(places[-1] - places[horizon]) < 1.0


@pytest.mark.parametrize("how", ["others", "missed", "nobody"])
def test_nor_from_elsewhere_where_physics_promises_nothing(how):
    """What was proved is the way home from there, without what has moved the robot since."""
    slide, rooms = Slide(gain=0.5), [wall(-9.0, 9.0, MARGIN)]
    found = filter_of(slide, lambda *asked: rooms[0](*asked))
    found.check(np.array([-0.8, 0.0]), np.zeros(1))
    state = np.array([0.2, 0.0])
    assert found.check(state, np.zeros(1)).proved
    assert found._backup.stiffness.any()
    if how == "missed":
        found.miss()
    else:
        found.obey(np.ones(1) * (how == "others"))
    rooms[0] = lambda states, actions: np.full((len(states), 1), 5.0 if len(states) < 9 else -5.0)
    for _ in range(100):
        state = slide.step(state, found.check(state, np.zeros(1)).action, 0.0)
    assert state == pytest.approx([-0.8 if how == "nobody" else 0.2, 0.0], abs=0.05)


@pytest.mark.parametrize("how", ["others", "wary", "missed", "nobody"])
def test_after_what_another_has_sent_no_older_proof_counts(how):
    """The way home was proved elsewhere, and without what has moved the robot since."""
    slide, state = Slide(gain=0.5), np.array([0.2, 0.3])
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), promised=1.0)
    found.check(np.zeros(2), np.zeros(1))
    sent = found.check(state, np.array([0.5])).action
    assert found._sure
    if how == "wary":  # The rule has the robot brake.
        assert found.check(np.array([0.9, 2.0]), np.ones(1), wary=True).overruled
    elif how == "missed":
        found.miss()
    else:
        found.obey(sent if how == "nobody" else np.zeros(1))
    assert found._sure == (how == "nobody")


def test_a_mixture_is_looked_for_only_beside_a_backup_that_ends_well():
    slide, asked = Slide(), []
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN))
    fans = found._fans

    def counted(state, first, *rest):
        asked.append(len(first))
        return fans(state, first, *rest)

    found._fans = counted
    found.check(np.zeros(2), np.zeros(1))
    assert asked == [2], "one fan where the action may be sent"
    del asked[:]
    between = found.check(np.array([0.9, 0.3]), np.ones(1))
    assert (between.overruled, between.proved) == (True, True)
    assert asked == [2, 2, len(BLENDS)]
    del asked[:]
    assert not found.check(np.array([0.9, 8.0]), np.ones(1)).proved
    assert asked == [2, 2], "nothing stops this one"


UNKNOWN = Slide(gain=0.5, doubt=2.0)
"""A mass that the model knows next to nothing of: whatever it does, it may get out."""


def test_where_nothing_is_known_what_physics_promises_and_the_mean_expects_goes_through():
    room, state = wall(-1.0, 1.0, MARGIN), np.array([0.2, 0.3])
    alone = filter_of(UNKNOWN, room).check(state, np.array([0.5]))
    assert (alone.overruled, alone.proved) == (True, False)
    let = filter_of(UNKNOWN, room, promised=1.0).check(state, np.array([0.5]))
    assert (let.action, let.overruled, let.proved) == (0.5, False, False)


def test_physics_is_asked_even_if_the_mean_expects_no_harm():
    """A weak motor: the model's mean hopes to stop in time, what is promised isn't enough."""
    room, state = wall(-1.0, 1.0, MARGIN), np.array([0.6, 2.0])
    assert not filter_of(UNKNOWN, room, promised=2.0).check(state, np.zeros(1)).overruled
    assert filter_of(UNKNOWN, room, promised=0.3).check(state, np.zeros(1)).overruled


def test_the_mean_is_asked_even_if_physics_promises_to_stop():
    """Something pulls the mass to a wall, which the promise knows nothing of."""
    room, state = wall(-1.0, 1.0, MARGIN), np.array([0.5, 0.5])
    pulled = UNKNOWN._replace(slope=0.6)
    assert filter_of(pulled, room, promised=2.0).check(state, np.zeros(1)).overruled


def test_after_what_was_only_believed_no_older_proof_counts():
    """The way home was proved elsewhere; from here it might lead through anything."""
    room, state = wall(-1.0, 1.0, MARGIN), np.array([0.2, 0.3])
    found = filter_of(UNKNOWN, room, promised=1.0)
    homing, _ = _backups(found, state, np.zeros(1))
    found.check(np.zeros(2), np.zeros(1))  # where home is
    found._remember(homing)
    assert not found.check(state, np.array([0.5])).overruled
    let = found.check(state, np.array([0.5]), wary=True)
    assert (let.overruled, let.proved) == (True, False)
    held = found.joints.shares(homing, state)[0]
    by_physics = -state[1] / UNKNOWN.gain  # in one period
    assert held < by_physics - 0.1
    assert let.action[0] == pytest.approx(by_physics, abs=0.05)


def test_after_what_was_only_believed_physics_brakes():
    """A motor is four times as strong as the model believes: by its feedback the speed rings."""
    strong, state = Slide(gain=4.0 * UNKNOWN.gain), np.array([0.2, 0.3])
    rooms = [wall(-1.0, 1.0, MARGIN)]
    found = filter_of(UNKNOWN, lambda *asked: rooms[0](*asked), promised=4.0)
    assert not found.check(state, np.array([0.1])).overruled
    # There is room here, and none on any way from here.
    rooms[0] = lambda states, actions: np.full((len(states), 1), 5.0 if len(states) < 9 else -5.0)
    believed = found._backup
    sent = []
    for _ in range(20):
        let = found.check(state, np.array([1.0]))
        assert (let.overruled, let.proved) == (True, False)
        state = strong.step(state, let.action, 0.0)
        sent.append(let.action[0])
    assert abs(state[1]) < 1e-3
    assert max(abs(np.array(sent))) < 0.3
    ringing = np.array([0.2, 0.3])
    for _ in range(20):
        held = np.clip(found.joints.shares(believed, ringing), -1.0, 1.0)
        ringing = strong.step(ringing, held, 0.0)
    assert abs(ringing[1]) > 1.0


@pytest.mark.parametrize("away", [-0.3, -0.5, -0.7])
def test_who_is_knocked_by_what_swings_makes_room_for_it_and_does_not_only_brake(away):
    """Physics knows motors alone: by it the mass stands still until it is knocked."""
    knocked, room = Knocked(), wall(-1.0, 1.0, MARGIN)
    found = filter_of(knocked, room, promised=1.0)
    state, places, wanted = np.array([away, -3.0, 0.0, 10.0]), [], np.array([-0.3])
    found.check(np.zeros(4), np.zeros(1))  # where home is
    for _ in range(40):
        sent = found.check(state, wanted)
        assert not sent.proved
        state = knocked.step(state, sent.action, 0.0)
        places.append(state[0])
    assert min(places) > -1.0


def test_without_time_to_look_who_is_knocked_brakes():
    sent = {}
    for hurried in (True, False):
        found = filter_of(Knocked(), wall(-1.0, 1.0, MARGIN), promised=1.0)
        assert not found.check(np.array([0.0, -1.5, 0.0, 10.0]), np.zeros(1)).overruled
        state = np.array([-0.9, -1.0, 0.3, 10.0])  # on its way in, too slowly
        let = found.check(state, np.array([-1.0]), go_on=lambda hurried=hurried: not hurried)
        assert (let.overruled, let.proved) == (True, False)
        sent[hurried] = let.action[0]
    assert sent[True] < sent[False] - 0.3


def test_a_mean_that_is_wrong_here_and_now_is_not_believed():
    room, state = wall(-1.0, 1.0, MARGIN), np.array([0.2, 0.3])
    found = filter_of(UNKNOWN, room, promised=1.0)
    assert found.check(state, np.array([0.5]), wary=True).overruled


@pytest.mark.parametrize("gain", [0.26, 0.35])
def test_a_weaker_motor_than_the_model_knows_stops_in_time_once_that_is_noticed(gain):
    """Half of what physics promises is still true, though what the model proves isn't."""
    weak, reached = Slide(gain=gain), {}
    for wary in (False, True):
        found = filter_of(Slide(gain=0.5), wall(-1.0, 1.0, MARGIN), promised=0.5)
        state = np.zeros(2)
        for _ in range(200):
            state = weak.step(state, found.check(state, np.ones(1), wary).action, 0.0)
            reached[wary] = max(reached.get(wary, 0.0), state[0])
    assert reached[False] > 1.0
    assert 0.6 < reached[True] <= 1.0


def test_what_little_is_known_of_stays_inside_by_what_is_promised():
    """Doubt forbids everything; the mass does what its mean says, pushed to either wall."""
    found = filter_of(UNKNOWN, wall(-1.0, 1.0, MARGIN), promised=1.0)
    places, overruled = drive(UNKNOWN, found, [1.0] * 200, [0.0] * 200)
    assert abs(places).max() <= 1.0
    assert places.max() > 0.6
    assert overruled > 0


class Pair(NamedTuple):
    """Two masses side by side, and what the filter asks about them."""

    doubts: tuple[float, float] = (1.0, 1.0)
    gain: float = 0.5
    horizon: int = 20

    @property
    def spec(self):
        return RobotSpec("pair", ("left", "right"), ("left", "right"), (1.0, 1.0), 0.05)

    def expect(self, states, shares):
        moved = self.gain * shares
        places = states[:, :2] + self.spec.period * (states[:, 2:] + 0.5 * moved)
        return np.concatenate([places, states[:, 2:] + moved], axis=1)

    def filter(self, seen, room, promised=0.0):
        """`seen`: takes the patterns of η that are asked for."""
        spec, expect = self.spec, self.expect

        def deviate(states, shares):
            return np.tile(self.doubts, (len(states), 2))

        joints = Joints(spec, ())

        def fans(state, first, backup, patterns, beta, away, begins):
            seen.append(patterns)
            shares = np.repeat(first[:, None], len(patterns), axis=1)
            now = np.broadcast_to(state, (*shares.shape[:2], 4))
            states, actions = [now], []
            for _ in range(self.horizon):
                shares = np.clip(shares, -1.0, 1.0)
                actions.append(shares)
                flat = expect(now.reshape(-1, 4), shares.reshape(-1, 2))
                now = flat.reshape(now.shape) + beta * patterns * np.tile(self.doubts, 2)
                states.append(now)
                shares = joints.shares(backup, now)
            return Fan(np.stack(states, axis=2), np.stack(actions, axis=2))

        motors = Motors((0.5 / spec.period,) * 2, (0.5 / spec.period,) * 2)
        rule = BrakingRule(spec, room, (1.0, 1.0), motors) if promised else None
        fans.horizon = self.horizon
        return SafetyFilter(spec, (), room, fans, expect, deviate, np.ones(2), 1.0, rule)


@pytest.mark.parametrize("doubts", [(1.0, 1.0), (3.0, 4.0), (0.0, 0.0)])
def test_eta_of_several_joints_is_the_worst_of_its_length(doubts):
    """No η of length 1 brings x + y further than Σ(1, 1)/‖Σ(1, 1)‖ does: by ‖Σ(1, 1)‖."""
    seen = []

    def room(states, actions):
        return (5.0 - states[:, :1] - states[:, 1:2]) / 0.1

    Pair(doubts).filter(seen, room).check(np.zeros(4), np.zeros(2))
    eta = seen[0]
    sigma = np.array(doubts) if any(doubts) else np.ones(2)
    assert eta.shape == (2, 4)
    for block in (eta[:, :2], eta[:, 2:]):
        assert np.linalg.norm(block, axis=1) == pytest.approx([1.0, 1.0], abs=1e-5)
        assert abs(block @ sigma) == pytest.approx(np.linalg.norm(sigma) * np.ones(2), rel=1e-5)


@pytest.mark.parametrize(
    ("state", "sides"),
    [((0.0, 0.0, 0.0, 0.0), 0), ((0.9, 0.9, 0.0, 0.0), 2), ((0.7, 0.0, 0.0, 2.0), 2)],
)
def test_eta_pushes_to_every_side_of_a_box_within_reach(state, sides):
    """Not to the nearest one alone: a constraint has as many sides as it likes."""
    seen = []

    def room(states, actions):
        return (1.0 - abs(states[:, :2]).max(axis=1, keepdims=True)) / MARGIN

    Pair((0.01, 0.01)).filter(seen, room).check(np.array(state), np.zeros(2))
    against = {tuple(np.sign(np.where(abs(eta) < 0.1, 0.0, eta))[:2]) for eta in seen[0]}
    axes = {(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)}
    assert len(against & axes) == 2 * sides or not sides


def test_doubt_leads_through_no_side_of_a_box():
    """Into a corner, and pushed along the side that isn't the nearest one yet."""
    pair, draws, beyond = Pair((0.1, 0.1), horizon=12), np.random.default_rng(0), 0.0

    def room(states, actions):
        return (1.0 - abs(states[:, :2]).max(axis=1, keepdims=True)) / MARGIN

    for _ in range(6):
        found, state, action = pair.filter([], room), np.zeros(4), np.ones(2)
        for tick in range(60):
            if tick % 10 == 0:
                action, eta = np.sign(draws.standard_normal(2)), draws.standard_normal(2)
            let = found.check(state, action)
            pushed = np.tile(0.1 * eta / np.linalg.norm(eta), 2) * [0.0, 0.0, 1.0, 1.0]
            state = pair.expect(state[None], let.action[None])[0] + pushed
            beyond = max(beyond, -room(state[None], None)[0, 0])
    assert beyond <= 0.0


def test_where_one_joint_has_to_brake_the_others_may_do_what_was_wanted():
    """The left one is about to leave; the model, which holds all possible, proves nothing."""
    state, wanted = np.array([0.75, 0.0, 1.0, 0.0]), np.array([1.0, 0.6])
    room = wall(-1.0, 1.0, MARGIN)
    alone = Pair((9.0, 9.0)).filter([], room).check(state, wanted)
    let = Pair((9.0, 9.0)).filter([], room, promised=1.0).check(state, wanted)
    assert (let.overruled, let.proved, let.constraint) == (True, False, 0)
    assert let.action[0] < 0.0
    assert let.action[1] == pytest.approx(0.6)
    assert alone.action[1] != pytest.approx(0.6)


@pytest.mark.parametrize("rate", [0.03, 0.1, 0.3])
def test_who_may_not_brake_at_once_begins_to_sooner(rate):
    """What doesn't know how fast an effort may change proves what the guard doesn't let happen."""
    slide, reached = Slide(gain=0.2), {}
    for known in (np.inf, rate):
        found = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=90, rate=known)
        places, overruled = drive(slide, found, [1.0] * 300, [0.0] * 300, rate=rate)
        reached[known] = places.max()
        assert overruled > 0
    assert reached[np.inf] > 1.0
    assert 0.5 < reached[rate] <= 1.0 - MARGIN + 2e-3


def test_steps_count_from_what_was_sent_whoever_sent_it():
    """Full effort away from the wall is sent in our place: so fast it doesn't become another."""
    slide, state = Slide(gain=0.2), np.array([0.8, 0.0])
    for sent, proved in ((-1.0, True), (1.0, False)):
        found = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=60, rate=0.1)
        found.check(np.zeros(2), np.zeros(1))
        found.obey(np.array([sent]))
        other = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=60, rate=0.1)
        other.go_on_from(found)
        for each in (found, other):
            assert each.check(state, np.zeros(1)).proved == proved


@pytest.mark.parametrize("gain", [0.01, 0.02, 0.05])
def test_a_fan_that_is_shorter_than_the_way_to_rest_reckons_all_of_it(gain):
    """After eight periods a weak motor still has speed for many more."""
    slide = Slide(gain=gain)
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=8)
    places, overruled = drive(slide, found, [1.0] * 400, [0.0] * 400)
    assert 0.8 < places.max() <= 1.0
    assert overruled > 0


def test_a_wall_behind_the_middle_is_seen_before_the_middle():
    """Between two walls room grows until there; the motor takes longer to stop than a fan sees."""
    slide = Slide(gain=0.02, slope=0.01)
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), horizon=8)
    places, overruled = drive(slide, found, [1.0] * 120, [0.0] * 120, start=(-0.9, 0.0))
    assert 0.8 < places.max() <= 1.0 - MARGIN + 0.6 * MARGIN
    assert overruled > 0


def test_the_nearest_side_of_a_box_hides_no_other_one():
    """Along the lower side room stays the same until the right one is nearer."""
    pair, state = Pair((0.0, 0.0), gain=0.05, horizon=12), np.array([-0.9, -0.93, 0.0, 0.0])

    def room(states, actions):
        return (1.0 - abs(states[:, :2]).max(axis=1, keepdims=True)) / MARGIN

    found, farthest = pair.filter([], room), -1.0
    for _ in range(100):
        let = found.check(state, np.array([1.0, 0.0]))
        state = pair.expect(state[None], let.action[None])[0]
        farthest = max(farthest, state[0])
    assert 0.8 < farthest <= 1.0 - MARGIN + 0.6 * MARGIN


@pytest.mark.parametrize(("gain", "doubt"), [(1.0, 0.0), (2.0, 0.0), (0.2, 0.05)])
def test_power_is_kept_where_an_action_begins_and_against_doubt(gain, doubt):
    """Who brakes is fastest at the begin of a period; without an action nothing takes power."""
    slide, largest = Slide(gain=gain, doubt=doubt), 1.0
    found, state = filter_of(slide, power(largest), horizon=12), np.zeros(2)
    powers = []
    for tick in range(60):
        wanted = 0.6 if state[1] < 1.8 and tick < 40 else -1.0
        let = found.check(state, np.array([wanted]))
        powers.append(abs(let.action[0] * state[1]))
        state = slide.step(state, let.action, 1.0)
        powers.append(abs(let.action[0] * state[1]))
        assert let.proved
    assert 0.4 < max(powers) <= largest


def power(largest):
    """Room that a motor's largest power leaves."""

    def room(states, actions):
        return (largest - abs(actions * states[:, 1:])) / (0.05 * largest)

    return room


@pytest.mark.parametrize(
    ("gain", "slope", "doubt", "period"),
    [(0.5, -0.4, 0.0, 0.05), (0.5, -0.125, 0.125, 0.05), (1.0, 0.0, 0.25, 0.1)],
)
def test_a_joint_that_is_pushed_on_ends_where_it_is_held_not_where_braking_ends(
    gain, slope, doubt, period
):
    """It creeps on as long as the backup only brakes; to hurry home is forbidden."""
    slide = Slide(gain, doubt, slope, period)

    def room(states, actions):
        slow = 0.4 - abs(states[:, 1])
        return np.stack([(states[:, 0] + 1.0) / MARGIN, slow / 0.02], axis=1)

    found, places = filter_of(slide, room, horizon=12), []
    state = np.array([2.0, 0.0])
    found.check(state, np.zeros(1))
    state[0] = -0.5
    for _ in range(200):
        state = slide.step(state, found.check(state, np.zeros(1)).action, -1.0)
        places.append(state[0])
    assert min(places) >= -1.0


@pytest.mark.parametrize(("rate", "horizon"), [(0.1, 25), (0.1, 12), (0.05, 12)])
@pytest.mark.parametrize("promised", [0.0, 1.0])
def test_nothing_is_proved_where_a_fan_ends_before_efforts_have_turned(rate, horizon, promised):
    """Full effort that takes longer to become full braking looks safe in a short fan."""
    slide = Slide(gain=0.02)
    room = wall(-1.0, 1.0, MARGIN)
    found = filter_of(slide, room, horizon=horizon, rate=rate, promised=promised)
    places, _ = drive(slide, found, [1.0] * 400, [0.0] * 400, rate=rate)
    assert places.max() <= 1.0
    assert found._sure == (horizon == 25)


def test_what_a_fan_refutes_does_not_pass_where_nothing_can_be_proved():
    """Two doubts at once: by the mean and by physics this action would end well."""
    slide = Slide(gain=1.0, doubt=0.2, slope=0.2)
    found = filter_of(slide, wall(-3.0, 3.0, MARGIN), rate=0.28, promised=1.0)
    places, _ = drive(slide, found, [1.0] * 300, [1.0] * 300, rate=0.28)
    assert places.max() <= 3.0 - MARGIN + 2e-3
    assert not found._sure


@pytest.mark.parametrize(("rate", "proved"), [(0.06, False), (0.2, True), (np.inf, True)])
def test_nothing_is_proved_where_doubt_changes_faster_than_efforts_may(rate, proved):
    """A fan holds its η; one that turns meets an answer to what it was before, again and again."""
    slide = Slide(gain=1.0, doubt=0.1)
    found = filter_of(slide, wall(-9.0, 9.0, MARGIN), rate=rate)
    assert found.check(np.zeros(2), np.zeros(1)).proved == proved


def test_what_was_sent_under_wider_limits_is_cut_at_once():
    """Steps count from it, and no effort is above the limit, as the guard has it."""
    slide, limits = Slide(gain=0.2), np.array([0.25])
    fan_of: list[np.ndarray] = []
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN), rate=0.1)
    found.check(np.zeros(2), np.zeros(1))
    found.obey(np.array([-1.0]))
    stricter = SafetyFilter(
        slide.spec,
        (),
        wall(-1.0, 1.0, MARGIN),
        found._fans,
        found._expect,
        found._doubts._deviate,
        limits,
        1.0,
        None,
        0.1,
    )
    stricter.go_on_from(found)
    assert found._backup is not None and stricter._backup is None, "it was in other shares"
    fans = stricter._fans
    stricter._fans = lambda *asked: fan_of.append(asked[1]) or fans(*asked)
    stricter.check(np.zeros(2), np.array([0.25]))
    assert fan_of[0].tolist() == [[-1.0], [-1.0]]


def case(draw_of):
    gain = draw_of(st.floats(0.05, 2.0))
    slide = Slide(
        gain=gain,
        doubt=gain * draw_of(st.floats(0.0, 0.25)),
        slope=gain * draw_of(st.floats(-0.25, 0.25)),
        period=draw_of(st.floats(0.01, 0.1)),
    )
    seed = draw_of(st.integers(0, 2**31))
    high = draw_of(st.floats(0.2, 2.0))
    return slide, high, np.random.default_rng(seed)


def violations(slide, high, rng, ticks, sticky, swift=np.inf, hurried=0.0):
    """Ticks outside two walls under wanted actions and doubts of any kind.

    `swift`: rate of the efforts, as a multiple of what doubt asks of them; `hurried`: see `drive`.
    """
    rate = max(0.04, swift * 1.5 * slide.doubt / slide.gain) if np.isfinite(swift) else np.inf
    horizon = 30 + int(np.ceil(2.0 / rate))
    low = -rng.uniform(0.2, 2.0)
    margin = 0.05 * min(high, -low)
    held = np.repeat(rng.uniform(-1.0, 1.0, ticks), rng.integers(1, 20) if sticky else 1)[:ticks]
    eta = np.sign(rng.standard_normal(ticks)) if sticky else rng.uniform(-1.0, 1.0, ticks)
    if sticky:
        held = np.sign(held)
    found = filter_of(slide, wall(low, high, margin), horizon=horizon, rate=rate)
    # Fast robots reach a wall within a period from anywhere: they begin at rest in the middle.
    start, before = (0.5 * (low + high), 0.0), -slide.slope / slide.gain
    found.obey(np.array([before]))
    assert found.check(np.array(start), np.array([before])).proved or np.isfinite(rate)
    if not found._sure:  # no way to stop so slowly in so little room
        return 0
    places, _ = drive(slide, found, held, eta, start, rate, before, hurried)
    return int(((places < low) | (places > high)).sum())


@pytest.mark.parametrize(("slope", "doubt"), [(0.9, 0.0), (0.7, 0.2), (0.4, 0.4)])
@pytest.mark.parametrize("gain", [0.02, 0.1])
def test_what_holds_a_mass_brakes_it_no_more(slope, doubt, gain):
    """A lift whose motor has little more than its weight, let go above the floor."""
    slide = Slide(gain, doubt * gain, -slope * gain)
    found = filter_of(slide, wall(-3.0, 1000.0, MARGIN), horizon=12)
    places, overruled = drive(slide, found, [0.0] * 300, [-1.0] * 300)
    assert -3.0 < places.min() < -2.9
    assert overruled


@pytest.mark.parametrize(
    ("gain", "rate", "horizon", "high"), [(0.02, 0.1, 25, 3.0), (0.01, 0.1, 30, 2.0)]
)
def test_the_way_to_rest_is_no_shorter_where_efforts_are_still_turning(gain, rate, horizon, high):
    """A weak motor far from where it began, that wants back, and beyond."""
    slide = Slide(gain)
    found = filter_of(slide, wall(-1000.0, high, MARGIN), horizon=horizon, rate=rate)
    wanted = [-1.0] * 100 + [1.0] * 600
    places, _ = drive(slide, found, wanted, [0.0] * 700, rate=rate)
    assert high - 0.1 < places.max() < high


@pytest.mark.parametrize("doubt", [0.0, 0.15])
def test_a_backup_that_ends_at_speed_brakes_before_it_holds(doubt):
    """Nothing can be proved from a speed on; by then the proof is shorter than the way to rest."""
    slide, blind = Slide(0.01, 0.01 * doubt), []
    walls = wall(-0.1, 10.0, MARGIN)

    def room(states, actions):
        return np.full((len(states), 1), np.nan) if blind and len(states) > 8 else walls(states, 0)

    found = filter_of(slide, room, horizon=12)
    state, places = np.zeros(2), []
    for _ in range(600):
        if state[1] >= 1.0:
            blind.append(state)
        let = found.check(state, np.ones(1))
        if not blind and not let.overruled:
            brake = _backups(found, state, np.zeros(1))[-1]
            found._remember(brake)
        state = slide.step(state, let.action, np.sign(state[1] + 1e-9))
        places.append(state[0])
    assert blind
    assert min(places) >= 0.0 and max(places) < 6.0
    assert abs(state[1]) < 1e-3, "it swings"


@pytest.mark.parametrize(("gain", "doubt"), [(0.5, 0.15), (0.2, 0.05)])
def test_room_that_grows_no_further_hides_no_side(gain, doubt):
    """A constraint that somebody has cut off where there is room enough."""
    slide = Slide(gain, doubt)

    def floor(states, actions):
        return np.minimum((states[:, :1] + 1.0) / MARGIN, 3.0)

    found = filter_of(slide, floor, horizon=12)
    places, _ = drive(slide, found, [-1.0] * 60, [-1.0] * 60, (2.0, 0.0))
    assert -1.0 < places.min() < -0.9


@pytest.mark.parametrize(
    ("slope", "swift", "sticky", "seed"), [(-0.2, 3.0, False, 9), (0.0, 4.0, True, 7)]
)
def test_a_backup_asks_for_no_faster_change_than_efforts_are_allowed(slope, swift, sticky, seed):
    """Else it comes late and swings further each time; here there is time for no other."""
    slide = Slide(0.6, 0.02 * 0.6, slope * 0.6, 0.03)
    rng = np.random.default_rng(seed)
    assert violations(slide, 1.2, rng, 200, sticky, swift, hurried=1.0) == 0


def test_without_time_to_look_the_backup_acts_that_was_proved_before():
    """A mass that wants through a wall: a fan for what it wants, and no other."""
    slide = Slide()
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN))
    fans, asked = found._fans, []
    found._fans = lambda *told: asked.append(1) or fans(*told)
    state, most, told = np.zeros(2), 0.0, []
    for _ in range(200):
        asked.clear()
        let = found.check(state, np.ones(1), go_on=lambda: False)
        told.append((let.overruled, let.proved, len(asked)))
        state = slide.step(state, let.action, 0.0)
        most = max(most, state[0])
    assert {fans for _, _, fans in told} == {1}
    assert {(False, True), (True, True)} <= {(over, proved) for over, proved, _ in told}
    assert 0.8 < most <= 1.0 - MARGIN + 1e-3


@pytest.mark.parametrize("yes", [1, 2])
def test_time_is_asked_for_before_each_fan_and_never_again_after_a_no(yes):
    slide = Slide()
    found = filter_of(slide, wall(-1.0, 1.0, MARGIN))
    fans, happened = found._fans, []
    found._fans = lambda *told: happened.append("fan") or fans(*told)
    answers = iter([True] * yes + [False])

    def go_on():
        happened.append("ask")
        return next(answers)

    state = np.array([0.0, 0.0])
    while not found.check(state, np.ones(1)).overruled:
        state = slide.step(state, np.ones(1), 0.0)
    found.start_episode()
    happened.clear()
    found.check(state, np.ones(1), go_on=go_on)
    assert happened == ["ask", "fan"] * yes + ["ask"]


@given(
    st.data(),
    st.booleans(),
    st.one_of(st.just(np.inf), st.floats(1.05, 10.0)),
    st.sampled_from([0.0, 0.5, 1.0]),
)
@settings(max_examples=40, deadline=None)
def test_no_sequence_of_actions_and_doubts_leads_outside(data, sticky, swift, hurried):
    slide, high, rng = case(data.draw)
    assert violations(slide, high, rng, 60, sticky, swift, hurried) == 0


def driven(drive, found, wanted, eta, rate=np.inf, late=False):
    """Places that a driven mass gets to, and shares of actions that were proved and overruled.

    `rate`: of the guard behind the filter; `late`: commands act a period later, and the state in
    which they do is predicted.
    """
    state, command, told = np.zeros(2), np.zeros(1), []
    sent, places = np.zeros(1), []
    for share, doubt in zip(wanted, eta, strict=True):
        action = drive.spec.to_action(command, state) / drive.limit
        ahead = drive.step(state, np.clip(action, -1.0, 1.0), 0.0) if late else state
        coming = [InForce(command, 1.0)] if late else []
        let = found.check(ahead, np.array([share * drive.limit]), False, state, coming)
        told.append((let.proved, let.overruled))
        sent = np.clip(let.action, sent - rate * drive.limit, sent + rate * drive.limit)
        found.obey(sent)
        following = drive.spec.to_command(sent, ahead)
        acts = command if late else following
        state = drive.step(state, drive.spec.to_action(acts, state) / drive.limit, doubt)
        command = following
        places.append(state[0])
    return np.array(places), *np.mean(told, axis=0)


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_drive_is_held_to_its_place_against_what_is_doubted(command, late):
    """Under the command zero doubt moves it on and on, so that nothing could be proved."""
    drive = Drive(command, doubt=0.2 if command == "velocity" else 0.15)
    found = filter_of(drive, wall(-2.0, 2.0, MARGIN))
    places, proved, overruled = driven(drive, found, np.ones(100), np.ones(100), late=late)
    assert proved == 1.0
    assert 0.0 < overruled < 1.0
    assert 1.6 < places.max() <= 2.0 - MARGIN + 1e-3


@given(st.data(), st.sampled_from(["velocity", "position"]), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_no_sequence_of_actions_and_doubts_leads_a_drive_outside(data, command, sticky, late):
    limit = data.draw(st.floats(0.3, 5.0) if command == "velocity" else st.floats(0.02, 0.5))
    most = 0.125 if command == "velocity" else 0.25
    doubt = limit * data.draw(st.floats(0.0, most))
    drive = Drive(command, limit, data.draw(st.floats(0.15, 1.0)), doubt)
    rate = data.draw(st.one_of(st.just(np.inf), st.floats(0.1, 0.6)))
    rng, high = np.random.default_rng(data.draw(st.integers(0, 2**31))), 1.0
    horizon = 30 + (0 if np.isinf(rate) else int(np.ceil(2.0 / rate)))
    found = filter_of(drive, wall(-high, high, MARGIN), horizon=horizon, rate=rate)
    found.check(np.zeros(2), np.zeros(1))
    if not found._sure:  # Doubt changes faster than actions may.
        return
    wanted, eta = rng.uniform(-1.0, 1.0, (2, 60))
    if sticky:
        wanted, eta = (np.repeat(np.sign(x), rng.integers(1, 20))[:60] for x in (wanted, eta))
    places, *_ = driven(drive, found, wanted, eta, rate, late)
    assert np.abs(places).max() <= high


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_a_million_ticks_without_one_outside(part):
    rng = np.random.default_rng(part)
    outside = 0
    for number in range(500):
        gain = rng.uniform(0.05, 2.0)
        slide = Slide(
            gain,
            gain * rng.uniform(0.0, 0.25),
            gain * rng.uniform(-0.25, 0.25),
            rng.uniform(0.01, 0.1),
        )
        swift = np.inf if number % 4 < 2 else rng.uniform(1.05, 10.0)
        sticky = bool(number % 2)
        high, hurried = rng.uniform(0.2, 2.0), (0.0, 0.5, 1.0)[number % 3]
        outside += violations(slide, high, rng, 200, sticky, swift, hurried)
    assert outside == 0


def test_a_bundle_without_constraints_has_no_filter(tmp_path):
    shake(learned(), seed=5)
    bundle = load_bundle(write(tmp_path / "bundle"))
    assert make_safety_filter(bundle, SafetySettings(), compiled=True) is None


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "graph"])
def test_a_backup_does_no_more_than_the_guard_lets_pass(tmp_path, compiled):
    bundle = untrained_bundle(tmp_path / "bundle", "cartpole", ModelSettings(kind="gp"))
    limit = bundle.manifest.spec.effort_limits[0]
    for factor in (1.0, 0.1):
        safety = SafetySettings(filter=True, effort_limits=(factor * limit,))
        found = make_safety_filter(bundle, safety, compiled)
        states = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 4))
        wanted = np.array([factor * limit])
        let = [found.check(state, wanted, wary=True) for state in states]
        assert max(abs(each.action[0]) for each in let) <= factor * limit * (1.0 + 1e-9)
        assert any(each.overruled for each in let)
        shares = np.ones((20, 1))
        _, *doubts = bundle.run(
            "dynamics", state=states.astype("f"), action=(shares * wanted).astype("f")
        )
        np.testing.assert_allclose(found._doubts._deviate(states, shares), sum(doubts), rtol=1e-5)


def test_a_filter_that_is_off_is_none_and_a_limited_rate_has_it_look_further(tmp_path):
    bundle = untrained_bundle(tmp_path / "bundle", "cartpole", ModelSettings(kind="gp"))
    assert make_safety_filter(bundle, SafetySettings(filter=False), False) is None
    ahead = [
        make_safety_filter(bundle, SafetySettings(filter=True, effort_rate=rate), False)._ahead
        for rate in (0.0, 0.25)
    ]
    assert ahead[1] == ahead[0] + 8, "periods from one limit to the other"


@pytest.fixture(scope="module")
def drives(tmp_path_factory):
    """An untrained bundle for each kind of drive, kept within its joint limits."""
    made = {}
    for command in ("velocity", "position"):
        folder = tmp_path_factory.mktemp(command)
        task = task_of(folder, described(folder, command))
        assert task.constraint_names
        made[command] = untrained_bundle(folder / "bundle", task, ModelSettings(kind="gp"))
    return made


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_nor_is_a_drive_sent_faster_than_the_guard_lets_it_go(drives, command):
    bundle = drives[command]
    spec = bundle.manifest.spec
    slow = SafetySettings(filter=True, velocity_limits=(0.2,) * len(spec.joint_names))
    within = 0.2 * (spec.period if command == "position" else 1.0)
    assert within < min(spec.effort_limits)
    guard, state = Guard(spec, slow), np.zeros(spec.state_dim)
    found, loose = (
        make_safety_filter(bundle, each, True) for each in (slow, SafetySettings(filter=True))
    )
    assert found._limits == pytest.approx(within)
    assert loose._limits == pytest.approx(spec.effort_limits)
    for _ in range(3):
        let = found.check(state, np.array(spec.effort_limits))
        assert abs(let.action).max() <= within * (1.0 + 1e-9)
        sent = guard.check(let.action, state).action
        assert found.obey(sent)


class Roomy:
    """A control loop around an agent of a drive in so much room that all is proved."""

    def __init__(self, bundle, safety, late):
        self.spec, self.now = bundle.manifest.spec, 1.0
        agent = Agent(bundle, None, safety=safety)
        settings = ControlSettings(
            latency_compensation="always" if late else "never", extra_delay=late
        )
        delay = DelayCompensation(self.spec.period, self.spec.action_dim, settings)
        self.loop = ControlLoop(
            self.spec, 100, agent, Guard(self.spec, safety), lambda: self.now, delay
        )
        self.loop.start(0)
        self.filter, count = agent._filter, len(bundle.manifest.constraints)
        self.filter._rooms._room = lambda states, _: np.full((len(states), count), 50.0)

    def tick(self, place, speed):
        """Answer one joint state; returns whether what was sent counts as proved."""
        n, before = len(self.spec.joint_names), self.loop.counters.unproved
        stamp = round(1e9 * self.now)
        reading = JointReading(self.spec.joint_names, (place,) * n, (speed,) * n, stamp)
        assert self.loop.answer(reading, self.now, lambda command: None).record is not None
        self.now += self.spec.period
        return self.loop.counters.unproved == before


@pytest.mark.parametrize("late", [0.0, 0.04])
@pytest.mark.parametrize("command", ["velocity", "position"])
def test_a_proof_for_where_an_action_acts_outlives_its_being_sent(drives, command, late):
    """The way to a position is another one from where the joint is now."""
    roomy = Roomy(drives[command], SafetySettings(filter=True), late)
    for tick in range(8):
        assert roomy.tick(0.02 * tick, 0.5)
        assert roomy.filter._sure


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_what_the_guard_cuts_counts_as_unproved(drives, command):
    """It knows limits that the filter doesn't: a joint is at the one of its position."""
    joints = len(drives[command].manifest.spec.joint_names)
    safety = SafetySettings(filter=True, position_limits=(-0.5, 0.5) * joints)
    roomy = Roomy(drives[command], safety, 0.0)
    let, wanted = roomy.filter.check, 0.5 * roomy.filter._limits

    def other(state, action, *told):  # than planned
        return let(state, wanted, *told)._replace(overruled=True)

    roomy.filter.check = other
    assert roomy.tick(0.0, 0.0)
    assert roomy.filter._sure
    assert not roomy.tick(0.5, 0.0)
    assert not roomy.filter._sure


@pytest.mark.parametrize("arm", ARMS, ids=["post", "fence"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "graph"])
def test_an_arm_each_joint_of_which_has_a_motor_is_filtered(tmp_path, arm, compiled):
    """Nothing moves by itself; regions and links are limited, not joints alone."""
    bundle = untrained_bundle(tmp_path / "bundle", arm, ModelSettings(heads=2, layers=(8,)))
    spec = bundle.manifest.spec
    found = make_safety_filter(bundle, SafetySettings(filter=True), compiled)
    assert not found._rooms._carried.any()
    let = found.check(np.zeros(spec.state_dim), np.array(spec.effort_limits))
    assert np.isfinite(let.action).all()
    assert let.overruled, "nothing is known, and the arm would fly out"


@pytest.mark.slow
def test_a_cart_learns_without_leaving_its_short_rail(tmp_path):
    path = "config/examples/short_rail/short_rail.yaml"
    changes = {"episodes": 3, "action_penalty": 0.0}
    run = prepare_run(RunOptions(path, overrides=changes, out=tmp_path / "run"))
    assert run.config.safety.filter
    episodes = train(run.config, run).episodes
    assert [episode.outside for episode in episodes] == [{}, {}, {}]
    assert episodes[0].filtered, "the braking rule had nothing to do"
    assert episodes[2].return_ > 100.0
