"""What acted in each control period, against physics that is known at every moment."""

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from bag_messages import (
    ACTIVE,
    COMMANDS,
    JOINT_STATES,
    TICKS,
    TOPICS,
    boolean,
    floats,
    joint_state,
    tick,
)
from hypothesis import given
from hypothesis import strategies as st

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.course import (
    IN_FORCE,
    REPORTED,
    Course,
    Heard,
    Signal,
    centred,
    commands_in_force,
    drift,
    is_faster,
    on_grid,
    repeats_commands,
    roughness,
)
from hucrl_ros.bags.decode import Sample, heard_of
from hucrl_ros.bags.messages import deserialize, stamp_ns
from hucrl_ros.bags.reader import read_episode
from hucrl_ros.bags.remarks import rough_velocities
from hucrl_ros.bags.writer import EpisodeWriter
from hucrl_ros.config.schema import Config, ControlSettings, DriverSettings
from hucrl_ros.errors import BagError
from hucrl_ros.robots import make_robot

SPEC = make_robot("pendulum").spec
PERIOD = SPEC.period
STEPS = 60
MS = 1_000_000


def signal(*pairs):
    times, values = zip(*pairs, strict=True)
    return Signal(np.array(times) * MS, np.array(values, dtype=float)[:, None])


# Velocities that are derived.


@pytest.mark.parametrize("rate", [80, 500])
def test_what_was_so_half_a_window_before_is_put_there(rate):
    stamps = np.round(np.arange(rate) / rate * 1e9).astype(np.int64)
    seconds, age = stamps / 1e9, 0.5 * PERIOD
    states = np.stack([seconds**2, 2 * (seconds - age)], axis=1)
    unknown = np.full((rate, 1), np.nan)
    found = centred(Heard(stamps, states, unknown, stamps), [1], age)
    assert found.stamps_ns[-1] + age * 1e9 <= stamps[-1]
    assert len(found.stamps_ns) == rate - np.ceil(age * rate)
    np.testing.assert_allclose(found.states[:, 1], 2 * seconds[: len(found.states)], atol=1e-9)
    np.testing.assert_array_equal(found.states[:, 0], states[: len(found.states), 0])


def bouncing(time):
    """A joint that turns evenly between two stops: position and velocity."""
    phase = (3.0 * time + 0.35) % 4.0
    return np.where(phase < 2, phase - 1.0, 3.0 - phase), np.where(phase < 2, 3.0, -3.0)


def course_of(position, velocity):
    states = np.stack([position, velocity], axis=1)
    stamps = np.round(np.arange(len(states)) * PERIOD * 1e9).astype(np.int64)
    steps = len(states) - 1
    return Course(stamps, states, np.zeros((steps, 1)), np.ones(steps, bool), IN_FORCE)


def test_a_joint_that_hits_stops_is_measured_well():
    time = PERIOD * np.arange(400)
    assert roughness(course_of(*bouncing(time)), 1, PERIOD) < 0.01


def test_an_encoder_that_is_too_coarse_for_velocities_is_seen():
    time, step, window = PERIOD * np.arange(400), 2 * math.pi / 1024, 0.002
    swing = np.sin(2.0 * time)
    before = np.sin(2.0 * (time - window))
    known = course_of(swing, 2.0 * np.cos(2.0 * time))
    assert roughness(known, 1, PERIOD) < 0.01
    seen = np.round(swing / step) * step
    rough = course_of(seen, (seen - np.round(before / step) * step) / window)
    assert roughness(rough, 1, PERIOD) > 0.1


def test_a_joint_that_moves_and_says_it_does_not_is_seen():
    swing, rest = np.sin(2.0 * PERIOD * np.arange(400)), np.zeros(400)
    told = rough_velocities(course_of(swing, rest), SPEC)
    assert "are always the same, while its positions change: have them derived" in told[0]
    assert not rough_velocities(course_of(rest, rest), SPEC)
    assert not rough_velocities(course_of(0.3 * PERIOD * np.arange(400), rest + 0.3), SPEC)


# Means of what is piecewise constant.


def test_a_mean_weighs_efforts_by_how_long_they_were_in_force():
    efforts = signal((10, 1.0), (14, 3.0), (30, -1.0))
    means = efforts.means(np.array([0, 10, 20, 30, 50]) * MS)
    np.testing.assert_allclose(means[:, 0], [0.0, 0.4 * 1 + 0.6 * 3, 3.0, -1.0])


