"""The controller as a process of its own, over real DDS."""

import math
import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from bench import PERIOD, STEPS, Bench, Process, short_bundle
from bundle_factory import PLANNER
from visualization_msgs.msg import MarkerArray
from waiting import PATIENCE

from hucrl_ros.controller.ticks import Source
from hucrl_ros.controller.timing import LOCKSTEP_PATIENCE
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.session import Domain

pytestmark = pytest.mark.ros

SAFE = [0.0]
CRASHING = """
import sys
from hucrl_ros.nodes.controller import main
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.control_loop import ControlLoop
act = Agent.act
def crash(self, state, *arguments, **named):
    if state[0] == 1.0:
        raise ZeroDivisionError("a bug")
    return act(self, state, *arguments, **named)
Agent.act = crash
sys.exit(main())
"""

MUTE = """
import sys
from hucrl_ros.nodes import controller
tick = controller.ControllerOutputs.tick
def crash(self, record, decided):
    if record.step == 1:
        raise ZeroDivisionError("a bug")
    tick(self, record, decided)
controller.ControllerOutputs.tick = crash
sys.exit(controller.main())
"""


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundles")
    return [short_bundle(folder / f"bundle_00{i}", episode=i) for i in (1, 2)]


@pytest.fixture(scope="module")
def shared(bundles, tmp_path_factory):
    """One controller in lockstep for many tests, and its bench."""
    with Domain() as domain, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(domain.number))
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        patch.setenv("ROS_LOG_DIR", str(tmp_path_factory.mktemp("ros_log")))
        folder = tmp_path_factory.mktemp("log")
        process = Process("controller", folder / "controller.log")
        try:
            with Bench(folder) as bench:
                bench.meet(process)
                yield bench, process
        finally:
            process.clean_up()


@pytest.fixture
def active(shared, bundles):
    """The shared controller at the start of an episode with the first bundle."""
    bench, process = shared
    bench.forget()
    bench.offer(bundles[0])  # first, or what was offered last would be loaded before it
    assert bench.transition("configure")
    assert bench.wait(lambda: bench.bundles[-1:] == [str(bundles[0])]), bench.bundles
    bench.active.clear()
    assert bench.transition("activate")
    assert bench.wait(lambda: bench.active == [True])
    bench.forget()
    process.forget()
    yield bench, process
    bench.transition("deactivate")
    assert bench.transition("cleanup")
    assert "Traceback" not in process.text()


@pytest.fixture
def start(ros_domain, tmp_path):
    """Starts a controller of one's own, configured and active."""
    processes = []
    with Bench(tmp_path) as bench:

        def start_controller(*program, **parameters):
            process = Process("controller", tmp_path / "controller.log", program, **parameters)
            processes.append(process)
            bench.meet(process)
            return bench, process

        yield start_controller
    for process in processes:
        process.clean_up()


def begin(bench):
    assert bench.transition("configure")
    assert bench.transition("activate")
    assert bench.wait(lambda: bench.active[-1])


def test_an_episode_has_one_command_and_one_tick_a_state_then_the_safe_command(active):
    bench, _ = active
    efforts = [bench.ask(position=(3.0 + 0.1 * k,))[0] for k in range(STEPS)]
    first_ns = bench.stamp_ns - round((STEPS - 1) * PERIOD * 1e9)
    assert all(abs(effort) <= 1.0 for effort in efforts)
    assert bench.active[-1] is True
    assert bench.ask() == SAFE
    assert bench.wait(lambda: bench.active[-1] is False)
    assert bench.wait(lambda: len(bench.ticks) == STEPS)
    assert [tick.step for tick in bench.ticks] == list(range(STEPS))
    assert [tick.action[0] for tick in bench.ticks] == efforts
    assert bench.ticks[0].stamp_ns == pytest.approx(first_ns, abs=STEPS)
    assert {tick.source for tick in bench.ticks} == {Source.PLANNED}
    assert all(tick.tick_ms > 0 for tick in bench.ticks)
    bench.publish()
    bench.spin_for(0.3)
    assert len(bench.commands) == STEPS + 1
    assert bench.transition("deactivate")
    bench.spin_for(0.1)
    assert len(bench.commands) == STEPS + 1, "an episode that is over needs no safe command"
    assert bench.transition("activate")
    assert bench.ask() is not None


