"""What a person may set while a run plays, over real DDS with the nodes that judge it."""

import json
import re
import shutil

import pytest
from bench import Bench, Process
from desk import Desk
from manifest_factory import write_manifest
from person import Person
from quick_run import SETTINGS, Up, quick_arguments
from remote_pair import free_port
from ros_harness import Harness
from waiting import PATIENCE, wait_until

pytest.importorskip("rclpy", reason="they are parameters of ROS 2")

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import MANIFEST, read_manifest
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.progress import Phase
from hucrl_ros.run.replay import replay
from hucrl_ros.run.summary import read_summary

pytestmark = pytest.mark.ros


@pytest.fixture
def bench(ros_domain, tmp_path):
    with Bench(tmp_path) as bench:
        yield bench


@pytest.fixture
def run(tmp_path):
    config = override(Config(strategy="optimistic"), SETTINGS, "a test")
    run = RunFolder.create(tmp_path / "run", config, describe("pendulum"))
    write_manifest(run.bundle(0), 0)
    return run


@pytest.fixture
def start(run, tmp_path):
    processes = []

    def start(node, **parameters):
        run.on_robot.touch()  # the bench is none of our simulator
        processes.append(Process(node, tmp_path / f"{node}.log", run=run.root, **parameters))
        return processes[-1]

    yield start
    for process in processes:
        process.clean_up()
        assert "Traceback" not in process.text()


def test_a_wish_that_can_not_be_noted_ends_the_run_in_one_line(bench, start, run):
    """As on a full disk: nobody shall find a traceback, or a robot that goes on."""
    supervisor = start("supervisor", remote_learner=True)
    desk = Desk(bench, "supervisor")
    assert desk.value("pause") is False
    run.summary.unlink()
    run.summary.mkdir()
    assert desk.set("pause", True) == ""
    assert supervisor.popen.wait(PATIENCE) == 1
    reason = f"{run.summary}: can't be written: Is a directory"
    assert f"before episode 0 (waiting for the nodes): {reason}" in supervisor.text().splitlines()


def told(run):
    """What the summary says of persons, by where the run stood."""
    events = json.loads(run.summary.read_text())["events"] if run.summary.is_file() else []
    parts = (event.partition(": by a person: ") for event in events)
    return [(place, line) for place, _, line in parts if line]


def test_a_wish_is_judged_at_once_and_noted(bench, start, run):
    """The supervisor, beside a learner that is to change its strategy."""
    write_manifest(run.bundle(1), 1)
    shutil.copytree(run.bundle(1), run.bundles / "foreign")
    write_manifest(run.bundle(2), 2, command="velocity")
    for number in (999, 1000):
        run.bundle(number).mkdir()
    start("supervisor", remote_learner=True)
    start("learner")
    desk, learner = Desk(bench, "supervisor"), Desk(bench, "learner")

    described = desk.describe("next.bundle")
    assert described.description.startswith("Bundle of the run that flies in the next episodes")
    assert "bundle_003, or empty" in described.additional_constraints
    assert not described.read_only
    for value, reason in {
        "bundle_005": "no such bundle",
        "foreign": "accepted: the name of one (bundle_000 to bundle_1000)",
        "../bundle_001": "no such bundle",
        7: "next.bundle = 7: accepted: the name of a folder",
        "bundle_002": "made for another robot: command is 'velocity' in the bundle",
    }.items():
        refused = desk.set("next.bundle", value)
        assert reason in refused and "\n" not in refused, value
    assert desk.set("pause", 1) == "pause = 1: accepted: true, false"
    assert desk.value("next.bundle") == "" and desk.value("pause") is False
    assert told(run) == []

    assert desk.set("next.bundle", "bundle_000") == ""
    assert desk.set("pause", True) == ""
    assert learner.set("strategy", "boldly").startswith("parameters of node 'learner': strategy")
    assert learner.set("strategy", "thompson") == ""
    assert learner.value("strategy") == "thompson"
    assert learner.describe("strategy").description.startswith("Exploration strategy")
    # Again until the supervisor has met the learner, too; what is the same is noted once.
    wait_until(lambda: learner.set("strategy", "thompson") == "" and len(told(run)) == 3)
    places, lines = zip(*told(run), strict=True)
    assert set(places) == {"before episode 0 (waiting for the nodes)"}
    assert lines == (
        "next.bundle of the supervisor = 'bundle_000'",
        "pause of the supervisor = True",
        "strategy of the learner = 'thompson'",
    )
    (run.bundle(1) / MANIFEST).unlink()
    assert "bundle_001" in desk.set("next.bundle", "bundle_001")


def test_on_another_machine_the_strategy_stays(bench, start, run):
    start("remote_learner", listen=f"127.0.0.1:{free_port()}")
    refused = Desk(bench, "learner").set("strategy", "greedy")
    assert refused.startswith(
        "strategy = 'greedy': a learner on another machine takes the settings"
    )
    assert "hucrl up --remote-learner --strategy NAME" in refused


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_person_steers_a_run_of_real_processes(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    arguments = ["pendulum", "--no-figures", "--lockstep", *quick_arguments()]
    with Up(*arguments, "--episodes", "3", out=folder) as process:
        process.wait_for_line("ROS_DOMAIN_ID")
        monkeypatch.setenv("ROS_DOMAIN_ID", re.search(r"ROS_DOMAIN_ID\D+(\d+)", process.stdout)[1])
        monkeypatch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        with Harness(tmp_path) as harness:
            person = Person(harness)
            assert person.supervisor.set("pause", True) == ""
            person.wait_for(Phase.PAUSED, 0)
            assert person.learner.set("strategy", "thompson") == ""
            refused = person.simulator.set("next.goal", [0.1, 0.2, 0.3])
            assert refused == "next.goal: the robot 'pendulum' has no goal"
            assert "no such bundle" in person.supervisor.set("next.bundle", "bundle_001")
            assert person.supervisor.set("next.bundle", "bundle_000") == ""
            assert person.commands == [], "nothing moves"
            assert person.supervisor.set("pause", False) == ""
            person.wait_for_tick(3)
            person.stop(True)
            person.wait_for(Phase.HELD, 2)
            assert list(person.commands[-1].data) == [0.0]
            assert person.supervisor.set("next.bundle", "") == ""
            person.stop(False)
        assert process.end() == 0, process.stderr
        wait_until(lambda: process.remaining() == [])
        assert "Traceback" not in process.logs
    run = process.run
    summary = read_summary(run.summary)
    assert [episode.flown for episode in summary.episodes] == [0, 0, 2]
    assert [episode.predicted_return is None for episode in summary.episodes] == [1, 1, 0]
    assert summary.episodes[1].complexity is None
    strategies = [read_manifest(run.bundle(k)).strategy for k in range(4)]
    assert strategies == ["optimistic", "thompson", "thompson", "thompson"]
    assert [line for _, line in told(run)] == [
        "pause of the supervisor = True",
        "strategy of the learner = 'thompson'",
        "next.bundle of the supervisor = 'bundle_000'",
        "pause of the supervisor = False",
        "next.bundle of the supervisor = ''",
    ]
    again = replay(run.bag(1))
    assert again.bundles == ["bundle_000"] and again.equal == again.ticks == 400
    with Up("pendulum", "--no-figures", "--resume", "--episodes", "4", out=folder) as process:
        assert process.end() == 0, process.stderr
    resumed = read_summary(run.summary)
    assert [episode.flown for episode in resumed.episodes] == [0, 0, 2, 3]
    assert resumed.episodes[:2] == summary.episodes[:2]
    assert read_manifest(run.bundle(4)).strategy == "optimistic", "as the settings say"
