"""`hucrl replay`: every command once more, from the bag."""

import itertools
import json
import shutil
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from bundle_factory import SHORT_RAIL, write_bundle
from disturbed import CALM, CONTROL, Disturbed, run_with
from interfaces import COMMANDS, described
from interfaces import STEPS as LONGER
from own_robots import write
from shortened import shorten
from test_inspect import CRASHES
from tiny_learning import tiny_config

from hucrl_ros.bags.contents import read_contents
from hucrl_ros.bags.messages import deserialize
from hucrl_ros.bags.played import read_played
from hucrl_ros.bags.writer import EpisodeWriter
from hucrl_ros.cli import main
from hucrl_ros.config.schema import DriverSettings, SafetySettings
from hucrl_ros.controller import examiner
from hucrl_ros.controller import setup as setups
from hucrl_ros.controller.examiner import load_examined
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.ticks import LATE, Source, numbered
from hucrl_ros.controller.topics import JOINT_STATES, RECORDED, SETUP, TICKS
from hucrl_ros.errors import BagError, BundleError
from hucrl_ros.experiments.evaluation import open_bundle
from hucrl_ros.experiments.train import train
from hucrl_ros.run import replay as replay_module
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.replay import recall, replay
from hucrl_ros.tasks import make_task

STEPS = 25
PLANNER = {"particles": 4, "elites": 2, "horizon": 3, "iterations": 3}


@pytest.fixture(scope="module", autouse=True)
def short():
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch, STEPS)
        yield


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory):
    """A run of two episodes."""
    config = tiny_config(planner=PLANNER, seed=3)
    run = RunFolder.create(tmp_path_factory.mktemp("pendulum") / "run", config)
    train(run.config, run)
    return run


@pytest.fixture
def a_run(pendulum, tmp_path):
    """A copy, to be spoilt."""
    return RunFolder(shutil.copytree(pendulum.root, tmp_path / "run"))


def trained(task, root, **overrides):
    """A run of two episodes of a robot of one's own."""
    groups = tiny_config(planner=PLANNER).model_dump(exclude_unset=True)
    tiny = {
        f"{g}.{k}": v for g, values in groups.items() if g != "episodes" for k, v in values.items()
    }
    given = {**tiny, "episodes": 2, **overrides}
    run = prepare_run(RunOptions(str(task), overrides=given, out=root))
    train(run.config, run)
    return run


def rewritten(run, episode, change):
    """Put a bag in its own place, with messages changed, or left out where None comes back."""
    bag = run.bag(episode)
    found = read_contents(bag).messages
    shutil.rmtree(bag)
    writer = EpisodeWriter(bag, RECORDED, stepped=True)
    for raw in found:
        message = change(raw.topic, deserialize(raw.data, raw.type))
        if message is not None:
            writer.write(raw.topic, message, raw.received_ns)
    return writer.close()


def assert_exact(bag, ticks):
    found = replay(bag)
    assert (found.ticks, found.notes) == (ticks, [])
    assert found.first is None
    assert found.equal == len(found.rows) == ticks
    return found


# Physics waits


def test_all_commands_of_a_run_are_found_again(pendulum):
    for index, source in enumerate((Source.RANDOM, Source.PLANNED)):
        found = assert_exact(pendulum.bag(index), STEPS)
        assert found.bundles == [f"bundle_{index:03d}"]
        assert {row.source for row in found.rows} == {source}
        assert len({row.recomputed for row in found.rows}) > STEPS / 2


def test_so_are_those_that_filter_and_braking_rule_changed(tmp_path):
    run = trained(
        SHORT_RAIL, tmp_path / "run", **{"safety.filter": True, "safety.backup_time": 0.1}
    )
    for index in range(2):
        assert_exact(run.bag(index), 200)
    filtered = [tick.record.filtered for tick in read_played(run.bag(1)).ticks]
    assert any(filtered)


@pytest.mark.parametrize("command", COMMANDS)
def test_so_are_those_of_a_robot_that_takes_something_else(tmp_path, command):
    path = write(tmp_path, described(tmp_path, command))
    run = trained(path, tmp_path / "run")
    for index in range(2):
        assert_exact(run.bag(index), LONGER)


def test_a_place_is_found_again_too(tmp_path):
    run = RunFolder.create(tmp_path / "run", tiny_config(task="pusher", planner=PLANNER))
    train(run.config, run)
    assert_exact(run.bag(1), STEPS)


