"""The tick that fits: by closed form on a machine whose times are known."""

import pytest
import yaml
from bundle_factory import PLANNER, write_bundle
from test_inspect import CRASHES

from hucrl_ros.benchmarks import Size, tuning
from hucrl_ros.benchmarks.tuning import FEWEST, MOST, MOST_ITERATIONS, STEP, Trial, tune
from hucrl_ros.cli import main
from hucrl_ros.config.files import load_config, share_directory, task_config_path
from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller import examiner
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.errors import HucrlError

FIXED, EACH = 1e-3, 2e-6


def machine(fixed=FIXED, each=EACH, steal=()):
    """Measures `fixed + each · particles · horizon · iterations`; remembers what it was asked."""
    asked = []
    stolen = list(steal)

    def measure(size):
        asked.append(size)
        time = fixed + each * size.particles * size.horizon * size.iterations
        time += stolen.pop(0) if stolen else 0.0
        return Trial(size, 0.9 * time, time, 1.1 * time)

    measure.asked = asked
    return measure


@pytest.mark.parametrize("target", [6e-3, 8.75e-3, 14e-3])
@pytest.mark.parametrize("start", [Size(64, 10, 3), Size(200, 25, 1)])
def test_the_largest_number_of_particles_within_the_target(target, start):
    *_, best = tune(machine(), start, target)
    assert best.p99 <= target
    assert best.size[1:] == start[1:]
    possible = (target - FIXED) / (EACH * start.horizon * start.iterations)
    assert best.size.particles == possible // STEP * STEP


def test_a_slow_machine_gives_up_iterations_then_horizon():
    *_, best = tune(machine(each=2e-5), Size(64, 20, 3), 5e-3)
    assert best.size == Size(FEWEST, 5, 1)


def test_a_fast_machine_gets_more_iterations():
    *_, best = tune(machine(each=1e-8), Size(64, 10, 2), 8e-3)
    assert best.size == Size(MOST, 10, MOST_ITERATIONS)


def test_what_is_chosen_was_measured_to_fit_even_where_times_jump():
    measure = machine(steal=(0.0, 0.0, 4e-3, 4e-3))
    *_, best = tune(measure, Size(64, 10, 3), 8e-3)
    assert best.p99 <= 8e-3
    assert best.size in measure.asked[2:]


def test_nothing_fits():
    with pytest.raises(HucrlError, match=r"nothing fits: a tick of 32x5x1 takes .* ms"):
        list(tune(machine(fixed=1.0), Size(64, 20, 3), 5e-3))


def hucrl_tune(*arguments):
    return main(["tune", *map(str, arguments)])


@pytest.fixture
def known_times(monkeypatch):
    monkeypatch.setattr(tuning, "measure_agent", lambda *_: machine())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("tune") / "bundle")


def test_the_command_writes_settings_that_a_robot_can_use(bundle, tmp_path, known_times, capsys):
    out = tmp_path / "mine.yaml"
    assert hucrl_tune(bundle, "--out", out) == 0
    settings = yaml.safe_load(out.read_text())["/**"]["ros__parameters"]
    load_config(out)
    printed = capsys.readouterr().out
    assert settings["task"] == "pendulum"
    assert {*settings["planner"]} == {"particles", "horizon", "iterations"}
    assert str(Size(**settings["planner"])) in printed


def test_threads_that_ticks_were_measured_with_are_settings_as_well(bundle, tmp_path, known_times):
    out = tmp_path / "mine.yaml"
    assert hucrl_tune(bundle, "--out", out, "--threads", 2) == 0
    assert load_config(out).control.threads == 2, "or each tick would take longer"


