"""Settings as ROS parameters: what they say of themselves, and which may change, over real DDS."""

import pytest
from bench import Bench, Process, short_bundle
from desk import Desk

from hucrl_ros.config.schema import Config, SafetySettings
from hucrl_ros.controller.admission import LIMITS

pytestmark = pytest.mark.ros

MANY_STEPS = 100_000
READ_ONLY = "Trying to set a read-only parameter: {}."


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    return [short_bundle(folder / f"bundle_00{i}", MANY_STEPS, episode=i) for i in (1, 2)]


@pytest.fixture
def bench(ros_domain, tmp_path):
    with Bench(tmp_path) as bench:
        yield bench


@pytest.fixture
def start(bench, tmp_path):
    processes = []

    def start(node, **parameters):
        processes.append(Process(node, tmp_path / f"{node}.log", **parameters))
        return processes[-1]

    yield start
    for process in processes:
        process.clean_up()
        assert "Traceback" not in process.text()


@pytest.fixture
def controller(bench, start, bundles):
    """Configured, in lockstep; given as little as possible."""
    process = start("controller", bundle=bundles[0], mode="lockstep", safety__effort_rate=0.5)
    bench.meet(process)
    assert bench.transition("configure")
    return Desk(bench, "controller")


def test_a_setting_says_what_it_means_its_range_and_whether_it_may_change(controller):
    rate = controller.describe("safety.effort_rate")
    assert rate.description.startswith("Largest change of an effort")
    assert "[limits a period]" in rate.description
    (found,) = rate.floating_point_range
    assert (found.from_value, found.to_value) == (0.0, 1000.0)
    assert not rate.read_only
    assert "stricter" in rate.additional_constraints

    mode = controller.describe("mode")
    assert mode.read_only
    assert "lockstep | real_time" in mode.additional_constraints
    budget = controller.describe("control.budget")
    assert budget.read_only and "(0, 1]" in budget.additional_constraints
    (found,) = controller.describe("seed").integer_range
    assert (found.from_value, found.to_value) == (0, 2**31 - 1)
    (found,) = controller.describe("control.threads").integer_range
    assert found.from_value == 1
    bundle = controller.describe("bundle")
    assert bundle.description and not bundle.read_only


def test_what_a_node_uses_is_listed_with_the_values_that_hold(controller, bundles):
    names = controller.names()
    assert {f"safety.{name}" for name in SafetySettings.model_fields} <= names
    assert {"task", "mode", "seed", "bundle", "control.cpus", "driver.velocity"} <= names
    assert not {name for name in names if name.startswith(("model.", "search."))}
    assert controller.value("safety.effort_rate") == 0.5, "as it was given"
    assert controller.value("planner.horizon") == 6, "as the bundle says"
    assert Config().planner.horizon != 6
    assert list(controller.value("safety.velocity_limits")) == []


def test_nobody_changes_what_is_fixed_or_comes_with_the_bundle(controller, bench, bundles):
    for name, value in (("mode", "real_time"), ("seed", 3), ("control.budget", 0.5)):
        assert controller.set(name, value) == READ_ONLY.format(name)
    for name, value in (("planner.horizon", 3), ("safety.damping", 0.5)):
        assert controller.set(name, value).startswith(f"{name}: comes with the bundle")
    assert controller.set("plannr.horizon", 3)
    assert controller.set("use_sim_time", False) == ""
    assert controller.set("bundle", str(bundles[1])) == ""
    assert bench.transition("cleanup") and bench.transition("configure")
    assert bench.wait(lambda: bench.bundles[-1:] == [str(bundles[1])])


def test_a_limit_is_tightened_for_the_next_command_and_never_loosened(controller, bench, bundles):
    assert bench.transition("activate")
    assert abs(bench.ask()[0]) <= 0.5
    sent = bench.ask()[0]
    assert controller.set("safety.effort_rate", 0.01) == ""
    for count in range(3):
        command = bench.ask()[0]
        assert abs(command - sent) <= 0.01 + 1e-12, count
        sent = command
    before = len(bench.commands)
    refused = {
        ("safety.effort_rate", 0.02): "looser than the safety in force",
        ("safety.effort_rate", 0.0): "looser than the safety in force",
        ("safety.effort_rate", -5.0): "out of range",
        ("safety.effort_rate", float("nan")): "out of range",
        ("safety.effort_limits", (0.1, 0.1)): "2 numbers, expected 1",
        ("safety.effort_limits", (-0.1,)): "greater than 0",
        ("safety.velocity_limits", (float("nan"),)): "finite",
    }
    for (name, value), reason in refused.items():
        assert reason in controller.set(name, value)
        assert "\n" not in controller.set(name, value)
    assert controller.value("safety.effort_rate") == 0.01
    assert len(bench.commands) == before, "no command of its own"
    bench.load(bundles[1])
    command = bench.ask()[0]
    assert abs(command - sent) <= 0.01 + 1e-12, "a swap loosens nothing"
    assert controller.value("safety.effort_rate") == 0.01
    assert bench.transition("deactivate") and bench.transition("activate")
    bench.forget()
    assert abs(bench.ask()[0]) <= 0.01 + 1e-12, "nor does a new episode"


def test_an_effort_limit_cuts_the_next_command(controller, bench):
    assert bench.transition("activate")
    for _ in range(4):
        bench.ask()
    assert controller.set("safety.effort_limits", [0.001]) == ""
    assert abs(bench.ask()[0]) <= 0.001


def test_the_watchdog_follows_the_controller_and_may_be_stricter(controller, bench, start):
    start("watchdog", mode="lockstep")
    watchdog = Desk(bench, "watchdog")
    assert bench.wait(lambda: bench.health("watchdog")["bundle"] != "")
    assert controller.set("safety.stale_periods", 2.5) == ""
    assert bench.wait(lambda: watchdog.value("safety.stale_periods") == 2.5)
    assert watchdog.set("safety.stale_periods", 2.0) == ""
    assert "looser" in watchdog.set("safety.stale_periods", 2.2)
    assert controller.set("safety.stale_periods", 2.2) == ""
    assert controller.set("safety.effort_limits", [0.5]) == ""
    assert bench.wait(lambda: list(watchdog.value("safety.effort_limits")) == [0.5])
    assert watchdog.value("safety.stale_periods") == 2.0, "stricter than the controller's"
    assert watchdog.set("task", "cart_pole") == READ_ONLY.format("task")


def test_a_watchdog_that_comes_late_hears_of_tightened_limits(controller, bench, start):
    assert controller.set("safety.velocity_limits", [3.0]) == ""
    start("watchdog", mode="lockstep")
    watchdog = Desk(bench, "watchdog")
    assert bench.wait(lambda: list(watchdog.value("safety.velocity_limits")) == [3.0])


def test_all_limits_may_be_tightened(controller):
    stricter = {
        "safety.position_limits": [-9.0, 9.0],
        "safety.position_margin": 0.1,
        "safety.velocity_limits": [5.0],
        "safety.effort_limits": [0.5],
        "safety.effort_rate": 0.25,
        "safety.stale_periods": 1.5,
    }
    assert set(stricter) == set(LIMITS)
    for name, value in stricter.items():
        assert "not looser" in controller.describe(name).additional_constraints
        assert controller.set(name, value) == ""