def test_equal_seeds_and_states_give_equal_episodes(active):
    bench, _ = active
    episodes = []
    for _ in range(2):
        episodes.append([bench.ask(position=(3.0 + 0.1 * k,)) for k in range(3)])
        assert bench.transition("deactivate")
        assert bench.wait(lambda: bench.commands[-1][1] == SAFE)
        assert bench.transition("activate")
    assert episodes[0] == episodes[1]


def test_a_repeated_stamp_gets_no_answer(active):
    bench, _ = active
    assert bench.ask() is not None
    for _ in range(3):
        bench.publish(advance=0.0)
    bench.spin_for(0.2)
    assert len(bench.commands) == 1


def test_joints_may_come_in_any_order_among_others(active):
    bench, process = active
    plain = bench.ask(position=(2.0,), velocity=(1.0,))
    assert bench.transition("deactivate")
    assert bench.wait(lambda: bench.commands[-1][1] == SAFE)
    assert bench.transition("activate")
    names = ("gripper", "pendulum_joint")
    assert bench.ask(names=names, position=(math.nan, 2.0), velocity=(5.0, 1.0)) == plain
    assert bench.ask(names=names[::-1], position=(2.0, 0.0), velocity=(1.0, 0.0)) is not None
    assert bench.wait(lambda: len(process.lines("gripper")) == 1)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"names": (), "position": (), "velocity": ()}, "no joint 'pendulum_joint' among []"),
        ({"names": ("pendulum",)}, "no joint 'pendulum_joint' among ['pendulum']"),
        ({"position": (math.nan,)}, "position of joint 'pendulum_joint' is nan"),
        ({"velocity": (math.inf,)}, "velocity of joint 'pendulum_joint' is inf"),
        ({"velocity": ()}, "0 velocities for 1 joints"),
        ({"position": (1.0, 2.0)}, "2 positions for 1 joints"),
        ({"advance": -1.0}, "time runs backwards"),
    ],
    ids=["missing", "renamed", "nan", "inf", "no velocity", "two positions", "backwards"],
)
def test_a_bad_joint_state_gets_one_line_and_the_safe_command(active, bad, reason):
    bench, process = active
    assert bench.transition("deactivate")
    bench.spin_for(1.1)  # there is one line a second at most
    assert bench.transition("activate")
    bench.forget()
    assert bench.ask() is not None
    assert bench.ask(**bad) == SAFE
    assert bench.wait(lambda: len(bench.ticks) == 2)
    assert bench.ticks[-1].source == Source.SAFE
    assert bench.ask() is not None
    assert bench.wait(lambda: len(bench.ticks) == 3)
    assert bench.ticks[-1].source == Source.PLANNED
    assert bench.wait(lambda: process.lines("joint_states:"))
    (line,) = process.lines("joint_states:")
    assert reason in line


def test_many_bad_joint_states_are_counted_but_not_all_logged(active):
    bench, process = active
    for _ in range(STEPS):
        assert bench.ask(position=(math.nan,)) == SAFE
    assert bench.active[-1] is True
    assert bench.ask(position=(math.nan,)) == SAFE
    assert bench.wait(lambda: bench.active[-1] is False), "bad states must not last for ever"
    assert bench.health("controller")["bad_joint_states"] == str(STEPS + 1)
    assert len(process.lines("joint_states:")) < STEPS


def test_in_lockstep_silence_is_answered_once(active):
    bench, _ = active
    assert bench.ask() != SAFE
    assert bench.wait(lambda: len(bench.commands) == 2)
    bench.spin_for(0.3)
    assert [effort for _, effort in bench.commands[1:]] == [SAFE]


def test_in_lockstep_repetitions_are_a_sign_of_life(active):
    bench, _ = active
    assert bench.ask() != SAFE
    end = time.monotonic() + 1.2 * LOCKSTEP_PATIENCE
    while time.monotonic() < end:
        bench.publish(advance=0.0)
        bench.spin_for(0.05)
    assert len(bench.commands) == 1


def test_deactivation_in_an_episode_sends_the_safe_command(active):
    bench, _ = active
    assert bench.ask() != SAFE
    assert bench.transition("deactivate")
    assert bench.wait(lambda: len(bench.commands) == 2)
    assert bench.commands[-1][1] == SAFE
    bench.publish()
    bench.spin_for(0.2)
    assert len(bench.commands) == 2