@given(
    st.lists(st.tuples(st.integers(0, 100), st.floats(-1, 1)), min_size=1, max_size=20),
    st.lists(st.integers(0, 100), min_size=2, max_size=10, unique=True),
)
def test_means_are_those_of_a_sum_over_many_moments(pairs, marks):
    pairs, marks = sorted(pairs), np.sort(marks)
    times = np.array([t for t, _ in pairs])
    values = np.array([0.0, *(v for _, v in pairs)])
    moments = np.arange(100) + 0.5
    course = values[np.searchsorted(times, moments)]
    expected = [course[a:b].mean() for a, b in pairwise(marks)]
    means = signal(*pairs).means(marks * MS)
    np.testing.assert_allclose(means[:, 0], expected, atol=1e-9)


# States on the grid.


def test_states_on_the_grid_are_those_of_the_movement():
    stamps = 7 * MS + np.arange(500) * 2 * MS
    seconds = (stamps - stamps[0]) / 1e9
    states = np.stack([np.sin(3 * seconds), 3 * np.cos(3 * seconds)], axis=1)
    grid, on, sound = on_grid(stamps, states, PERIOD, 400)
    times = PERIOD * np.arange(len(grid))
    assert len(grid) == 1 + int(seconds[-1] / PERIOD)
    np.testing.assert_allclose(on[:, 0], np.sin(3 * times), atol=1e-5)
    np.testing.assert_allclose(on[:, 1], 3 * np.cos(3 * times), atol=2e-5)
    assert sound.all()


def test_no_more_than_an_episode_is_read_and_a_gap_spoils_what_it_touches():
    stamps = np.arange(500) * 2 * MS
    stamps = stamps[(stamps < 104 * MS) | (stamps >= 132 * MS)]
    _, _, sound = on_grid(stamps, np.zeros((len(stamps), 2)), PERIOD, 20)
    assert len(sound) == 20
    assert np.flatnonzero(~sound).tolist() == [8, 9, 10]


def test_a_driver_at_the_control_rate_is_none_that_is_faster():
    for rate, faster in ((80, False), (90, False), (160, True), (1000, True)):
        assert is_faster((np.arange(200) * 1e9 / rate).astype(np.int64), PERIOD) == faster
    assert not is_faster(np.array([0, MS]), PERIOD)


# When commands acted.


def test_commands_act_when_they_came_by_the_clock_of_the_stamps():
    recorded = Signal(np.array([1003, 1016]) * MS, np.array([[1.0], [2.0]]))
    states = np.arange(0, 100, 2) * MS
    late = np.full(len(states), 1000 * MS + 300_000)
    late[::3] += 5 * MS  # the recorder was busy
    acted = commands_in_force(recorded, states, states + late, dead_time=0.01)
    np.testing.assert_array_equal(acted.times_ns, [12_700_000, 25_700_000])


@pytest.mark.parametrize(
    ("speed", "held_ms", "expected_ms"), [(1.0, 0, 0), (1.02, 0, 18), (1.0, 60, 60)]
)
def test_how_well_it_is_known_when_commands_acted(speed, held_ms, expected_ms):
    """Of a recorder that is late now and then, a clock that is too slow, a hold-up."""
    stamps = np.arange(1000) * MS
    recorded = np.round(speed * stamps).astype(np.int64) + 10**15
    recorded[::3] += 7 * MS
    recorded[450:600] = np.maximum(recorded[450:600], recorded[450:600] + held_ms * MS)
    nothing = np.zeros((1000, 1))
    found = drift(Heard(stamps, nothing, nothing, recorded))
    assert 1e3 * found == pytest.approx(expected_ms, abs=0.2)


def test_means_of_what_acted_are_told_from_commands_that_are_repeated():
    rng = np.random.default_rng(0)
    times = 7 * MS + np.arange(50) * 12_500_000
    commands = Signal(times, rng.uniform(-1, 1, (50, 1)))
    stamps = np.arange(51) * 12_500_000
    means = np.concatenate([[[0.0]], commands.means(stamps)])
    newest = np.concatenate([[[0.0]], commands.efforts])
    assert not repeats_commands(Signal(stamps, means), commands)
    assert repeats_commands(Signal(stamps, newest), commands)
    measured = newest + 0.01 * rng.standard_normal(newest.shape)
    assert not repeats_commands(Signal(stamps, measured), commands), "a sensor repeats nothing"
    still = Signal(times, np.zeros((50, 1)))
    assert not repeats_commands(Signal(stamps, np.zeros((51, 1))), still), "nothing can be told"