def test_a_bundle_is_first_tried_in_a_process_with_limits(bundle, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", CRASHES))
    assert hucrl_tune(bundle, "--out", tmp_path / "tuned.yaml") == 1
    assert "ended the process that examined it, by SIGSEGV" in capsys.readouterr().err


def test_a_planner_is_added_where_a_tasks_file_has_none(bundle, tmp_path, known_times):
    out = tmp_path / "mine.yaml"
    before = load_config(task_config_path("pendulum"))
    out.write_text(task_config_path("pendulum").read_text())
    assert hucrl_tune(bundle, "--out", out) == 0
    after = load_config(out)
    changed = {"particles", "horizon", "iterations"}
    assert after.planner.model_dump(exclude=changed) == before.planner.model_dump(exclude=changed)
    assert after.planner != before.planner
    assert after.model_copy(update={"planner": before.planner}) == before


def test_there_are_no_more_elites_than_particles(tmp_path, monkeypatch):
    planner = PLANNER.model_copy(update={"particles": 100, "elites": 100})
    bundle, out = write_bundle(tmp_path / "bundle", planner=planner), tmp_path / "mine.yaml"
    out.write_text(
        "/**: {ros__parameters: {task: pendulum, planner: {particles: 100, elites: 100}}}"
    )
    monkeypatch.setattr(tuning, "measure_agent", lambda *_: machine(fixed=7e-3))
    assert hucrl_tune(bundle, "--out", out) == 0
    tuned = load_config(out).planner
    assert tuned.elites == tuned.particles < 100


def test_a_file_with_more_elites_than_the_bundle_can_still_be_read(bundle, tmp_path, monkeypatch):
    out = tmp_path / "mine.yaml"
    out.write_text(
        "/**: {ros__parameters: {task: pendulum, planner: {particles: 400, elites: 400}}}"
    )
    monkeypatch.setattr(tuning, "measure_agent", lambda *_: machine(fixed=7e-3))
    assert hucrl_tune(bundle, "--out", out) == 0
    tuned = load_config(out).planner
    assert tuned.elites == PLANNER.elites < tuned.particles < 400


def test_a_file_keeps_no_other_number_of_threads_than_ticks_were_measured_with(
    bundle, tmp_path, known_times, capsys
):
    out = tmp_path / "mine.yaml"
    assert hucrl_tune(bundle, "--out", out, "--threads", 2) == 0
    assert hucrl_tune(bundle, "--out", out) == 0
    assert load_config(out).control.threads == 1
    assert "control.threads = 1" in capsys.readouterr().out.splitlines()[-1]


def test_comments_and_other_settings_stay(bundle, tmp_path, known_times):
    out = tmp_path / "mine.yaml"
    before = (share_directory() / "config" / "defaults.yaml").read_text()
    out.write_text(before)
    assert hucrl_tune(bundle, "--out", out) == 0
    changed = [
        pair
        for pair in zip(before.splitlines(), out.read_text().splitlines(), strict=True)
        if pair[0] != pair[1]
    ]
    assert 0 < len(changed) <= 3
    names = {line.split(":")[0].strip() for pair in changed for line in pair}
    assert names <= {"particles", "horizon", "iterations"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--period", "0"], "--period = 0: more than 0"),
        (["--period", "inf"], "--period = inf: more than 0 and at most 86400"),
        (["--period", "1e300"], "--period = 1e+300: more than 0 and at most 86400"),
        (["--headroom", "1"], "--headroom = 1: from 0 to below 1"),
        (["--threads", "0"], "--threads = 0: at least 1"),
        (["--seconds", "0"], "--seconds = 0: more than 0"),
    ],
)
def test_bad_values_are_named(bundle, arguments, message, capsys):
    assert hucrl_tune(bundle, *arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("content", ["a: [", "- 1\n", "/**:\n  ros__parameters: 3\n"])
def test_a_file_of_other_things_is_left_alone(bundle, tmp_path, content, capsys):
    out = tmp_path / "notes.yaml"
    out.write_text(content)
    assert hucrl_tune(bundle, "--out", out) == 2
    assert out.read_text() == content
    assert str(out) in capsys.readouterr().err


def test_a_measurement_plays_the_size_that_it_is_asked_for(bundle, monkeypatch):
    sizes = []
    agent = tuning.Agent

    def spy(bundle, *arguments, **settings):
        planner = bundle.manifest.planner
        sizes.append(Size(planner.particles, planner.horizon, planner.iterations))
        return agent(bundle, *arguments, **settings)

    monkeypatch.setattr(tuning, "Agent", spy)
    measure = tuning.measure_agent(load_bundle(bundle), ControlSettings(), 1e-3, 1e-3)
    trial = measure(Size(3, 5, 2))
    assert sizes == [trial.size] == [Size(3, 5, 2)]
    assert 0 < trial.p50 <= trial.p99 <= trial.longest
