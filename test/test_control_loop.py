import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pytest

from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.config.schema import ControlSettings, DriverSettings, SafetySettings
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.passage import Passage
from hucrl_ros.controller.state_reader import JointReading, StateReader, velocity_age
from hucrl_ros.controller.surprise import Level
from hucrl_ros.controller.ticks import Source, Tick
from hucrl_ros.controller.timing import DelayCompensation
from hucrl_ros.errors import OutageError, SurpriseError

SPEC = RobotSpec("one", ("hinge",), ("hinge",), (2.0,), 0.01)
PERIOD_NS = 10_000_000
STEPS = 3


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class Echo:
    """Pushes with the position, after `duration` [s]."""

    def __init__(self, clock, duration=0.002):
        self.seeds, self.spent, self.coming, self.periods = [], [], [], []
        self._clock, self.duration = clock, duration
        self.surprise = SimpleNamespace(level=Level.CALM, value=1.5, reason="surprise: of a test")
        self.passed = []
        self.told = []
        self.filtered = False

    def start_episode(self, seed):
        self.seeds.append(seed)

    def sent(self, action, coming=(), command=None):
        self.told.append(float(action[0]))
        return True

    def go_on_from(self, other):
        self.follows = other

    def obey(self, safety):
        self.obeyed = safety

    def act(self, state, spent_s=0.0, coming=(), periods=1):
        self.spent.append(spent_s)
        self.coming.append(coming)
        self.periods.append(periods)
        self._clock.now += self.duration
        action = state[:1].copy()
        filtered = self.filtered
        return Tick(action, Source.PLANNED, 2, 5.0, 0.3, np.zeros((4, 2)), filtered=filtered)

    def plan_ahead(self):
        pass

    def uncertainty(self, state, action, passed=()):
        self.passed += passed
        self.asked = float(state[0]), float(action[0])
        self._clock.now += 0.0004
        return 0.1, 0.2

    def expected_plan(self):
        return None


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def loop(clock):
    loop = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, SafetySettings()), clock)
    loop.start(seed=7)
    return loop


def reading(step, position=1.0, names=("hinge",)):
    return JointReading(names, [position], [0.0], step * PERIOD_NS)


def refuse(effort):
    pytest.fail(f"{effort} was sent")


def tick(loop, clock, step, **state):
    """The answer to a joint state that came now, with the one effort that was sent."""
    sent = []
    answer = loop.answer(reading(step, **state), clock(), sent.append)
    (effort,) = sent
    assert answer.record.action == tuple(effort)
    return answer, answer.record


def test_a_tick_says_what_was_done_and_how_long_it_took(loop, clock):
    answer, record = tick(loop, clock, 120, position=1.5)
    assert answer.problem == ""
    assert answer.optimistic.shape == (4, 2)
    assert (record.stamp_sec, record.stamp_nanosec) == (1, 200_000_000)
    assert record.tick_ms == pytest.approx(2.0)
    assert record[4:] == (Source.PLANNED, False, False, False, 2, 5.0, 0.1, 0.2, 0.3, 1.5, (1.5,))


def test_the_command_leaves_before_anything_else_is_computed(loop, clock):
    received, sent = clock(), []
    answer = loop.answer(reading(1), received, lambda effort: sent.append(clock() - received))
    assert sent == [pytest.approx(0.002)]
    assert clock() - received == pytest.approx(0.0024), "the telemetry comes after it"
    assert answer.record.tick_ms == pytest.approx(2.0)
    assert (answer.record.epistemic_std, answer.record.aleatoric_std) == (0.1, 0.2)


def test_a_command_that_cannot_be_sent_is_no_tick(loop, clock):
    def broken(effort):
        raise OSError("no bus")

    with pytest.raises(OSError, match="no bus"):
        loop.answer(reading(1), clock(), broken)
    assert loop.step == loop.counters.ticks == 0