# Encoders that start again after a whole turn.


def turning(degrees_of, command="effort", missing=()):
    """What is heard of a joint that turns, in steps of 10 ms, and where it truly is."""
    spec = dataclasses.replace(SPEC, command=command, period=0.01)
    times = np.setdiff1d(np.arange(200), missing)
    speed = 6.0 + 4.0 * np.sin(0.05 * times)  # so it turns twice
    true = 6.0 * 0.01 * times - 0.8 * np.cos(0.05 * times)
    samples = [
        Sample(10**9 + 10 * MS * int(k), np.array([degrees_of(at), v]), None, 10**9)
        for k, at, v in zip(times, true, speed, strict=True)
    ]
    return heard_of(samples, spec).states[:, 0], true


def around(angle):
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


def test_a_turn_of_the_encoder_is_no_leap():
    places, true = turning(around)
    assert np.ptp(around(true)) > 6.0, "it does start again"
    np.testing.assert_allclose(places - places[0], true - true[0], atol=1e-9)


def test_what_is_no_turn_of_the_encoder_stays_as_it_was_heard():
    counted, true = turning(lambda angle: angle)
    assert np.array_equal(counted, true)
    commanded, true = turning(around, command="position")
    assert np.array_equal(commanded, around(true)), "commands start again there, too"
    glitch, true = turning(lambda angle: angle + 3.0 * (3.0 < angle < 3.1))
    assert np.array_equal(glitch, true + 3.0 * ((true > 3.0) & (true < 3.1)))
    apart, _ = turning(lambda angle: 7.2 * (angle > 5.75), missing=range(95, 105))
    assert set(apart) == {0.0, 7.2}, "nobody knows what was between"


# Whole episodes, by a robot whose every moment is known.

DELAY = 0.007
"""[s] From a joint state to its command."""
LATE = 400_000
"""[ns] From a stamp to the recorder."""


def play(folder, rate, effort, velocity=True, dead_time=0.0):
    """A pendulum in steps of 0.1 ms under random commands; returns its true states, by time."""
    rng = np.random.default_rng(2)
    writer = EpisodeWriter(folder, TOPICS)
    dt, angle, speed, acting = 1e-4, math.pi, 0.0, 0.0
    coming, sums, count = [], 0.0, 0
    each, due = round(1 / rate / dt), 0.0
    events, truth = [], []
    for k in range(round((STEPS + 1) * PERIOD / dt) + 1):
        now = k * dt
        while coming and coming[0][0] <= now + 1e-9:
            acting = coming.pop(0)[1]
        truth.append((angle, speed))
        if k % each == 0:
            stamp = 10**9 + round(now * 1e9)
            shown = {"mean": [sums / max(count, 1)], "last": [acting], "none": []}[effort]
            message = joint_state(stamp, [angle], [speed] if velocity else [], shown)
            events.append((stamp + LATE, JOINT_STATES, message))
            sums, count = 0.0, 0
            if now >= due - 1 / rate / 2 - 1e-9 and due < (STEPS - 0.5) * PERIOD:
                step, due = round(due / PERIOD), due + PERIOD
                wanted = [float(rng.uniform(-1, 1))]
                coming.append((now + DELAY + dead_time, wanted[0]))
                sent = stamp + round(DELAY * 1e9)
                events.append((sent + LATE, COMMANDS, floats(wanted)))
                events.append((sent + 2 * LATE, TICKS, tick(stamp, step, wanted)))
        speed += dt * (9.81 / 0.5 * math.sin(angle) + (acting - 0.005 * speed) / 0.075)
        angle += dt * speed
        sums, count = sums + acting, count + 1
    for arrived, topic, message in sorted(events, key=lambda event: event[0]):
        writer.write(f"/{topic}", message, 1_700_000_000 * 10**9 + arrived)
    writer.close()
    return np.array(truth), dt


def settings(dead_time=0.0, **driver):
    control = ControlSettings(extra_delay=dead_time)
    return Config(mode="real_time", driver=DriverSettings(**driver), control=control)


