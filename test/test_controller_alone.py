"""An episode of the controller, message by message, without ROS."""

import os
import shutil

import pytest

pytest.importorskip("rclpy", reason="the controller is a node of ROS 2")

from bench import STEPS, short_bundle
from lone_node import alone
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64MultiArray, String
from test_trust import KEY

from hucrl_ros.controller import examiner
from hucrl_ros.controller.bundle import bundle_digest
from hucrl_ros.controller.setup import Setup
from hucrl_ros.controller.surprise import Level
from hucrl_ros.errors import RunError
from hucrl_ros.nodes import controller as module
from hucrl_ros.nodes.controller_topics import to_tick
from hucrl_ros.nodes.process_liveness import ProcessLiveness, ProcessWatcher, liveness_name

SUCCESS, FAILURE = TransitionCallbackReturn.SUCCESS, TransitionCallbackReturn.FAILURE
PERIOD_NS = 12_500_000


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    return [short_bundle(folder / f"bundle_00{i}", episode=i) for i in (1, 2)]


class Bench:
    """A controller, and what a robot says to it."""

    def __init__(self, node):
        self.node, self.stamp_ns = node, 10**9

    def state(self, position=0.1, velocity=0.2):
        self.stamp_ns += PERIOD_NS
        message = JointState(name=["pendulum_joint"], position=[position], velocity=[velocity])
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(self.stamp_ns, 10**9)
        self.node.heard["joint_states"](message)

    def offer(self, bundle):
        self.node.heard["bundle"](String(data=str(bundle)))
        self.node._slot._loader._future.result()

    @property
    def commands(self):
        return [list(message.data) for message in self.node.sent["controller/commands"]]

    @property
    def ticks(self):
        return [to_tick(message) for message in self.node.sent["controller/ticks"]]

    @property
    def active(self):
        return [message.data for message in self.node.sent["controller/active"]]

    @property
    def loaded(self):
        return [message.data for message in self.node.sent["controller/bundle"]]


@pytest.fixture
def bench(bundles):
    with alone(module.Controller, mode="lockstep", bundle=str(bundles[0])) as node:
        assert node.on_configure(None) is SUCCESS
        yield Bench(node)


def test_an_episode_has_a_command_and_a_tick_a_state_then_zero(bench, bundles):
    assert bench.loaded == [str(bundles[0])]
    bench.state()
    assert bench.commands == [], "not before the episode"
    assert bench.node.on_activate(None) is SUCCESS
    for _ in range(STEPS + 1):
        bench.state()
    assert [tick.step for tick in bench.ticks] == list(range(STEPS))
    assert bench.commands == [*(list(tick.action) for tick in bench.ticks), [0.0]]
    assert bench.active == [False, True, False]
    assert bench.node._health().values["ticks_planned"] == STEPS


def test_equal_seeds_and_states_give_equal_episodes(bench):
    for _ in range(2):
        bench.node.on_activate(None)
        for _ in range(STEPS + 1):
            bench.state()
    assert bench.commands[: STEPS + 1] == bench.commands[STEPS + 1 :]


def test_a_bad_joint_state_is_answered_by_zero_and_told_once(bench):
    bench.node.on_activate(None)
    bench.state()
    bench.state(velocity=float("nan"))
    assert bench.commands[1] == [0.0]
    health = bench.node._health()
    assert health.level is module.Level.WARN
    assert "velocity of joint 'pendulum_joint' is nan" in health.message
    assert bench.node._health().level is module.Level.OK


def test_a_bundle_is_swapped_between_two_ticks(bench, bundles):
    bench.node.on_activate(None)
    for _ in range(3):
        bench.state()
    bench.offer(bundles[1])
    for _ in range(STEPS - 2):
        bench.state()
    assert bench.loaded == list(map(str, bundles))
    assert [tick.step for tick in bench.ticks] == list(range(STEPS))
    assert bench.active[-1] is False


def test_what_ticks_are_computed_with_is_told_when_it_changes(bench, bundles):
    bench.node.on_activate(None)
    for _ in range(3):
        bench.state()
    bench.offer(bundles[1])
    for _ in range(2):
        bench.state()
    bench.node._tighten({"safety.effort_rate": 0.5})
    told = [Setup.model_validate_json(m.data) for m in bench.node.sent["controller/setup"]]
    assert [(setup.step, setup.since) for setup in told] == [(0, 0), (4, 4), (5, 4)]
    assert [setup.bundle for setup in told] == ["bundle_001", "bundle_002", "bundle_002"]
    assert [setup.sha256 for setup in told] == [
        bundle_digest(bundles[0]),
        *[bundle_digest(bundles[1])] * 2,
    ]
    assert [setup.safety.effort_rate for setup in told] == [0.0, 0.0, 0.5]