def test_time_between_receipt_and_planning_is_part_of_the_budget(loop, clock):
    received = clock()
    clock.now += 0.004
    answer = loop.answer(reading(1), received, list)
    assert loop.player.spent == [pytest.approx(0.004)]
    assert answer.record.tick_ms == pytest.approx(6.0)


def test_a_tick_longer_than_the_period_is_missed(loop, clock):
    loop.player.duration = 0.0101
    _, record = tick(loop, clock, 1)
    assert record.missed
    assert loop.counters.misses == 1


def test_what_the_filter_changed_is_recorded_and_counted(loop, clock):
    assert not tick(loop, clock, 1)[1].filtered
    loop.player.filtered = True
    assert tick(loop, clock, 2)[1].filtered
    assert (loop.counters.filtered, loop.counters.values()["filtered"]) == (1, 1)


def test_what_the_guard_changes_is_sent_recorded_and_counted(loop, clock):
    _, record = tick(loop, clock, 1, position=9.0)
    assert record.action == (2.0,)
    assert record.clamped
    assert loop.player.asked == (9.0, 9.0), "of the measured state and the effort wanted"
    assert loop.counters.clamps == 1


def test_the_state_after_the_last_tick_ends_the_episode_and_sends_nothing(loop, clock):
    for step in range(STEPS):
        assert tick(loop, clock, step)[1].step == step
    assert loop.answer(reading(STEPS), clock(), refuse).record is None
    assert loop.answer(reading(STEPS + 1, position=math.nan), clock(), refuse).record is None


def test_a_bad_joint_state_takes_a_step_under_the_safe_command(loop, clock):
    answer, record = tick(loop, clock, 1, position=math.nan)
    assert "position of joint 'hinge' is nan" in answer.problem
    assert record.source == Source.SAFE
    assert record.action == (0.0,)
    assert math.isnan(record.planned_return) and math.isnan(record.epistemic_std)
    assert loop.step == 1
    assert loop.counters.bad_joint_states == 1
    assert loop.counters.sources == {Source.SAFE: 1}


def test_where_the_policy_has_no_number_the_safe_command_is_sent_at_once(clock):
    limited = SafetySettings(effort_rate=0.25)
    loop = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, limited), clock)
    loop.start(seed=7)
    assert tick(loop, clock, 1, position=2.0)[1].action == (0.5,)
    assert tick(loop, clock, 2, position=2.0)[1].action == (1.0,)
    nothing = Tick(np.zeros(1), Source.SAFE, 0, math.nan, 0.0, None)
    loop.player.act = lambda *unused: nothing
    answer, record = tick(loop, clock, 3)
    assert record.action == (0.0,), "not let in by the rate"
    assert record.source == Source.SAFE and "policy's efforts make no sense" in answer.problem


def test_where_the_filter_proves_how_nothing_is_let_in_it_is_let_in_so(clock):
    limited = SafetySettings(effort_rate=0.25)
    loop = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, limited), clock)
    loop.start(seed=7)
    for step in (1, 2):
        tick(loop, clock, step, position=2.0)
    nothing = Tick(np.zeros(1), Source.SAFE, 0, math.nan, 0.0, None, proved=True)
    loop.player.act = lambda *unused: nothing
    answer, record = tick(loop, clock, 3)
    assert (record.action, record.source) == ((0.5,), Source.SAFE)
    assert "policy's efforts make no sense" in answer.problem
    assert loop.counters.unproved == 0


def test_what_is_sent_in_the_place_of_nonsense_is_not_proved(loop, clock):
    for proved, count in ((None, 0), (True, 1), (False, 2)):
        nonsense = Tick(np.array([math.nan]), Source.POLICY, 0, 0.0, 0.0, None, proved=proved)
        loop.player.act = lambda *unused, told=nonsense: told
        tick(loop, clock, 1 + count)
        assert loop.counters.unproved == count