def gain(episode):
    """Of the action on the change of speed without gravity's, and what it leaves unexplained."""
    angles, speeds = episode.states.T
    middle = 0.5 * (angles[:-1] + angles[1:])
    change = np.diff(speeds) - PERIOD * 9.81 / 0.5 * np.sin(middle)
    action = episode.actions[:, 0]
    found = float(action @ change / (action @ action))
    return found, float(np.std(change - found * action))


TRUE_GAIN = PERIOD / 0.075


@pytest.mark.parametrize(
    ("rate", "effort", "driver", "acted"),
    [
        (80, "mean", {}, REPORTED),
        (80, "last", {}, IN_FORCE),
        (80, "none", {}, IN_FORCE),
        (80, "last", {"effort": "commanded"}, IN_FORCE),
        (80, "mean", {"effort": "ignored"}, IN_FORCE),
        (500, "mean", {}, REPORTED),
        (500, "last", {}, IN_FORCE),
        (500, "none", {}, IN_FORCE),
        (1000, "last", {"effort": "commanded"}, IN_FORCE),
    ],
)
def test_the_true_gain_is_found_whatever_effort_means(rate, effort, driver, acted, tmp_path):
    play(tmp_path / "bag", rate, effort)
    episode = read_episode(tmp_path / "bag", SPEC, STEPS, settings(**driver))
    assert episode.acted == acted
    assert len(episode.actions) == STEPS
    found, unexplained = gain(episode)
    assert found == pytest.approx(TRUE_GAIN, rel=0.02)
    assert unexplained < 0.02 * TRUE_GAIN


def test_as_in_lockstep_the_command_would_be_taken_for_what_acted(tmp_path):
    play(tmp_path / "bag", 80, "last")
    assert gain(read_episode(tmp_path / "bag", SPEC, STEPS))[1] > 0.2 * TRUE_GAIN


def test_dead_time_that_is_known_moves_commands_to_when_they_acted(tmp_path):
    play(tmp_path / "bag", 500, "none", dead_time=0.01)
    blind = read_episode(tmp_path / "bag", SPEC, STEPS, settings())
    told = read_episode(tmp_path / "bag", SPEC, STEPS, settings(dead_time=0.01))
    assert gain(blind)[1] > 0.2 * TRUE_GAIN
    assert gain(told)[1] < 0.05 * TRUE_GAIN


@pytest.mark.parametrize("rate", [160, 500, 1000])
def test_states_are_a_control_period_apart_and_true(rate, tmp_path):
    truth, dt = play(tmp_path / "bag", rate, "mean")
    episode = read_episode(tmp_path / "bag", SPEC, STEPS, settings())
    assert (np.diff(episode.stamps_ns) == 12_500_000).all()
    assert episode.contiguous.all()
    at = np.round((episode.stamps_ns - 10**9) / 1e9 / dt).astype(int)
    apart = 1 / rate
    np.testing.assert_allclose(episode.states[:, 0], truth[at, 0], atol=30 * apart**2 / 8)
    np.testing.assert_allclose(episode.states[:, 1], truth[at, 1], atol=30 * apart)


def test_what_is_missing_is_named_by_its_step(tmp_path):
    play(tmp_path / "whole", 500, "mean")
    writer = EpisodeWriter(tmp_path / "bag", TOPICS)
    for raw in read_contents(tmp_path / "whole").messages:
        message = deserialize(raw.data, raw.type)
        if not raw.is_of(JOINT_STATES) or not 200 <= (stamp_ns(message.header) - 10**9) / MS < 230:
            writer.write(raw.topic, message, raw.received_ns)
    writer.close()
    episode = read_episode(tmp_path / "bag", SPEC, STEPS, settings())
    lost = np.flatnonzero(~episode.contiguous).tolist()
    assert lost == [15, 16, 17, 18]
    why = "joint states are missing around it, or were recorded too late to tell what acted"
    expected = [f"step {k}: {why}; left out" for k in lost]
    assert [event for event in episode.events if "missing" in event] == expected


