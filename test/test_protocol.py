"""The order of things in a run, and what is said when something doesn't come. No ROS graph."""

import shutil
from io import StringIO
from types import SimpleNamespace

import pytest
from fabricated_run import play_random, record
from lone_node import alone
from manifest_factory import write_manifest

pytest.importorskip("lifecycle_msgs", reason="the protocol speaks in ROS 2's service types")

import numpy as np
from lifecycle_msgs.msg import Transition

from hucrl_ros.config.schema import Config, DriverSettings
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.controller.ticks import TickRecord
from hucrl_ros.errors import HucrlError, RunError
from hucrl_ros.nodes import protocol, readiness
from hucrl_ros.nodes.node_clients import LearnerReport
from hucrl_ros.nodes.protocol import Protocol
from hucrl_ros.nodes.steering import Steering
from hucrl_ros.nodes.supervisor import Supervisor
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.live_view import LineView
from hucrl_ros.run.progress import EpisodeMonitor, Phase, Progress, describe_episode
from hucrl_ros.run.summary import read_summary
from hucrl_ros.run.summary_writer import Ledger
from hucrl_ros.tasks import make_task

TRANSITIONS = {
    Transition.TRANSITION_CONFIGURE: "configure",
    Transition.TRANSITION_ACTIVATE: "activate",
    Transition.TRANSITION_DEACTIVATE: "deactivate",
}
TICK = TickRecord(0, 0, 0, 1.0, 0, False, False, False, 1, 0.0, 0.0, 0.0, 0.0, 1.0, (0.0,))


class Answered:
    """A future that has its result."""

    def __init__(self, result):
        self._result = result

    def done(self):
        return True

    def result(self):
        return self._result


class ResetClient(str):
    """Its name, and whether it is there."""


class Robot:
    """All other nodes, which do at once what they are asked to, unless the test spoils it."""

    def __init__(self, run, monitor):
        self.run, self.monitor = run, monitor
        self.log = []
        self.absent = []
        self.refused = {}
        self.active, self.stops, self.stopped = False, 0, False
        self.activity_count = self.loaded_count = 0
        self.loaded = None
        self.report = LearnerReport("idle", False)
        self.early_ends = []
        """What ends each episode early, one after the other."""
        self._failure = ""
        self.played_steps = 400
        self.reset_gone = False
        self.bundle_error = ""
        self.learning_error = ""
        self.reset = ResetClient("reset")
        self.reset.service_is_ready = lambda: not self.reset_gone
        self.home = ResetClient("home")
        self.home.service_is_ready = lambda: True
        self.record, self.learn, self.change_state = "record", "learn", "state"

    @property
    def stopped(self):
        return self._stopped

    @stopped.setter
    def stopped(self, stopped):
        self._stopped = stopped
        self.stops += stopped

    def hold(self):
        self.stopped = True

    def missing(self):
        return self.absent

    def trouble(self, name):
        return "tick 7: it itches" if name == "controller" else ""

    def failure(self, name):
        return self._failure if name == "controller" else ""

    def forgive(self, name):
        pass

    def publish_bundle(self, path):
        self.log.append(path.rpartition("/")[2])
        self.loaded_count += 1
        self.loaded = f"error: {self.bundle_error}" if self.bundle_error else path

    def call(self, client, request):
        name = client
        if client == "record":
            name = f"record {request.data}"
        elif client == "state":
            name = TRANSITIONS[request.transition.id]
        self.log.append(name)
        message = self.refused.get(name, "")
        if not message:
            {"activate": self._play, "record False": self._save, "learn": self._learn}.get(
                name, lambda: None
            )()
        if name == "reset" and self.reset_gone:
            return SimpleNamespace(done=lambda: False)
        return Answered(SimpleNamespace(success=not message, message=message))

    def _play(self):
        self.activity_count += 2
        self._failure = self.early_ends.pop(0) if self.early_ends else ""
        for step in range(30 if self._failure else self.played_steps):
            self.monitor.see_tick(TICK._replace(step=step))

    def _save(self):
        rng = np.random.default_rng(0)
        bag = self.run.bag(self.run.finished_episodes())
        record(bag, *play_random(rng), np.ones(400), self.loaded)

    def _learn(self):
        episodes = self.run.finished_episodes()
        if self.learning_error:
            self.report = LearnerReport(self.learning_error, True)
            return
        report = LearningReport(model_error=0.01, predicted_return=200.0, fit_s=1.0, search_s=2.0)
        write_manifest(self.run.bundle(episodes), episodes, report)
        self.report = LearnerReport("done", False, {"episode": str(episodes - 1)})