def test_bundles_are_swapped_without_losing_a_tick(active, bundles):
    bench, _ = active
    for step in range(STEPS):
        if step == 2:
            bench.offer(bundles[1])
        if step == STEPS - 2:
            assert bench.wait(lambda: bench.bundles == [str(bundles[1])])
        assert bench.ask(position=(3.0 + 0.1 * step,)) is not None
    assert bench.ask() == SAFE
    assert bench.wait(lambda: len(bench.ticks) == STEPS)
    assert [tick.step for tick in bench.ticks] == list(range(STEPS))
    assert bench.health("controller")["bundle"] == str(bundles[1])


def test_the_name_of_a_bundle_says_the_same_in_every_folder(active, bundles):
    """The watchdog may work in another one than the controller."""
    bench, _ = active
    bench.bundles.clear()
    relative = os.path.relpath(bundles[1])
    bench.offer(relative)
    assert bench.wait(lambda: bench.bundles == [str(Path.cwd() / relative)]), bench.bundles


def test_a_refused_bundle_is_named_and_the_old_one_stays(active, bundles, tmp_path):
    bench, process = active
    broken = tmp_path / "broken"
    shutil.copytree(bundles[1], broken)
    content = bytearray((broken / "policy.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (broken / "policy.onnx").write_bytes(content)
    bench.offer(broken)
    assert bench.wait(lambda: bench.bundles[-1:])
    assert bench.bundles[-1].startswith(f"error: {broken}: policy.onnx")
    assert "\n" not in bench.bundles[-1]
    assert bench.wait(lambda: len(process.lines("policy.onnx")) == 1)
    assert bench.ask() is not None
    assert bench.health("controller")["bundle"] == str(bundles[0])


def test_a_bundle_of_another_task_is_refused(active, bundles, tmp_path):
    bench, _ = active
    other = tmp_path / "other"
    shutil.copytree(bundles[1], other)
    manifest = (other / "manifest.yaml").read_text()
    (other / "manifest.yaml").write_text(manifest.replace("task: pendulum", "task: cartpole"))
    bench.offer(other)
    assert bench.wait(lambda: bench.bundles[-1:])
    assert "made for the task 'cartpole'; this controller's is 'pendulum'" in bench.bundles[-1]


def rewrite(bundle, old, new):
    """Change a manifest, of a bundle without the networks whose results would tell."""
    path = bundle / "manifest.yaml"
    text = path.read_text()
    assert old in text
    kept = [line for line in text.replace(old, new).splitlines() if "networks.npz" not in line]
    path.write_text("\n".join(kept))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "stale_periods: 3.0",
            "stale_periods: 1e300",
            "Input should be less than or equal to 100",
        ),
        ("stale_periods: 3.0", "stale_periods: 50.0", "looser than the safety in force"),
        ("effort_limits:\n- 1.0", "effort_limits:\n- 2.0", "another robot: effort_limits"),
        ("seed: 0", "seed: 2001-13-45", "not YAML"),
    ],
)
def test_a_swap_in_mid_episode_loosens_nothing(active, bundles, tmp_path, old, new, reason):
    bench, _ = active
    shutil.copytree(bundles[1], tmp_path / "loose")
    rewrite(tmp_path / "loose", old, new)
    assert bench.ask() is not None
    bench.offer(tmp_path / "loose")
    assert bench.wait(lambda: bench.bundles[-1:])
    assert bench.bundles[-1].startswith("error: ") and reason in bench.bundles[-1]
    assert bench.ask() is not None
    assert bench.health("controller")["bundle"] == str(bundles[0])


def test_diagnostics_count_what_happened(active):
    bench, _ = active
    for _ in range(3):
        bench.ask()
    bench.ask(advance=3 * PERIOD)
    health = bench.health("controller")
    assert health["hardware_id"] == "pendulum"
    assert health["ticks"] == "4"
    assert health["ticks_planned"] == "4"
    assert health["skipped_joint_states"] == "2"
    assert float(health["tick_p99_ms"]) >= float(health["tick_p50_ms"]) > 0


def test_the_plan_is_published_while_somebody_looks(active, tmp_path):
    bench, _ = active
    # Nothing tells when the controller has found the new listener.
    bench.load(short_bundle(tmp_path / "long", 100_000, episode=3))
    plans = []
    subscription = bench.node.create_subscription(MarkerArray, "controller/plan", plans.append, 1)
    try:
        assert bench.wait(lambda: bench.node.count_publishers("controller/plan") == 1)
        assert bench.wait(lambda: bench.ask() is not None and len(plans) > 0)
    finally:
        bench.node.destroy_subscription(subscription)
    assert {marker.ns for marker in plans[0].markers} == {"optimistic", "expected"}
    assert len(plans[0].markers[0].points) == PLANNER.horizon + 1