@pytest.mark.parametrize("rate", [80, 500])
@pytest.mark.parametrize("before", [True, False])
def test_a_clock_that_starts_again_with_a_reset_mixes_no_other_movement_in(before, rate, tmp_path):
    """A bag is opened before the reset, and one of an episode that was stopped closed after it."""
    play(tmp_path / "alone", rate, "mean")
    told = read_contents(tmp_path / "alone").messages
    begin, end = told[0].received_ns, told[-1].received_ns
    writer = EpisodeWriter(tmp_path / "bag", TOPICS, False)
    other = [
        (joint_state(1_100 * MS + k * 3 * MS, [9.0], [9.0], [9.0]), k * 3 * MS) for k in range(100)
    ]
    for message, ns in other if before else ():
        writer.write(f"/{JOINT_STATES}", message, begin - 1_000 * MS + ns)
    for raw in told:
        writer.write(raw.topic, deserialize(raw.data, raw.type), raw.received_ns)
    for message, ns in () if before else other:
        writer.write(f"/{JOINT_STATES}", message, end + 1_000 * MS + ns)
    writer.close()
    alone, episode = (
        read_episode(tmp_path / name, SPEC, STEPS, settings()) for name in ("alone", "bag")
    )
    np.testing.assert_array_equal(episode.states, alone.states)
    np.testing.assert_array_equal(episode.actions, alone.actions)
    assert episode.contiguous.all() and episode.events == alone.events


@pytest.mark.parametrize(("held_ms", "told"), [(0, False), (5, False), (40, True)])
def test_a_recorder_or_driver_that_is_held_up_is_told(held_ms, told, tmp_path):
    play(tmp_path / "whole", 500, "none")
    writer = EpisodeWriter(tmp_path / "bag", TOPICS)
    messages = read_contents(tmp_path / "whole").messages
    begin = messages[0].received_ns
    for raw in messages:
        held = 200 * MS <= raw.received_ns - begin < 350 * MS
        writer.write(
            raw.topic, deserialize(raw.data, raw.type), raw.received_ns + held * held_ms * MS
        )
    writer.close()
    found = [
        e for e in read_episode(tmp_path / "bag", SPEC, STEPS, settings()).events if "held" in e
    ]
    expected = f"recorded up to {held_ms} ms later behind their stamps"
    assert [expected in event for event in found] == [True] * told


def test_velocities_are_derived_where_none_are_measured(tmp_path):
    truth, dt = play(tmp_path / "bag", 500, "mean", velocity=False)
    config = settings(velocity="derived")
    episode = read_episode(tmp_path / "bag", SPEC, STEPS, config)
    at = np.round((episode.stamps_ns - 10**9) / 1e9 / dt).astype(int)[2:]
    # Without a lag: what comes after a moment tells its velocity, too.
    np.testing.assert_allclose(episode.states[2:, 1], truth[at, 1], atol=0.04)
    assert len(episode.actions) >= STEPS - 1


def test_without_velocities_and_without_the_setting_the_line_names_it(tmp_path):
    play(tmp_path / "bag", 500, "mean", velocity=False)
    with pytest.raises(BagError, match=r"driver\.velocity = derived"):
        read_episode(tmp_path / "bag", SPEC, STEPS, settings())


@pytest.mark.parametrize("seconds", [0, 1, -1])
def test_who_sets_the_clock_moves_no_command_that_is_learned(seconds, tmp_path):
    """Of a driver that stamps by a clock of its own, and a recorder by the one that is set."""
    writer, count, period_ns = EpisodeWriter(tmp_path / "episode", TOPICS, False), 200, 12_500_000
    actions = np.random.default_rng(0).uniform(-1, 1, (count, 1))

    def add(topic, message, at):
        late = seconds * 10**9 if at > count // 2 * period_ns else 0
        writer.write(f"/{topic}", message, 1_700_000_000_000_000_000 + at + late)

    add(ACTIVE, boolean(True), 0)
    for k in range(count + 1):
        speed = math.cos(k / 30) / 30 / PERIOD
        state = joint_state(10**9 + k * period_ns, [math.sin(k / 30)], [speed])
        add(JOINT_STATES, state, k * period_ns + 500_000)
        if k < count:
            add(COMMANDS, floats(actions[k]), k * period_ns + 600_000)
            add(TICKS, tick(10**9 + k * period_ns, k, actions[k]), k * period_ns + 700_000)
    add(ACTIVE, boolean(False), count * period_ns + 800_000)
    writer.close()
    episode = read_episode(tmp_path / "episode", SPEC, count, Config(mode="real_time"))
    used = episode.contiguous
    off = np.abs(episode.actions[:, 0] - actions[: len(used), 0]) > 0.05
    learned = off[used].sum()
    # Set back, commands of one second have the same times as those of another.
    assert learned <= {0: 0, 1: 5, -1: 82}[seconds], f"{learned} of {used.sum()} are others"
    assert used.sum() >= {0: 0.99, 1: 0.7, -1: 0.4}[seconds] * count
    assert bool(episode.events) == bool(seconds)