class Stage:
    """A protocol, what it speaks to, and what it keeps."""

    def __init__(self, run):
        config = run.config
        task = make_task("pendulum", 0.2)
        self.run = run
        self.monitor = EpisodeMonitor(task)
        self.robot = Robot(run, self.monitor)
        self.ledger = Ledger(run, config, task)
        self.progress = Progress(config, steps=task.steps)
        self.progress.finished = list(self.ledger.episodes)
        self.steering = Steering()
        self.protocol = Protocol(
            run,
            config,
            self.robot,
            self.ledger,
            self.monitor,
            self.progress,
            self.steering,
        )

    def play(self):
        """Go on to the end; what never comes is complained about at once."""
        for wait in self.protocol.script():
            if not wait.ready():
                raise RunError(f"{self.protocol.place}: {wait.complaint()}")


@pytest.fixture
def stage(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config(episodes=2))
    write_manifest(run.bundle(0), 0)
    return Stage(run)


EPISODE = ["record True", "reset", "activate", "deactivate", "record False"]


def test_a_run_keeps_the_order_of_the_contract(stage):
    stage.play()
    assert stage.robot.log == [
        "configure",
        "bundle_000",
        *EPISODE,
        "learn",
        "bundle_001",
        *EPISODE,
        "learn",
    ]
    assert stage.progress.phase is Phase.FINISHED
    assert [episode.index for episode in stage.ledger.episodes] == [0, 1]
    assert stage.progress.model_errors == {0: 0.01, 1: 0.01}
    assert [episode.fit_s for episode in stage.progress.finished] == [1.0, 1.0]


def test_a_resumed_run_learns_first_where_the_bundle_is_missing(stage):
    stage.play()
    shutil.rmtree(stage.run.bag(1))
    shutil.rmtree(stage.run.bundle(2))
    shutil.rmtree(stage.run.bundle(1))
    again = Stage(stage.run)
    again.play()
    assert again.robot.log == ["configure", "learn", "bundle_001", *EPISODE, "learn"]


def test_a_resumed_run_whose_last_bundle_is_missing_only_learns(stage):
    stage.play()
    shutil.rmtree(stage.run.bundle(2))
    again = Stage(stage.run)
    again.play()
    assert again.robot.log == ["configure", "learn"]


def test_a_controller_left_active_by_another_supervisor_is_deactivated_first(stage):
    stage.robot.active = True
    with pytest.raises(HucrlError):
        stage.play()
    assert stage.robot.log[:2] == ["deactivate", "configure"]


def test_a_controller_that_is_configured_already_is_used_as_it_is(stage):
    stage.robot.refused["configure"] = "already inactive"
    stage.play()
    assert len(stage.ledger.episodes) == 2


def complaint_of(stage):
    with pytest.raises(HucrlError) as caught:
        stage.play()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_missing_nodes_are_named(stage):
    stage.robot.absent = ["recorder", "learner"]
    assert "no sign of the recorder and the learner for 120 s" in complaint_of(stage)
    assert stage.progress.detail == "recorder, learner"


def test_a_learner_that_fails_at_the_start_is_quoted(stage):
    stage.robot.report = LearnerReport("disk full", True)
    assert complaint_of(stage) == "learner: disk full"


def test_a_learner_that_fails_is_quoted_and_the_episode_stays(stage):
    stage.robot.learning_error = "loss is nan"
    assert complaint_of(stage) == "learner: loss is nan"
    assert stage.protocol.place == "learning from episode 0"
    assert len(stage.ledger.episodes) == 1


def test_a_learner_that_is_busy_is_quoted(stage):
    stage.robot.refused["learn"] = "busy: fitting"
    assert complaint_of(stage) == "learner: busy: fitting"


def test_the_report_of_an_earlier_episode_is_not_taken_for_this_ones(stage):
    stage.robot._learn = lambda: None
    stage.robot.report = LearnerReport("done", False, {"episode": "7"})
    assert "learner: no bundle" in complaint_of(stage)


