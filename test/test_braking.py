"""The braking rule against simulations: never outside, and nothing changed far from the limits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.braking import SHARE, BrakingRule, Kept
from hucrl_ros.controller.motors import Motors
from hucrl_ros.controller.random_efforts import RandomEfforts
from hucrl_ros.controller.timing import InForce
from hucrl_ros.robots import describe, make_robot
from hucrl_ros.robots.mujoco_robot import MujocoRobot
from hucrl_ros.robots.stopping import promised

ARM = share_directory() / "config" / "examples" / "planar_arm" / "planar_arm.yaml"


def spec_of(period=0.05, command="effort", names=("j",), limit=2.0):
    limits = (limit,) * len(names)
    return RobotSpec("r", tuple(names), tuple(names), limits, period, command=command)


def walls(width, margin):
    """Each joint within `width` of 0."""
    return lambda states, actions: (width - np.abs(states[:, : actions.shape[1]])) / margin


def rule_of(spec, room, motors=None, **words):
    if motors is None:
        motors = Motors((2.0,) * spec.action_dim, (2.0,) * spec.action_dim)
    return BrakingRule(spec, room, spec.effort_limits, motors, **words)


# One mass and two walls


class Mass:
    """A double integrator whose driver applies each command a delay late: exact physics."""

    def __init__(self, period, delay, gain=1.0, load=0.0):
        self.period, self.delay, self.gain, self.load = period, delay, gain, load
        self.position = self.velocity = self.effort = 0.0

    @property
    def state(self):
        return np.array([self.position, self.velocity])

    @property
    def coming(self):
        share = self.delay / self.period
        return [InForce(np.array([self.effort]), share)] if share > 0 else []

    def step(self, effort):
        """One period under the effort before it, then this one; returns the extreme position."""
        furthest = 0.0
        for force, duration in ((self.effort, self.delay), (effort, self.period - self.delay)):
            push = self.gain * (force - self.load)
            turn = -self.velocity / push if push else -1.0
            for time in (duration, *([turn] if 0 < turn < duration else [])):
                place = self.position + self.velocity * time + 0.5 * push * time**2
                furthest = max(furthest, abs(place))
            self.position += self.velocity * duration + 0.5 * push * duration**2
            self.velocity += push * duration
        self.effort = effort
        return furthest


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**31),
    period=st.floats(0.005, 0.1),
    late=st.floats(0.0, 1.0),
    width=st.floats(0.3, 3.0),
    margin=st.floats(0.05, 0.2),
    bandwidth=st.sampled_from([0.0, 0.5, 3.0]),
    weaker=st.floats(0.6, 1.0),
)
def test_a_mass_never_comes_closer_to_a_wall_than_the_margin(
    seed, period, late, width, margin, bandwidth, weaker
):
    """Also where a motor does less than was promised, and whatever the delay up to a period."""
    spec = spec_of(period)
    rule = rule_of(spec, walls(width, margin), Motors((2.0,), (2.0,)))
    mass = Mass(period, late * period, gain=weaker)
    rng, source = np.random.default_rng(seed), RandomEfforts(np.array([2.0]), bandwidth, period)
    for _ in range(150):
        checked = rule.check(mass.state, source.draw(rng), mass.coming)
        assert abs(checked.action[0]) <= 2.0
        furthest = mass.step(float(checked.action[0]))
        tolerance = 0.0 if weaker == 1.0 else 1.0  # of a weaker one the margin may be used up
        assert (width - furthest) / margin >= 1.0 - tolerance - 1e-3


def test_loads_are_learned_from_what_was_sent_instead():
    """Who asks may send something else, and says so."""
    mass, rng = Mass(0.02, 0.0, load=0.7), np.random.default_rng(0)
    rule = rule_of(spec_of(0.02), walls(100.0, 0.1), Motors((1.0,), (2.0,)))
    for _ in range(50):
        rule.check(mass.state, rng.uniform(-2.0, 2.0, 1))
        sent = rng.uniform(-2.0, 2.0, 1)
        rule.obey(sent)
        mass.step(sent[0])
    assert rule._load == pytest.approx([0.7])


@pytest.mark.parametrize("periods", [1, 2, 4])
def test_what_comes_after_this_period_does_not_act_in_it(periods):
    """With long delays several commands are coming; the load is what the first one met."""
    mass, rng = Mass(0.02, 0.0, load=0.7), np.random.default_rng(0)
    rule = rule_of(spec_of(0.02), walls(100.0, 0.1), Motors((1.0,), (2.0,)))
    queue = [np.zeros(1)] * periods
    for _ in range(60):
        coming = [InForce(command, 1.0) for command in queue]
        queue.append(rule.check(mass.state, rng.uniform(-2.0, 2.0, 1), coming).action)
        mass.step(float(queue.pop(0)[0]))
    assert rule._load == pytest.approx([0.7])


def test_no_load_is_learned_from_a_speed_that_nobody_saw_coming():
    rule, other = (
        rule_of(spec_of(0.02), walls(100.0, 0.1), Motors((1.0,), (2.0,))) for _ in range(2)
    )
    mass, rng = Mass(0.02, 0.0, load=0.7), np.random.default_rng(0)
    for k in range(200):
        action = rng.uniform(-2.0, 2.0, 1)
        if k % 3 == 1:
            rule.miss()
        if k % 3 != 0:  # Else the joint state is lost.
            rule.check(mass.state, action)
            rule.obey(action)
        mass.step(action[0])
    assert rule._load == pytest.approx([0.7], abs=1e-3)
    other.go_on_from(rule)
    for known in ("_load", "_speed", "_sent", "_acting"):
        np.testing.assert_array_equal(getattr(other, known), getattr(rule, known))


def test_a_load_that_is_known_is_held_and_no_push():
    rule, edge = rule_of(spec_of(), walls(1.0, 0.1)), np.array([0.8999, 0.0])
    for wanted, passes in ((0.5, True), (0.6, False)):
        rule.reset()
        rule._load = np.array([0.5])
        checked = rule.check(edge, np.array([wanted]))
        assert checked.action == 0.5 and checked.constraint == (-1 if passes else 0)


@pytest.mark.parametrize("ratio", [0.5, 2.0, 4.0])
def test_under_other_limits_than_the_promise_was_made_for_braking_ends_at_rest(ratio):
    """More effort also speeds a joint up by more; a brake that doesn't know rings."""
    promise = Motors((2.0 / ratio,), (2.0 / ratio,))
    rule = rule_of(spec_of(), walls(1.0, 0.05), promise.under((2.0 / ratio,), (2.0,)))
    mass = Mass(0.05, 0.0)
    mass.velocity = 0.05
    for _ in range(3):
        brake = rule.check(mass.state, np.array([2.0])).brake
        rule.obey(brake)
        mass.step(float(brake[0]))
    assert abs(mass.velocity) < 1e-9