# In real time


def disturbed(tmp_path, task="pendulum", driver="measured", steps=90, **changes):
    """A bag of an episode in which everything happens that can."""
    made = make_task(task, 0.2)
    algorithm = changes.pop("algorithm", "icem")
    run = run_with(
        tmp_path / "run",
        ("bundle_000", lambda path: write_bundle(path, task=task)),
        ("bundle_001", lambda path: write_bundle(path, "greedy", task=task)),
    )
    safety = CALM.model_copy(update={"effort_rate": 0.5, **changes})
    course = Disturbed(run, made, CONTROL, safety)
    first = course.load("bundle_000")
    planner = first.player.bundle.manifest.planner.model_copy(update={"algorithm": algorithm})
    settings = {"planner": planner, "driver": DriverSettings(velocity=driver)}
    course.stalls, course.spoilt = {5, 9, 15}, {45}
    course.hurries = {step: step % 3 for step in range(10, 70, 2)}
    course.begin(course.load("bundle_000", **settings))
    later = course.load("bundle_001", **settings)
    course.at = {
        3: [course.silence, course.silence],
        20: [lambda: course.interrupt(0.9)],
        22: [lambda: course.interrupt(-0.9), course.silence],
        26: [lambda: course.interrupt(0.4, meanwhile=True)],
        30: [lambda: course.tighten(effort_rate=0.3), course.silence],
        60: [lambda: course.swap(later)],
    }
    return course.play(steps)


@pytest.mark.parametrize("driver", ["measured", "derived"])
@pytest.mark.parametrize("algorithm", ["icem", "ilqr"])
def test_what_time_did_is_found_again(tmp_path, driver, algorithm):
    bag = disturbed(tmp_path, driver=driver, algorithm=algorithm)
    ticks = read_played(bag).ticks
    assert any("late" in tick.decided for tick in ticks), "no plan came too late"
    assert sum(tick.decided.get("granted") == LATE for tick in ticks) > 1
    assert sum(tick.decided.get("silences", 0.0) for tick in ticks) == 4
    assert [t.record.step for t in ticks if "heard_0" in t.decided] == [20, 22]
    assert [t.record.step for t in ticks if "heard_1" in t.decided] == [26]
    assert {t.record.step for t in ticks if "in_force_0" not in t.decided} == {45}
    assert any(numbered(tick.decided, "bias_") for tick in ticks), "nothing was predicted wrongly"
    assert {Source.PREVIOUS, Source.SAFE} <= {tick.record.source for tick in ticks}
    assert assert_exact(bag, 90).bundles == ["bundle_000", "bundle_001"]


def test_in_real_time_a_pose_that_came_late_is_known(tmp_path):
    bag = disturbed(tmp_path, "pusher", steps=70)
    assert_exact(bag, 70)


def test_two_commands_of_somebody_else_around_one_tick_are_known(tmp_path):
    def write_one(path):
        return write_bundle(path, task=SHORT_RAIL)

    limits = {"effort_rate": 0.1, "filter": True, "backup_time": 0.1}
    run = run_with(tmp_path / "run", ("bundle_000", write_one))
    safety = CALM.model_copy(update=limits)
    course = Disturbed(run, make_task(SHORT_RAIL, 0.2), CONTROL, safety)
    course.begin(course.load("bundle_000"))

    def both():
        told = [np.full(1, 0.1), np.zeros(1)]
        course.loop.others = lambda: told.pop() if told else None

    course.at = {step: [both] for step in range(6, 30, 3)}
    bag = course.play(30)
    told = [tick.decided for tick in read_played(bag).ticks]
    for label in ("heard_0", "heard_1"):
        assert [k for k, each in enumerate(told) if label in each] == list(course.at)
    assert_exact(bag, 30)


def test_a_filter_that_goes_by_what_is_in_force_is_known(tmp_path):
    bag = disturbed(tmp_path, SHORT_RAIL, steps=70, filter=True, backup_time=0.1)
    ticks = read_played(bag).ticks
    assert {0.0, 1.0} <= {tick.decided.get("fans") for tick in ticks}, "it always had time"
    assert any(tick.record.filtered for tick in ticks[31:60]), "after limits were tightened"
    assert_exact(bag, 70)