def test_a_refused_bundle_is_quoted(stage):
    stage.robot.bundle_error = "bundle_000: policy.onnx: SHA-256 differs"
    assert complaint_of(stage) == "controller: bundle_000: policy.onnx: SHA-256 differs"


def test_a_controller_whose_answer_was_lost_is_asked_again(stage, monkeypatch):
    monkeypatch.setattr(readiness, "LOAD_S", 0.0)
    robot, publish = stage.robot, stage.robot.publish_bundle

    def lose_the_first_answer(path):
        before = robot.loaded, robot.loaded_count
        publish(path)
        if robot.log.count("bundle_000") == 1:
            robot.loaded, robot.loaded_count = before

    robot.publish_bundle = lose_the_first_answer
    stage.play()
    assert robot.log.count("bundle_000") == 2
    assert stage.run.finished_episodes() == 2


def test_an_answer_about_another_bundle_is_none(stage, monkeypatch):
    monkeypatch.setattr(readiness, "LOAD_S", 0.0)
    robot, publish = stage.robot, stage.robot.publish_bundle
    robot.publish_bundle = lambda path: publish(path + "_of_before")
    assert complaint_of(stage) == f"controller: {stage.run.bundle(0)} not loaded in 0 s"
    assert robot.log.count("bundle_000_of_before") == readiness.ASKED


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        ("record True", "recorder: disk full"),
        ("reset", "simulator: disk full"),
        ("activate", "controller: refused to start; tick 7: it itches"),
        ("record False", "recorder: disk full"),
    ],
)
def test_whoever_refuses_is_quoted(stage, refused, line, monkeypatch):
    monkeypatch.setattr(protocol, "BEGIN_S", 0.0)
    stage.robot.refused[refused] = "disk full"
    assert complaint_of(stage) == line
    assert stage.run.finished_episodes() == 0


def test_a_controller_that_has_not_heard_of_its_goal_yet_is_asked_again(stage, monkeypatch):
    monkeypatch.setattr(protocol, "RETRY_S", 0.0)
    answers = iter(["no goal", "no goal", "", ""])
    call = stage.robot.call

    def refuse_at_first(client, request):
        if client == "state" and TRANSITIONS[request.transition.id] == "activate":
            stage.robot.refused["activate"] = next(answers)
        return call(client, request)

    stage.robot.call = refuse_at_first
    stage.play()
    assert len(stage.ledger.episodes) == 2
    assert stage.robot.log.count("activate") == 4


def test_a_controller_that_gives_up_early_leaves_no_bag_that_counts(stage):
    stage.robot.played_steps = 217
    line = complaint_of(stage)
    assert "controller: stopped after 217 of 400 steps; controller: tick 7: it itches" in line
    assert "record False" not in stage.robot.log
    assert stage.protocol.place == "episode 0, step 217"


def test_after_an_outage_the_episode_is_played_again_from_a_reset_on(stage):
    stage.robot.early_ends = ["outage: no new joint state for 512 ms", "outage: held up"]
    stage.play()
    again = ["record True", "reset", "activate"]
    assert stage.robot.log[2:13] == [*again, *again, *EPISODE]
    assert [episode.index for episode in stage.ledger.episodes] == [0, 1]
    notes = [event for event in read_summary(stage.run.summary).events if "outage" in event]
    assert notes[0] == (
        "episode 0, step 30: outage: no new joint state for 512 ms; playing the episode again"
    )
    assert len(notes) == 2


def test_an_outage_in_each_try_ends_the_run(stage):
    stage.robot.early_ends = ["outage: no new joint state for 512 ms"] * 10
    assert "controller: stopped after 30 of 400 steps" in complaint_of(stage)
    assert stage.robot.log.count("reset") == 1 + protocol.REPLAYS
    assert stage.run.finished_episodes() == 0


def test_a_stop_is_no_outage_too_many(stage):
    outages = ["outage: no new joint state for 512 ms"] * protocol.REPLAYS
    stage.robot.early_ends = [*outages, "outage: stopped on the topic '/stop'", ""]
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.HELD:
            stage.robot.stopped = False
        assert wait.ready()
    assert len(stage.ledger.episodes) == 2