def test_what_a_limited_rate_leaves_of_an_effort_is_what_is_reckoned_with():
    rule, edge = rule_of(spec_of(), walls(1.0, 0.1), rate=0.1), np.array([0.8999, 0.0])
    assert rule.check(edge, np.array([2.0])).overruled
    rule.obey(np.array([-2.0]))
    assert not rule.check(edge, np.array([2.0])).overruled, "-1.8 is sent"


@pytest.mark.parametrize("sent", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_an_effort_whose_rate_is_limited_ends_no_further_than_is_reckoned(rate, sent):
    """It falls as fast as it may, to the share of the motor's that is counted on."""
    rule, mass = rule_of(spec_of(0.01), walls(9.0, 0.1), rate=rate), Mass(0.01, 0.0)
    places, _, _ = rule._stopped(np.zeros(1), np.zeros(1), np.array([[sent]]))
    effort = sent
    mass.step(effort)
    while mass.velocity > 0.0:
        effort = max(effort - 2.0 * rate, -2.0 * SHARE)
        mass.step(effort)
    assert mass.position <= places.max()


def test_room_that_was_there_is_kept_but_for_a_rounding():
    kept = Kept(1.0)
    rooms = [kept.of(np.array([room]))[0] for room in (5.0, 4.5, 3.0, 3.5, np.nan, 9.0)]
    assert rooms == [5.0, 5.0, 4.0, 4.0, 4.0, 9.0]


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), load=st.floats(-1.0, 1.0), late=st.floats(0.0, 1.0))
def test_a_load_of_half_the_effort_is_learned_and_held(seed, load, late):
    mass = Mass(0.02, late * 0.02, load=load)
    rule = rule_of(spec_of(0.02), walls(1.0, 0.2), Motors((1.0,), (2.0,)))
    rng = np.random.default_rng(seed)
    for _ in range(300):
        action = rule.check(mass.state, rng.uniform(-2.0, 2.0, 1), mass.coming).action
        assert mass.step(float(action[0])) < 1.0


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("bandwidth", [0.0, 3.0])
def test_a_limited_rate_of_efforts_is_reckoned_with(rate, bandwidth):
    spec, room = spec_of(0.02), walls(1.0, 0.1)
    for seed in range(10):
        rule, mass = rule_of(spec, room, rate=rate), Mass(0.02, 0.0)
        rng, source = np.random.default_rng(seed), RandomEfforts(np.array([2.0]), bandwidth, 0.02)
        for _ in range(300):
            wanted = float(rule.check(mass.state, source.draw(rng)).action[0])
            guarded = np.clip(wanted, mass.effort - 2.0 * rate, mass.effort + 2.0 * rate)
            assert mass.step(float(guarded)) <= 1.0


