"""`hucrl bench loop`: latency and jitter between two processes."""

import json
import math
from contextlib import contextmanager

import numpy as np
import pytest
from bundle_factory import learned, shake, write_bundle

from hucrl_ros.benchmarks import figures
from hucrl_ros.benchmarks.loop import LAYERS, paced, play_loop, untrained
from hucrl_ros.benchmarks.report import LOOPS
from hucrl_ros.benchmarks.results import LoopRow, Tail, numbers
from hucrl_ros.cli import main
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.presentation import drawing

DIAGNOSTICS = {
    "bundle": "somewhere",
    "ticks_previous": "3",
    "ticks_policy": "1",
    "ticks_safe": "0",
    "overruns": "2",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    shake(learned("optimistic"), seed=1)
    return write_bundle(tmp_path_factory.mktemp("run") / "bundle")


def raw(latencies, rate=100.0, **changes):
    published = np.arange(len(latencies)) / rate
    answered = (published + np.asarray(latencies)).tolist()
    return {
        "published": published.tolist(),
        "answered": answered,
        "unexpected_commands": 0,
        "cpu_s": 0.02,
        "minor_faults": 5,
        "stolen_s": 0.25,
        "rss_mb": [100.0, 101.5],
        "diagnostics": DIAGNOSTICS,
        **changes,
    }


def row(latencies, planning="on"):
    return LoopRow.of("pendulum", 100.0, planning, 0, False, raw(latencies))


def test_a_tail_is_in_milliseconds():
    assert Tail.of(np.arange(1001) / 1e3) == pytest.approx((500.0, 990.0, 999.0, 1000.0))


def test_equal_latencies_are_no_jitter():
    assert row([0.004] * 10).jitter.max == pytest.approx(0.0)
    assert row([0.004, 0.006, 0.004]).jitter.max == pytest.approx(2.0)


def test_a_command_after_the_next_joint_state_is_missed_and_so_is_none():
    found = row([0.004, 0.0101, math.nan, 0.0099])
    assert (found.states, found.missed, found.skipped) == (4, 2, 1)
    assert found.latency.max == pytest.approx(10.1)


def test_fallbacks_count_where_there_is_planning_to_fall_back_from():
    assert row([0.004] * 2).replaced == 4
    assert row([0.004] * 2, planning="off").replaced == 0


def test_processor_time_is_a_share_of_the_time_that_passed():
    assert row([0.004] * 10).cpu == pytest.approx(0.02 / 0.1)


def test_a_row_is_flat_in_json():
    flat = numbers(row([0.004] * 3))
    assert flat["latency_p999_ms"] is None, "three tell nothing of one in a thousand"
    assert numbers(row([0.004] * 1000))["latency_p999_ms"] == pytest.approx(4.0)
    assert flat["hog"] is False, "as files have always called the background load"
    assert "latencies" not in flat
    json.dumps(flat)


def test_the_table_has_a_header_and_a_line_a_row():
    header, line = LOOPS.text([row([0.004] * 3)])
    assert len(header) == len(line)
    assert "0 of 3" in line


def test_states_that_no_command_came_for_wait_longer_than_any(tmp_path, monkeypatch):
    shares = []

    @contextmanager
    def kept(path, size):
        with drawing(path, size) as figure:
            yield figure
            shares.extend(figure.axes[0].lines[0].get_ydata())

    monkeypatch.setattr(figures, "drawing", kept)
    late = row([0.001, math.nan, 0.002, math.nan])
    figures.draw_latencies(tmp_path / "latency.png", [late], "a machine")
    assert shares == pytest.approx([1.0, 0.75])


def test_a_paced_copy_runs_at_another_rate_and_the_original_as_before(folder, tmp_path):
    copy = paced(folder, tmp_path / "copy", 250.0, 77)
    manifest = load_bundle(copy).manifest
    assert (manifest.period, manifest.steps) == (1 / 250, 77)
    assert load_bundle(folder).manifest.period == 1 / 80


@pytest.mark.parametrize("task", LAYERS)
def test_an_untrained_bundle_has_an_ensemble_of_the_size_that_is_told(task, tmp_path):
    layers = load_bundle(untrained(task, tmp_path / "bundle")).networks.model
    assert tuple(layer.weights.shape[-1] for layer in layers[:-1]) == LAYERS[task]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--rates", "0"], "--rates = 0: from 1 to 2000"),
        (["--seconds", "0"], "--seconds = 0: from 2 to 86400"),
        (["--priority", "100"], "--priority = 100: from 0 to 99"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(capsys, words, reason):
    assert main(["bench", "loop", *words]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.ros
def test_every_joint_state_is_timed_between_two_processes(folder, tmp_path, capsys):
    out = tmp_path / "loop"
    words = ["--rates", "40", "--planning", "on", "--seconds", "2", "--hog", "--out", str(out)]
    assert main(["bench", "loop", "--bundle", str(folder), *words]) == 0
    assert capsys.readouterr().out.count("\n") == 2 + 3
    page = (out / "README.md").read_text()
    assert "hucrl bench loop --bundle" in page and "--background-load" in page
    assert (out / "latency.png").stat().st_size > 1000
    header, line = (out / "table.csv").read_text().splitlines()
    found = dict(zip(header.split(","), line.split(","), strict=True))
    assert found["states"] == "80"
    assert 0.0 < float(found["latency_p50_ms"]) <= float(found["latency_max_ms"])
    assert float(found["cpu"]) > 0.0
    answered = int(found["states"]) - int(found["skipped"])
    assert answered > 0, "the others were overtaken on a busy machine"


@pytest.mark.ros
def test_a_controller_that_refuses_ends_the_trial_with_one_line(folder, tmp_path):
    with pytest.raises(RunError, match=r"loop_source ended with exit code 1.*refused to start"):
        broken = paced(folder, tmp_path / "broken", 40.0, 10)
        (broken / "policy.onnx").write_bytes(b"")
        play_loop(broken, 0, False, {})