def test_efforts_that_make_no_sense_become_the_safe_command(loop, clock, monkeypatch):
    nonsense = Tick(np.array([math.nan]), Source.POLICY, 0, 0.0, 0.0, None)
    monkeypatch.setattr(loop.player, "act", lambda *unused: nonsense)
    answer, record = tick(loop, clock, 1)
    assert record.action == (0.0,)
    assert "efforts [nan] make no sense" in answer.problem
    assert record.source == Source.SAFE


def test_a_repetition_gets_no_answer_even_of_a_bad_joint_state(loop, clock):
    tick(loop, clock, 1, position=math.nan)
    assert loop.answer(reading(1), clock(), refuse) is None
    assert loop.counters.repeated_joint_states == 1
    assert loop.step == 1


def test_periods_without_a_joint_state_are_counted(loop, clock):
    tick(loop, clock, 1)
    tick(loop, clock, 2)
    tick(loop, clock, 5)
    assert loop.counters.skipped_joint_states == 2


def test_an_episode_starts_anew_with_its_seed_and_may_set_the_clock_back(loop, clock):
    tick(loop, clock, 100)
    loop.start(seed=8)
    assert loop.player.seeds == [7, 8]
    answer, record = tick(loop, clock, 1)
    assert answer.problem == ""
    assert record.step == 0
    assert loop.counters.ticks == 2
    assert loop.counters.skipped_joint_states == 0


def test_another_bundle_takes_over_in_the_middle_of_an_episode(loop, clock):
    limited = SafetySettings(effort_rate=0.25)
    tick(loop, clock, 1, position=2.0)
    other = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, limited), clock)
    other.take_over(loop, seed=9)
    assert other.answer(reading(1), clock(), refuse) is None, "the stamp was answered before"
    assert other.state is loop.state
    _, record = tick(other, clock, 2, position=-2.0)
    assert record.action == (1.5,), "the rate limit starts from the command sent last"
    assert record.step == 1
    assert other.counters.ticks == 2


def test_who_takes_over_lets_an_object_be_no_older_than_it_may(loop, clock):
    strict = Guard(SPEC, SafetySettings(stale_periods=1.5))
    other = ControlLoop(SPEC, STEPS, Echo(clock), strict, clock)
    limits = []
    loop.reader.limit_age = limits.append
    other.take_over(loop, seed=9)
    assert limits == [1.5]


def test_an_agent_plans_from_places_as_old_as_their_derived_velocities(clock):
    control = ControlSettings(latency_compensation="always", extra_delay=SPEC.period)
    delay = DelayCompensation(SPEC.period, 1, control, age=SPEC.period / 2)
    loop = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, SafetySettings()), clock, delay)
    loop.start(seed=7)
    moving = JointReading(("hinge",), [1.0], [4.0], PERIOD_NS)
    record = loop.answer(moving, clock(), lambda command: None).record
    assert record.action == pytest.approx((0.98,))


@pytest.mark.parametrize("velocity", ["measured", "derived"])
def test_who_takes_over_reads_the_robot_its_own_way_from_the_next_episode_on(clock, velocity):
    def loop_of(velocity):
        driver = DriverSettings(velocity=velocity)
        age = velocity_age(driver, SPEC.period)
        return ControlLoop(
            SPEC,
            STEPS,
            Echo(clock),
            Guard(SPEC, SafetySettings()),
            clock,
            DelayCompensation(SPEC.period, 1, ControlSettings(), age),
            StateReader(SPEC, None, 3.0, driver),
            passage=Passage(SPEC, False, age),
        )

    def speed(loop):
        """Of one that moves at 2 and says that it moves at 99."""
        for k in range(6):
            clock.now += PERIOD_NS / 1e9
            told = JointReading(("hinge",), [2e-9 * k * PERIOD_NS], [99.0], k * PERIOD_NS)
            loop.answer(told, clock(), lambda command: None)
        return loop.state[1]

    other = "derived" if velocity == "measured" else "measured"
    first, second = loop_of(other), loop_of(velocity)
    first.start(1)
    true = {"measured": 99.0, "derived": pytest.approx(2.0)}
    assert speed(first) == true[other]
    second.take_over(first, seed=9)
    assert second.reader is first.reader, "as it was, as long as the episode lasts"
    second.obey(Guard(SPEC, SafetySettings(stale_periods=1.5)))
    second.start(2)
    assert second.reader._oldest_ns == 1.5 * PERIOD_NS
    assert speed(second) == true[velocity]