@pytest.mark.parametrize("how", ["home", "service", "none"])
def test_a_stop_that_reached_the_controller_alone_holds_the_run(how, tmp_path):
    stage = robots_stage(tmp_path, how)
    stage.robot.early_ends = ["outage: stopped on the topic '/stop'"]
    moved = {"home": "home", "service": "reset", "none": "activate"}[how]
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.HELD:
            return
        assert stage.robot.log.count(moved) < 2, f"{stage.robot.log}: nobody has let it go on"
        assert wait.ready()
    raise AssertionError(stage.robot.log)


def test_an_episode_that_ended_by_a_surprise_counts_as_far_as_it_went(stage):
    stage.robot.early_ends = ["surprise: velocity of joint 'hinge' was 6.1 off", ""]
    stage.play()
    cut = ["record True", "reset", "activate", "record False"]
    assert stage.robot.log[2:7] == [*cut, "learn"], "the controller has deactivated itself"
    assert [episode.index for episode in stage.ledger.episodes] == [0, 1]
    events = read_summary(stage.run.summary).events
    assert "episode 0, step 30: surprise: velocity of joint 'hinge' was 6.1 off" in events


def test_an_early_end_for_another_reason_is_not_tried_again(stage):
    stage.robot.early_ends = ["joint_states: one every 2 ms"]
    assert "stopped after 30 of 400 steps" in complaint_of(stage)
    assert stage.robot.log.count("reset") == 1
    assert "record False" not in stage.robot.log


# Who brings the robot to the start.


def robots_stage(tmp_path, how):
    config = Config(episodes=1, mode="real_time", driver=DriverSettings(reset=how))
    run = RunFolder.create(tmp_path / "robot", config)
    run.on_robot.touch()
    write_manifest(run.bundle(0), 0)
    return Stage(run)


def test_a_person_who_is_ready_begins_the_episode_and_nobody_else_can(tmp_path):
    stage = robots_stage(tmp_path, "person")
    assert stage.protocol.confirm() == "no episode waits for a person now"
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.PERSON:
            assert not wait.ready()
            assert wait.timeout_s == float("inf")
            assert stage.robot.log == ["configure", "bundle_000"], "nothing moves, or is recorded"
            assert stage.protocol.confirm() == ""
        assert wait.ready()
    assert stage.robot.log[2:6] == ["record True", "activate", "deactivate", "record False"]
    assert stage.protocol.confirm() == "no episode waits for a person now"
    assert "press Enter" in Phase.PERSON.value


def test_a_confirmation_counts_for_one_episode_only(tmp_path):
    stage = robots_stage(tmp_path, "person")
    stage.robot.early_ends = ["outage: no new joint state for 1000 ms"]
    asked = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.PERSON:
            asked += 1
            assert not wait.ready()
            stage.protocol.confirm()
        assert wait.ready()
    assert asked == 2, "after the outage a person has to put the robot back"


def test_without_a_reset_an_episode_begins_where_the_robot_is(tmp_path):
    stage = robots_stage(tmp_path, "none")
    stage.play()
    assert "reset" not in stage.robot.log
    assert len(stage.ledger.episodes) == 1


def test_a_motion_to_the_start_comes_before_the_recording(tmp_path):
    stage = robots_stage(tmp_path, "home")
    stage.robot.early_ends = ["outage: no new joint state for 1000 ms"]
    stage.play()
    again = ["home", "record True", "activate"]
    assert stage.robot.log[2:] == [*again, *again, "deactivate", "record False", "learn"]


def test_where_the_motion_fails_a_person_is_asked(tmp_path):
    stage = robots_stage(tmp_path, "home")
    stage.robot.refused["home"] = "joint 'arm' is 0.4 from the start, and comes no nearer"
    asked = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.PERSON:
            asked += 1
            assert stage.robot.log[2:] == ["home"], "nothing moves, or is recorded"
            assert not wait.ready() and wait.timeout_s == float("inf")
            stage.protocol.confirm()
        assert wait.ready()
    assert asked == 1 and len(stage.ledger.episodes) == 1
    (note,) = read_summary(stage.run.summary).events
    assert note.endswith(
        "homing: joint 'arm' is 0.4 from the start, and comes no nearer; a person has to do it"
    )


def test_a_homing_that_has_gone_ends_the_run(tmp_path):
    stage = robots_stage(tmp_path, "home")
    stage.robot.home.service_is_ready = lambda: False
    call = stage.robot.call
    gone = SimpleNamespace(done=lambda: False)
    stage.robot.call = lambda client, request: gone if client == "home" else call(client, request)
    assert complaint_of(stage) == "homing/home: whoever offered it has gone"