def test_the_controller_imports_neither_torch_nor_mujoco(active):
    _, process = active
    mapped = Path(f"/proc/{process.popen.pid}/maps").read_text()
    assert "onnxruntime" in mapped
    assert "libtorch" not in mapped
    assert "libmujoco" not in mapped


def test_without_a_bundle_it_can_not_be_activated(shared):
    bench, process = shared
    process.forget()
    assert bench.transition("configure")
    # What was offered last comes again: it is latched.
    assert bench.wait(lambda: bench.bundles[-1:])
    bench.transition("cleanup")
    bench.offer("")
    bench.bundles.clear()
    assert bench.transition("configure")
    assert bench.wait(lambda: bench.bundles[-1:])
    assert not bench.transition("activate")
    assert bench.wait(lambda: process.lines("no bundle: give the parameter 'bundle'"))
    assert bench.transition("cleanup")


def test_stale_joint_states_are_answered_by_the_safe_command_every_period(start, bundles):
    many = {"planner__iterations": 1, "safety__outage_periods": 1e6}
    bench, _ = start(bundle=bundles[0], mode="real_time", **many)
    begin(bench)
    bench.publish()
    assert bench.wait(lambda: len(bench.ticks) == 1)
    count = len(bench.commands)
    assert bench.wait(lambda: len(bench.commands) >= count + 5)
    assert [effort for _, effort in bench.commands[-3:]] == [SAFE] * 3
    assert len(bench.ticks) <= 1, "there is no state that a tick could answer"
    health = bench.health("controller")
    assert int(health["stale_commands"]) >= 3
    assert "no new joint state for" in health["message"]
    bench.forget()
    assert bench.wait(lambda: bench.publish() or len(bench.ticks) >= 2), "fresh states end it"
    bench.forget()
    # A stamp that stands still is no news.
    assert bench.wait(
        lambda: bench.publish(advance=0.0) or bench.commands[-2:] == [("", SAFE)] * 2
    )


@pytest.fixture(params=["driver", "controller"])
def outage(request, start, tmp_path):
    """A controller in real time whose episode an outage has ended, and what caused it."""
    bundle = short_bundle(tmp_path / "bundle", steps=100_000)
    bench, process = start(bundle=bundle, mode="real_time", planner__iterations=1)
    begin(bench)
    assert bench.wait(lambda: bench.publish() or len(bench.ticks) >= 3)
    if request.param == "controller":
        process.popen.send_signal(signal.SIGSTOP)
        bench.spin_for(1.0)
        process.popen.send_signal(signal.SIGCONT)
        # The joint states go on meanwhile, so that only the controller has been away.
        assert bench.wait(lambda: bench.publish() or bench.active[-1] is False)
    else:
        assert bench.wait(lambda: bench.active[-1] is False)
    return bench, process, request.param


def test_an_outage_ends_the_episode_until_the_next_activation(outage):
    bench, process, cause = outage
    line = {"driver": "no new joint state for", "controller": "was held up for"}[cause]
    assert bench.wait(lambda: process.lines("outage: "))
    assert line in process.lines("outage: ")[0]
    health = bench.health("controller")
    assert health["level"] == b"\x02" and health["message"].startswith("outage: ")
    assert bench.wait(lambda: bench.commands[-1] == ("", SAFE))
    bench.forget()
    for _ in range(5):
        bench.publish()
        bench.spin_for(PERIOD)
    bench.spin_for(0.2)
    assert bench.commands == bench.ticks == [], "nothing moves"
    assert bench.transition("activate")
    assert bench.wait(lambda: bench.publish() or bench.ticks)
    assert bench.ticks[0].step == 0
    assert "Traceback" not in process.text()


def publish_and_let_hear(bench, hertz):
    """A joint state of a robot at another rate; what counts are the stamps."""
    bench.publish(advance=1 / hertz)
    bench.spin_for(0.02)