def test_a_refused_bundle_is_named_and_the_old_one_plays_on(bench, tmp_path):
    bench.node.on_activate(None)
    bench.offer(tmp_path / "nowhere")
    bench.state()
    bench.state()
    assert len(bench.ticks) == 2
    assert bench.loaded[-1].startswith(f"error: {tmp_path / 'nowhere'}: not a bundle")


@pytest.mark.parametrize("place", ["command", "telemetry"])
def test_a_bug_in_a_tick_ends_the_episode_with_zero(bench, monkeypatch, place):
    bench.node.on_activate(None)
    bench.state()

    def crash(*unused, **named):
        raise ZeroDivisionError("a bug")

    if place == "command":
        monkeypatch.setattr(bench.node._loop.player, "act", crash)
    else:
        monkeypatch.setattr(bench.node._outputs, "tick", crash)
    bench.state()
    assert bench.commands[-1] == [0.0]
    assert bench.active[-1] is False
    said = bench.node.sent["/diagnostics"][-1].status[0]
    assert said.message.endswith(": ZeroDivisionError: a bug")
    bench.state()
    assert len(bench.ticks) == 1


def test_too_much_surprise_ends_the_episode_with_the_safe_command(bench, monkeypatch):
    bench.node.on_activate(None)
    bench.state()
    surprise = bench.node._loop.player.surprise
    monkeypatch.setattr(type(surprise), "level", Level.ALARMED)
    surprise._means[:] = 36.0
    bench.state()
    assert bench.commands[-1] == [0.0]
    assert len(bench.commands) == 2, "one for each state"
    assert bench.active[-1] is False
    said = bench.node.sent["/diagnostics"][-1].status[0]
    assert said.level == b"\x02"
    assert said.message.startswith("surprise: position of joint 'pendulum_joint' was 6.0 standard")
    told = {entry.key: entry.value for entry in said.values}
    assert {"surprise", "surprise_level", "wary"} <= set(told)
    bench.state()
    assert len(bench.ticks) == 1


def test_in_lockstep_silence_is_answered_once(bench, monkeypatch):
    bench.node.on_activate(None)
    bench.state()
    bench.node._on_silence(5.0)
    assert bench.commands[-1] == [0.0]
    assert bench.node._health().message == (
        "no new joint state for 5000 ms; sending the safe command"
    )
    for _ in range(STEPS - 1):
        bench.state()
    assert bench.active[-1] is True, "the state after the last command is still to come"
    bench.node._on_silence(5.0)
    assert bench.active[-1] is False


def test_without_a_bundle_there_is_no_episode(bundles, tmp_path):
    with alone(module.Controller, mode="lockstep") as node:
        assert node.on_configure(None) is SUCCESS
        assert node.on_activate(None) is FAILURE
        assert node._health().message.startswith("no bundle: give the parameter 'bundle'")
        assert node.sent["controller/commands"] == []
    with alone(module.Controller, bundle=str(tmp_path)) as node:
        assert node.on_configure(None) is FAILURE
        assert "error: " in node.sent["controller/bundle"][-1].data


HOSTILE = """
import time
from hucrl_ros.controller import examiner
load = examiner.load_bundle
def load_bundle(path, **known):
    if path.name == "endless":
        time.sleep(3600)
    return load(path, **known)
examiner.load_bundle = load_bundle
examiner.main()
"""


def test_a_bundle_that_never_ends_holds_up_neither_ticks_nor_the_next_one(
    bundles, tmp_path, monkeypatch
):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", HOSTILE))
    (tmp_path / "endless").symlink_to(bundles[1])
    with alone(module.Controller, mode="lockstep", bundle=str(bundles[0])) as node:
        assert node.on_configure(None) is SUCCESS
        bench = Bench(node)
        node.on_activate(None)
        node.heard["bundle"](String(data=str(tmp_path / "endless")))
        for _ in range(3):
            bench.state()
        assert len(bench.ticks) == 3 and bench.loaded == [str(bundles[0])]
        bench.offer(bundles[1])
        bench.state()
        bench.state()
        assert bench.loaded == list(map(str, bundles))


def test_what_was_changed_after_it_was_examined_is_not_loaded(bench, bundles, tmp_path):
    bad = tmp_path / "bundle_003"
    shutil.copytree(bundles[1], bad)
    examine = bench.node._slot._examiner.examine

    def examine_then_change(path):
        found = examine(path)
        (path / "policy.onnx").write_bytes((path / "critic.onnx").read_bytes())
        return found

    bench.node._slot._examiner.examine = examine_then_change
    bench.offer(bad)
    bench.node.on_activate(None)
    bench.state()
    assert "policy.onnx was changed: its SHA-256 is" in bench.loaded[-1]


