"""`hucrl fault`: what is tried, how it is judged, and one fault for real."""

import functools
import json
import math
import random
import re
import shutil

import numpy as np
import pytest
import yaml
from fabricated_run import fabricate_run
from manifest_factory import write_manifest

from hucrl_ros.benchmarks import Output
from hucrl_ros.benchmarks.faults import kills, line, proxy, remains, report, schedule, sightings
from hucrl_ros.benchmarks.faults.campaign import Campaign, Wish
from hucrl_ros.benchmarks.faults.fault import EVERYBODY, LOCKSTEP, MODES, REAL_TIME
from hucrl_ros.benchmarks.faults.processes import Kill
from hucrl_ros.benchmarks.faults.sightings import Kind
from hucrl_ros.benchmarks.faults.trial import Trial, rows_of
from hucrl_ros.benchmarks.faults.workshop import Workshop
from hucrl_ros.cli import fault as command
from hucrl_ros.cli import main
from hucrl_ros.controller.manifest import MANIFEST
from hucrl_ros.errors import RunError


def heard(*records):
    """Sightings of (time [s], kind, stamp [ns], step)."""
    data = b"".join(sightings.sighting(at, kind, stamp, step) for at, kind, stamp, step in records)
    return np.frombuffer(data, dtype=sightings.SIGHTING)


def command_at(at, kind):
    return (at, kind, -1, -1)


TICKS = heard(*((0.1 * k, Kind.TICK, 10 * k, k) for k in range(10)))


def test_the_time_to_the_safe_command_counts_from_the_fault_to_the_first_one_after_it():
    found = heard(
        command_at(0.9, Kind.SAFE),
        command_at(1.0, Kind.COMMAND),
        command_at(1.25, Kind.SAFE),
        command_at(1.5, Kind.SAFE),
    )
    assert sightings.time_to_safe(found, 1.0) == pytest.approx(0.25)
    assert math.isnan(sightings.time_to_safe(found, 2.0))


def test_a_tick_is_lost_where_no_bag_holds_both_it_and_its_joint_state():
    ticks, states = {(10 * k, k) for k in range(10)}, {10 * k for k in range(10)}
    assert sightings.lost_ticks(TICKS, ticks, states, until=1.0) == 0
    assert sightings.lost_ticks(TICKS, ticks - {(30, 3)}, states, until=1.0) == 1
    assert sightings.lost_ticks(TICKS, ticks, states - {30, 40}, until=1.0) == 2
    assert sightings.lost_ticks(TICKS, set(), set(), until=0.45) == 5, "what came later may be"


def test_a_record_that_is_half_written_is_left_out(tmp_path):
    path = tmp_path / "witness.bin"
    assert len(sightings.read_sightings(path)) == 0
    whole = sightings.sighting(1.0, Kind.UNSAFE, -1, -1)
    path.write_bytes(whole + whole[:7])
    (found,) = sightings.read_sightings(path)
    assert (found["at"], found["kind"]) == (1.0, Kind.UNSAFE)


def test_two_runs_are_compared_result_by_result():
    assert remains.differences({"a": "1", "b": "2"}, {"a": "1", "b": "2"}) == []
    found = remains.differences({"a": "1", "b": "2"}, {"b": "3", "c": "4"})
    assert found == ["a is missing", "c is left over", "b differs"]


@pytest.mark.parametrize(
    ("keys", "value", "differ"),
    [
        (("revision",), "another", []),
        (("report", "fit_s"), 2.0, []),
        (("beta",), 7.0, [f"bundles/bundle_001/{MANIFEST} differs"]),
    ],
)
def test_times_and_the_revision_make_no_difference_between_runs(tmp_path, keys, value, differ):
    run = fabricate_run(tmp_path / "run", noises=(0.0,))
    shutil.rmtree(run.bundles)
    write_manifest(run.bundle(0), 0)
    write_manifest(run.bundle(1), 1)
    before = remains.remains_of(run)
    manifest = run.bundle(1) / MANIFEST
    values = yaml.safe_load(manifest.read_text())
    *parents, key = keys
    place = functools.reduce(dict.__getitem__, parents, values)
    assert place[key] != value
    place[key] = value
    manifest.write_text(yaml.safe_dump(values))
    assert remains.differences(before, remains.remains_of(run)) == differ


def passed(kind, count=1000):
    bad = line.Line(kind, random.Random(0), lambda message: -1)
    return [out for k in range(count) for out in bad.take(k, bad=True)]


def test_a_bad_line_does_what_its_name_says():
    assert len(passed(line.DROPPED)) == pytest.approx(1000 * (1 - line.SHARE), abs=60)
    assert passed(line.DELAYED, 2) == [(line.DELAY_S, 0), (line.DELAY_S, 1)]
    assert passed(line.DOUBLED, 2) == [(0.0, 0), (0.0, 0), (0.0, 1), (0.0, 1)]
    assert [message for _, message in passed(line.REORDERED, 4)] == [1, 0, 3, 2]
    damaged = sum(message == -1 for _, message in passed(line.CORRUPTED))
    assert damaged == pytest.approx(1000 * line.SHARE, abs=60)


@pytest.mark.parametrize("kind", line.KINDS)
def test_a_line_that_is_good_again_changes_nothing_and_gives_back_what_it_held(kind):
    bad = line.Line(kind, random.Random(0), lambda message: -1)
    held = [] if bad.take(0, bad=True) else [(0.0, 0)]
    expected = [(0.0, 1), *(held if kind == line.REORDERED else [])]
    assert bad.take(1, bad=False) == expected
    assert bad.take(2, bad=False) == [(0.0, 2)]