@pytest.mark.parametrize("how", ["service", "person", "home", "none"])
def test_while_somebody_stops_the_robot_nothing_moves(how, tmp_path):
    stage = robots_stage(tmp_path, how)
    stage.robot.stopped = True
    held = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.HELD:
            held += 1
            assert stage.robot.log == ["configure", "bundle_000"]
            assert not wait.ready() and wait.timeout_s == float("inf")
            stage.robot.stopped = False
        if stage.progress.phase is Phase.PERSON:
            stage.protocol.confirm()
        assert wait.ready()
    assert held == 1 and len(stage.ledger.episodes) == 1


@pytest.mark.parametrize("how", ["stopped", "paused"])
def test_held_back_during_a_reset_the_episode_begins_after_another_one(how, stage):
    whose = stage.robot if how == "stopped" else stage.steering
    call, wishes = stage.robot.call, [True]

    def holding_back(client, request):
        if client == "reset" and wishes:
            setattr(whose, how, wishes.pop())
        return call(client, request)

    stage.robot.call = holding_back
    for wait in stage.protocol.script():
        if stage.progress.phase in (Phase.HELD, Phase.PAUSED):
            assert stage.robot.log.count("activate") == 0
            setattr(whose, how, False)
        assert wait.ready()
    assert stage.robot.log[2:6] == ["record True", "reset", "record True", "reset"]
    assert len(stage.ledger.episodes) == 2


@pytest.mark.parametrize("heard", [True, False])
def test_who_stops_a_motion_to_the_start_has_it_made_again(heard, tmp_path):
    """Also where the answer of homing comes before the message that stopped it."""
    stage = robots_stage(tmp_path, "home")
    stage.robot.refused["home"] = "stopped on the topic '/stop'"
    call = stage.robot.call

    def stopping(client, request):
        if client == "home" and stage.robot.refused:
            stage.robot.stopped = heard
            answer = call(client, request)
            del stage.robot.refused["home"]
            return answer
        return call(client, request)

    stage.robot.call = stopping
    held = 0
    for wait in stage.protocol.script():
        assert stage.progress.phase is not Phase.PERSON
        if stage.progress.phase is Phase.HELD:
            held += 1
            assert "activate" not in stage.robot.log
            stage.robot.stopped = False
        assert wait.ready()
    assert held == 1, "also where homing alone was told"
    assert stage.robot.log.count("home") == 2 and len(stage.ledger.episodes) == 1


@pytest.mark.parametrize("lasts", [True, False])
def test_a_stop_that_reached_the_supervisor_alone_stops_the_controller(lasts, stage):
    """`ros2 topic pub --once` leaves when one of those who listen has heard it."""
    stage.robot.played_steps = 30
    stops = 4  # more than an episode may have of other outages
    for wait in stage.protocol.script():
        robot = stage.robot
        if stops and robot.log[-1:] == ["activate"]:
            robot.log.append("stop")
            robot.active = robot.stopped = True
            robot._stopped = lasts
            stops -= 1
            robot.played_steps = 30 if stops else 400
        elif robot.log[-1:] == ["deactivate"]:
            robot.active = False
        if stage.progress.phase is Phase.HELD:
            robot.stopped = False
        assert wait.ready()
    log = stage.robot.log
    assert [log[i + 1] for i, name in enumerate(log) if name == "stop"] == ["deactivate"] * 4
    assert len(stage.ledger.episodes) == 2
    notes = [n for n in read_summary(stage.run.summary).events if "stopped on the topic" in n]
    assert len(notes) == 4


def test_a_controller_that_was_stopped_before_it_began_is_asked_again_later(stage):
    call, stops = stage.robot.call, [True]

    def stopping(client, request):
        if client == "state" and TRANSITIONS[request.transition.id] == "activate" and stops:
            stage.robot.stopped = stops.pop()
            stage.robot.refused["activate"] = "stopped"
        return call(client, request)

    stage.robot.call = stopping
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.HELD:
            stage.robot.stopped = False
            stage.robot.refused.clear()
        assert wait.ready()
    assert len(stage.ledger.episodes) == 2


