"""`hucrl bench page`: which ticks the page had a part in, and what it used."""

import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from hucrl_ros.benchmarks import page
from hucrl_ros.benchmarks.page import COSTS, PACE, PAGE, SETTLED_S, Cost, Shifts
from hucrl_ros.benchmarks.process_samples import Sampler
from hucrl_ros.benchmarks.results import Tail
from hucrl_ros.cli import main
from hucrl_ros.page.live import Pace
from hucrl_ros.page.words import pace


class Visitor:
    visits = 0


@pytest.fixture
def shifts():
    return Shifts(Sampler(1.0), [Visitor()])


def test_each_tick_is_of_the_shift_in_which_it_began(shifts):
    shifts.changes = [(10.0, True), (15.0, False), (20.0, True)]
    times = np.array([9.0, 10.1, 12.0, 15.0 + 0.5 * SETTLED_S, 17.0, 30.0])
    np.testing.assert_array_equal(shifts.worked(times), [np.nan, np.nan, 1, np.nan, 0, 1])


def test_processor_time_is_that_of_its_own_shifts(shifts):
    shifts.changes = [(0.0, True), (5.0, False), (10.0, True), (15.0, False)]
    shifts.used = [(0.0, 1.0), (5.0, 2.0), (10.0, 2.0), (15.0, 4.0)]
    assert shifts.cores() == pytest.approx(3.0 / 10.0)


def test_the_page_stands_still_in_turn_from_when_somebody_looks(shifts, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(page, "CLOCK", lambda: now[0])
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        shifts.look({PAGE: process.pid})
        assert shifts.changes == [], "it still starts"
        Visitor.visits = 1
        for works in (True, False, True):
            shifts.look({PAGE: process.pid})
            assert shifts.works == works
            if not works:
                _, status = os.waitpid(process.pid, os.WUNTRACED)
                assert os.WIFSTOPPED(status)
            now[0] += page.SHIFT_S
        assert [works for _, works in shifts.changes] == [True, False, True]
    finally:
        Visitor.visits = 0
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_what_the_page_says_of_itself_is_understood():
    said = pace(Pace(29.6, 12.4, 33.0)).encode()
    assert PACE.search(said).groups() == (b"30", b"12", b"33")


def test_a_line_has_all_and_json_no_nan():
    tail = Tail(1.0, 2.0, math.nan, 4.0)
    cost = Cost(1.0, 10, 30, tail, tail, 1.0, 0, 0, 0.2, 30.0, 5.0, 9.0, 380.0, "")
    assert len(COSTS.header) == len(COSTS.line(cost))
    assert cost.numbers()["without"]["p999"] is None


def test_what_makes_no_sense_is_refused_in_one_line(capsys):
    assert main(["bench", "page", "--browsers", "0"]) != 0
    assert "--browsers" in capsys.readouterr().err