def test_joint_states_at_too_low_a_rate_are_refused_before_the_first_command(start, bundles):
    bench, process = start(bundle=bundles[0], mode="real_time")
    assert bench.transition("configure")
    for _ in range(60):
        publish_and_let_hear(bench, 50)
    assert not bench.transition("activate")
    assert bench.wait(lambda: process.lines("joint_states: one every"))
    assert bench.commands == []


def test_a_robot_that_is_silent_before_an_episode_is_measured_in_it(start, tmp_path):
    bundle = short_bundle(tmp_path / "bundle", steps=100_000)
    bench, process = start(bundle=bundle, mode="real_time", planner__iterations=1)
    begin(bench)
    assert bench.wait(lambda: publish_and_let_hear(bench, 50) or bench.active[-1] is False)
    assert bench.wait(lambda: process.lines("joint_states: one every"))
    assert bench.wait(lambda: bench.commands[-1] == ("", SAFE))


def test_an_episode_ends_even_if_no_joint_state_follows_its_last_tick(active):
    bench, _ = active
    for _ in range(STEPS):
        assert bench.ask() is not None
    assert bench.active[-1] is True
    assert bench.wait(lambda: bench.active[-1] is False)
    assert bench.wait(lambda: len(bench.commands) == STEPS + 1)
    assert bench.commands[-1][1] == SAFE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_an_episode_leaves_the_safe_command(start, bundles, number):
    bench, process = start(bundle=bundles[0])
    begin(bench)
    assert bench.ask() != SAFE
    assert process.end(number) == 0, "or launch would call it an error"
    assert bench.wait(lambda: len(bench.commands) == 2)
    assert bench.commands[-1][1] == SAFE
    assert bench.wait(lambda: bench.active[-1] is False)
    assert "Traceback" not in process.text()


def test_a_bug_in_a_tick_ends_the_episode_with_the_safe_command(start, bundles):
    bench, process = start("-c", CRASHING, bundle=bundles[0])
    begin(bench)
    assert bench.ask() != SAFE
    assert bench.ask(position=(1.0,)) == SAFE
    assert bench.wait(lambda: bench.active[-1] is False)
    assert bench.wait(lambda: process.lines("tick 1: ZeroDivisionError: a bug"))
    health = bench.health("controller")
    assert health["level"] == b"\x02"
    assert "ZeroDivisionError: a bug" in health["message"]
    bench.publish()
    bench.spin_for(0.2)
    assert len(bench.commands) == 2
    assert not bench.transition("deactivate"), "it is inactive already"
    assert bench.transition("activate")
    assert bench.ask() is not None


def test_a_bug_in_what_is_told_of_a_tick_ends_the_episode_not_the_node(start, bundles):
    bench, _ = start("-c", MUTE, bundle=bundles[0])
    begin(bench)
    assert bench.ask() != SAFE
    assert bench.ask() != SAFE, "the command leaves first"
    assert bench.wait(lambda: bench.active[-1] is False)
    assert bench.wait(lambda: bench.commands[-1][1] == SAFE)
    assert "ZeroDivisionError: a bug" in bench.health("controller")["message"]
    assert bench.transition("activate")
    assert bench.ask() is not None


def test_a_bundle_that_the_parameter_names_may_be_refused(start, tmp_path):
    bench, process = start(bundle=tmp_path / "nowhere")
    assert not bench.transition("configure")
    assert bench.wait(lambda: bench.bundles[-1:])
    assert bench.bundles[-1].startswith("error: ")
    assert bench.wait(lambda: process.lines("no such folder"))  # again where it was asked again
    assert "Traceback" not in process.text()


def test_an_unknown_parameter_is_refused_by_name(tmp_path, ros_domain):
    process = Process("controller", tmp_path / "controller.log", planner__horizons=3)
    assert process.popen.wait(PATIENCE) == 2
    assert "'planner.horizons'; did you mean 'horizon'?" in process.text()
    assert "Traceback" not in process.text()


def test_a_first_bundle_that_asks_more_than_the_run_s_robot_can_do_is_refused(start, tmp_path):
    run = prepare_run(RunOptions("pendulum", out=tmp_path / "run"))
    strong = short_bundle(run.bundle(1))
    rewrite(strong, "effort_limits:\n- 1.0", "effort_limits:\n- 10000.0")
    bench, _ = start(run=run.root, bundle=strong)
    assert not bench.transition("configure")
    assert bench.wait(lambda: bench.bundles[-1:])
    assert "effort_limits is (10000.0,) in the bundle, (1.0,) here" in bench.bundles[-1]
