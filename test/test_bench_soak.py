"""`hucrl bench soak`: what grows over hours, and which late commands are the machine's."""

import json
import math
import subprocess
import sys
import time

import numpy as np
import pytest

from hucrl_ros.benchmarks import bare_loop
from hucrl_ros.benchmarks.bare_loop import BareLoop
from hucrl_ros.benchmarks.process_samples import Sample, Sampler
from hucrl_ros.benchmarks.soak import unanswered
from hucrl_ros.benchmarks.soak_report import PROCESSES, process_rows
from hucrl_ros.benchmarks.soak_results import Growth, PaceRow, Soak, growths, held_up
from hucrl_ros.cli import main

HOURS = np.linspace(0.0, 2.0, 121)
PERIOD = 0.0125


def grown(values, quantity="uss_mb"):
    return Growth.of("controller", quantity, 3600 * HOURS, np.asarray(values))


def test_a_leak_is_found_with_its_slope():
    found = grown(100.0 + 3.0 * HOURS)
    assert found.grew
    assert found.hourly == pytest.approx(3.0)
    assert found.hourly_low == pytest.approx(3.0)
    assert found.last - found.first == pytest.approx(3.0 * 1.8 * 0.75, abs=0.2)
    assert "controller: USS +4.1 MB" in str(found)


@pytest.mark.parametrize(
    "values",
    [
        np.where(HOURS < 0.1, 50.0, 100.0),  # it warms up
        100.0 + 20.0 * (np.arange(121) % 5),  # it comes and goes
        100.0 + 0.2 * HOURS,  # allocators
        100.0 - HOURS,
    ],
)
def test_what_is_no_leak_is_none(values):
    assert not grown(values).grew


def test_one_descriptor_more_is_one_too_many():
    assert grown(np.where(HOURS < 1.0, 20, 21), "descriptors").grew
    assert not grown(np.full(121, 20.0), "descriptors").grew
    assert str(grown(20 + np.arange(121), "threads")).startswith("controller: threads +")


def test_every_process_has_a_line_and_every_quantity_a_growth():
    samples = {name: [Sample(100.0, 50.0, 5, 20, 0)] * 8 for name in ("controller", "watchdog")}
    found = growths({name: list(range(8)) for name in samples}, samples)
    assert len(found) == 2 * len(Sample._fields)
    rows = process_rows(found)
    assert [row.process for row in rows] == ["controller", "watchdog"]
    assert "20 → 20" in PROCESSES.line(rows[0])
    assert not any(each.grew for each in found)


def pace(late, bare):
    due = PERIOD * np.arange(len(late))
    return PaceRow.of("command", PERIOD, due, np.array(late), bare)


def bare_of(*late):
    return BareLoop(PERIOD * np.arange(len(late)), np.array(late), True)


def test_a_late_command_is_the_machine_s_where_the_bare_loop_was_late_too():
    late = [0.001, 0.02, 0.001, 0.001, 0.02, math.nan]
    found = pace(late, bare_of(0.0, 0.015, 0.0, 0.0, 0.0, 0.0))
    assert (found.times, found.missed, found.host) == (6, 3, 1)
    assert pace(late, bare_of(*[0.0] * 6)).host == 0
    assert pace(late, bare_of(*[0.005] * 6)).host == 3


def test_what_comes_before_or_after_holds_nothing_up():
    bare = BareLoop(np.array([1.0]), np.array([0.5]), True)
    due, late = np.array([0.9, 0.9, 1.4, 1.6]), np.array([0.05, 0.2, 0.01, 0.2])
    assert held_up(bare, PERIOD, due, late).tolist() == [False, True, True, False]


def test_the_bare_loop_is_never_early_and_tells_its_time():
    due = time.monotonic_ns() + np.arange(1, 6) * 2_000_000
    late = bare_loop.lateness(due)
    assert (late >= 0.0).all()
    assert time.monotonic() >= due[-1] / 1e9
    late = bare_loop.lateness(np.array([time.monotonic_ns() - 1_000_000_000]))
    assert late[0] >= 1.0


def test_the_bare_loop_writes_what_it_saw_until_it_is_told_to_end(tmp_path):
    answers = iter([False, False, True])
    bare_loop.main(tmp_path / "bare.npz", 0.01, 0, lambda: next(answers))
    found = BareLoop.read(tmp_path / "bare.npz")
    assert len(found.due) == len(found.late) == 200
    assert np.diff(found.due) == pytest.approx(0.01, abs=1e-6)
    assert not found.realtime
    assert len(found.during(found.due[3], found.due[7]).late) == 5


HOLDER = """
import sys, threading
held = bytearray(32 << 20), [open("/dev/null") for _ in range(7)]
threading.Thread(target=sys.stdin.read).start()
print(flush=True)
"""


def test_samples_count_what_a_process_and_its_children_hold():
    command = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline()
        sample = Sample.of(child.pid)
        assert (sample.threads, sample.segments) == (2, 0)
        assert sample.descriptors == 7 + 3
        assert sample.rss_mb > sample.uss_mb > 32
        sampler = Sampler(0.0)
        sampler.look({"child": child.pid, "gone": 2**22 + 1})
        child.stdin.close()
    sampler.look({"child": child.pid})
    assert len(sampler.samples["child"]) == 1
    assert "gone" not in sampler.samples
    sampler.keep(0.0, 1.0)
    assert sampler.samples == {"child": []}


@pytest.mark.parametrize(
    ("loads", "refused"), [([1, 11, 21, 31], 0), ([1, 11, 31], 1), ([1, 11, 21], 0), ([], 3)]
)
def test_a_bundle_that_was_offered_and_not_loaded_was_refused(loads, refused):
    """Four offers at 0, 10, 20 and 30 s; the last one's answer may still have been coming."""
    assert unanswered([0, 10, 20, 30], loads, before=25) == refused


def test_the_verdict_names_what_grew():
    steady = grown(np.full(121, 100.0))
    soak = Soak("pendulum", 80.0, 120.0, 50, True, 119, 0, 0.0, [], [steady])
    assert soak.verdict == "nothing grew"
    leaking = soak._replace(growths=[steady, grown(100.0 + 3.0 * HOURS)])
    assert leaking.verdict.startswith("grew: controller: USS +")
    assert json.loads(json.dumps(leaking.as_json()))["growths"][1]["grew"]


@pytest.mark.slow
@pytest.mark.ros
def test_a_soak_swaps_bundles_and_leaves_a_page(tmp_path, capsys):
    out = tmp_path / "page"
    assert main(["bench", "soak", "--minutes", "0.3", "--swap-every", "6", "--out", str(out)]) == 0
    found = json.loads((out / "soak.json").read_text())
    assert [row["what"] for row in found["paces"]] == ["command after joint state", "bare loop"]
    assert found["swaps"] >= 1
    assert {each["process"] for each in found["growths"]} >= {"controller", "watchdog", "learner"}
    assert found["paces"][0]["times"] == 0.3 * 60 * 80
    assert (out / "soak.png").stat().st_size > 10_000
    assert found["verdict"] in capsys.readouterr().out
