import numpy as np
import pytest

from hucrl_ros.controller.timing import LOCKSTEP_PATIENCE
from hucrl_ros.controller.watch import FIRST_PATIENCE, Watch, patience

LIMIT = 0.03


@pytest.fixture
def watch():
    watch = Watch(LIMIT)
    watch.arm()
    watch.command()
    return watch


def test_the_watch_trips_half_a_period_before_the_limit():
    assert patience(3.0, 0.01, lockstep=False) == pytest.approx(0.025)


def test_a_tick_may_always_last_one_period():
    assert patience(1.0, 0.01, lockstep=False) == pytest.approx(0.01)


def test_in_lockstep_a_slow_tick_is_no_reason():
    assert patience(3.0, 0.01, lockstep=True) == LOCKSTEP_PATIENCE
    assert patience(10.0, 1.0, lockstep=True) == pytest.approx(9.5)


def test_an_unanswered_joint_state_trips_once(watch):
    watch.joint_state(1, 10.0)
    assert watch.check(10.029) == ""
    assert watch.check(10.031) == "no command 31.0 ms after a joint state (limit 30.0 ms)"
    assert watch.tripped
    assert watch.check(10.04) == ""


def test_time_in_which_the_watch_was_held_up_does_not_count(watch):
    watch.excuse(5.0, 9.0)
    watch.joint_state(1, 10.0)
    watch.excuse(5.0, 15.01)
    assert watch.check(15.029) == ""
    watch.excuse(5.0, 15.02)
    assert watch.waited(15.03) == pytest.approx(0.01), "never since a later time than now"
    assert watch.check(15.051)


def test_the_first_unanswered_joint_state_counts(watch):
    watch.joint_state(1, 10.0)
    watch.joint_state(2, 10.02)
    assert watch.check(10.031)


def test_an_answered_joint_state_does_not_trip(watch):
    watch.joint_state(1, 10.0)
    assert not watch.command()
    assert watch.check(20.0) == ""
    watch.joint_state(2, 20.0)
    assert watch.check(20.02) == ""


def test_a_repetition_of_an_answered_joint_state_does_not_trip(watch):
    watch.joint_state(1, 10.0)
    watch.command()
    assert not watch.joint_state(1, 10.01)
    assert watch.check(20.0) == ""


def test_nothing_trips_outside_an_episode():
    watch = Watch(LIMIT)
    watch.joint_state(1, 0.0)
    watch.ended()
    assert watch.check(10.0) == ""
    watch.arm()
    watch.joint_state(1, 10.0)
    watch.disarm()
    assert watch.check(20.0) == ""
    watch.arm()
    watch.joint_state(1, 30.0)
    assert watch.check(40.0)
    watch.disarm()
    assert not watch.tripped, "or the safe command would be sent between two episodes"


def test_a_joint_state_from_before_the_episode_needs_an_answer_when_it_is_repeated():
    watch = Watch(LIMIT)
    watch.joint_state(1, 0.0)
    watch.arm()
    assert watch.joint_state(1, 10.0)
    watch.command()
    watch.disarm()
    watch.arm()
    assert watch.joint_state(1, 20.0), "in the next episode as well"
    assert watch.check(20.0 + FIRST_PATIENCE)


def test_an_episode_begins_without_haste():
    watch = Watch(LIMIT)
    watch.arm()
    watch.joint_state(1, 10.0)
    assert watch.check(10.0 + 0.9 * FIRST_PATIENCE) == ""
    watch.command()
    watch.joint_state(2, 20.0)
    assert watch.check(20.031)
    watch.disarm()
    watch.arm()
    watch.joint_state(3, 30.0)
    assert watch.check(30.0 + 0.9 * FIRST_PATIENCE) == "", "nor does the next one"


def test_an_ended_controller_trips_at_once(watch):
    watch.joint_state(1, 10.0)
    watch.ended()
    assert watch.check(10.004) == (
        "the controller's process has ended, 4.0 ms after a joint state that waits for a command"
    )


def test_an_ended_controller_trips_even_if_all_is_answered(watch):
    watch.joint_state(1, 10.0)
    watch.command()
    watch.ended()
    assert watch.check(10.004) == "the controller's process has ended"


def test_a_late_command_clears_a_trip(watch):
    watch.joint_state(1, 10.0)
    assert watch.check(10.031)
    assert watch.command()
    assert not watch.tripped
    watch.joint_state(2, 10.04)
    assert watch.check(10.05) == ""
    assert watch.check(10.08)


def test_a_command_that_arrives_after_the_end_of_its_process_clears_nothing(watch):
    watch.ended()
    assert watch.check(10.0)
    assert not watch.command()
    assert watch.tripped


def test_a_new_episode_clears_everything(watch):
    watch.ended()
    assert watch.check(10.0)
    watch.arm()
    assert not watch.tripped
    assert watch.check(20.0) == ""


def test_a_stopped_controller_trips_at_once_and_may_go_on(watch):
    assert watch.check(10.0, stopped=True) == (
        "no command can come: the controller's process is stopped"
    )
    assert watch.check(10.0, stopped=True) == ""
    assert watch.command()
    assert not watch.tripped


def test_a_stopped_controller_is_none_of_its_business_between_episodes(watch):
    watch.disarm()
    assert watch.check(10.0, stopped=True) == ""


@pytest.mark.parametrize("latency", [0.001, 0.005, 0.009])
@pytest.mark.parametrize("stale_periods", [1.0, 1.5, 3.0])
def test_a_fast_driver_makes_no_punctual_controller_late(stale_periods, latency):
    """Joint states at 1 kHz, commands at 80 Hz; the controller begins anew in the middle."""
    period, rng = 0.0125, np.random.default_rng(0)
    watch = Watch(patience(stale_periods, period, lockstep=False), period)
    watch.arm()
    states = [(k * 1e-3, k) for k in range(2000)]
    due = [k * period + (0.004 if k > 80 else 0.0) for k in range(160)]
    commands = [(at + latency + rng.uniform(-5e-4, 5e-4), None) for at in due]
    trips = []
    for now, stamp in sorted([*states, *commands], key=lambda each: each[0]):
        if stamp is None:
            watch.command()
        else:
            watch.joint_state(stamp * 10**6, now)
        trips += [reason] if (reason := watch.check(now)) else []
    assert len(trips) <= (stale_periods == 1.0), "but once, where it begins anew"


def test_a_controller_that_falls_silent_is_noticed_whatever_the_rate_and_the_clock():
    period = 0.0125
    for rate, back in ((1000, 0), (1000, 10**9), (80, 0), (80, 10**9)):
        watch = Watch(patience(3.0, period, lockstep=False), period)
        watch.arm()
        now, silent, tripped = 0.0, 1.0, None
        for k in range(2 * rate):
            now = k / rate
            stamp = 5 * 10**9 + round(now * 1e9) - (back if now >= silent else 0)
            watch.joint_state(stamp, now)
            if now < silent and k % round(rate * period) == 0:
                watch.command()
            if watch.check(now):
                tripped = now - silent
                break
        assert tripped is not None and tripped <= 4 * period