def test_who_takes_over_knows_what_the_one_before_did(loop, clock):
    other = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, SafetySettings()), clock)
    other.take_over(loop, seed=9)
    assert other.player.follows is loop.player


def test_an_episode_begins_with_nothing_of_the_one_before(clock):
    """A rate limit that went on from the last effort would let the robot begin with a jolt."""
    control = ControlSettings(latency_compensation="always", extra_delay=SPEC.period)
    loop = ControlLoop(
        SPEC,
        STEPS,
        Echo(clock),
        Guard(SPEC, SafetySettings(effort_rate=0.25)),
        clock,
        compensation=DelayCompensation(SPEC.period, 1, control),
    )
    loop.start(seed=7)
    assert [tick(loop, clock, k, position=2.0)[1].action for k in (1, 2)] == [(0.5,), (1.0,)]
    loop.start(seed=8)
    heard, clock.now = len(loop.player.passed), clock.now + SPEC.period / 2
    assert tick(loop, clock, 3, position=2.0)[1].action == (0.5,)
    assert not any(command.any() for command, _ in loop.player.coming[-1])
    assert len(loop.player.passed) == heard, "nobody knows what acted between two episodes"


def test_no_place_of_the_episode_before_is_held(clock):
    """Somebody may have moved the robot meanwhile: it would jump to where it was."""
    spec = dataclasses.replace(SPEC, command="position")
    loop = ControlLoop(spec, STEPS, Echo(clock), Guard(spec, SafetySettings()), clock)
    loop.start(seed=7)
    sent = []
    loop.answer(reading(1), clock(), sent.append)
    assert len(sent) == 1
    loop.start(seed=8)
    assert loop.finish() is None


def test_the_rate_limit_goes_on_where_limits_are_tightened(clock):
    loop = ControlLoop(
        SPEC, STEPS, Echo(clock), Guard(SPEC, SafetySettings(effort_rate=0.25)), clock
    )
    loop.start(seed=7)
    for step in (1, 2):
        tick(loop, clock, step, position=2.0)
    loop.obey(Guard(SPEC, SafetySettings(effort_rate=0.125)))
    assert tick(loop, clock, 3, position=2.0)[1].action == (1.25,)


def test_a_player_hears_what_a_bad_joint_state_is_answered_by(loop, clock):
    tick(loop, clock, 1, position=math.nan)
    assert loop.player.told == [0.0]


@pytest.mark.parametrize("how", ["nobody", "before it", "in its place"])
def test_a_proof_counts_only_where_nobody_else_sends_and_just_that_is_sent(loop, clock, how):
    told = []
    loop.others = lambda: told.pop() if told else None

    def act(*unused):
        if how == "before it":
            told.append(np.array([0.5]))
        return Tick(np.array([0.1]), Source.PLANNED, 1, 0.0, 0.0, None, proved=True)

    loop.player.act = act
    loop.player.sent = lambda *unused, **words: how != "in its place"
    tick(loop, clock, 1)
    assert loop.counters.unproved == (how != "nobody")


def test_stricter_limits_reach_who_looks_ahead_too(loop):
    strict = SafetySettings(effort_limits=(0.5,))
    loop.obey(Guard(SPEC, strict))
    assert loop.player.obeyed == strict


