"""`hucrl bench delay`: a simulated clock on which commands act late."""

import dataclasses
import json

import numpy as np
import pytest
from bundle_factory import learned, shake, write_bundle
from shortened import shorten

from hucrl_ros.benchmarks.delay import SlowBus, play_delayed, play_real_time
from hucrl_ros.benchmarks.loop import paced
from hucrl_ros.benchmarks.results import DelayRow, delay_scores
from hucrl_ros.cli import main
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.model_bias import ModelBias
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.evaluation import evaluate, open_bundle, with_settings
from hucrl_ros.robots import make_robot

PERIOD = make_robot("pendulum").spec.period


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    shake(learned("optimistic"), seed=1)
    return write_bundle(tmp_path_factory.mktemp("run") / "bundles" / "bundle_001")


@pytest.fixture(scope="module")
def played(folder):
    """The bundle, which follows its policy for a short episode, and its task."""
    bundle, task = open_bundle(folder)
    task.steps = 40
    return with_settings(bundle, {"planner.algorithm": "policy"}), task


def play(played, delay, mode="never", extra=None, tick_s=0.0):
    control = ControlSettings(
        latency_compensation=mode, extra_delay=delay if extra is None else extra
    )
    return play_delayed(*played, 0, delay, tick_s, control)


def test_a_command_acts_from_the_substep_on_that_begins_after_the_delay():
    bus = SlowBus(make_robot("pendulum"), delay=0.020)
    bus.send(np.array([0.5]), 0.004)
    bus.send(np.array([-1.0]), 0.0165)
    applied = [float(bus.period(k * PERIOD)[0]) for k in range(5)]
    # Substeps of 1.25 ms: 0.5 from 25 ms on, -1 from 37.5 ms on.
    assert applied == pytest.approx([0.0, 0.0, 0.5, -1.0, -1.0])
    bus = SlowBus(make_robot("pendulum"), delay=0.005)
    bus.send(np.array([1.0]), 0.0)
    assert float(bus.period(0.0)[0]) == pytest.approx(0.6)


def test_without_delay_it_is_the_ordinary_episode(played):
    (ordinary,) = evaluate(*played, episodes=1, seed=0)
    assert play(played, 0.0).total == pytest.approx(ordinary.total)
    assert play(played, 0.0, "auto").compensated == 0


def test_a_delay_of_whole_periods_shifts_what_acts(played):
    late = play(played, 3 * PERIOD)
    np.testing.assert_array_equal(late.actions[:3], 0.0)
    np.testing.assert_allclose(late.states[1:3] - late.states[0], 0.0, atol=1e-12)
    soon = play(played, 0.0)
    assert late.actions[3] == pytest.approx(soon.actions[0], abs=1e-3), "from the same state"


def test_a_tick_delays_as_a_bus_does(played):
    bus, tick = play(played, 2 * PERIOD, tick_s=0.0), play(played, PERIOD, tick_s=PERIOD)
    np.testing.assert_array_equal(bus.states, tick.states)


def test_auto_compensates_every_tick_after_a_noticeable_delay(played):
    assert play(played, 0.02, "auto").compensated == 1.0
    assert play(played, 0.02, "never").compensated == 0
    assert play(played, 0.0, "auto", tick_s=0.005).compensated == 39 / 40, "from the second on"


@pytest.mark.parametrize("mode", ["never", "auto"])
def test_the_model_learns_what_it_gets_wrong_as_in_the_controller(played, mode, monkeypatch):
    biases = []
    monkeypatch.setattr(
        ModelBias, "see", lambda self, passed, *claim: biases.append((passed, claim[0].copy()))
    )
    late = play(played, 2 * PERIOD, mode)
    assert len(biases) == len(late.states) - 1
    for step, (passed, mean) in enumerate(biases):
        np.testing.assert_array_equal(passed.state, late.states[step])
        np.testing.assert_array_equal(passed.following, late.states[step + 1])
        assert passed.action == pytest.approx(late.actions[step], abs=1e-12)
        assert mean.shape == (2,)


def test_equal_seeds_give_equal_episodes(played):
    first, second = (play(played, 0.02, "auto") for _ in range(2))
    np.testing.assert_array_equal(first.states, second.states)


def test_a_score_is_the_mean_of_its_episodes():
    rows = [
        DelayRow("a", delay, 2.0, mode, seed, 100.0 * seed + delay, 0.5)
        for delay in (0.0, 20.0)
        for mode in ("never", "auto")
        for seed in range(3)
    ]
    found = delay_scores(rows)
    assert [(score.delay_ms, score.compensation) for score in found] == [
        (0.0, "never"),
        (0.0, "auto"),
        (20.0, "never"),
        (20.0, "auto"),
    ]
    assert found[2].return_.mean == pytest.approx(120.0)
    assert (found[2].worst, found[2].compensated) == (20.0, 0.5)


def test_the_command_prints_a_table_and_writes_page_figure_and_episodes(
    folder, tmp_path, capsys, monkeypatch
):
    shorten(monkeypatch, 5)
    out = tmp_path / "latency"
    words = ["bench", "delay", str(folder), "--delays", "20", "--episodes", "2", "--out", str(out)]
    assert main(words) == 0
    assert "20 ms" in capsys.readouterr().out
    page = (out / "README.md").read_text()
    assert "hucrl bench delay" in page and "return_against_delay.png" in page
    assert (out / "return_against_delay.png").stat().st_size > 1000
    assert len((out / "episodes.csv").read_text().splitlines()) == 1 + 2 * 2
    assert main([*words[:-2], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["compensation"] for entry in found] == ["never", "auto"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--delays", "-1"], "--delays = -1: from 0 to 1000"),
        (["--tick", "2000"], "--tick = 2000: from 0 to 1000"),
        (["--episodes", "0"], "--episodes = 0: at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(folder, capsys, words, reason):
    assert main(["bench", "delay", str(folder), *words]) == 2
    assert reason in capsys.readouterr().err


def test_a_bundle_counts_once(folder, capsys):
    assert main(["bench", "delay", str(folder), str(folder)]) == 2
    assert "another bundle is called" in capsys.readouterr().err


@pytest.mark.ros
def test_an_episode_in_real_time_is_played_by_simulator_and_controller(folder, tmp_path):
    bundle, task = open_bundle(paced(folder, tmp_path / "short", 80.0, 40))
    control = ControlSettings(extra_delay=0.02)
    played = play_real_time(bundle, task, 0, control)
    assert 0.0 <= abs(played.total) < 40.0
    assert played.compensated == 1.0, "told of a delay, from the first tick on"
    assert played.tick_ms > 0.0


def test_a_state_that_joints_do_not_tell_is_refused_in_real_time(folder):
    bundle, task = open_bundle(folder)
    goal = bundle.manifest.model_copy(update={"context": ("goal_x",)})
    with pytest.raises(ConfigError, match="its state holds goal_x; --real-time needs"):
        play_real_time(dataclasses.replace(bundle, manifest=goal), task, 0, ControlSettings())
