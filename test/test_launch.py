"""Launch files: the node list is that of `hucrl up`; where ROS 2 is installed, they really run."""

import contextlib
import importlib.util
import inspect
import os
import runpy
import signal
import subprocess
import sys
import time
import types
from dataclasses import dataclass, field
from typing import Any

import psutil
import pytest
from foreign_process import driver
from own_robots import ARM, changed, write
from quick_run import quick_file
from remote_pair import new_run, play
from waiting import PATIENCE

from hucrl_ros.cli.runs import up
from hucrl_ros.config.files import share_directory
from hucrl_ros.errors import ConfigError, HucrlError, RunError
from hucrl_ros.run import folder
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import control_graph, learning_graph
from hucrl_ros.run.session import PARENT_VARIABLE
from hucrl_ros.run.summary import read_summary

LAUNCH = share_directory() / "launch"
HAS_ROS = all(importlib.util.find_spec(name) for name in ("launch", "launch_ros"))
needs_ros = pytest.mark.skipif(
    not HAS_ROS, reason="ROS 2's launch and launch_ros are not installed; no registry has them"
)
needs_fakes = pytest.mark.skipif(HAS_ROS, reason="the real launch is installed")


@dataclass
class Part:
    """Stands for any action, event or handler of launch: remembers what it was made of."""

    kind: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class FakeContext:
    """Launch arguments, and whether everything is ending."""

    arguments: dict[str, str]
    is_shutdown: bool = False


@dataclass
class FakeConfiguration:
    name: str

    def perform(self, context: FakeContext) -> str:
        return context.arguments[self.name]


@dataclass
class FakeLaunch:
    """Just enough of launch and launch_ros to evaluate our files."""

    modules: dict[str, types.ModuleType] = field(default_factory=dict)

    def add(self, name: str, *kinds: str, **values: object) -> None:
        module = types.ModuleType(name)
        for kind in kinds:
            setattr(module, kind, lambda *a, _kind=kind, **k: Part(_kind, a, k))
        for key, value in values.items():
            setattr(module, key, value)
        self.modules[name] = module


@pytest.fixture
def fake_launch(monkeypatch):
    fake = FakeLaunch()
    fake.add("launch", "LaunchDescription", LaunchContext=object, LaunchDescriptionEntity=object)
    fake.add(
        "launch.actions",
        "DeclareLaunchArgument",
        "EmitEvent",
        "ExecuteProcess",
        "LogInfo",
        "OpaqueFunction",
        "RegisterEventHandler",
        "Shutdown",
        "TimerAction",
    )
    fake.add("launch.event_handlers", "OnProcessStart")
    fake.add("launch.events", "matches_action")
    fake.add("launch.substitutions", LaunchConfiguration=FakeConfiguration)
    fake.add("launch_ros")
    fake.add("launch_ros.actions", "LifecycleNode", "Node")
    fake.add("launch_ros.event_handlers", "OnStateTransition")
    fake.add("launch_ros.events")
    fake.add("launch_ros.events.lifecycle", "ChangeState")
    for name, module in fake.modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    yield
    folder._HELD.close()


def declared(file: str) -> dict[str, str | None]:
    """The launch arguments of a file, and their defaults."""
    description = runpy.run_path(str(LAUNCH / file))["generate_launch_description"]()
    parts = [part for part in description.args[0] if part.kind == "DeclareLaunchArgument"]
    assert all(part.kwargs["description"] for part in parts)
    return {part.args[0]: part.kwargs.get("default_value") for part in parts}


def evaluate(file: str, is_shutdown: bool = False, **given: str) -> list[Part]:
    """What a launch file does with these arguments."""
    description = runpy.run_path(str(LAUNCH / file))["generate_launch_description"]()
    arguments = declared(file)
    assert set(given) <= set(arguments)
    arguments.update(given)
    assert None not in arguments.values()
    (start,) = [part for part in description.args[0] if part.kind == "OpaqueFunction"]
    return start.kwargs["function"](FakeContext(arguments))


def nodes_of(parts: list[Part]) -> dict[str, Part]:
    return {p.kwargs["executable"]: p for p in parts if p.kind in ("Node", "LifecycleNode")}


@needs_fakes
def test_learning_starts_exactly_the_nodes_of_the_list(fake_launch, tmp_path):
    started = nodes_of(evaluate("learn.launch.py", task="pendulum", out=str(tmp_path / "run")))
    expected = {node.name: node for node in learning_graph(RunFolder.open(tmp_path / "run"))}
    assert list(started) == list(expected)
    for name, node in started.items():
        spec = expected[name]
        assert node.kwargs["package"] == "hucrl_ros"
        assert node.kwargs["additional_env"] == {PARENT_VARIABLE: str(os.getpid())}
        assert node.kwargs["parameters"] == [dict(spec.parameters)]
        assert "name" not in node.kwargs, "nodes name themselves: remote_learner is learner"


