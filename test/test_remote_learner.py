"""The loop on the learner's machine: what the robot asks is done, whoever goes away meanwhile."""

import threading

import pytest
from remote_pair import CONFIG, Pair, new_run, pair, play, write_bundle
from test_learner_node import ScriptedLearner
from waiting import PATIENCE, wait_until

from hucrl_ros.config.files import override
from hucrl_ros.errors import LearningError, RunError
from hucrl_ros.learning import remote
from hucrl_ros.learning.remote import RemoteLearner
from hucrl_ros.run.remote.client import DamagedError
from hucrl_ros.run.remote.contract import Report
from hucrl_ros.run.remote.mirror import Mirror


class Scripted(ScriptedLearner):
    """Writes bundles that the robot's side takes."""

    def __init__(self):
        super().__init__(None)
        self.learned = []
        self.made = []

    def __call__(self, config, run):
        self.run = run
        self.made.append(config)
        return self

    def export_initial(self):
        return write_bundle(self.run.bundle(0), 0)

    def learn(self, progress):
        progress("fitting", 0.0)
        while not self.go_on.wait(0.01):
            progress("searching", 0.5)
        if self.error is not None:
            raise self.error
        episodes = self.run.finished_episodes()
        self.learned.append(episodes)
        self.run.checkpoint(episodes - 1).write_bytes(b"weights %d" % episodes)
        return write_bundle(self.run.bundle(episodes), episodes)


class Learning:
    """A learner in a thread, which tells how it ended."""

    def __init__(self, robot, folder, scripted):
        self.ended = None
        loop = RemoteLearner(robot.client, Mirror(robot.client, folder), None, scripted)
        self._thread = threading.Thread(target=self._serve, args=(loop,), daemon=True)
        self._thread.start()

    def _serve(self, loop):
        try:
            self.ended = loop.serve()
            self.ended = "finished"
        except Exception as error:
            self.ended = error

    def join(self):
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.ended


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(remote, "POLL_S", 0.02)
    monkeypatch.setattr(remote, "RETRY_S", 0.05)
    return Scripted()


def reported(robot, message):
    return robot.exchange.report is not None and robot.exchange.report.message == message


def learn_episode(robot, index):
    play(robot.run)
    robot.exchange.request(index)
    wait_until(lambda: robot.run.bundle(index).is_dir())


def test_a_run_is_learned_from_its_first_bundle_to_its_last(tmp_path, scripted):
    scripted.go_on.set()
    with pair(new_run(tmp_path / "run")) as robot:
        learning = Learning(robot, tmp_path / "mirror", scripted)
        wait_until(lambda: robot.run.bundle(0).is_dir())
        for index in (1, 2):
            learn_episode(robot, index)
            checkpoint = robot.run.checkpoint(index - 1)
            assert checkpoint.read_bytes() == b"weights %d" % index
        assert learning.join() == "finished"
        assert scripted.learned == [1, 2]
        assert len(scripted.made) == 1


def test_weights_that_lay_at_the_robot_do_not_replace_what_was_learned(tmp_path, scripted):
    scripted.go_on.set()
    with pair(new_run(tmp_path / "run")) as robot:
        Learning(robot, tmp_path / "mirror", scripted)
        wait_until(lambda: robot.run.bundle(0).is_dir())
        robot.run.checkpoint(0).write_bytes(b"of a bag that was deleted")
        learn_episode(robot, 1)
        assert robot.run.checkpoint(0).read_bytes() == b"weights 1"


def test_a_robot_that_leaves_with_the_last_bundle_ends_the_learner(tmp_path, scripted):
    scripted.go_on.set()
    robot = Pair(new_run(tmp_path / "run"))
    finish = robot.exchange.finish

    def finish_and_leave(index):
        order = finish(index)
        if order.finished:
            threading.Thread(target=robot.close).start()
        return order

    robot.exchange.finish = finish_and_leave
    learning = Learning(robot, tmp_path / "mirror", scripted)
    wait_until(lambda: robot.run.bundle(0).is_dir())
    learn_episode(robot, 1)
    learn_episode(robot, 2)
    assert learning.join() == "finished"


def test_a_learner_that_failed_before_anybody_asked_is_remembered(tmp_path):
    with pair(new_run(tmp_path / "run")) as robot:
        robot.exchange.take_report(Report(learner="0" * 8, message="no such model", failed=True))
        robot.exchange.request(1)
        assert robot.exchange.report.failed


def test_what_it_does_is_reported_and_an_error_ends_both(tmp_path, scripted):
    scripted.error = LearningError("loss is nan")
    with pair(new_run(tmp_path / "run")) as robot:
        learning = Learning(robot, tmp_path / "mirror", scripted)
        wait_until(lambda: robot.run.bundle(0).is_dir())
        play(robot.run)
        robot.exchange.request(1)
        wait_until(lambda: reported(robot, "searching"))
        assert robot.exchange.report.progress == 0.5
        scripted.go_on.set()
        ended = learning.join()
    assert isinstance(ended, LearningError)
    assert str(ended) == "loss is nan"
    assert (robot.exchange.report.message, robot.exchange.report.failed) == ("loss is nan", True)
    assert not robot.run.bundle(1).exists()