@pytest.mark.parametrize("zero", [True, False])
def test_efforts_that_are_always_zero_are_not_what_acted(zero, tmp_path):
    """Many a driver fills them in so."""
    writer, count, period_ns = EpisodeWriter(tmp_path / "episode", TOPICS, False), 60, 12_500_000
    commands = np.where(np.arange(count) // 7 % 2, 0.5, -0.5)
    for k in range(count + 1):
        effort = 0.0 if zero else 0.4 * commands[max(k - 1, 0)]
        state = joint_state(10**9 + k * period_ns, [0.1 * k], [8.0], [effort])
        writer.write(f"/{JOINT_STATES}", state, k * period_ns + 500_000)
        if k < count:
            command = floats([commands[k]])
            writer.write(f"/{COMMANDS}", command, k * period_ns + 600_000)
            told = tick(10**9 + k * period_ns, k, [commands[k]])
            writer.write(f"/{TICKS}", told, k * period_ns + 700_000)
    writer.close()
    episode = read_episode(tmp_path / "episode", SPEC, count, Config(mode="real_time"))
    assert episode.acted == (IN_FORCE if zero else REPORTED)
    assert np.abs(episode.actions).max() == pytest.approx(0.5 if zero else 0.2)


def test_no_velocity_of_zero_is_learned_behind_a_gap(tmp_path):
    """Positions at 200 Hz tell the velocity; none come for 150 ms, as by wireless."""
    writer, period_ns, count = EpisodeWriter(tmp_path / "episode", TOPICS, False), 12_500_000, 160
    config = Config(mode="real_time", driver=DriverSettings(velocity="derived"))
    for k in range(5 * count // 2):
        now = 5 * k * MS
        if 1_000 * MS <= now < 1_150 * MS:
            continue
        seconds = now / 1e9
        state = joint_state(10**9 + now, [5.0 * seconds + 5.0 * seconds**2], [])
        writer.write(f"/{JOINT_STATES}", state, now + MS)
        if k % 5 == 0:
            for step in (2 * k // 5, 2 * k // 5 + 1)[: 1 if k else 2]:
                told = tick(10**9 + step * period_ns, step, [0.1])
                writer.write(f"/{COMMANDS}", floats([0.1]), now + 2 * MS)
                writer.write(f"/{TICKS}", told, now + 3 * MS)
    writer.close()
    episode = read_episode(tmp_path / "episode", SPEC, count, config)
    seconds = (episode.stamps_ns - episode.stamps_ns[0]) / 1e9
    off = np.abs(episode.states[:, 1] - (5.0 + 10.0 * seconds))[:-1]
    used = np.flatnonzero(episode.contiguous)[3:]  # it has to be at rest at the beginning
    assert off[used].max() < 0.2 and len(used) > 0.8 * len(off)
    assert off.max() > 5.0, "as it was told, at rest behind the gap"


@pytest.mark.parametrize("speed", [1.0, 1.01, 1.25, 0.8])
def test_a_clock_of_another_speed_moves_no_command_that_is_learned(speed, tmp_path):
    """As of a simulator with stamps of its own time, slower or faster than the wall's."""
    writer, count, period_ns = EpisodeWriter(tmp_path / "episode", TOPICS, False), 400, 12_500_000
    rng = np.random.default_rng(0)
    actions = rng.uniform(-1, 1, (count, 1))

    def add(topic, message, at):
        writer.write(f"/{topic}", message, 1_700_000_000_000_000_000 + round(speed * at))

    for k in range(count + 1):
        state = joint_state(10**9 + k * period_ns, [math.sin(k / 30)], [0.0])
        add(JOINT_STATES, state, k * period_ns + 500_000 + int(rng.uniform(0, 2e5)))
        if k < count:
            add(COMMANDS, floats(actions[k]), k * period_ns + 700_000)
            add(TICKS, tick(10**9 + k * period_ns, k, actions[k]), k * period_ns + 800_000)
    writer.close()
    episode = read_episode(tmp_path / "episode", SPEC, count, Config(mode="real_time"))
    used = episode.contiguous
    off = np.abs(episode.actions[:, 0] - actions[: len(used), 0])
    assert used.sum() > 0.9 * count
    assert off[used].mean() < 0.03