def test_what_motors_promise_under_less_effort_than_the_bundle_s_is_known(tmp_path):
    def write_one(path):
        return write_bundle(path, task=SHORT_RAIL, random=True)

    made = make_task(SHORT_RAIL, 0.2)
    run = run_with(tmp_path / "run", ("bundle_000", write_one))
    limits = {"effort_limits": (0.3 * made.spec.effort_limits[0],)}
    course = Disturbed(run, made, CONTROL, CALM.model_copy(update=limits))
    course.begin(course.load("bundle_000"))
    bag = course.play(40)
    assert any(tick.record.filtered for tick in read_played(bag).ticks)
    assert_exact(bag, 40)


# What isn't as it was


def test_an_action_that_was_altered_is_found(a_run):
    def alter(topic, message):
        if topic == TICKS and message.data[2] == 7:
            message.data = np.append(message.data[:-1], np.nextafter(message.data[-1], 2.0))
        return message

    found = replay(rewritten(a_run, 1, alter))
    assert (found.ticks, len(found.rows), found.equal) == (STEPS, STEPS, STEPS - 1)
    assert found.first.step == 7
    assert found.first.recorded == tuple(np.nextafter(found.first.recomputed, 2.0))
    assert found.apart.shape == (STEPS, 1)
    assert np.flatnonzero(found.apart).tolist() == [7]


def test_a_state_that_was_altered_is_found(a_run):
    stamp = read_played(a_run.bag(1)).ticks[4].record.stamp_ns

    def alter(topic, message):
        if (
            topic == JOINT_STATES
            and message.header.stamp.sec * 10**9 + (message.header.stamp.nanosec) == stamp
        ):
            message.position = message.position + 0.1
        return message

    assert replay(rewritten(a_run, 1, alter)).first.step == 4


def test_another_bundle_is_named_and_tells_what_it_would_have_done(a_run, capsys):
    bag, other = a_run.bag(1), a_run.bundle(2)
    assert main(["replay", str(bag), "--bundle", str(other), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["bundles"] == ["bundle_002"]
    assert (found["ticks"], found["compared"]) == (STEPS, STEPS)
    assert found["equal"] < STEPS and found["first"]["step"] < STEPS
    (note,) = found["notes"]
    assert "another bundle: bundle_001 was played" in note
    apart = found["joints"]["pendulum_joint"]
    assert 0.0 < apart["mean"] < apart["largest"] <= 2.0


def test_another_processor_and_other_versions_are_named(a_run, monkeypatch):
    monkeypatch.setattr("hucrl_ros.run.replay.processor", lambda: "abacus")
    monkeypatch.setattr("hucrl_ros.run.replay.versions", lambda: {"numpy": "0.1"})
    notes = replay(a_run.bag(0)).notes
    assert any(note.endswith("abacus here") for note in notes)
    assert any("numpy" in note and "0.1 here" in note for note in notes)
    assert any("onnxruntime" in note and "none here" in note for note in notes)


def test_a_bundle_that_is_gone_is_named(a_run):
    shutil.rmtree(a_run.bundle(1))
    with pytest.raises(BundleError, match=r"bundle_001, its manifest's SHA-256 .*--bundle"):
        replay(a_run.bag(1))


def test_a_renamed_bundle_is_found_by_its_hash(a_run):
    a_run.bundle(1).rename(a_run.bundles / "mine")
    assert assert_exact(a_run.bag(1), STEPS).bundles == ["mine"]


@pytest.mark.parametrize("task", ["reacher", "cartpole"])  # the latter moves one joint as well
def test_a_bundle_of_another_robot_is_refused(a_run, tmp_path, task):
    other = write_bundle(tmp_path / "other", task=task)
    with pytest.raises(BundleError, match="another robot"):
        replay(a_run.bag(1), other)


@pytest.mark.parametrize(("topic", "lost"), [(TICKS, "tick"), (JOINT_STATES, "joint state")])
def test_nothing_is_compared_after_what_a_bag_lacks(a_run, topic, lost):
    stamp = read_played(a_run.bag(1)).ticks[9].record.stamp_ns

    def drop(name, message):
        if name == TICKS == topic and message.data[2] == 9:
            return None
        if name == JOINT_STATES == topic:
            here = message.header.stamp
            return None if here.sec * 10**9 + here.nanosec == stamp else message
        return message

    bag = rewritten(a_run, 1, drop)
    found, told = replay(bag), f"the {lost} of step 9 isn't in the bag"
    assert len(found.rows) == found.equal == 9 < found.ticks
    assert told in found.notes[0]
    recalled = recall(bag)
    assert [each.step for each in itertools.islice(recalled, 9)] == list(range(9))
    with pytest.raises(BagError, match=told):
        next(recalled)


def test_bags_of_before_are_told(a_run, capsys):
    bag = rewritten(a_run, 1, lambda topic, message: None if topic == SETUP else message)
    assert main(["replay", str(bag)]) == 1
    assert "controller/setup is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 10_000, '{"step": 1e999}', '{"step": 0, "password": 1}']
)
def test_a_setup_that_makes_no_sense_gets_one_line(a_run, text):
    def spoil(topic, message):
        if topic == SETUP:
            message.data = text
        return message

    with pytest.raises(BagError) as caught:
        replay(rewritten(a_run, 1, spoil))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("silences", 1e9),
        ("granted", np.nan),
        ("fans", np.inf),
        ("in_force_0", 1e300),
        ("in_force_3", 1.0),
        ("bias_2", 0.1),
    ],
)
def test_what_time_can_not_have_decided_gets_one_line(a_run, label, value):
    def spoil(topic, message):
        if topic == TICKS and message.data[2] == 0:
            like = message.layout.dim[0]
            message.layout.dim = [*message.layout.dim, type(like)(label, 1, 1)]
            message.data = np.append(message.data, value)
            if label == "in_force_3":
                message.layout.dim += [type(like)(f"in_force_{k}", 1, 1) for k in range(3)]
                message.data = np.append(message.data, [1.0] * 3)
        return message

    with pytest.raises(BagError) as caught:
        replay(rewritten(a_run, 1, spoil))
    assert len(str(caught.value).splitlines()) == 1


