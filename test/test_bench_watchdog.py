"""`hucrl bench watchdog`: time from a signal to the safe command."""

import json
import math

import numpy as np
import pytest
from remote_pair import free_port

from hucrl_ros.benchmarks.report import WATCHDOGS
from hucrl_ros.benchmarks.results import WatchdogRow, numbers
from hucrl_ros.cli import main


def row(times):
    return WatchdogRow.of("pendulum", 80.0, "SIGKILL", 0, 0, 0, np.array(times))


def test_times_are_told_in_milliseconds_and_in_periods():
    found = row([0.0125] * 99 + [0.025])
    assert (found.signals, found.missing) == (100, 0)
    assert found.time.p50 == pytest.approx(12.5)
    assert found.time.max == pytest.approx(25.0)
    assert found.worst_periods == pytest.approx(2.0)


def test_one_in_a_thousand_is_told_of_a_thousand_signals_and_not_of_fewer():
    few, many = row([0.01] * 998 + [0.5]), row([0.01] * 998 + [0.02, 0.5])
    assert math.isnan(few.time.p999)
    assert few.worst_periods == pytest.approx(0.5 * 80)
    assert "10.00 / 10.00 / – / 500.00" in WATCHDOGS.line(few)
    assert numbers(few)["time_p999_ms"] is None
    assert 20.0 <= many.time.p999 < 500.0
    assert many.worst_periods == pytest.approx(many.time.p999 * 80 / 1e3, abs=1e-3)


def test_a_safe_command_that_never_came_is_counted_and_is_in_no_quantile():
    found = row([0.01, math.nan])
    assert (found.missing, found.time.max) == (1, pytest.approx(10.0))
    assert "– / – / – / –" in WATCHDOGS.line(row([math.nan]))


@pytest.mark.ros
def test_a_controller_is_stopped_and_killed_and_each_time_the_safe_command_comes(capsys, tmp_path):
    """With the page of `hucrl watch` beside it."""
    arguments = ["bench", "watchdog", "--kills", "1", "--stops", "2", "--load", "1", "--json"]
    arguments += ["--browsers", "1", "--port", str(free_port())]
    assert main([*arguments, "--out", str(tmp_path / "page")]) == 0
    stopped, killed = json.loads(capsys.readouterr().out)
    assert (stopped["signal"], stopped["signals"], stopped["missing"]) == ("SIGSTOP", 2, 0)
    assert (killed["signal"], killed["signals"], killed["missing"]) == ("SIGKILL", 1, 0)
    assert 0 < killed["time_p50_ms"] < 2000
    assert (
        "| pendulum | 80 | SIGKILL | 1 | 0 | 1 | 1 |"
        in (tmp_path / "page" / "README.md").read_text()
    )


def test_a_robot_that_is_made_up_is_not_drawn(capsys):
    assert main(["bench", "watchdog", "--task", "arm", "--browsers", "1"]) == 2
    assert "--browsers: the arm is made up" in capsys.readouterr().err