def test_a_stop_between_episodes_that_reached_the_controller_alone_holds_the_run(
    stage, monkeypatch
):
    monkeypatch.setattr(protocol, "BEGIN_S", 0.0)
    robot = stage.robot
    robot.refused["activate"] = line = "stopped on the topic '/stop'"
    monkeypatch.setattr(robot, "trouble", lambda name: line if name == "controller" else "")
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.HELD:
            robot.stopped = False
            robot.refused.clear()
        assert wait.ready()
    assert robot.stops == 1 and len(stage.ledger.episodes) == 2


def test_a_robots_reset_takes_as_long_as_it_takes(tmp_path, monkeypatch):
    stage = robots_stage(tmp_path, "service")
    answered = []
    call = stage.robot.call

    def slow(client, request):
        answer = call(client, request)
        if client != "reset":
            return answer
        return SimpleNamespace(done=lambda: bool(answered), result=answer.result)

    monkeypatch.setattr(stage.robot, "call", slow)
    for wait in stage.protocol.script():
        if stage.robot.log[-1:] == ["reset"] and not answered:
            assert not wait.ready()
            assert wait.timeout_s == float("inf")
            answered.append(True)
        assert wait.ready()
    assert len(stage.ledger.episodes) == 1


def test_a_reset_whose_service_has_gone_ends_the_run(tmp_path):
    stage = robots_stage(tmp_path, "service")
    stage.robot.reset_gone = True
    assert complaint_of(stage) == "simulator/reset: whoever offered it has gone"


def test_a_reset_that_somebody_stopped_is_made_again_when_he_lets_it_go_on(tmp_path):
    """Who drives the robot to its start hears the stop, and answers that it isn't there."""
    stage = robots_stage(tmp_path, "service")
    call, stops = stage.robot.call, [True]

    def stopped_on_its_way(client, request):
        stage.robot.refused.pop("reset", None)
        if client == "reset" and stops:
            stage.robot.stopped = stops.pop()
            stage.robot.refused["reset"] = "stopped on its way"
        return call(client, request)

    stage.robot.call = stopped_on_its_way
    held = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.HELD:
            held += 1
            assert stage.robot.log.count("activate") == 0
            stage.robot.stopped = False
        assert wait.ready()
    assert stage.robot.log[2:6] == ["record True", "reset", "record True", "reset"]
    assert (held, len(stage.ledger.episodes)) == (1, 1)


def test_a_silent_controller_is_complained_about(stage):
    stage.robot._play = lambda: None
    assert "no tick for 30 s; controller: tick 7: it itches" in complaint_of(stage)


def test_a_recorder_that_loses_the_bag_is_complained_about(stage):
    stage.robot._save = lambda: None
    assert "recorder: the bag of episode 0 was not closed" in complaint_of(stage)


def test_a_first_bundle_that_is_missing_is_the_learners_fault(stage):
    shutil.rmtree(stage.run.bundle(0))
    assert "the learner has not written it" in complaint_of(stage)


def test_a_run_that_begins_with_another_one_learns_before_its_first_episode(tmp_path):
    config = Config(episodes=1, exploration={"random_episodes": 0})
    stage = Stage(RunFolder.create(tmp_path / "run", config))
    stage.play()
    log = ["configure", "learn", "bundle_000", *EPISODE, "learn"]
    assert stage.robot.log == log
    assert stage.progress.phase is Phase.FINISHED


def test_what_stops_its_first_learning_says_so(tmp_path):
    config = Config(episodes=1, exploration={"random_episodes": 0})
    stage = Stage(RunFolder.create(tmp_path / "run", config))
    stage.robot._learn = lambda: None
    stage.progress.enter(Phase.FITTING)
    assert stage.protocol.place == "learning from another run"
    assert "learner: no bundle" in complaint_of(stage)


# A person steers.


def played_by(stage):
    return [episode.bundle for episode in read_summary(stage.run.summary).episodes]


def steered(stage, at, **wishes):
    """Play to the end; when `at` holds for the first time, something is wished for."""
    for wait in stage.protocol.script():
        if wishes and at(stage):
            for name, value in wishes.items():
                setattr(stage.steering, name, value)
            wishes = {}
        if not wait.ready():
            raise RunError(f"{stage.protocol.place}: {wait.complaint()}")
    assert not wishes


