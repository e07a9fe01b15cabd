"""The learner's thread and node: one request at a time, errors in one line, quick ends."""

import os
import threading

import pytest
from fabricated_run import fabricate_run
from manifest_factory import write_manifest
from quick_run import SETTINGS
from waiting import PATIENCE, wait_until

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.errors import LearningError
from hucrl_ros.learning.worker import NICENESS, LearningWorker

REPORT = LearningReport(model_error=0.02, predicted_return=250.0, fit_s=0.5, search_s=1.5)


class ScriptedLearner:
    """Learns as the test says; an event lets it go on from one phase to the next."""

    def __init__(self, run):
        self.run = run
        self.error = None
        self.go_on = threading.Event()
        self.prepared = threading.Event()
        self.prepared.set()
        self.initial_exports = 0
        self.niceness = None

    def __call__(self, config, run):
        return self

    def export_initial(self):
        assert self.prepared.wait(PATIENCE)
        self.initial_exports += 1
        return write_manifest(self.run.bundle(0), 0)

    def learn(self, progress):
        self.niceness = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        for phase in ("fitting", "searching"):
            for share in (0.0, 0.5):
                progress(phase, share)
                while not self.go_on.wait(0.01):
                    progress(phase, share)
        if self.error is not None:
            raise self.error
        episodes = self.run.finished_episodes()
        return write_manifest(self.run.bundle(episodes), episodes, REPORT)


@pytest.fixture
def learner(run_folder):
    return ScriptedLearner(run_folder)


@pytest.fixture
def worker(run_folder, learner):
    worker = LearningWorker(Config(), run_folder, 1, learner)
    yield worker
    assert worker.close(PATIENCE)


def finish_episode(run, index=0):
    run.bag(index).mkdir()
    (run.bag(index) / "metadata.yaml").write_text("")


def wait_for(worker, message):
    wait_until(lambda: worker.status.message == message and not worker.busy)


def test_the_first_bundle_is_written_at_the_start(worker, learner, run_folder):
    wait_for(worker, "idle")
    assert learner.initial_exports == 1
    assert run_folder.bundle(0).is_dir()


def test_a_first_bundle_that_exists_stays(run_folder, learner):
    write_manifest(run_folder.bundle(0), 0)
    worker = LearningWorker(Config(), run_folder, 1, learner)
    wait_for(worker, "idle")
    assert learner.initial_exports == 0
    assert worker.close(PATIENCE)


def test_a_first_bundle_that_another_run_gives_is_learned_on_request(run_folder, learner):
    config = Config(exploration={"random_episodes": 0})
    worker = LearningWorker(config, run_folder, 1, learner)
    wait_for(worker, "idle")
    assert learner.initial_exports == 0
    learner.go_on.set()
    worker.request()
    wait_for(worker, "done")
    assert worker.status.episode == -1
    assert worker.status.bundle == run_folder.bundle(0)
    assert worker.close(PATIENCE)


def test_it_is_busy_while_it_prepares_and_learns(learner, run_folder):
    learner.prepared.clear()
    worker = LearningWorker(Config(), run_folder, 1, learner)
    assert worker.busy
    learner.prepared.set()
    wait_for(worker, "idle")
    finish_episode(run_folder)
    worker.request()
    wait_until(lambda: worker.status.progress == 0.0)
    assert worker.busy
    assert worker.status.values == {"episode": 0, "progress": 0.0}
    learner.go_on.set()
    wait_for(worker, "done")
    assert worker.close(PATIENCE)


def test_another_strategy_begins_with_the_next_learning(learner, run_folder):
    made = []

    def make(config, run):
        made.append(config.strategy)
        return learner

    worker = LearningWorker(Config(strategy="optimistic"), run_folder, 1, make)
    wait_for(worker, "idle")
    learner.go_on.set()
    for number, strategy in enumerate(("optimistic", "greedy", "greedy")):
        finish_episode(run_folder, number)
        worker.request(Config(strategy=strategy))
        wait_for(worker, "done")
    assert made == ["optimistic", "greedy"], "made anew only where it changes"
    assert worker.close(10.0)


def test_a_finished_learning_reports_the_bundle_and_its_manifests_numbers(
    worker, learner, run_folder
):
    wait_for(worker, "idle")
    finish_episode(run_folder)
    learner.go_on.set()
    worker.request()
    wait_for(worker, "done")
    assert worker.status.values == {
        "episode": 0,
        "progress": 1.0,
        "bundle": run_folder.bundle(1),
        "model_error": 0.02,
        "promised_return": 250.0,
        "fit_s": 0.5,
        "search_s": 1.5,
    }
    assert not worker.status.failed


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="threads have no niceness here")
def test_learning_has_a_lower_priority_than_the_rest_of_the_process(worker, learner, run_folder):
    wait_for(worker, "idle")
    finish_episode(run_folder)
    learner.go_on.set()
    worker.request()
    wait_for(worker, "done")
    mine = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    assert learner.niceness == min(mine + NICENESS, 19)


