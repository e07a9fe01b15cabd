"""A command is chosen for where the robot will be when it acts."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from linear_system import A, B, optimal_gain

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import ControlSettings, SafetySettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.passage import Passage
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.surprise import Level
from hucrl_ros.controller.ticks import Source, Tick
from hucrl_ros.controller.timing import DelayCompensation, InForce

PERIOD = 0.01
SPEC = RobotSpec("cart", ("rail",), ("rail",), (2.0,), PERIOD)


def compensation(mode="always", extra=0.0):
    settings = ControlSettings(latency_compensation=mode, extra_delay=extra)
    return DelayCompensation(PERIOD, 1, settings)


def coming(delay, sent, received=1.0):
    """Efforts and shares in force from `received` on, after commands sent `k` periods before."""
    made = compensation(extra=delay)
    for periods, effort in sent:
        made.sent(np.array([effort]), received - periods * PERIOD)
    return [(float(effort[0]), pytest.approx(share)) for effort, share in made.coming(received)]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (0.3, [(1.0, 0.3)]),
        (1.0, [(1.0, 1.0)]),
        (1.3, [(2.0, 0.3), (1.0, 1.0)]),
        (3.0, [(3.0, 1.0), (2.0, 1.0), (1.0, 1.0)]),
        (4.5, [(0.0, 1.5 / 2), (0.0, 1.5 / 2), (3.0, 1.0), (2.0, 1.0), (1.0, 1.0)]),
    ],
    ids=["part", "one", "one and a part", "three", "longer than anything was sent"],
)
def test_the_oldest_command_acts_first_for_the_fraction_of_a_period(delay, expected):
    assert coming(delay * PERIOD, [(3, 3.0), (2, 2.0), (1, 1.0)]) == expected


def test_without_any_command_there_is_no_effort():
    assert coming(0.5 * PERIOD, []) == [(0.0, 0.5)]


def test_a_command_a_little_late_is_still_one_step_of_the_model():
    assert coming(2 * PERIOD, [(2.05, 2.0), (0.98, 1.0)]) == [(2.0, 1.02), (1.0, 0.98)]


def test_a_new_episode_knows_no_commands_but_the_same_delay():
    made = compensation()
    made.ticked(0.4 * PERIOD)
    made.sent(np.array([1.0]), 0.99)
    made.reset()
    ((effort, share),) = made.coming(1.0)
    assert (float(effort[0]), share) == (0.0, pytest.approx(0.4))


def test_the_delay_is_the_usual_tick_and_what_the_loop_can_not_see():
    made = compensation(extra=0.02)
    assert made.delay == pytest.approx(0.02)
    for duration in (0.004, 0.005, 0.05, 0.004, 0.005):
        made.ticked(duration)
    assert made.delay == pytest.approx(0.025), "a stall is not the rule"
    for _ in range(30):
        made.ticked(0.001)
    assert made.delay == pytest.approx(0.021), "a machine that became faster"


@pytest.mark.parametrize(
    ("mode", "share", "active"),
    [
        ("auto", 0.09, False),
        ("auto", 0.11, True),
        ("always", 0.01, True),
        ("never", 5.0, False),
    ],
)
def test_auto_compensates_from_a_tenth_of_a_period_on(mode, share, active):
    made = compensation(mode)
    made.ticked(share * PERIOD)
    assert made.active is active
    assert bool(made.coming(1.0)) is active


@pytest.mark.parametrize("mode", ["never", "always"])
def test_it_remembers_only_commands_that_may_still_act(mode):
    made = compensation(mode, extra=0.03)
    for k in range(1000):
        made.sent(np.array([1.0]), k * PERIOD)
    assert len(made._commands) <= 6


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Foreseer:
    """Pushes at random, after 3 ms, and notes where an integrator would be by then."""

    def __init__(self, clock):
        self._clock, self._rng = clock, np.random.default_rng(0)
        self.foreseen, self.passed = [], []
        self.surprise = SimpleNamespace(level=Level.CALM, value=1.0)

    def start_episode(self, seed):
        pass

    def sent(self, action, coming=(), command=None):
        """Nothing is learned from it."""
        return True

    def go_on_from(self, other):
        """Nothing is remembered."""

    def obey(self, safety):
        """Nothing goes by it."""

    def act(self, state, spent_s=0.0, coming=(), periods=1):
        moved = sum(share * PERIOD * float(effort[0]) for effort, share in coming)
        self.foreseen.append(state[0] + moved)
        self._clock.now += 0.003
        action = self._rng.uniform(-4.0, 4.0, 1)  # the guard allows 2
        return Tick(action, Source.PLANNED, 1, 0.0, 0.0, None)

    def plan_ahead(self):
        pass

    def uncertainty(self, state, action, passed=()):
        self.passed += passed
        return 0.0, 0.0

    def expected_plan(self):
        return None


@pytest.mark.parametrize("extra", [0.0, 0.004, 0.02, 0.0557])
@pytest.mark.parametrize("age", [0.0, 0.006, 0.03])
def test_an_integrator_is_where_it_was_foreseen_when_the_command_takes_effect(extra, age):
    """Exact, as it moves along straight lines; also through clamps and safe commands.

    Where its velocity is derived, it is that of some time ago, and so is then the position.
    """
    clock = Clock()
    settings = ControlSettings(latency_compensation="always", extra_delay=extra)
    player, made = Foreseer(clock), DelayCompensation(PERIOD, 1, settings, age)
    guard, passage = Guard(SPEC, SafetySettings()), Passage(SPEC, False, age, extra)
    loop = ControlLoop(SPEC, 1000, player, guard, clock, made, passage=passage)
    loop.start(seed=0)
    changes = [(0.0, 0.0)]  # when which effort begins to act

    def position(now):
        times, efforts = np.array(changes).T
        return float(np.diff(np.append(times, now).clip(max=now)) @ efforts)

    began, effects = clock.now, []
    for k in range(60):
        now = k * PERIOD
        clock.now = began + now
        if k % 10 == 7:  # this joint state is lost, and the safe command sent
            clock.now += 0.003
            changes.append((now + 0.003 + extra, float(loop.stale()[0])))
            continue
        slope = (position(now) - position(now - age)) / age if age else 0.0
        reading = JointReading(("rail",), [position(now)], [slope], round(now * 1e9) + 1)
        answer = loop.answer(reading, clock.now, list)
        changes.append((now + 0.003 + extra, answer.record.action[0]))
        effects.append(now + 0.003 + extra)
    known = 1  # the first tick's duration is measured then
    truth = [position(time) for time in effects]
    np.testing.assert_allclose(player.foreseen[known:], truth[known:], atol=1e-9)
    assert loop.counters.clamps > 10
    # What is compared with the model is what happened, and under what acted then.
    assert len(player.passed) > 20
    for each in player.passed:
        assert each.following[0] == pytest.approx(each.state[0] + PERIOD * each.action[0])
    assert loop.counters.compensated == len(effects) - (extra + age == 0.0)


class Graph:
    """A function of numpy arrays in the place of an ONNX graph."""

    def __init__(self, function):
        self._function = function

    def run(self, _, inputs):
        return self._function(**inputs)


def linear(bundle):
    """The bundle of a pushed mass that knows it exactly, and its best policy."""
    gain = optimal_gain()

    def dynamics(state, action):
        zero = np.zeros_like(state)
        return [(state @ A.T + action @ B.T).astype(np.float32), zero, zero]

    def policy(state):
        return [np.clip(-(state @ gain.T), -1, 1).astype(np.float32)]

    graphs = {**bundle.graphs, "dynamics": Graph(dynamics), "policy": Graph(policy)}
    return dataclasses.replace(bundle, graphs=graphs)


@pytest.mark.parametrize("delay", [1, 2, 5])
def test_with_an_exact_model_a_delay_only_shifts_the_closed_loop(bundle, delay):
    """x[k + n] of the delayed loop is x[k] of the one without delay that starts at x[n]."""
    agent = Agent(linear(bundle), 1.0, Clock())

    def play(state, steps, delay):
        period = bundle.manifest.period
        settings = ControlSettings(latency_compensation="always", extra_delay=delay * period)
        made = DelayCompensation(period, 1, settings)
        queue, states = [np.zeros(1)] * delay, [np.array(state)]
        for k in range(steps):
            tick = agent.act(states[-1], 2.0, made.coming(k * period))
            assert tick.source is Source.POLICY
            made.sent(tick.action, k * period)
            queue.append(tick.action)
            states.append(A @ states[-1] + B @ queue.pop(0))
        return np.array(states)

    delayed = play([0.3, -0.2], 40, delay)
    assert np.abs(delayed[-1]).max() < 1e-3, "it comes to rest"
    free = play(delayed[delay], 40 - delay, 0)
    np.testing.assert_allclose(delayed[delay:], free, atol=1e-5)


def test_the_model_predicts_whole_periods_and_a_straight_line_within_one(bundle):
    agent = Agent(bundle, None)
    state = np.array([3.0, 0.5])
    efforts = np.array([[0.2], [-0.7]])

    def follow(state, effort):
        inputs = {"state": state[None].astype("f"), "action": effort[None].astype("f")}
        return bundle.run("dynamics", **inputs)[0][0]

    part = state + 0.4 * (follow(state, efforts[0]) - state)
    tick = agent.act(state, coming=[InForce(efforts[0], 0.4), InForce(efforts[1], 1.0)])
    np.testing.assert_allclose(tick.optimistic[0], follow(part, efforts[1]), rtol=1e-5)


def test_a_model_that_leads_nowhere_leaves_the_measured_state(bundle):
    nowhere = Graph(lambda state, action: [np.full_like(state, np.nan)] * 3)
    broken = dataclasses.replace(bundle, graphs={**bundle.graphs, "dynamics": nowhere})
    state = np.array([3.0, 0.5])
    tick = Agent(broken, None).act(state, coming=[InForce(np.array([1.0]), 1.0)])
    np.testing.assert_allclose(tick.optimistic[0], state, rtol=1e-6)
