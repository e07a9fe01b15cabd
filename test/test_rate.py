import numpy as np
import pytest

from hucrl_ros.controller.watch import GAPS, RateCheck

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