def test_a_manifest_that_is_changed_after_it_was_examined_says_nothing(bench, bundles, tmp_path):
    bad = tmp_path / "bundle_003"
    shutil.copytree(bundles[1], bad)
    examine = bench.node._slot._examiner.examine

    def examine_then_change(path):
        found = examine(path)
        manifest = path / "manifest.yaml"
        manifest.write_text(manifest.read_text().replace("stale_periods: 3.0", "stale_periods: 9"))
        return found

    bench.node._slot._examiner.examine = examine_then_change
    bench.offer(bad)
    bench.node.on_activate(None)
    bench.state()
    assert bench.loaded[-1] == str(bad)
    assert bench.node._loop.guard.safety.stale_periods == 3.0


def test_outside_of_the_root_folder_and_without_a_signature_bundles_are_refused(bundles, tmp_path):
    (tmp_path / "inside").mkdir()
    for setting, line in (
        ({"control__bundle_root": str(tmp_path / "inside")}, "not inside"),
        ({"control__trusted_keys": [KEY]}, "sign"),
    ):
        with alone(module.Controller, bundle=str(bundles[0]), **setting) as node:
            assert node.on_configure(None) is FAILURE
            (said,) = (message.data for message in node.sent["controller/bundle"])
            assert said.startswith("error: ") and line in said and "\n" not in said


def test_a_forgotten_bundle_plays_no_more(bench):
    bench.node.on_activate(None)
    bench.state()
    assert bench.node.on_cleanup(None) is SUCCESS
    assert bench.commands[-1] == [0.0]
    assert bench.node.on_activate(None) is FAILURE


def test_the_plan_is_published_while_somebody_looks(bench):
    bench.node.on_activate(None)
    bench.state()
    bench.state()
    (plan,) = bench.node.sent["controller/plan"]
    assert [marker.ns for marker in plan.markers] == ["optimistic", "expected"]
    assert len({len(marker.points) for marker in plan.markers}) == 1
    first = plan.markers[0].points[0]
    assert (first.x, first.y) == pytest.approx((0.1, 0.2), abs=1e-6)


def test_real_time_rates_are_measured_before_the_first_command(bundles):
    with alone(module.Controller, mode="real_time", bundle=str(bundles[0])) as node:
        node.on_configure(None)
        bench = Bench(node)
        for _ in range(30):
            bench.stamp_ns += PERIOD_NS  # every second one is missing, all the time
            bench.state()
        assert node.on_activate(None) is FAILURE
        assert "the control period is 12.5 ms (80 Hz)" in node._health().message
        assert node.sent["controller/commands"] == []


def test_the_rate_limit_goes_on_from_what_the_watchdog_has_sent(bundles):
    rate = {"safety__effort_rate": 0.001}
    bundle = str(bundles[0])
    with alone(module.Controller, mode="lockstep", bundle=bundle, **rate) as node:
        node.on_configure(None)
        watchdog = ProcessWatcher(liveness_name(os.getpid(), "/controller/active"))
        assert watchdog.connect()
        node.ring(module.GREETING)
        node.on_activate(None)
        bench = Bench(node)
        bench.state()
        for topic, effort in (("controller/commands", 0.5), ("other", 0.9)):
            watchdog.tell(topic, serialize_message(Float64MultiArray(data=[effort])))
        bench.state()
        watchdog.close()
        assert bench.commands[1] == [pytest.approx(0.5, abs=0.0011)]


def test_in_real_time_it_does_not_start_where_another_is_watched_in_its_place():
    other = ProcessLiveness(liveness_name(os.getpid(), "/controller/active"))
    with (
        pytest.raises(RunError, match="by which the watchdog knows the controller"),
        alone(module.Controller, mode="real_time"),
    ):
        pass
    with alone(module.Controller, mode="lockstep"):
        pass  # nobody is in danger
    other.close()
    for _ in range(2):  # one after the other
        with alone(module.Controller, mode="real_time"):
            pass


def test_whoever_stops_it_ends_the_episode_and_keeps_it_from_another(bench):
    assert bench.node.on_activate(None) is SUCCESS
    bench.state()
    bench.state()
    bench.node.heard["stop"](Bool(data=True))
    assert bench.active == [False, True, False] and bench.commands[-1] == [0.0]
    health = bench.node._health()
    assert health.message == "outage: stopped on the topic '/stop'"
    sent = len(bench.commands)
    bench.state()
    assert len(bench.commands) == sent
    bench.node.on_deactivate(None)
    assert bench.node.on_activate(None) is FAILURE
    assert bench.node._health().message == "stopped on the topic '/stop'"
    bench.node.heard["stop"](Bool(data=False))
    assert len(bench.commands) == sent, "it is let go on, and nothing moves yet"
    assert bench.node.on_activate(None) is SUCCESS
