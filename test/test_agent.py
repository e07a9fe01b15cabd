"""An agent answers every state within its limits, in time, and the same way each time."""

import dataclasses
import itertools
import math
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest
from bundle_factory import (
    PLANNER,
    SHORT_RAIL,
    STRATEGIES,
    fields,
    learned,
    write_bundle,
)
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.config.schema import ModelSettings, SafetySettings
from hucrl_ros.controller.agent import GRACE, LOOKING, REMEMBERED_CHECKS, Agent, BundleSystem
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.passage import Transition
from hucrl_ros.controller.safety_filter import Filtered
from hucrl_ros.controller.surprise import Level
from hucrl_ros.controller.ticks import LATE, Source
from hucrl_ros.controller.timing import (
    REMEMBERED_ITERATIONS,
    Budget,
    DeadlinePlanner,
    InForce,
    Planned,
)

STATE = np.array([3.0, 0.5])


@pytest.fixture(scope="module")
def random_bundle(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "random"
    learned("optimistic").exporter.write(path, fields(random=True, episode=0), None)
    return load_bundle(path)


def test_a_position_sent_before_the_first_tick_is_no_way_from_the_episode_before(tmp_path):
    """Whose first step would be counted from such a way, not from none."""
    bundle = load_bundle(write_bundle(tmp_path / "bundle"))
    agent, obeyed = Agent(bundle, None), []
    agent._spec = dataclasses.replace(agent._spec, command="position")
    agent._filter = SimpleNamespace(
        start_episode=lambda: None,
        check=lambda state, action, *told: Filtered(action, False, -1, True),
        obey=lambda way: obeyed.append(way.tolist()),
    )
    for place in (3.0, 0.2):
        agent.start_episode(0)
        agent.sent(np.zeros(1), command=np.array([place]))
        agent.act(np.array([place, 0.0]))
        agent.sent(np.zeros(1), command=np.array([place + 0.5]))
    assert np.ravel(obeyed) == pytest.approx([0.0, 0.5] * 2)


@pytest.mark.parametrize("kind", ["learned", "random"])
def test_filter_and_braking_rule_go_by_the_limits_in_force(tmp_path, kind):
    """Where the robot began and what was sent stay known."""
    made = untrained_bundle(tmp_path / "bundle", SHORT_RAIL, ModelSettings(kind="gp"))
    manifest = made.manifest.model_copy(update={"random": kind == "random"})
    safety = SafetySettings(filter=True, effort_rate=0.5)
    agent = Agent(dataclasses.replace(made, manifest=manifest), None, safety=safety)
    limit = manifest.effort_limits[0]
    fast = np.array([0.9, 0.0, 2.0, 0.0])
    agent.act(np.array([0.1, 0.0, 0.0, 0.0]))
    agent.sent(np.array([-0.5 * limit]))
    before = agent.act(fast).action
    rule = agent._filter if kind == "learned" else agent._braking
    assert before < -0.1 * limit, "it brakes"
    agent.obey(safety.model_copy(update={"effort_limits": (0.1 * limit,)}))
    assert (agent._filter or agent._braking) is not rule
    if kind == "learned":
        assert agent._filter._home == rule._home
        assert agent._filter._sent == pytest.approx(rule._sent)
    assert -0.1 * limit <= agent.act(fast).action < 0.0


def test_a_filter_that_takes_over_from_random_efforts_knows_what_joints_carry(tmp_path):
    made = untrained_bundle(tmp_path / "bundle", SHORT_RAIL, ModelSettings(kind="gp"))
    manifest = made.manifest.model_copy(update={"random": True})
    drawn = Agent(dataclasses.replace(made, manifest=manifest), None)
    for speed in (0.0, 0.3, 0.6):  # Something pulls the cart along.
        drawn.act(np.array([0.0, 0.0, speed, 0.0]))
        drawn.sent(np.zeros(1))
    found = Agent(made, None, safety=SafetySettings(filter=True))
    found.go_on_from(drawn)
    assert found._filter._rule._load == pytest.approx(drawn._braking._load)
    assert abs(found._filter._rule._load[0]) > 0.1


class Clock:
    """A clock that somebody else moves on."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class SlowAgent(Agent):
    """An agent whose iterations, all draws of noise together, take the time that the test says."""

    def __init__(self, bundle, budget_s, iteration_s, executor=None):
        clock = Clock()
        super().__init__(bundle, budget_s, clock, executor)
        self.iteration_s, rollout = iteration_s, self._engine

        class Engine:
            set_state = staticmethod(rollout.set_state)

            def __call__(_, offsets, noise, feedback):  # noqa: N805
                clock.now += self.iteration_s / PLANNER.noise_draws
                return rollout(offsets, noise, feedback)

        self._engine = Engine()


def play(agent, seed, steps=5):
    """Actions of an episode in which every state is the same."""
    agent.start_episode(seed)
    return np.array([agent.act(STATE).action for _ in range(steps)])


def test_equal_seeds_give_equal_actions_and_others_do_not(bundle):
    agent = Agent(bundle, None)
    actions = play(agent, seed=3)
    np.testing.assert_array_equal(play(agent, seed=3), actions)
    np.testing.assert_array_equal(play(Agent(bundle, None), seed=3), actions)
    assert (play(agent, seed=4) != actions).any()


def test_warming_up_changes_nothing(bundle):
    actions = play(Agent(bundle, None), seed=3)
    agent = Agent(bundle, None)
    agent.warm_up()
    np.testing.assert_array_equal(play(agent, seed=3), actions)
    assert agent.fallbacks == 0


def test_a_tick_says_what_the_model_says(bundle):
    modules = learned("optimistic")
    agent = Agent(bundle, None)
    tick = agent.act(STATE)
    _, epistemic, aleatoric = bundle.run(
        "dynamics", state=STATE[None].astype("f"), action=tick.action[None].astype("f")
    )
    scale = modules.model.targets.std.numpy()
    assert tick.source is Source.PLANNED
    assert tick.iterations == PLANNER.iterations
    expected = (epistemic / scale).mean(), (aleatoric / scale).mean()
    assert agent.uncertainty(STATE, tick.action) == pytest.approx(expected, rel=1e-4)
    assert 0.0 < tick.hallucination <= 1.0
    assert tick.optimistic.shape == (PLANNER.horizon + 1, 2)
    np.testing.assert_allclose(tick.optimistic[0], STATE, rtol=1e-6)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_system_of_a_bundle_has_the_noise_of_its_strategy(tmp_path, strategy):
    """The total deviation for greedy, the aleatoric one for the others."""
    found = load_bundle(write_bundle(tmp_path / "bundle", strategy))
    states, applied = 0.1 * np.ones((4, 2)), 0.3 * np.ones((4, found.manifest.width))
    noise = np.array([0.5, -0.2])
    system = BundleSystem(found)
    moved = system.step(states, applied, noise)[0] - system.step(states, applied)[0]
    efforts = applied[:, :1] * found.manifest.effort_limits
    _, epistemic, aleatoric = found.run(
        "dynamics", state=states.astype("f"), action=efforts.astype("f")
    )
    if strategy == "greedy":
        np.testing.assert_allclose(moved, np.hypot(epistemic, aleatoric) * noise, atol=1e-5)
    elif strategy != "thompson":
        np.testing.assert_allclose(moved, aleatoric * noise, atol=1e-5)
    else:  # of the drawn head
        assert (np.sign(moved) == np.sign(noise)).all()


def test_a_planned_return_is_at_least_the_policies(bundle):
    agent = Agent(bundle, None)
    follower = Agent(with_planner(bundle, algorithm="policy"), None)
    for seed in range(10):
        agent.start_episode(seed)
        follower.start_episode(seed)
        assert agent.act(STATE).planned_return >= follower.act(STATE).planned_return - 1e-4


def with_planner(bundle, **changes):
    manifest = bundle.manifest
    planner = manifest.planner.model_copy(update=changes)
    return dataclasses.replace(bundle, manifest=manifest.model_copy(update={"planner": planner}))


def weaker(bundle):
    """What a plan has is a share of this limit."""
    manifest = bundle.manifest.model_copy(update={"effort_limits": (0.4,)})
    return dataclasses.replace(bundle, manifest=manifest)


def test_the_policy_planner_sends_pi(bundle):
    agent = Agent(weaker(with_planner(bundle, algorithm="policy")), None)
    tick = agent.act(STATE)
    (pi,) = bundle.run("policy", state=STATE[None].astype("f"))
    np.testing.assert_allclose(tick.action, 0.4 * pi[0], atol=1e-6)
    assert tick.source is Source.POLICY
    assert agent.fallbacks == 0


def test_the_expected_plan_follows_the_mean_without_hallucination(bundle):
    agent = Agent(weaker(bundle), None)
    assert agent.expected_plan() is None
    tick = agent.act(STATE)
    expected = agent.expected_plan()
    mean, *_ = bundle.run(
        "dynamics", state=STATE[None].astype("f"), action=tick.action[None].astype("f")
    )
    np.testing.assert_allclose(expected[0], STATE, rtol=1e-6)
    np.testing.assert_allclose(expected[1], mean[0], rtol=1e-5)
    assert expected.shape == tick.optimistic.shape
    assert np.abs(expected[1] - tick.optimistic[1]).max() > 0.0


def test_a_random_bundle_draws_uniformly_within_the_limits(random_bundle):
    agent = Agent(random_bundle, None)
    actions = play(agent, seed=0, steps=4000)[:, 0]
    assert np.abs(actions).max() <= 1.0
    assert np.mean(actions) == pytest.approx(0.0, abs=0.04)
    assert np.var(actions) == pytest.approx(1 / 3, abs=0.02)
    tick = agent.act(STATE)
    assert tick.source is Source.RANDOM
    assert math.isnan(tick.planned_return)
    assert tick.optimistic is None
    np.testing.assert_array_equal(play(agent, seed=0, steps=4000)[:, 0], actions)


@examples(max_examples=40)
@given(state=st.tuples(st.floats(-1e30, 1e30), st.floats(-1e30, 1e30)))
def test_every_finite_state_gets_a_finite_effort_within_the_limits(bundle, state):
    agent = Agent(bundle, None)
    for _ in range(2):
        action = agent.act(np.array(state)).action
        assert action.shape == (1,)
        assert np.abs(action).max() <= 1.0  # NaN fails, too.


def test_out_of_budget_the_previous_plan_is_shifted_and_then_the_policy_acts(bundle):
    agent = Agent(bundle, 1.0, Clock())
    plan = agent.act(STATE)
    assert plan.source is Source.PLANNED
    planned = agent._plan.actions[:, 0]
    for step in range(1, PLANNER.horizon):
        tick = agent.act(STATE, spent_s=2.0)
        assert (tick.source, tick.iterations) == (Source.PREVIOUS, 0)
        assert tick.action[0] == pytest.approx(planned[step])
        assert tick.optimistic is None
    for _ in range(3):
        tick = agent.act(STATE, spent_s=2.0)
        assert tick.source is Source.POLICY
        (pi,) = bundle.run("policy", state=STATE[None].astype("f"))
        np.testing.assert_allclose(tick.action, pi[0], atol=1e-6)
    assert agent.fallbacks == PLANNER.horizon - 1 + 3
    assert agent.act(STATE).source is Source.PLANNED
    agent.start_episode(0)
    assert agent.fallbacks == 0
    assert agent.act(STATE, spent_s=2.0).source is Source.POLICY
    agent.act(STATE)
    tick = agent.act(STATE, spent_s=2.0, periods=2)
    assert tick.action[0] == pytest.approx(agent._plan.actions[2, 0])
    assert agent._tick(np.array([1.5], np.float32), Source.POLICY).action.tolist() == [1.0]


class Rule:
    """A filter or a braking rule that lets nothing through, and writes down what it hears."""

    def __init__(self, overruled=True):
        self.overruled, self.heard, self.asked = overruled, [], []

    def start_episode(self):
        self.heard.append("new")

    reset = start_episode

    def miss(self):
        self.heard.append("missed")

    def obey(self, *told):
        self.heard.append(told)
        return False

    def check(self, *told):
        self.asked.append(told)
        return Filtered(np.array([-0.25]), self.overruled, 1, False)


def test_what_the_safety_filter_says_is_sent_and_it_hears_all_that_it_goes_by(bundle):
    agent = Agent(bundle, None)
    rule = agent._filter = Rule()
    tick = agent.act(STATE)
    assert (tick.action.tolist(), tick.filtered, tick.proved) == ([-0.25], 2, False)
    assert not agent.sent(tick.action)
    assert rule.heard == [(tick.action,)]
    agent.act(STATE, periods=2)
    assert rule.heard[1:] == ["missed"]
    agent.start_episode(0)
    assert rule.heard[2:] == ["new"]
    rule.overruled = False
    tick = agent.act(STATE)
    assert tick.action.tolist() != [-0.25]
    assert (tick.filtered, tick.proved) == (0, False)
    agent.surprise = SimpleNamespace(level=Level.WARY)
    agent.act(STATE)
    assert [told[2] for told in rule.asked] == [False, False, False, True]


def test_what_the_braking_rule_says_is_sent_and_it_hears_all_that_it_goes_by(random_bundle):
    agent, coming = Agent(random_bundle, None), [InForce(np.ones(1), 1.0)]
    rule = agent._braking = Rule()
    tick = agent.act(STATE, coming=coming, periods=2)
    assert (tick.action.tolist(), tick.filtered, tick.source) == ([-0.25], 2, Source.RANDOM)
    assert rule.asked[0][2] == coming
    agent.sent(tick.action, coming)
    agent.start_episode(0)
    assert rule.heard == ["missed", (tick.action, coming), "new"]


def of_positions(bundle):
    manifest = bundle.manifest.model_copy(update={"command": "position"})
    return dataclasses.replace(bundle, manifest=manifest)


def test_a_position_is_a_way_from_where_it_takes_effect(bundle):
    agent, coming = Agent(of_positions(bundle), 1.0, Clock()), [InForce(np.array([3.2]), 1.0)]
    for spent in (0.0, 2.0):  # The second time it is the plan of before, which began elsewhere.
        rule = agent._filter = Rule()
        state = STATE + spent
        tick = agent.act(state, spent_s=spent, coming=coming)
        ahead, _, _, here, under, _ = rule.asked[0]
        assert (here.tolist(), under) == (state.tolist(), coming)
        assert ahead.tolist() != state.tolist()
        if not spent:
            assert agent._asked_state.tolist() == ahead.tolist(), "planned from there"
        assert tick.action == pytest.approx([-0.25 + ahead[0] - state[0]])
        agent.sent(tick.action, coming, np.array([2.0]))
        assert rule.heard[-1][0] == pytest.approx([2.0 - ahead[0]])


def test_where_commands_lead_is_what_the_model_expects_and_what_it_gets_wrong(bundle, monkeypatch):
    agent = Agent(of_positions(bundle), None)
    agent.bias.recall(np.array([0.01, -0.02]))
    monkeypatch.setattr(agent, "_expect", lambda s, a: s + np.array([s[1], 2.0 * a[0]], "f"))
    commands = [InForce(np.array([3.5]), 1.0), InForce(np.array([2.0]), 0.5)]
    place, speed = STATE
    place, speed = place + speed + 0.01, speed + 2.0 * (3.5 - place) - 0.02
    place, speed = place + 0.5 * (speed + 0.01), speed + 0.5 * (2.0 * (2.0 - place) - 0.02)
    assert agent._predict(STATE, commands) == pytest.approx([place, speed], rel=1e-5)
    assert agent._predict(STATE, ()).tolist() == STATE.tolist()
    monkeypatch.setattr(agent, "_expect", lambda s, a: s * np.float32(np.nan))
    assert agent._predict(STATE, commands).tolist() == STATE.tolist()


def test_surprise_and_bias_see_each_transition_with_what_was_claimed_of_it(bundle, monkeypatch):
    agent, seen, biases = Agent(bundle, None), [], []
    monkeypatch.setattr(agent.surprise, "see", lambda *told: seen.append(told))
    monkeypatch.setattr(agent.bias, "see", lambda *told: biases.append(told))

    def claimed(state, action):
        pair = {"state": state[None].astype("f"), "action": action[None].astype("f")}
        return [part[0] for part in bundle.run("dynamics", **pair)]

    efforts = [np.array([x]) for x in (0.1, 0.4, -0.2, 0.3, -0.5)]
    agent.uncertainty(STATE, efforts[0])
    passed = [
        Transition(STATE + 0.1, efforts[1], STATE, 0.0, efforts[2]),
        Transition(STATE, efforts[0], STATE, 0.0),  # what was asked before
        Transition(STATE - 0.3, efforts[3], STATE, 0.0, efforts[4]),
        Transition(STATE - 0.2, efforts[4], STATE, 0.0),
    ]
    agent.uncertainty(STATE, efforts[1], passed)
    for told, bias, each in zip(seen, biases, passed, strict=True):
        claim = claimed(each.state, each.action)
        later = claim if each.later is None else claimed(each.state, each.later)
        assert told[0] is bias[0] is each
        np.testing.assert_allclose(np.stack(told[1:]), [*claim, later[0]], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(np.stack(bias[1:]), claim, rtol=1e-4, atol=1e-6)


def test_an_episode_knows_nothing_of_the_one_before(bundle, random_bundle):
    smooth = random_bundle.manifest.model_copy(update={"random_bandwidth": 1.0})
    drawn = Agent(dataclasses.replace(random_bundle, manifest=smooth), None)
    assert np.array_equal(play(drawn, seed=3), play(drawn, seed=3))
    agent, reset = Agent(bundle, None), []
    agent.surprise = agent.bias = SimpleNamespace(reset=lambda: reset.append(True))
    agent._postponed = lambda: pytest.fail("a plan of the episode before")
    agent.start_episode(0)
    agent.plan_ahead()
    assert reset == [True, True]


def test_a_plan_in_time_may_take_the_grace_longer_and_one_ahead_as_long_as_it_takes(bundle):
    agent, asked = Agent(bundle, 0.01, Clock(), Beside()), []

    def run(work, limit):
        asked.append(limit)
        return Planned(None, False)

    agent._deadline = SimpleNamespace(
        beside=True, pending=False, busy=False, late=lambda: None, run=run
    )
    agent.act(STATE, spent_s=0.004)
    agent._postponed = work = object()
    for _ in range(2):
        agent.plan_ahead()
    grace = GRACE * (bundle.manifest.period - 0.01)
    assert asked == [pytest.approx(0.006 + grace), None], "once"
    assert agent._postponed is not work


class Hesitant:
    """An executor that begins no work but on the calls that it is told."""

    def __init__(self, begins):
        self._begins = iter(begins)

    def submit(self, work):
        future = Future()
        if next(self._begins):
            future.set_running_or_notify_cancel()
            future.set_result(work())
        return future


def test_a_planner_hears_of_every_period_that_passed(bundle, monkeypatch):
    agent, heard = Agent(bundle, 1.0, Clock(), Hesitant([True, False, False, True, True])), []
    plan = agent._planner.plan
    monkeypatch.setattr(
        agent._planner, "plan", lambda *args: heard.append(args[-1]) or plan(*args)
    )
    monkeypatch.setattr(agent._budget, "left", lambda: 0.0)
    for periods in (1, 2, 1, 3, 1):
        agent.act(STATE, periods=periods)
    assert heard == [1, 6, 1]


@pytest.mark.parametrize(("budget_s", "iterations"), [(0.35, 3), (0.25, 2), (0.15, 1), (None, 3)])
def test_as_many_iterations_as_fit_the_budget(bundle, budget_s, iterations):
    agent = SlowAgent(bundle, budget_s, iteration_s=0.1)
    agent.act(STATE)  # Learns how long an iteration takes.
    assert agent.act(STATE).iterations == iterations


class SlowFilter:
    """Takes as long for its fans as the test says, and would make some more."""

    def __init__(self, clock, fan_s, more):
        self.clock, self.fan_s, self.more = clock, fan_s, more

    def start_episode(self):
        pass

    def obey(self, action):
        pass

    def check(self, state, action, wary, measured, coming, go_on):
        go_on()
        self.clock.now += self.fan_s
        self.made = 1
        while self.made <= self.more and go_on():
            self.clock.now += self.fan_s
            self.made += 1
        return Filtered(action, False, -1, True)


def test_plans_leave_the_safety_filter_the_time_that_it_mostly_takes(bundle):
    agent = SlowAgent(bundle, 0.35, iteration_s=0.1)
    agent._filter = SlowFilter(agent._clock, 0.0, 0)
    agent.act(STATE)
    found = []
    for fan_s in [0.12] * 4 + [0.0] * REMEMBERED_CHECKS:
        agent._filter.fan_s = fan_s
        found.append(agent.act(STATE).iterations)
    assert found == [3] + [2] * 7 + [3] * (len(found) - 8)
    agent._filter.fan_s = 0.12
    agent.warm_up()
    assert agent.act(STATE).iterations == 2, "also in the first tick"
    agent._filter = None
    agent.warm_up()
    assert agent.act(STATE).iterations == 3


def test_a_safety_filter_looks_no_longer_than_a_tick_may_take(bundle):
    period = bundle.manifest.period
    agent = SlowAgent(bundle, 0.5 * period, iteration_s=0.1 * period)
    agent._filter = SlowFilter(agent._clock, 0.13 * period, 9)
    agent.act(STATE)  # Learns how long a fan takes.
    began = agent._clock.now
    tick = agent.act(STATE)
    assert 0.6 * period < agent._clock.now - began <= LOOKING * period
    assert tick.decided["fans"] == agent._filter.made >= 3
    agent._filter.more = 0
    assert "fans" not in agent.act(STATE).decided
    agent._filter.more = 9
    late = agent.act(STATE, spent_s=period)
    assert (late.decided["fans"], agent._filter.made) == (0.0, 1)


@pytest.mark.parametrize("fan", [0.12, 0.2, 0.25])
def test_plans_give_way_to_a_safety_filter_that_looks_for_something(bundle, fan):
    """It isn't held to one fan by a plan that leaves it no more than it had."""
    period = bundle.manifest.period
    agent = SlowAgent(bundle, 0.7 * period, iteration_s=0.02 * period)
    agent._filter = SlowFilter(agent._clock, fan * period, 2)
    made = []
    for _ in range(3 * REMEMBERED_CHECKS):
        agent.act(STATE)
        made.append(agent._filter.made)
    assert set(made[-REMEMBERED_CHECKS:]) <= {2, 3}
    assert made.count(3) > REMEMBERED_CHECKS


def test_fans_are_allowed_as_iterations_are(bundle):
    agent = Agent(bundle, bundle.manifest.period, clock=lambda: 0.0)
    agent._filter = SlowFilter(Clock(), 0.0, 5)
    for allowed, made in [(2, 2), (0, 1), (None, 6)]:
        agent.allow(None, allowed)
        agent.act(STATE)
        assert agent._filter.made == made


def test_a_single_stall_does_not_cost_later_iterations(bundle):
    agent = SlowAgent(bundle, 0.35, iteration_s=0.1)
    for _ in range(4):
        agent.act(STATE)
    agent.iteration_s = 30.0
    assert agent.act(STATE).iterations == 1
    agent.iteration_s = 0.1
    assert agent.act(STATE).iterations == 3


def test_a_slow_machine_that_recovers_plans_again(bundle):
    agent = SlowAgent(bundle, 0.35, iteration_s=30.0)
    sources = [agent.act(STATE).source for _ in range(12)]
    assert sources[0] is Source.PLANNED  # Nothing was known of its speed.
    assert Source.PREVIOUS in sources
    agent.iteration_s = 0.1
    for _ in range(20):
        tick = agent.act(STATE)
    assert (tick.source, tick.iterations) == (Source.PLANNED, 3)


class Beside:
    """An executor that works when it is told to, and can't be waited for."""

    def __init__(self):
        self.work = []

    def submit(self, work):
        future = Future()
        self.work.append((future, work))
        return future

    def go_on(self):
        future, work = self.work.pop(0)
        future.set_running_or_notify_cancel()
        future.set_result(work())


class Now(Beside):
    def submit(self, work):
        future = super().submit(work)
        self.go_on()
        return future


def test_a_plan_that_is_known_to_take_too_long_is_made_beside_the_tick(bundle):
    agent = SlowAgent(bundle, 0.35, 0.5, Now())
    agent.act(STATE)  # Learns how long an iteration takes.
    agent._deadline = DeadlinePlanner(beside := Beside())
    first, began = agent._plan.actions[:, 0], agent._clock.now
    tick = agent.act(STATE)
    assert (tick.source, dict(tick.decided)) == (Source.PREVIOUS, {"granted": LATE})
    assert tick.action[0] == pytest.approx(first[1])
    assert tick.overrun
    assert tick.optimistic is None
    assert agent._clock.now == began
    assert not beside.work, "before the command has been sent"
    agent.plan_ahead()
    beside.go_on()
    tick = agent.act(STATE, periods=2)
    agent.plan_ahead()
    assert agent._plan.iterations == 1
    assert tick.optimistic is agent._plan.states
    assert agent._plan.actions[:, 0].tolist() != first.tolist()
    assert dict(tick.decided) == {"late": 1.0, "granted": LATE}
    assert tick.action[0] == pytest.approx(agent._plan.actions[2, 0]), "as old as it is"
    assert agent.act(STATE).decided == {}, "the plan is still being made"
    beside.go_on()
    agent.iteration_s, agent._deadline = 0.1, DeadlinePlanner(Now())
    for _ in range(REMEMBERED_ITERATIONS):
        tick = agent.act(STATE)
        agent.plan_ahead()
    assert (tick.source, tick.iterations) == (Source.PLANNED, 3)


def test_a_slow_warm_up_is_not_held_against_the_first_tick(bundle):
    agent = SlowAgent(bundle, 0.35, iteration_s=0.1)
    durations = iter([30.0, 20.0, 10.0])
    run = agent.act

    def act(state, coming):
        agent.iteration_s = next(durations, 0.1)
        return run(state, coming=coming)

    agent.act = act
    agent.warm_up()
    assert next(durations, None) is None, "each of its ticks planned"
    agent.iteration_s = 0.1
    assert run(STATE).iterations == 3


def test_policies_that_are_not_numbers_end_in_no_effort(bundle):
    class Broken:
        def __init__(self, outputs):
            self.outputs = outputs

        def run(self, *_):
            return [np.full((1, 1), np.nan, np.float32)] * self.outputs

    graphs = {**bundle.graphs, "policy": Broken(1), "dynamics": Broken(3)}
    agent = Agent(dataclasses.replace(bundle, graphs=graphs), 1.0, Clock())
    tick = agent.act(STATE, spent_s=2.0)
    assert tick.source is Source.SAFE
    np.testing.assert_array_equal(tick.action, [0.0])


def test_a_budget_without_limit_never_reads_the_clock():
    def clock():
        raise AssertionError("read")

    budget = Budget(None, clock)
    budget.start()
    assert all(itertools.islice(iter(budget.go_on, None), 10))
    budget.stop()


def test_a_budget_forgets_one_measurement_at_each_refusal():
    clock = Clock()
    budget = Budget(1.0, clock)
    budget.start()
    assert budget.go_on()
    clock.now += 0.4
    assert budget.go_on()
    clock.now += 5.0
    budget.stop()  # Median of 0.4 and 5: 2.7.
    answers = []
    for _ in range(3):
        budget.start()
        answers.append(budget.go_on())
        budget._iteration_start = None  # As if it had not been measured.
    assert answers == [False, False, True]
