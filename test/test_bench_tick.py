"""`hucrl bench tick` counts what a tick computes and says how it compares."""

import itertools
import json

import numpy as np
import pytest
from bundle_factory import PLANNER, write_bundle
from PIL import Image

from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.benchmarks.tick import SYSTEMS, Size, Timing, _bundles, parse_size, tick_gflop
from hucrl_ros.cli import main
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.errors import ConfigError

KEYS = [
    "system",
    "heads",
    "layers",
    "particles",
    "horizon",
    "iterations",
    "noise_draws",
    "threads",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "gflops",
    "yardstick_gflops",
    "share",
    "filter_ms",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("tick") / "bundle")


def bench(*arguments):
    return main(["bench", "tick", *map(str, arguments)])


def test_operations_are_those_of_the_matrix_products(folder):
    """π: 3-8-1, η: 3-8-2, three heads: 4-8-8-4 (two means, two deviations)."""
    changes = {"particles": 10, "horizon": 5, "iterations": 2, "noise_draws": 0}
    settings = PLANNER.model_copy(update=changes)
    weights = (3 * 8 + 8 * 1) + (3 * 8 + 8 * 2) + 3 * (4 * 8 + 8 * 8 + 8 * 4)
    expected = 2e-9 * weights * 10 * 5 * 2
    networks = load_bundle(folder).networks
    assert tick_gflop(networks, settings) == pytest.approx(expected)
    fourier = networks._replace(whitener=np.zeros((6, 6), np.float32))
    assert tick_gflop(fourier, settings) == pytest.approx(expected * (1 + 36 / 2 / weights))
    settings = settings.model_copy(update={"noise_draws": 4})
    assert tick_gflop(networks, settings) == pytest.approx(4 * expected)


def test_untrained_bundles_are_the_ensembles_that_the_table_names(tmp_path):
    """Whatever `auto` takes for the task."""
    for system, bundle in _bundles(None, tmp_path):
        shapes = [layer.weights.shape for layer in bundle.networks.model]
        assert {shape[0] for shape in shapes} == {system.heads}
        assert tuple(shape[-1] for shape in shapes[:-1]) == system.layers
    assert len(list(tmp_path.iterdir())) == len(SYSTEMS)


def test_the_rate_is_that_of_the_median_tick():
    timing = Timing(
        np.array([1.0, 2.0, 100.0]), gflop=0.2, peak_gflops=50.0, filter_ms=np.zeros(0)
    )
    assert timing.gflops == pytest.approx(100.0)
    assert timing.percentile(100) == 100.0


def test_the_table_as_json_has_every_engine_and_number_of_threads(folder, capsys):
    assert bench(folder, "--sizes", "8x3x1", "--seconds", "0.01", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    ways = [(row["noise_draws"], row["engine"], row["threads"]) for row in rows]
    assert ways == list(itertools.product((0, 2), ("compiled", "onnx"), (1, 2)))
    for row in rows:
        assert set(KEYS) <= set(row)
        assert (row["system"], row["heads"], row["layers"]) == ("pendulum", 3, [8, 8])
        assert (row["particles"], row["horizon"], row["iterations"]) == (8, 3, 1)
        assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["p999_ms"] <= row["max_ms"]
        assert row["share"] == pytest.approx(row["gflops"] / row["yardstick_gflops"], abs=0.02)


def test_what_the_safety_filter_takes_is_told_of_a_robot_with_constraints(
    folder, tmp_path, capsys
):
    model = ModelSettings(kind="probabilistic_ensemble", layers=(8,), heads=2)
    limited = untrained_bundle(tmp_path / "bundle", "cartpole", model).path
    taken = []
    for path in (folder, limited):
        assert bench(path, "--sizes", "8x3x1", "--seconds", "0.01", "--json") == 0
        taken.append([row["filter_ms"] for row in json.loads(capsys.readouterr().out)])
    assert set(taken[0]) == {None}
    assert min(taken[1]) > 0.0


def test_a_folder_gets_table_figure_and_command(folder, tmp_path, capsys):
    out = tmp_path / "out"
    words = ["--sizes", "8x3x1", "--seconds", "0.01", "--engines", "compiled", "--out", out]
    assert bench(folder, *words) == 0
    assert "share" in capsys.readouterr().out
    assert len(json.loads((out / "ticks.json").read_text())) == 4
    assert "hucrl bench tick" in (out / "README.md").read_text()
    with Image.open(out / "ticks.png") as picture:
        assert picture.width > 400


@pytest.mark.parametrize("text", ["64", "64x5", "ax5x3", "64x0x3", "1x5x3", "64x5x3x1"])
def test_a_size_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match=f"--sizes {text}: "):
        parse_size(text)
    assert parse_size("64x5x3") == Size(64, 5, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--threads", "0"], "--threads = 0: at least 1"),
        (["--seconds", "0"], "--seconds = 0: more than 0"),
        (["--seconds", "nan"], "--seconds = nan: more than 0 and at most 86400"),
    ],
)
def test_bad_values_are_named(folder, words, message, capsys):
    assert bench(folder, *words) == 2
    assert message in capsys.readouterr().err