def test_one_byte_of_what_passes_is_damaged():
    content = bytes(range(100))
    found = proxy.damaged(content, random.Random(0))
    assert len(found) == len(content)
    assert sum(a != b for a, b in zip(content, found, strict=True)) == 1


def test_every_fault_meets_each_of_its_nodes_in_each_part_and_mode():
    every = schedule.cases([], schedule.PARTS, MODES)
    assert len(every) == len(set(every))
    for fault in schedule.FAULTS:
        count = sum(case.fault is fault for case in every)
        assert count == len(fault.nodes) * len(fault.modes) * len(schedule.PARTS)
    assert len({fault.name for fault in schedule.FAULTS}) == len(schedule.FAULTS)


def test_faults_are_chosen_by_name_and_by_node():
    kills = schedule.cases(["SIGKILL"], ["episode"], [LOCKSTEP])
    assert [case.node for case in kills] == list(EVERYBODY)
    (one,) = schedule.cases(["hucrl_up:sigkill"], ["learning"], [REAL_TIME])
    assert one == (Kill, "hucrl up", "learning", REAL_TIME)
    assert schedule.cases(["dropped"], ["episode"], [LOCKSTEP]) == [], "physics waits there"


def test_the_command_line_knows_the_parts_and_modes():
    assert tuple(command.PHASES) == schedule.PARTS
    assert tuple(command.MODES) == MODES


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--only", "sigkil"], "--only sigkil: expected FAULT or NODE:FAULT, one of sigkill, "),
        (["--only", "learner:cut"], "--only learner:cut: cut hits network"),
        (["--phase", "dinner"], "--phase = dinner: expected one of start, bundle, "),
        (["--kills", "-1"], "--kills = -1: at least 0"),
    ],
)
def test_a_campaign_that_makes_no_sense_is_refused_in_one_line(words, line, capsys):
    assert main(["fault", *words]) == 2
    error = capsys.readouterr().err
    assert line in error
    assert error.count("\n") == 1


def trial(**changes):
    plain = Trial("SIGKILL", "recorder", REAL_TIME, "episode", 3.0, 0.01, "gone", 100, 0, 0, ())
    return plain._replace(**changes)


def test_trials_of_a_fault_become_a_row():
    (row, other) = rows_of(
        [
            trial(awaited=True, finished=True, identical=True),
            trial(awaited=True, safe_s=math.nan, phase="learning", told="", identical=False),
            trial(safe_s=5.0, lost=3, unsafe=1, defects=("a traceback in recorder.log",)),
            trial(node="learner"),
        ]
    )
    assert (row.trials, row.phases) == (3, "2 episode, 1 learning")
    assert (row.awaited, row.missing) == (2, 1)
    assert row.safe.max == pytest.approx(10.0), "5 s aren't a time that anybody waited"
    assert (row.told, row.commands, row.unsafe, row.lost) == ("gone", 300, 1, 3)
    assert (row.finished, row.identical, row.compared, row.defects) == (1, 1, 2, 1)
    assert other.node == "learner"
    assert "10.0 / – / 10.0, 1 of 2 none" in report.FAULTS.line(row)


@pytest.mark.parametrize(
    "change", [{"lost": 1}, {"unsafe": 1}, {"identical": False}, {"defects": ("it hangs",)}]
)
def test_what_must_not_be_is_wrong(change):
    assert trial(**change).wrong
    assert not trial(identical=True).wrong


def test_a_run_that_never_ends_is_a_defect_and_its_folder_stays(tmp_path, monkeypatch, capsys):
    def kill_and_fail(workshop, run, most, duration, draw, say, trials):
        trials.append(trial(mode=LOCKSTEP))
        raise RunError(f"{run.root}: after 1 kills: doesn't end")

    monkeypatch.setattr(kills, "_kill_and_resume", kill_and_fail)
    monkeypatch.setattr(kills, "remains_of", lambda run: {})
    monkeypatch.setattr(Workshop, "undisturbed", lambda workshop: (None, 1.0))
    wish = Wish([], kills=1, commands=0, episodes=1, seed=0, browsers=0, port=8089)
    campaign = Campaign(wish, Output(False, tmp_path / "page", "hucrl fault", "here"))
    try:
        with pytest.raises(RunError, match="doesn't end"):
            campaign.run()
        assert campaign._scratch.exists(), "or nobody can look why"
        assert "1 with a defect" in (tmp_path / "page" / "README.md").read_text()
        assert f"runs and logs: {campaign._scratch}" in capsys.readouterr().out
    finally:
        shutil.rmtree(campaign._scratch)


@pytest.mark.slow
@pytest.mark.ros
@pytest.mark.timeout(1800)
def test_a_killed_run_goes_on_to_the_identical_result(tmp_path, capsys):
    words = ["--only", "controller:sigkill", "--mode", "lockstep", "--episodes", "1", "--json"]
    words += ["--browsers", "1", "--out", str(tmp_path / "page")]
    assert main(["fault", *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["fault"], found["node"], found["phase"]) == ("SIGKILL", "controller", "episode")
    assert (found["identical"], found["finished"], found["defects"]) == (True, True, [])
    assert (found["lost"], found["unsafe"]) == (0, 0)
    assert found["commands"] > 0
    assert "controller was killed by signal 9 (SIGKILL)" in found["told"]
    page = (tmp_path / "page" / "README.md").read_text()
    assert "| SIGKILL | controller | lockstep | 1 |" in page
    assert int(re.findall(r"the page was visited (\d+) times", page)[0]) > 0