def test_far_from_the_walls_every_action_passes():
    rule, rng = rule_of(spec_of(), walls(100.0, 1.0)), np.random.default_rng(0)
    for _ in range(100):
        state, wanted = rng.uniform(-5, 5, 2), rng.uniform(-2, 2, 1)
        checked = rule.check(state, wanted)
        assert not checked.overruled and checked.constraint == -1
        assert checked.action.tolist() == wanted.tolist()


def test_braking_ends_at_rest_and_does_not_reverse():
    rule, mass = rule_of(spec_of(), walls(1.0, 0.1)), Mass(0.05, 0.0)
    mass.position, mass.velocity = 0.95, 0.25
    for _ in range(10):
        checked = rule.check(mass.state, np.array([2.0]))
        assert checked.overruled and checked.constraint == 0
        mass.step(float(checked.action[0]))
        assert mass.velocity > -1e-9
    assert mass.velocity == pytest.approx(0.0, abs=1e-9)


def test_from_outside_the_way_is_back_only():
    rule = rule_of(spec_of(), walls(1.0, 0.1))
    assert rule.check(np.array([1.2, 0.0]), np.array([1.0])).action.tolist() == [0.0]
    rule.reset()
    checked = rule.check(np.array([1.2, 0.0]), np.array([-1.0]))
    assert checked.action.tolist() == [-1.0] and not checked.overruled
    rule.reset()
    assert rule.check(np.array([1.2, 0.5]), np.array([1.0])).action.tolist() == [-2.0]


def test_nothing_passes_where_the_room_is_no_number():
    rule = rule_of(spec_of(), lambda states, actions: np.full((len(states), 1), np.nan))
    checked = rule.check(np.array([0.0, 0.0]), np.array([1.0]))
    assert checked.overruled and checked.action.tolist() == [0.0]


def test_only_the_joint_that_comes_too_close_is_stopped():
    rule = rule_of(spec_of(names=("a", "b")), walls(1.0, 0.1))
    checked = rule.check(np.array([0.0, 0.85, 0.0, 0.2]), np.array([1.0, 2.0]))
    assert checked.action[0] == 1.0 and checked.action[1] < 0.0
    assert (checked.overruled, checked.constraint) == (True, 1)


def test_joints_without_a_motor_and_other_entries_stay_as_they_are():
    spec = RobotSpec("r", ("free", "driven"), ("driven",), (2.0,), 0.05, ("puck_x",), ("goal_x",))
    seen = []

    def room(states, actions):
        seen.append((states, actions))
        return 1.0 - np.abs(states[:, 1:2])

    rule = BrakingRule(spec, room, (2.0,), Motors((2.0,), (2.0,)))
    rule.check(np.array([0.1, 0.0, 0.3, 0.4, 0.5, 0.6]), np.array([1.0]))
    states, actions = seen[0]
    assert len(seen) == 1, "all points are asked for at once"
    assert states.shape[1] == 6 and actions.shape == (len(states), 1)
    assert (states[:, [0, 2, 4, 5]] == [0.1, 0.3, 0.5, 0.6]).all()
    assert np.ptp(states[:, 1]) > 0 and np.ptp(states[:, 3]) > 0


def test_up_to_the_speed_for_which_braking_is_promised():
    motors = Motors((2.0,), (2.0,), (1.0,))
    rule = rule_of(spec_of(), walls(100.0, 0.1), motors)
    assert not rule.check(np.array([0.0, 0.5]), np.array([2.0])).overruled
    for sign in (1.0, -1.0):
        checked = rule.check(np.array([0.0, sign * 0.89]), np.array([sign * 2.0]))
        assert sign * checked.action[0] < 0.0 and checked.constraint == 1
        rule.reset()


# Drives that take velocities or positions