def test_a_player_hears_of_all_that_is_sent_whoever_sends_it(clock):
    limited = SafetySettings(effort_rate=0.25)
    loop = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, limited), clock)
    loop.start(seed=7)
    tick(loop, clock, 0, position=0.1)
    assert loop.player.told == [0.1]
    _, record = tick(loop, clock, 1, position=2.0)
    assert loop.player.told[1:] == [record.action[0]] != [2.0]
    loop.stale()
    assert loop.player.told[2:] == [0.0]
    others = [np.array([-1.0])]
    loop.others = lambda: others.pop() if others else None
    tick(loop, clock, 2, position=0.1)
    assert loop.player.told[3:] == [-1.0, -0.5]
    other = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, limited), clock)
    other.take_over(loop, seed=9)
    assert other.player.told == [-0.5]


def test_counters_are_readable(loop, clock):
    for step, duration in enumerate((0.001, 0.003, 0.002)):
        loop.player.duration = duration
        tick(loop, clock, step)
    values = loop.counters.values()
    assert values["ticks"] == 3
    assert values["ticks_planned"] == 3
    assert values["ticks_safe"] == 0
    assert values["tick_p50_ms"] == "2.000"


def test_what_acted_between_two_states_is_what_the_model_is_asked_about(loop, clock):
    for step, position in enumerate((1.0, 9.0, 0.5)):
        tick(loop, clock, 1 + step, position=position)
    (first, second) = loop.player.passed
    assert (first.state[0], first.action[0], first.following[0]) == (1.0, 1.0, 9.0)
    assert (second.state[0], second.action[0], second.following[0]) == (9.0, 2.0, 0.5), "as sent"


def test_the_swap_of_a_bundle_loses_no_transition(loop, clock):
    tick(loop, clock, 1)
    other = ControlLoop(SPEC, STEPS, Echo(clock), Guard(SPEC, SafetySettings()), clock)
    other.take_over(loop, seed=9)
    tick(other, clock, 2, position=1.5)
    assert [(each.state[0], each.action[0]) for each in other.player.passed] == [(1.0, 1.0)]


def test_surprise_is_told_and_counted(loop, clock):
    loop.player.surprise.level = Level.WARY
    assert tick(loop, clock, 1)[1].surprise == 1.5
    loop.player.surprise.level = Level.CALM
    tick(loop, clock, 2)
    values = loop.counters.values()
    assert (values["surprise"], values["surprise_level"], values["wary"]) == ("1.500", 0, 1)


def test_too_much_surprise_ends_an_episode_and_the_next_command_is_the_safe_one(loop, clock):
    tick(loop, clock, 1)
    loop.player.surprise.level = Level.ALARMED
    with pytest.raises(SurpriseError, match="surprise: of a test"):
        loop.answer(reading(2), clock(), refuse)
    assert loop.step == 1
    np.testing.assert_array_equal(loop.finish(), [0.0])


def test_an_episode_that_is_over_is_not_ended_once_more(loop, clock):
    for step in range(STEPS):
        tick(loop, clock, step)
    loop.player.surprise.level = Level.ALARMED
    assert loop.answer(reading(STEPS), clock(), refuse).record is None


OUTAGE_S = 0.5


@pytest.fixture
def watched(clock):
    """A loop in real time after its first tick."""
    guard = Guard(SPEC, SafetySettings())
    loop = ControlLoop(SPEC, STEPS, Echo(clock), guard, clock, outage_s=OUTAGE_S)
    loop.start(seed=7)
    clock.now += 2 * OUTAGE_S
    loop.stale()  # before the first joint state nobody waits
    tick(loop, clock, 1)
    return loop


def test_silence_is_answered_by_the_safe_command_until_it_is_an_outage(watched, clock):
    began = clock.now
    with pytest.raises(OutageError, match=r"^outage: no new joint state for 5\d\d ms") as caught:
        for _ in range(round(2 * OUTAGE_S / SPEC.period)):
            clock.now += SPEC.period
            watched.stale()
            assert watched.state is None
    assert clock.now - began == pytest.approx(OUTAGE_S, abs=2 * SPEC.period)
    assert "\n" not in str(caught.value) and watched.state is None
    with pytest.raises(OutageError):
        watched.answer(reading(60), clock(), refuse)  # not after it either


