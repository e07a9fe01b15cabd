import numpy as np
import pytest

from hucrl_ros.controller.watch import (
    FIRST_PATIENCE,
    GAPS,
    LOCKSTEP_PATIENCE,
    RateCheck,
    Watch,
    patience,
)

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


def test_a_joint_state_from_before_the_episode_needs_an_answer_when_it_is_repeated():
    watch = Watch(LIMIT)
    watch.joint_state(1, 0.0)
    watch.arm()
    assert watch.joint_state(1, 10.0)
    assert watch.check(10.0 + FIRST_PATIENCE)


def test_an_episode_begins_without_haste():
    watch = Watch(LIMIT)
    watch.arm()
    watch.joint_state(1, 10.0)
    assert watch.check(10.0 + 0.9 * FIRST_PATIENCE) == ""
    watch.command()
    watch.joint_state(2, 20.0)
    assert watch.check(20.031)


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


PERIOD = 1 / 80


def problem_of(gaps):
    """What is said of joint states so many seconds apart."""
    check, stamp_ns = RateCheck(), 10**9
    check.see(stamp_ns)
    for gap in gaps:
        stamp_ns += round(gap * 1e9)
        check.see(stamp_ns)
    return check.problem(PERIOD)


@pytest.mark.parametrize("rate", [500, 100, 60, 50, 5])
def test_another_rate_is_refused_with_both_rates(rate):
    problem = problem_of([1 / rate] * GAPS)
    assert f"({rate} Hz) by their stamps; the control period is 12.5 ms (80 Hz)" in problem
    assert "have the driver publish at 80 Hz" in problem
    assert "\n" not in problem


@pytest.mark.parametrize("share", [0.85, 1.0, 1.15])
def test_the_right_rate_may_be_a_little_off(share):
    assert problem_of([share * PERIOD] * GAPS) == ""


def test_jitter_and_missed_joint_states_are_not_another_rate():
    rng = np.random.default_rng(0)
    assert problem_of(PERIOD * (1 + 0.3 * rng.standard_normal(GAPS))) == ""
    assert problem_of([PERIOD, 2 * PERIOD, 3 * PERIOD] * GAPS) == ""


def test_too_few_say_nothing_and_repetitions_are_none():
    assert problem_of([0.002] * (GAPS - 1)) == ""
    assert problem_of([0.002] * (GAPS - 1) + [0.0]) == ""


def test_a_clock_that_starts_again_is_not_measured_across():
    assert problem_of([PERIOD] * 5 + [-1.0] + [PERIOD] * GAPS) == ""
    assert problem_of([0.002] * GAPS + [-1.0] + [PERIOD] * GAPS) == ""


def test_what_has_passed_is_looked_at_no_more_and_what_has_not_may_get_better():
    check = RateCheck()
    stamps = np.cumsum([0.002] * 2 * GAPS + [PERIOD] * GAPS + [0.002] * GAPS) * 1e9
    problems = []
    for stamp in stamps.astype(int).tolist():
        check.see(stamp)
        problems.append(bool(check.problem(PERIOD)))
    assert any(problems[: 2 * GAPS])
    assert not any(problems[3 * GAPS :])