@pytest.mark.parametrize("command", ["velocity", "position"])
def test_velocities_and_positions_are_stopped_two_periods_ahead(command):
    limit = 0.1 if command == "position" else 2.0
    spec, room = spec_of(command=command, limit=limit), walls(1.0, 0.05)
    way = limit * (1.0 if command == "position" else spec.period)
    rng = np.random.default_rng(0)
    for _ in range(20):
        rule, position, passed = rule_of(spec, room), 0.0, 0
        for _ in range(200):
            checked = rule.check(np.array([position, 0.0]), rng.uniform(-limit, limit, 1))
            passed += not checked.overruled
            position += float(checked.action[0]) * way / limit
            assert abs(position) <= 1.0 - 0.05 + 1e-6
        assert passed > 100


def test_a_velocity_in_force_is_reckoned_with():
    rule = rule_of(spec_of(command="velocity"), walls(1.0, 0.05))
    state, wanted = np.array([0.7, 0.0]), np.array([2.0])
    assert not rule.check(state, wanted).overruled
    checked = rule.check(state, wanted, [InForce(np.array([2.0]), 1.0)])
    assert checked.overruled and checked.action.tolist() == [0.0]


# Simulated robots


def play(robot, room, guarded, seeds, steps, bandwidth=0.0, gravity=None):
    """Share of ticks outside, least room [margins], share of ticks that were not overruled."""
    if gravity is not None:
        robot.model.opt.gravity[:] = gravity
    spec = robot.spec
    motors = Motors(*promised(robot))
    rooms, passed = [], [True]
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        source = RandomEfforts(np.array(spec.effort_limits), bandwidth, spec.period)
        rule, state = rule_of(spec, room, motors), robot.reset(rng)
        for _ in range(steps):
            action = source.draw(rng)
            if guarded:
                checked = rule.check(state, action)
                action = checked.action
                passed.append(not checked.overruled)
            state = robot.step(action)
            rooms.append(room(state[None], action[None]).min())
    return np.mean(np.array(rooms) < 0), np.min(rooms), np.mean(passed)


@pytest.mark.parametrize("bandwidth", [0.0, 3.0])
def test_a_cart_stays_within_a_metre_where_random_efforts_alone_leave_it(bandwidth):
    def room(states, actions):
        return (1.0 - np.abs(states[:, :1])) / 0.1

    robot = make_robot("cartpole")
    alone, _, _ = play(robot, room, False, seeds=20, steps=200, bandwidth=bandwidth)
    outside, least, passed = play(robot, room, True, seeds=20, steps=200, bandwidth=bandwidth)
    assert alone > 0.5
    assert outside == 0.0 and least >= 0.0
    assert passed > 0.6


def tip(states):
    upper, fore = states[:, 0], states[:, 0] + states[:, 1]
    return 0.3 * np.stack([np.cos(upper) + np.cos(fore), np.sin(upper) + np.sin(fore)], axis=-1)


def of_joints(states, actions):
    return (np.array([1.5, 1.2]) - np.abs(states[:, :2])) / 0.1


def out_of_a_sphere(states, actions):
    return (np.linalg.norm(tip(states) - [0.3, 0.4], axis=-1, keepdims=True) - 0.15) / 0.03


def out_of_a_box(states, actions):
    beyond = np.abs(tip(states) - [0.35, -0.35]) - [0.1, 0.15]
    outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=-1)
    return (outside + np.minimum(beyond.max(axis=-1), 0.0))[:, None] / 0.03


@pytest.mark.parametrize("bandwidth", [0.0, 3.0])
@pytest.mark.parametrize("gravity", [0.0, 3.0], ids=["level", "upright"])
@pytest.mark.parametrize("room", [of_joints, out_of_a_sphere, out_of_a_box])
def test_an_arm_stays_within_its_limits_and_out_of_obstacles(room, gravity, bandwidth):
    """Gravity takes up to 70% of the shoulder's effort where the arm is upright."""
    robot = MujocoRobot(describe(str(ARM)))
    outside, least, passed = play(
        robot, room, True, seeds=8, steps=150, bandwidth=bandwidth, gravity=(0, -gravity, 0)
    )
    assert outside == 0.0 and least >= 0.0
    assert passed > 0.1


def test_without_the_rule_the_arm_does_not():
    for room in (of_joints, out_of_a_sphere, out_of_a_box):
        robot = MujocoRobot(describe(str(ARM)))
        outside, _, _ = play(robot, room, False, seeds=8, steps=150, gravity=(0, 0, 0))
        assert outside > 0.01, room