def test_an_episode_does_not_go_on_after_its_process_was_stopped_between_two_ticks(watched, clock):
    clock.now += 2.0
    with pytest.raises(OutageError, match="the controller was held up for 2000 ms"):
        watched.answer(reading(161), clock(), refuse)
    assert watched.state is None, "a place of before is nothing to hold"


def test_a_command_that_was_being_planned_when_the_process_was_stopped_is_not_sent(watched, clock):
    watched.player.duration = 2.0
    with pytest.raises(OutageError, match="the controller was held up for 2000 ms"):
        watched.answer(reading(2), clock(), refuse)


def test_the_rate_limit_goes_on_from_what_the_robot_was_sent_last(clock):
    loop = ControlLoop(SPEC, 9, Echo(clock), Guard(SPEC, SafetySettings(effort_rate=0.25)), clock)
    told = [np.array([2.0])]
    loop.others = lambda: told.pop() if told else None
    loop.start(seed=7)
    assert tick(loop, clock, 1)[1].action == (0.5,), "what it was told before is over"
    assert tick(loop, clock, 2, position=2.0)[1].action == (1.0,)
    plan = loop.player.act

    def hangs(*args):
        told.append(np.array([-0.25]))
        return plan(*args)

    loop.player.act = hangs
    answer, record = tick(loop, clock, 3, position=2.0)
    assert record.action == (0.25,)
    assert answer.decided == {"heard_1": -0.25}
    loop.player.act = plan
    told.append(np.array([math.nan]))
    answer, record = tick(loop, clock, 4, position=2.0)
    assert record.action == (0.75,) and not answer.decided
    told.append(np.array([1.0]))
    loop.stale()
    answer, record = tick(loop, clock, 5, position=2.0)
    assert record.action == (0.5,) and answer.decided == {"heard_0": 1.0, "silences": 1.0}


def test_what_somebody_else_has_sent_acts_until_the_next_command_does(clock):
    control = ControlSettings(latency_compensation="always", extra_delay=SPEC.period)
    compensation = DelayCompensation(SPEC.period, 1, control)
    passage = Passage(SPEC, stepped=False)
    loop = ControlLoop(
        SPEC, 9, Echo(clock), Guard(SPEC, SafetySettings()), clock, compensation, passage=passage
    )
    loop.start(seed=7)
    tick(loop, clock, 1, position=1.0)
    clock.now += 4 * SPEC.period  # The controller hangs, and the watchdog sends.
    others = [np.array([-0.5])]
    loop.others = lambda: others.pop() if others else None
    tick(loop, clock, 5, position=2.0)
    assert {float(command[0]) for command, _ in loop.player.coming[-1]} == {-0.5}
    loop.stale()
    assert [float(command[0]) for _, command in passage._commands] == [1.0, -0.5, 2.0, 0.0]


@pytest.mark.parametrize("command", ["effort", "position"])
@pytest.mark.parametrize("delay", [0.5, 0.93, 1.0])
def test_when_a_command_acts_makes_no_difference_where_it_is_the_one_before_again(delay, command):
    """Also where it begins to act just before a joint state."""
    spec = dataclasses.replace(SPEC, command=command)
    passage, sent, found = Passage(spec, False, dead_time=delay * spec.period), 3.0, []
    for k in range(6):
        state = np.array([min(k, 1) * 2.0, 0.0])
        found += passage.see(k * PERIOD_NS, state, k * spec.period)
        passage.sent(np.array([sent]), k * spec.period)
    for each in found[2:]:
        np.testing.assert_allclose(each.action, spec.to_action(np.array([sent]), each.state))
        np.testing.assert_allclose(each.later, each.action)