def test_the_command_says_what_it_found(a_run, capsys):
    assert main(["replay", str(a_run.bag(1))]) == 0
    out = capsys.readouterr().out
    assert f"equal     {STEPS}" in out and "differs" not in out
    (file,) = a_run.bag(1).glob("*.mcap")
    assert main(["replay", str(file)]) == 0


def test_bundles_are_first_tried_in_a_process_with_limits(pendulum, monkeypatch):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", CRASHES))
    crashed = "ended the process that examined it, by SIGSEGV"
    bag, bundle = pendulum.bag(1), pendulum.bundle(1)
    for load in (
        lambda: replay(bag),
        lambda: replay(bag, bundle),
        lambda: next(recall(bag)),
        lambda: open_bundle(bundle),
        lambda: load_examined(bundle),
    ):
        with pytest.raises(BundleError, match=crashed):
            load()


def test_a_bundle_is_tried_once_however_often_it_was_set_up(pendulum, monkeypatch):
    tried = []

    def once(path):
        tried.append(path)
        return read_manifest(path)

    monkeypatch.setattr(replay_module, "examined", once)
    setups = read_played(pendulum.bag(1)).setups
    loaded = replay_module._load(pendulum.bag(1), [*setups, *setups])
    assert [bundle.path for bundle in loaded] == [pendulum.bundle(1)] * 2 * len(setups)
    assert tried == [pendulum.bundle(1)]


def test_a_setup_tells_no_path(a_run):
    (setup,) = read_played(a_run.bag(1)).setups
    assert str(a_run.root) not in setup.model_dump_json()
    assert setup.safety == SafetySettings() and not setup.timed
    assert setup.versions == setups.versions()


def test_plans_of_a_past_episode_stand_at_their_steps(monkeypatch):
    states = [None, np.array([1.0]), np.array([2.0])]  # in tick 0 the object's pose was missing

    class Replayed:
        def __init__(self, *_):
            self.loop = SimpleNamespace(state=None, player=MagicMock())

        def rows(self):
            for k, state in enumerate(states):
                self.loop.state = state
                yield SimpleNamespace(step=k)

    played = lambda path: SimpleNamespace(setups=[], ticks=states)  # noqa: E731
    monkeypatch.setattr(replay_module, "_Replayed", Replayed)
    monkeypatch.setattr(replay_module, "read_played", played)
    monkeypatch.setattr(replay_module, "_load", lambda path, setups: [])
    assert {each.step: float(each.state[0]) for each in recall(None)} == {1: 1.0, 2: 2.0}