@needs_fakes
def test_each_option_of_up_is_a_launch_argument(fake_launch):
    """But for figures, which are drawn after a run."""
    options = set(inspect.signature(up).parameters) - {"ctx", "no_figures"}
    others = {"source": "from", "settings": "set", "real_time": "mode", "lockstep": "mode"}
    assert declared("learn.launch.py").keys() == {others.get(name, name) for name in options}


@needs_fakes
def test_launch_arguments_become_the_runs_settings(fake_launch, tmp_path):
    given = {"episodes": "3", "action_penalty": "0.1", "strategy": "greedy", "seed": "5"}
    evaluate("learn.launch.py", out=str(tmp_path / "run"), mode="real_time", **given)
    config = RunFolder.open(tmp_path / "run").config
    assert (config.episodes, config.action_penalty) == (3, 0.1)
    assert (config.strategy, config.seed, config.mode) == ("greedy", 5, "real_time")


@needs_fakes
def test_launch_takes_any_setting_and_a_simulator_with_a_cheap_robots_habits(
    fake_launch, tmp_path
):
    chosen = "planner.horizon=7 safety.velocity_limits=[12.0]"
    evaluate("learn.launch.py", out=str(tmp_path / "run"), like_hardware="true", set=chosen)
    config = RunFolder.open(tmp_path / "run").config
    assert (config.mode, config.simulator.rate) == ("real_time", 500.0)
    assert (config.planner.horizon, config.safety.velocity_limits) == (7, (12.0,))


@needs_fakes
def test_launch_begins_with_another_run(fake_launch, tmp_path):
    other = new_run(tmp_path / "other")
    play(other)
    evaluate("learn.launch.py", out=str(tmp_path / "run"), **{"from": str(other.root)})
    run = RunFolder.open(tmp_path / "run")
    assert RunFolder(run.prior).finished_episodes() == 1
    assert run.config.exploration.random_episodes == 0


@needs_fakes
def test_launch_waits_for_a_learner_on_another_machine(fake_launch, tmp_path, capsys):
    address = "127.0.0.1:8699"
    parts = evaluate(
        "learn.launch.py", out=str(tmp_path / "run"), remote_learner="true", listen=address
    )
    run, started = RunFolder.open(tmp_path / "run"), nodes_of(parts)
    expected = {node.name: node for node in learning_graph(run, listen=address)}
    assert list(started) == list(expected)
    assert "remote_learner" in started and "learner" not in started
    for name, node in started.items():
        assert node.kwargs["parameters"] == [dict(expected[name].parameters)]
    assert f"hucrl learner --robot http://{address}" in capsys.readouterr().out