def test_the_bundle_that_a_person_chose_flies_from_the_next_episode_on(stage):
    stage.run.change(Config(episodes=3))
    stage = Stage(stage.run)
    running = lambda stage: stage.progress.phase is Phase.RUNNING and stage.progress.episode == 1  # noqa: E731
    steered(stage, running, bundle="bundle_000")
    loaded = [line for line in stage.robot.log if line.startswith("bundle")]
    assert loaded == ["bundle_000", "bundle_001", "bundle_000"]
    assert played_by(stage) == [f"bundles/bundle_00{k}" for k in (0, 1, 0)]
    returns = [e.predicted_return for e in read_summary(stage.run.summary).episodes]
    assert returns == [None, 200.0, None], "bundle 0 is random and predicts nothing"
    assert stage.run.bundle(3).is_dir(), "learned as ever"
    assert "played by bundle 0" in describe_episode(stage.progress.finished[2])
    assert "played by" not in describe_episode(stage.progress.finished[1])


def test_what_a_person_chose_while_the_robot_is_reset_flies_in_that_episode(stage):
    """A robot's reset may take minutes, and the next episode has not begun."""
    resetting = lambda stage: stage.progress.phase is Phase.RESETTING and stage.progress.episode  # noqa: E731
    steered(stage, resetting, bundle="bundle_000")
    reset = ["record True", "reset"]
    assert stage.robot.log[-10:] == ["bundle_001", *reset, "bundle_000", *EPISODE, "learn"]
    assert played_by(stage) == ["bundles/bundle_000"] * 2


def test_after_a_resume_the_newest_flies_and_the_summary_knows_who_flew(stage):
    stage.steering.bundle = "bundle_000"
    stage.play()
    assert [line for line in stage.robot.log if line.startswith("bundle")] == ["bundle_000"]
    stage.run.change(Config(episodes=3))
    again = Stage(stage.run)
    again.play()
    assert [line for line in again.robot.log if line.startswith("bundle")] == ["bundle_002"]
    assert played_by(again) == [f"bundles/bundle_00{k}" for k in (0, 0, 2)]


def test_what_the_controller_refuses_is_not_replaced_by_the_newest(stage):
    write_manifest(stage.run.bundles / "bundle_007", 7)
    stage.steering.bundle = "bundle_007"
    publish = stage.robot.publish_bundle

    def refuse(path):
        stage.robot.bundle_error = "looser than the safety in force" if "007" in path else ""
        publish(path)

    stage.robot.publish_bundle = refuse
    held = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.REFUSED:
            held += 1
            assert not wait.ready() and wait.timeout_s == float("inf")
            assert stage.robot.log == ["configure", "bundle_007"], "nothing moves"
            stage.steering.bundle = ""
        assert wait.ready()
    assert held == 1 and len(stage.ledger.episodes) == 2
    (note,) = read_summary(stage.run.summary).events
    assert note.endswith(
        "controller: looser than the safety in force; waiting for another next.bundle"
    )


def test_a_pause_lets_the_episode_end_and_nothing_else_begin(stage):
    paused, script = 0, stage.protocol.script()
    for wait in script:
        if stage.progress.phase is Phase.RUNNING and not paused:
            stage.steering.paused = True
        if stage.progress.phase is Phase.PAUSED:
            paused += 1
            assert stage.robot.log[2:] == EPISODE, "the episode is whole, and not learned from"
            assert not wait.ready() and wait.timeout_s == float("inf")
            stage.steering.paused = False
        assert wait.ready()
    assert paused == 1 and len(stage.ledger.episodes) == 2
    assert "learn" in stage.robot.log


def test_a_pause_while_it_learns_keeps_the_next_episode_back(stage):
    paused = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is Phase.FITTING and not paused:
            stage.steering.paused = True
        if stage.progress.phase is Phase.PAUSED and not paused:
            paused += 1
            assert stage.robot.log[7:] == ["learn", "bundle_001"]
            assert stage.run.bundle(1).is_dir() and not wait.ready()
            stage.steering.bundle, stage.steering.paused = "bundle_000", False
        assert wait.ready()
    assert paused == 1
    assert stage.robot.log[7:11] == ["learn", "bundle_001", "bundle_000", "record True"]