def test_a_robot_that_comes_back_gets_what_was_learned_meanwhile(tmp_path, scripted, caplog):
    run = new_run(tmp_path / "run")
    robot = Pair(run)
    learning = Learning(robot, tmp_path / "mirror", scripted)
    wait_until(lambda: run.bundle(0).is_dir())
    play(run)
    robot.exchange.request(1)
    wait_until(lambda: reported(robot, "searching"))
    robot.close()
    wait_until(lambda: "trying on" in caplog.text)
    scripted.go_on.set()
    wait_until(lambda: (tmp_path / "mirror" / "bundles" / "bundle_001").is_dir())
    assert not run.bundle(1).exists()
    back = Pair(run, robot.port)
    back.exchange.request(1)
    wait_until(lambda: run.bundle(1).is_dir())
    wait_until(lambda: "answers again" in caplog.text)
    learn_episode(back, 2)
    assert learning.join() == "finished"
    assert scripted.learned == [1, 2], "nothing was learned twice"
    back.close()


DAMAGED = (
    RunError("no robot of this program's version answers there: {"),
    RunError("the robot's side has another token"),
    DamagedError("refused: not JSON"),
)


def damage(robot, monkeypatch, errors):
    """Some answers from now on come as if a network had damaged them."""
    report, left = robot.client.report, list(errors)

    def damaged(what):
        if left:
            raise left.pop()
        return report(what)

    monkeypatch.setattr(robot.client, "report", damaged)
    return left


def test_what_a_network_damaged_ends_no_learner(tmp_path, scripted, monkeypatch, caplog):
    scripted.go_on.set()
    with pair(new_run(tmp_path / "run")) as robot:
        learning = Learning(robot, tmp_path / "mirror", scripted)
        wait_until(lambda: robot.run.bundle(0).is_dir())
        wait_until(lambda: reported(robot, "idle"))
        left = damage(robot, monkeypatch, DAMAGED)
        wait_until(lambda: not left)
        for index in (1, 2):
            learn_episode(robot, index)
        assert learning.join() == "finished"
    assert all(str(error) in caplog.text for error in DAMAGED)
    assert "answers again" in caplog.text


@pytest.mark.parametrize("error", DAMAGED, ids=str)
def test_what_lasts_is_no_networks_doing(error, tmp_path, scripted, monkeypatch):
    monkeypatch.setattr(remote, "DOUBT_S", 0.3)
    with pair(new_run(tmp_path / "run")) as robot:
        learning = Learning(robot, tmp_path / "mirror", scripted)
        wait_until(lambda: robot.run.bundle(0).is_dir())
        damage(robot, monkeypatch, [error] * 1000)
        assert learning.join() is error


def test_a_learner_that_starts_anew_sends_what_lies_there(tmp_path, scripted):
    scripted.go_on.set()
    run = new_run(tmp_path / "run")
    write_bundle(run.bundle(0), 0)
    play(run)
    with pair(run) as robot:
        mirror = Mirror(robot.client, tmp_path / "mirror")
        mirror.fetch()
        write_bundle(mirror.run.bundle(1), 1)
        robot.exchange.request(1)
        learning = Learning(robot, tmp_path / "mirror", scripted)
        wait_until(lambda: run.bundle(1).is_dir())
        assert scripted.learned == []
        learn_episode(robot, 2)
        assert learning.join() == "finished"


def test_changed_settings_of_a_resumed_run_are_fetched(tmp_path, scripted):
    scripted.go_on.set()
    run = new_run(tmp_path / "run")
    robot = Pair(run)
    learning = Learning(robot, tmp_path / "mirror", scripted)
    wait_until(lambda: run.bundle(0).is_dir())
    robot.close()
    run.change(override(CONFIG, {"episodes": 1}))
    back = Pair(run, robot.port)
    learn_episode(back, 1)
    assert learning.join() == "finished"
    assert [config.episodes for config in scripted.made] == [2, 1]
    back.close()


def test_another_runs_folder_is_refused(tmp_path, scripted):
    run = new_run(tmp_path / "run")
    write_bundle(run.bundle(0), 0)
    other = new_run(tmp_path / "mirror")
    play(other)
    with pair(run) as robot:
        ended = Learning(robot, tmp_path / "mirror", scripted).join()
    assert isinstance(ended, RunError)
    assert "holds another run than the robot's" in str(ended)


def test_the_device_is_the_learners_own_business(tmp_path, scripted):
    run = new_run(tmp_path / "run")
    run.change(override(CONFIG, {"device": "cuda"}))
    scripted.go_on.set()
    with pair(run) as robot:
        loop = RemoteLearner(robot.client, Mirror(robot.client, tmp_path / "m"), "cpu", scripted)
        thread = threading.Thread(target=loop.serve)
        thread.start()
        wait_until(lambda: run.bundle(0).is_dir())
        learn_episode(robot, 1)
        learn_episode(robot, 2)
        thread.join(60)
    assert [config.device for config in scripted.made] == ["cpu"]