@pytest.mark.parametrize(
    ("window", "lost"),
    [
        (1.0, [10]),
        (1.0, range(10, 14)),
        (1.0, range(10, 40)),
        (3.0, range(10, 14)),
        (3.0, range(10, 40)),
    ],
)
@pytest.mark.parametrize("nonsense", [False, True])
def test_derived_velocities_over_a_gap_are_no_news_of_the_robot(window, lost, nonsense):
    """Of one that goes faster and faster, whose joint states are lost or make no sense."""
    driver = DriverSettings(velocity="derived", velocity_window=window * SPEC.period)
    passage = Passage(SPEC, False, velocity_age(driver, SPEC.period))
    reader, found = StateReader(SPEC, None, 3.0, driver), []
    for k in range(60):
        told = [0.5 * k**2 * SPEC.period]
        if k not in lost:
            state = reader.read(JointReading(("hinge",), told, [], k * PERIOD_NS))
        if k not in lost or nonsense:
            seen = None if k in lost else state
            found += passage.see(k * PERIOD_NS, seen, k * SPEC.period)
            passage.sent(np.zeros(1), k * SPEC.period)
    later = found[4:]
    assert len(later) > 12
    for each in later:
        for position, velocity in (each.state, each.following):
            assert velocity == pytest.approx((2 * position / SPEC.period) ** 0.5)


def test_an_outage_goes_on_over_a_swap_of_bundles(watched, clock):
    guard = Guard(SPEC, SafetySettings())
    other = ControlLoop(SPEC, STEPS, Echo(clock), guard, clock, outage_s=OUTAGE_S)
    assert watched.stale() == 0.0
    other.take_over(watched, seed=9)
    assert tick(other, clock, 3)[0].decided == {"silences": 1.0}
    clock.now += 2.0
    with pytest.raises(OutageError):
        other.stale()


def test_no_outage_spoils_an_episode_after_its_last_tick_or_the_next_one(watched, clock):
    for step in range(2, STEPS + 1):
        clock.now += 0.6 * OUTAGE_S  # together longer than one may be
        tick(watched, clock, step)
    clock.now += 2.0
    assert watched.answer(reading(200), clock(), refuse).record is None
    watched.start(seed=8)
    assert tick(watched, clock, 201)[0].problem == ""


def test_in_lockstep_a_held_up_process_is_no_outage(loop, clock):
    tick(loop, clock, 1)
    clock.now += 60.0
    assert tick(loop, clock, 2)[1].source == Source.PLANNED


@pytest.mark.parametrize("steps", [STEPS - 2, STEPS + 100])
def test_a_swap_leaves_an_episode_as_long_as_it_began(loop, clock, steps):
    tick(loop, clock, 0)
    other = ControlLoop(SPEC, steps, Echo(clock), Guard(SPEC, SafetySettings()), clock)
    other.take_over(loop, seed=9)
    for step in range(1, STEPS):
        assert tick(other, clock, step)[1].step == step
    assert other.answer(reading(STEPS), clock(), refuse).record is None, "now it is over"
    other.start(seed=9)
    for step in range(steps):
        tick(other, clock, 1000 + step)
    assert other.answer(reading(2000), clock(), refuse).record is None, "of its own length"


def test_limits_that_are_tightened_end_an_episode_sooner_too(watched, clock):
    """Of a period of a second, where an outage is no half a second anyway."""
    slow = dataclasses.replace(SPEC, period=1.0)
    loop = ControlLoop(
        slow, STEPS, Echo(clock), Guard(slow, SafetySettings()), clock, outage_s=10.0
    )
    loop.start(seed=7)
    tick(loop, clock, 1)
    loop.obey(Guard(slow, SafetySettings(stale_periods=1.0, outage_periods=2.0)))
    clock.now += 1.9
    loop.stale()
    clock.now += 0.2
    with pytest.raises(OutageError):
        loop.stale()
