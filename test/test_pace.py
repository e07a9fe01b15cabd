"""Joint states come at any rate; commands go once a control period."""

import numpy as np
import pytest

from hucrl_ros.controller.pace import GAPS, Pace

PERIOD = 1 / 80
PERIOD_NS = 12_500_000


def followed(stamps):
    """The pace after joint states of these stamps [ns], and which of them were due."""
    pace, due = Pace(), []
    pace.start()
    for stamp in np.asarray(stamps, dtype=np.int64).tolist():
        if pace.is_overtaken(stamp, PERIOD):
            continue
        pace.see(stamp)
        if pace.is_due(stamp, PERIOD):
            pace.answered(stamp, PERIOD)
            due.append(stamp)
    return pace, np.array(due)


def after(gaps):
    return 10**9 + np.concatenate([[0], np.cumsum(np.round(np.asarray(gaps) * 1e9))])


def problem_of(gaps):
    return followed(after(gaps))[0].problem(PERIOD)


# When a command is due.


@pytest.mark.parametrize("rate", [80, 78, 84, 95])
def test_of_a_driver_at_the_control_rate_each_joint_state_is_due(rate):
    stamps = after(np.full(400, 1 / rate))
    assert (followed(stamps)[1] == stamps).all()


@pytest.mark.parametrize("rate", [160, 200, 250, 333, 500, 1000])
def test_of_a_faster_one_the_closest_to_each_multiple_of_the_period_is_due(rate):
    due = followed(after(np.full(20 * rate, 1 / rate)))[1]
    assert len(due) == pytest.approx(20 * 80, abs=2)
    multiples = due[0] + PERIOD_NS * np.arange(len(due))
    assert np.abs(due - multiples).max() <= 0.5e9 / rate + 1


def test_jitter_of_a_fast_driver_does_not_add_up():
    rng = np.random.default_rng(0)
    stamps = after(np.full(10_000, 0.002)) + rng.uniform(-0.4e6, 0.4e6, 10_001).round()
    due = followed(stamps)[1]
    multiples = due[0] + PERIOD_NS * np.arange(len(due))
    assert np.abs(due - multiples).max() <= 2e6


def test_drops_move_a_command_to_the_next_joint_state():
    rng = np.random.default_rng(1)
    stamps = after(np.full(10_000, 0.002))[rng.random(10_001) > 0.1]
    gaps = np.diff(followed(stamps)[1])
    assert gaps.mean() == pytest.approx(PERIOD_NS, rel=0.01)
    assert gaps.max() <= PERIOD_NS + 4 * 2e6


def test_after_a_gap_commands_go_on_a_period_apart():
    stamps = after([*np.full(100, 0.002), 0.107, *np.full(100, 0.002)])
    gaps = np.diff(followed(stamps)[1])
    assert (gaps > 3 * PERIOD_NS).sum() == 1
    assert np.sort(gaps)[0] >= PERIOD_NS - 2e6, "nothing is made up for"


def test_what_a_newer_one_has_overtaken_is_left_out_and_counted():
    stamps = after(np.full(100, 0.002))
    stamps[[50, 51]] = stamps[[51, 50]]
    pace, due = followed(stamps)
    assert pace.overtaken == 1
    assert (np.diff(due) > 0).all()


def test_a_clock_that_starts_again_is_due_at_once_for_somebody_has_to_say_so():
    stamps = np.concatenate([after(np.full(100, 0.002)), after(np.full(100, 0.002)) - 10**9])
    pace, due = followed(stamps)
    assert pace.overtaken == 0
    assert stamps[101] in due
    assert len(due) == pytest.approx(2 * 17, abs=2)
    assert pace.outage == "outage: stamps of joint_states went back by 1.2 s"
    pace.start()
    assert pace.outage == ""


# Whether they come often enough.


@pytest.mark.parametrize("rate", [60, 50, 5])
def test_too_low_a_rate_is_refused_with_both_rates(rate):
    problem = problem_of([1 / rate] * GAPS)
    assert f"({rate} Hz) by their stamps; the control period is 12.5 ms (80 Hz)" in problem
    assert "have the driver publish at 80 Hz or faster" in problem
    assert "\n" not in problem


@pytest.mark.parametrize("rate", [1000, 500, 100, 90, 70])
def test_a_faster_driver_and_one_that_is_a_little_off_are_not(rate):
    assert problem_of([1 / rate] * GAPS) == ""


def test_jitter_and_missed_joint_states_are_no_lower_rate():
    rng = np.random.default_rng(0)
    assert problem_of(PERIOD * (1 + 0.3 * rng.standard_normal(GAPS))) == ""
    assert problem_of([PERIOD, 2 * PERIOD, 3 * PERIOD] * GAPS) == ""


def test_too_few_say_nothing_and_repetitions_are_none():
    assert problem_of([0.02] * (GAPS - 1)) == ""
    assert problem_of([0.02] * (GAPS - 1) + [0.0]) == ""


def test_a_clock_that_starts_again_is_not_measured_across():
    assert problem_of([PERIOD] * 5 + [-1.0] + [PERIOD] * GAPS) == ""
    assert problem_of([0.02] * GAPS + [-1.0] + [PERIOD] * GAPS) == ""


def test_what_has_passed_is_looked_at_no_more_and_what_has_not_may_get_better():
    pace = Pace()
    stamps = np.cumsum([0.02] * 2 * GAPS + [PERIOD] * GAPS + [0.02] * GAPS) * 1e9
    problems = []
    for stamp in stamps.astype(int).tolist():
        pace.see(stamp)
        problems.append(bool(pace.problem(PERIOD)))
    assert any(problems[: 2 * GAPS])
    assert not any(problems[3 * GAPS :])


@pytest.mark.parametrize(("periods", "overtaken"), [(0.5, 1), (1.9, 1), (2.1, 0), (50.0, 0)])
def test_what_is_older_by_two_periods_was_not_overtaken_but_the_clock_has_started_again(
    periods, overtaken
):
    pace = Pace()
    pace.see(10**9)
    assert pace.is_overtaken(10**9 - round(periods * PERIOD_NS), PERIOD) == bool(overtaken)
    assert pace.overtaken == overtaken


def test_stamps_that_are_never_filled_in_are_named():
    pace = followed([0] * (GAPS + 1))[0]
    assert "have the driver fill in header.stamp" in pace.problem(PERIOD)
    assert followed([10**9] * 3 * GAPS)[0].problem(PERIOD) == "", "a simulator that waits"