class UnspeakableError(RuntimeError):
    """Of which nothing can be said, as there is no memory for it."""

    def __str__(self):
        raise MemoryError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (LearningError("loss is nan"), "loss is nan"),
        (ZeroDivisionError("by\nzero"), "ZeroDivisionError: by zero"),
        (MemoryError(), "out of memory"),
        (UnspeakableError(), "out of memory"),
    ],
)
def test_an_error_becomes_one_line_and_the_next_request_is_served(
    worker, learner, run_folder, error, line
):
    wait_for(worker, "idle")
    finish_episode(run_folder)
    learner.go_on.set()
    learner.error = error
    worker.request()
    wait_for(worker, line)
    assert worker.status.failed
    assert not run_folder.bundle(1).exists()
    learner.error = None
    worker.request()
    wait_for(worker, "done")
    assert run_folder.bundle(1).is_dir()


def test_a_failed_preparation_is_tried_again_with_the_next_request(run_folder):
    learners = [None, ScriptedLearner(run_folder)]

    def make(config, run):
        learner = learners.pop(0)
        if learner is None:
            raise LearningError("no task of that name")
        return learner

    learners[1].go_on.set()
    worker = LearningWorker(Config(), run_folder, 1, make)
    wait_for(worker, "no task of that name")
    assert worker.status.failed
    finish_episode(run_folder)
    worker.request()
    wait_for(worker, "done")
    assert worker.close(PATIENCE)


def test_closing_stops_learning_at_once_and_nothing_is_written(run_folder, learner):
    worker = LearningWorker(Config(), run_folder, 1, learner)
    wait_for(worker, "idle")
    finish_episode(run_folder)
    worker.request()
    wait_until(lambda: learner.niceness is not None)
    assert worker.close(PATIENCE)
    assert not run_folder.bundle(1).exists()


def test_a_thread_that_does_not_stop_is_told(run_folder, learner):
    blocked = threading.Event()
    learner.export_initial = blocked.wait
    worker = LearningWorker(Config(), run_folder, 1, learner)
    assert not worker.close(0.1)
    blocked.set()
    assert worker.close(PATIENCE)


# The node in a process of its own, with the real learner.


@pytest.fixture
def recorded_run(tmp_path):
    """A run with one episode and no bundle."""
    config = override(Config(), {**SETTINGS, "model.fit_steps": 10_000_000})
    groups = {name: getattr(config, name) for name in ("model", "planner", "search")}
    run = fabricate_run(tmp_path / "run", noises=(), **groups)
    run.bundle(0).rmdir()
    return run


@pytest.mark.ros
def test_the_node_learns_refuses_a_second_request_and_stops_in_mid_fit(
    ros_domain, recorded_run, tmp_path
):
    from diagnostic_msgs.msg import DiagnosticStatus
    from ros_harness import Harness, stop
    from std_srvs.srv import Trigger

    from hucrl_ros.nodes import topics
    from hucrl_ros.nodes.topics import LATCHED

    def learn():
        return harness.call(Trigger, topics.LEARN, Trigger.Request())

    with Harness(tmp_path) as harness:
        process = harness.start("learner", run=recorded_run.root)
        reports = []
        harness.node.create_subscription(
            DiagnosticStatus, topics.LEARNER_REPORT, reports.append, LATCHED
        )
        harness.spin_until(lambda: reports)
        first = learn()
        if not first.success:
            assert first.message == "busy: preparing"
            # Its thread is nice: beside busy processes it imports torch and exports for minutes.
            harness.spin_until(lambda: reports[-1].message == "idle", 600.0)
            assert learn().message == "learning from 1 episodes"
        assert recorded_run.bundle(0).is_dir()
        harness.spin_until(lambda: reports[-1].message == "fitting")
        values = {entry.key: entry.value for entry in reports[-1].values}
        assert values["episode"] == "0"
        assert float(values["progress"]) < 1.0
        answer = learn()
        assert not answer.success
        assert answer.message == "busy: fitting"
        assert stop(process) == 0, "the fit would take an hour"
        assert "Traceback" not in harness.log("learner")
    assert not recorded_run.bundle(1).exists()
    assert [path.name for path in recorded_run.bundles.iterdir()] == ["bundle_000"]


@pytest.mark.ros
def test_the_node_has_nothing_to_learn_from_without_an_episode(ros_domain, run_folder, tmp_path):
    from ros_harness import Harness
    from std_srvs.srv import Trigger

    from hucrl_ros.nodes import topics

    write_manifest(run_folder.bundle(0), 0)
    with Harness(tmp_path) as harness:
        harness.start("learner", run=run_folder.root)
        busy = True
        while busy:
            answer = harness.call(Trigger, topics.LEARN, Trigger.Request())
            busy = answer.message == "busy: preparing"
        assert not answer.success
        assert answer.message == "no finished episode to learn from"