@pytest.mark.parametrize("how", ["person", "home"])
def test_a_pause_while_the_robot_is_put_at_the_start_has_it_put_there_again(how, tmp_path):
    stage = robots_stage(tmp_path, how)
    placing = {"person": Phase.PERSON, "home": Phase.HOMING}[how]
    placed = paused = 0
    for wait in stage.protocol.script():
        if stage.progress.phase is placing:
            placed += 1
            stage.steering.paused = placed == 1
            stage.protocol.confirm()
        if stage.progress.phase is Phase.PAUSED:
            paused += 1
            assert stage.robot.log[-1] != "record True"
            stage.steering.paused = False
        assert wait.ready()
    assert (placed, paused, len(stage.ledger.episodes)) == (2, 1, 1)


# A learner on another machine.


def away(seconds, **values):
    told = {"since": "14:03:12", "silent_s": str(seconds), "advice": "hucrl learner --robot X"}
    return LearnerReport("away", False, {**told, **values})


def test_an_absent_learner_is_waited_for_and_named_once(stage):
    script = stage.protocol.script()
    robot, wait = stage.robot, next(script)
    robot.report = away(12)
    wait = next(script)
    seen = set()
    for seconds in (12, 13, 14):
        robot.report = away(seconds)
        assert not wait.ready()
        seen.add(str(wait.activity()))
    assert len(seen) == 3, "each second without it makes the patience begin anew"
    assert stage.progress.detail == "learner, not heard since 14:03:12"
    (event,) = read_summary(stage.run.summary).events
    assert event == (
        "before episode 0 (waiting for the nodes): the learner isn't heard since 14:03:12, and "
        "the run waits for it; on its machine: hucrl learner --robot X"
    )
    robot.report = LearnerReport("preparing", False)
    assert not wait.ready()
    assert wait.activity() == wait.activity()
    robot.report = LearnerReport("idle", False)
    assert wait.ready()


def test_why_nothing_is_taken_of_a_learner_is_said_once(stage):
    script = stage.protocol.script()
    robot, wait = stage.robot, next(script)
    robot.report = LearnerReport("preparing", False)
    wait = next(script)
    full = LearnerReport("refused: the robot's disk is full", False)
    for report in (full, LearnerReport("preparing", False), full):
        robot.report = report
        assert not wait.ready()
    (event,) = read_summary(stage.run.summary).events
    assert event.endswith(": what the learner sent was refused: the robot's disk is full")
    for k in range(9):
        robot.report = LearnerReport(f"refused: {k}", False)
        assert not wait.ready()
    assert len(read_summary(stage.run.summary).events) == 3


def test_a_learner_that_is_lost_while_it_learns_ends_nothing(stage):
    learn = stage.robot._learn
    stage.robot._learn = lambda: setattr(stage.robot, "report", away(11, episode="0"))
    waits = 0
    for wait in stage.protocol.script():
        if stage.progress.phase in (Phase.FITTING, Phase.AWAY) and not wait.ready():
            assert stage.progress.phase is Phase.AWAY
            assert wait.timeout_s == float("inf")
            assert stage.protocol.place == "learning from episode 0"
            stage.robot.report = LearnerReport("fitting", False, {"episode": "0"})
            assert not wait.ready()
            assert stage.progress.phase is Phase.FITTING
            stage.robot.report = away(11, episode="0")
            assert not wait.ready()
            waits += 1
            stage.robot._learn = learn
            learn()
        assert wait.ready()
    assert waits == 1
    events = read_summary(stage.run.summary).events
    assert len(events) == 2, "once for each absence"
    assert events[0].startswith("learning from episode 0: the learner isn't heard since 14:03:12")
    assert [episode.index for episode in stage.ledger.episodes] == [0, 1]


@pytest.mark.parametrize("trip", ["", "no command came"])
def test_who_stops_a_run_that_is_being_given_up_reads_why_it_was(trip, tmp_path):
    run = RunFolder.create(tmp_path / "run", Config())
    with alone(Supervisor, run=str(run.root)) as node:
        node._view = LineView(printed := StringIO())
        node._others.active = True  # the controller hasn't stopped yet
        node._give_up("learner was killed by signal 9 (SIGKILL)")
        node._advance()
        assert node.exit_code is None
        node._others.trip = trip
    (event,) = read_summary(run.summary).events
    told = f"watchdog: {trip}; " if trip else ""
    assert event.endswith(f": learner was killed by signal 9 (SIGKILL); {told}stopped on request")
    assert f"! {event}\n" in printed.getvalue()