def evaluate_until_heard(name, **arguments):
    """Again where a busy machine lets a launch hear too little of the driver."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return evaluate(name, **arguments)
        except HucrlError as error:
            if "the robot can't be controlled" not in str(error) or time.monotonic() > end:
                raise


@needs_fakes
@pytest.mark.ros
def test_launch_looks_at_a_robot_before_it_begins(fake_launch, ros_domain, tmp_path, monkeypatch):
    monkeypatch.setattr("hucrl_ros.doctor.evidence.STARTUP_S", PATIENCE)
    given = {"out": str(tmp_path / "run"), "no_simulator": "true"}
    with pytest.raises(HucrlError, match="something has to limit it"):
        evaluate("learn.launch.py", **given)
    given["set"] = "safety.velocity_limits=[100.0]"
    with pytest.raises(HucrlError, match="nobody publishes on /joint_states"):
        evaluate("learn.launch.py", **given)
    assert not (tmp_path / "run").exists()
    with driver():
        started = nodes_of(evaluate_until_heard("learn.launch.py", **given))
    run = RunFolder.open(tmp_path / "run")
    assert list(started) == [node.name for node in learning_graph(run, simulated=False)]
    assert run.on_robot.exists()
    assert run.config.mode == "real_time"


@needs_fakes
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"mode": "nonsense"}, "mode = 'nonsense'"),
        ({"mode": "lockstep", "like_hardware": "true"}, "--like-hardware: hardware doesn't wait"),
        ({"no_simulator": "true", "like_hardware": "true"}, "--like-hardware: it is about"),
        ({"listen": "0.0.0.0:1"}, "--listen: nobody is waited for"),
        ({"from": "nothing"}, "--from nothing: no run lies there"),
        ({"set": "planner.horizon"}, "expected KEY=VALUE"),
    ],
)
def test_what_does_not_go_together_is_refused(fake_launch, tmp_path, given, said):
    with pytest.raises(HucrlError, match=said):
        evaluate("learn.launch.py", out=str(tmp_path / "run"), **given)
    assert not (tmp_path / "run").exists()


@needs_fakes
def test_launch_shows_a_page_only_where_it_is_wished(fake_launch, tmp_path):
    out = tmp_path / "run"
    alone = evaluate("learn.launch.py", out=str(out))
    folder._HELD.close()
    watched = evaluate("learn.launch.py", out=str(out), resume="true", watch="true")
    assert [part.kind for part in watched] == [*(part.kind for part in alone), "ExecuteProcess"]
    page = watched[-1].kwargs
    assert page["additional_env"] == {PARENT_VARIABLE: str(os.getpid())}
    # Its end isn't the launch's: a run needs no page.
    assert "on_exit" not in page
    done = subprocess.run(
        [*page["cmd"], "--host", "192.0.2.1"],  # no machine's address, so it ends at once
        env={**os.environ, "PYTHONPATH": _with_checkout()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.startswith("hucrl watch: --host 192.0.2.1 --port 8080: "), done


@needs_fakes
def test_launch_resumes_a_run(fake_launch, tmp_path):
    evaluate("learn.launch.py", out=str(tmp_path / "run"), seed="5")
    folder._HELD.close()  # as at the end of the first launch
    evaluate("learn.launch.py", out=str(tmp_path / "run"), resume="true")
    with pytest.raises(HucrlError, match="--resume"):
        evaluate("learn.launch.py", out=str(tmp_path / "run"))


@needs_fakes
def test_two_launches_do_not_play_the_same_run(fake_launch, tmp_path):
    evaluate("learn.launch.py", out=str(tmp_path / "run"))
    with pytest.raises(HucrlError, match="is playing this run"):
        evaluate("learn.launch.py", out=str(tmp_path / "run"), resume="true")


@needs_fakes
def test_the_end_of_who_decides_or_commands_ends_the_launch_and_only_once(fake_launch, tmp_path):
    started = nodes_of(evaluate("learn.launch.py", out=str(tmp_path / "run")))
    ends = {name: n.kwargs["on_exit"] for name, n in started.items() if n.kwargs["on_exit"]}
    assert list(ends) == ["watchdog", "controller", "supervisor"]
    for name, end in ends.items():
        react = end.kwargs["function"]
        (part,) = react(FakeContext({}))
        if name == "controller":  # the watchdog sends the safe command first
            assert part.kind == "TimerAction" and part.kwargs["period"] >= 1.0
            (part,) = part.kwargs["actions"]
        assert (part.kind, part.kwargs["reason"]) == ("Shutdown", f"{name} has ended")
        assert react(FakeContext({}, is_shutdown=True)) == []


@needs_fakes
@pytest.mark.parametrize(("wished", "got"), [(None, "LOCALHOST"), ("SUBNET", "SUBNET")])
def test_nobody_in_the_network_hears_a_launch_unless_it_is_wished(
    fake_launch, tmp_path, monkeypatch, wished, got
):
    variable = "ROS_AUTOMATIC_DISCOVERY_RANGE"
    monkeypatch.setenv(variable, wished or "")  # so that it is put back
    if wished is None:
        monkeypatch.delenv(variable)
    evaluate("learn.launch.py", out=str(tmp_path / "run"))
    assert os.environ[variable] == got


@needs_fakes
def test_a_wrong_launch_argument_is_refused_by_name(fake_launch, tmp_path):
    with pytest.raises(HucrlError, match="episodes = 0"):
        evaluate("learn.launch.py", out=str(tmp_path / "run"), episodes="0")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    from bundle_factory import write_bundle

    return write_bundle(tmp_path_factory.mktemp("bundles") / "bundle_001")


@needs_fakes
def test_controlling_starts_exactly_the_nodes_of_the_list(fake_launch, bundle):
    started = nodes_of(evaluate("control.launch.py", bundle=str(bundle), commands="/robot/cmd"))
    remappings = {"controller/commands": "/robot/cmd"}
    expected = control_graph(bundle, "pendulum", remappings=remappings)
    assert list(started) == [node.name for node in expected]
    for spec in expected:
        assert started[spec.name].kwargs["parameters"] == [dict(spec.parameters)]
        own = started[spec.name].kwargs["additional_env"]
        assert own == {PARENT_VARIABLE: str(os.getpid())}
        assert dict(started[spec.name].kwargs["remappings"]) == remappings


@needs_fakes
def test_topics_are_called_as_the_robots_description_says(fake_launch, bundle, tmp_path):
    robot = write(tmp_path, changed(ARM, topics={"joint_states": "/arm/js", "commands": "/arm/c"}))
    words = {"bundle": str(bundle), "robot": str(robot), "commands": "/typed"}
    for node in nodes_of(evaluate("control.launch.py", **words)).values():
        remappings = dict(node.kwargs["remappings"])
        assert remappings == {"joint_states": "/arm/js", "controller/commands": "/typed"}


@needs_fakes
def test_recording_adds_the_recorder_again_and_again(fake_launch, bundle, tmp_path):
    words = {"bundle": str(bundle), "record": str(tmp_path / "log")}
    for _ in range(2):
        with contextlib.ExitStack() as held, pytest.MonkeyPatch.context() as patch:
            patch.setattr("hucrl_ros.run.folder._HELD", held)
            assert "recorder" in nodes_of(evaluate("control.launch.py", **words))
            with pytest.raises(RunError, match="is playing this run"):
                evaluate("control.launch.py", **words)
        RunFolder(tmp_path / "log").bag(1).mkdir(exist_ok=True)  # the first was deleted


@needs_fakes
@pytest.mark.parametrize(
    ("file", "given", "line"),
    [
        ("learn.launch.py", {"no_simulator": "yes"}, "no_simulator:=yes: expected true or false"),
        ("learn.launch.py", {"strategy": "["}, "strategy:=.*not YAML"),
        ("learn.launch.py", {"set": "'"}, "set:=': No closing quotation"),
        ("control.launch.py", {"activate": "on"}, "activate:=on: expected true or false"),
    ],
)
def test_what_is_not_understood_starts_nothing(fake_launch, bundle, tmp_path, file, given, line):
    words = (
        {"bundle": str(bundle)} if file == "control.launch.py" else {"out": str(tmp_path / "r")}
    )
    with pytest.raises(ConfigError, match=line):
        evaluate(file, **words, **given)
    assert not (tmp_path / "r").exists()


@needs_fakes
@pytest.mark.parametrize(("activate", "handlers"), [("", 1), ("true", 2)])
def test_the_controller_is_activated_only_on_request(fake_launch, bundle, activate, handlers):
    parts = evaluate("control.launch.py", bundle=str(bundle), activate=activate)
    assert [p.kind for p in parts].count("RegisterEventHandler") == handlers
    assert nodes_of(parts)["controller"].kind == "LifecycleNode"


@needs_fakes
def test_what_is_no_bundle_is_refused_by_name(fake_launch, tmp_path):
    with pytest.raises(HucrlError, match="not a bundle"):
        evaluate("control.launch.py", bundle=str(tmp_path / "nothing"))


@needs_ros
@pytest.mark.ros
@pytest.mark.slow
def test_launch_teaches_the_pendulum_and_ends_by_itself(ros_domain, tmp_path):
    run = tmp_path / "run"
    config = quick_file(tmp_path / "quick.yaml")
    arguments = [f"out:={run}", "episodes:=2", f"config:={config}"]
    done = subprocess.run(
        ["ros2", "launch", str(LAUNCH / "learn.launch.py"), *arguments],
        env={**os.environ, "PYTHONPATH": _with_checkout()},
        capture_output=True,
        text=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(read_summary(run / "summary.json").episodes) == 2


@needs_ros
@pytest.mark.ros
def test_ctrl_c_ends_a_launch_with_all_its_nodes(ros_domain, tmp_path):
    process = subprocess.Popen(
        ["ros2", "launch", str(LAUNCH / "learn.launch.py"), f"out:={tmp_path / 'run'}"],
        env={**os.environ, "PYTHONPATH": _with_checkout()},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    for line in process.stdout:
        if "waiting for the nodes" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


LAUNCHER = """
import os, subprocess, sys, time
from hucrl_ros.run.session import PARENT_VARIABLE
variables = {**os.environ, PARENT_VARIABLE: str(os.getpid())}  # as the launch files give it
node = subprocess.Popen(sys.argv[1:], env=variables, start_new_session=True)
print(node.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.ros
def test_a_killed_launch_leaves_no_nodes(ros_domain, bundle):
    for spec in control_graph(bundle, "pendulum"):
        launcher = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, *spec.command],
            env={**os.environ, "PYTHONPATH": _with_checkout()},
            stdout=subprocess.PIPE,
            text=True,
        )
        node = psutil.Process(int(launcher.stdout.readline()))
        try:
            assert node.is_running()
            launcher.kill()
            launcher.wait()
            assert psutil.wait_procs([node], timeout=PATIENCE)[1] == []
        finally:
            if node.is_running():
                node.kill()


def _with_checkout() -> str:
    return os.pathsep.join([str(share_directory()), os.environ.get("PYTHONPATH", "")])
