"""Attempts at an episode that were interrupted: what is sound of them, and where it counts."""

import shutil

import numpy as np
import pytest
from bag_messages import (
    ACTIVE,
    COMMANDS,
    JOINT_STATES,
    TICKS,
    Recording,
    boolean,
    floats,
    joint_state,
    tick,
)
from fabricated_run import PERIOD_NS, play_random, record
from manifest_factory import write_manifest
from remote_pair import pair
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.bags.interrupted import sound_part
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.learning.dataset import hash_of
from hucrl_ros.learning.learner import Learner
from hucrl_ros.learning.prior import prior_episodes
from hucrl_ros.robots import describe, make_robot
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.remote.mirror import Mirror
from hucrl_ros.run.summary import read_summary
from hucrl_ros.run.summary_writer import Ledger
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.usefixtures("short_episodes")
SPEC = make_robot("pendulum").spec
LASTED = 25
"""Ticks of an attempt."""


def silent(phase, share):
    """Nobody listens."""


def attempt(folder, seed, ticks=LASTED, back=False, whole=True, sound=True):
    """An attempt after whose last tick somebody else moved the robot; its states and actions.

    Args:
        back: The clock went back at its end, and joint states went on.
        whole: Its bag was closed.
        sound: Otherwise every second joint state is missing.
    """
    states, actions = play_random(np.random.default_rng(seed))
    recording = Recording(folder)
    recording.add(ACTIVE, boolean(True))
    for k in range(ticks):
        if sound or k % 2 == 0:
            effort = [0.0] if k == 0 else actions[k - 1]
            stamp = (k + 10) * PERIOD_NS
            recording.add(JOINT_STATES, joint_state(stamp, states[k, :1], states[k, 1:], effort))
        recording.add(COMMANDS, floats(actions[k]))
        recording.add(TICKS, tick((k + 10) * PERIOD_NS, k, actions[k]))
    for k in range(ticks, ticks + 10):  # carried to the start, under no effort that is told
        stamp = (k + 10 - 12 * back) * PERIOD_NS + 5_000_000 * back
        recording.add(JOINT_STATES, joint_state(stamp, [7.0], [0.0], [0.0]))
    if whole:
        recording.add(ACTIVE, boolean(False))
        recording.writer.close(Outcome.INTERRUPTED)
    else:
        recording.writer.flush()
        recording.writer.abandon()
    return states, actions


def finish_episode(run):
    index = run.finished_episodes()
    states, actions = play_random(np.random.default_rng(index))
    record(run.bag(index), states[: STEPS + 1], actions[:STEPS], np.ones(STEPS))


@pytest.fixture
def run(tmp_path):
    return new_run(tmp_path / "run")


def new_run(root, interrupted=True):
    settings = tiny_config(episodes=3, exploration={"validation_episodes": 0})
    model = settings.model.model_copy(update={"interrupted": interrupted})
    return RunFolder.create(root, settings.model_copy(update={"model": model}))


# What is sound


@pytest.mark.parametrize("whole", [True, False], ids=["closed", "cut off"])
@pytest.mark.parametrize(
    ("mode", "back"),
    [("lockstep", False), ("real_time", False), ("real_time", True)],
    ids=["lockstep", "real time", "clock went back"],
)
def test_what_came_before_the_last_tick_is_sound(whole, mode, back, tmp_path):
    states, actions = attempt(tmp_path / "bag", 0, back=back, whole=whole)
    episode, line = sound_part(tmp_path / "bag", SPEC, 400, Config(mode=mode))
    assert line == f"{LASTED - 1} transitions up to the last tick are learned from"
    assert episode.contiguous.all() and len(episode.stamps_ns) == LASTED
    np.testing.assert_array_equal(episode.states, states[:LASTED])
    np.testing.assert_allclose(episode.actions, actions[: LASTED - 1])


@pytest.mark.parametrize(
    ("how", "line"),
    [
        ({"sound": False}, "0 of 12 transitions took one control period; at least 50% must"),
        ({"ticks": 1}, "0 of 0 transitions took one control period"),
        ({"ticks": 0}, "holds no tick"),
    ],
)
def test_what_is_not_sound_is_left_out_in_one_line(how, line, tmp_path):
    attempt(tmp_path / "bag", 0, **how)
    part = sound_part(tmp_path / "bag", SPEC, 400, Config())
    assert part.episode is None
    assert part.line.startswith("not learned from: ") and line in part.line


# Where it counts


def test_attempts_are_learned_from_in_the_order_of_the_run(run):
    learner = Learner(run.config, run)
    learner.export_initial()
    second = attempt(run.next_unfinished_name(0), 12)[0]
    for _ in range(9):
        attempt(run.next_unfinished_name(0), 13, ticks=0)  # nothing was played
    eleventh = attempt(run.next_unfinished_name(0), 11)[0]
    finish_episode(run)
    first = learner.learn(silent)
    assert [e.finished for e in learner._recorded] == [False, False, True]
    for known, states in zip(learner._recorded, (second, eleventh), strict=False):
        np.testing.assert_array_equal(known.states, states[:LASTED])
    assert read_manifest(first).data_hash == hash_of(learner._recorded)
    # One of the next episode, and of one that isn't finished.
    attempt(run.next_unfinished_name(1), 14)
    finish_episode(run)
    attempt(run.next_unfinished_name(2), 15)
    learner.learn(silent)
    assert [e.finished for e in learner._recorded] == [False, False, True, False, True]


def test_resumed_and_killed_learners_make_the_same_bundle(run, tmp_path):
    learner = Learner(run.config, run)
    learner.export_initial()
    for _ in range(2):
        attempt(run.next_unfinished_name(run.finished_episodes()), 12)
        finish_episode(run)
        learner.learn(silent)
    kept = shutil.copytree(run.root, tmp_path / "kept")
    attempt(run.next_unfinished_name(2), 15)  # of an episode that has begun meanwhile
    shutil.rmtree(run.bundle(2))
    run.checkpoint(1).unlink()
    Learner(run.config, run).learn(silent)
    before, after = (read_manifest(RunFolder(root).bundle(2)) for root in (kept, run.root))
    assert after.files == before.files and after.data_hash == before.data_hash


def test_attempts_earn_nothing_and_are_no_episodes(run):
    learner = Learner(run.config, run)
    learner.export_initial()
    attempt(run.next_unfinished_name(0), 12)
    finish_episode(run)
    path = learner.learn(silent)
    assert path == run.bundle(1)
    asked = []
    learner._return_of = lambda episode: asked.append(episode) or 1.0
    attempt(run.next_unfinished_name(1), 13)
    finish_episode(run)
    assert learner.learn(silent) == run.bundle(2)
    assert len(asked) == 2 and all(episode.finished for episode in asked)


def test_without_the_setting_they_count_for_nothing(tmp_path):
    hashes = []
    for name, attempts in (("clean", 0), ("interrupted", 2)):
        run = new_run(tmp_path / name, interrupted=False)
        learner = Learner(run.config, run)
        learner.export_initial()
        for _ in range(attempts):
            attempt(run.next_unfinished_name(0), 12)
        finish_episode(run)
        hashes.append(read_manifest(learner.learn(silent)).files)
    assert hashes[0] == hashes[1]


def test_the_summary_says_how_much_was_learned_from_and_counts_no_episode(run, capsys):
    for index in range(2):
        write_manifest(run.bundle(index), index)
    attempt(run.next_unfinished_name(0), 12)
    attempt(run.next_unfinished_name(0), 13, ticks=0)
    finish_episode(run)
    ledger = Ledger(run, run.config, make_task("pendulum", 0.2))
    ledger.write()
    summary = read_summary(run.summary)
    assert len(summary.episodes) == 1
    told = [event for event in summary.events if "_interrupted_" in event]
    assert told[0].endswith(
        "episode_000_interrupted_1: 24 transitions up to the last tick are learned from"
    )
    assert "episode_000_interrupted_2: not learned from: " in told[1]
    assert main(["inspect", str(run.interrupted(0)[0])]) == 0
    assert "24 transitions up to the last tick are learned from, where" in capsys.readouterr().out


def test_a_run_that_begins_with_another_takes_its_attempts_over(run, tmp_path):
    learner = Learner(run.config, run)
    learner.export_initial()
    attempt(run.next_unfinished_name(0), 12)
    finish_episode(run)
    learner.learn(silent)
    settings = {"model.kind": "probabilistic_ensemble", "model.layers": [8], "model.heads": 2}
    following = prepare_run(
        RunOptions("pendulum", None, settings, tmp_path / "next", source=run.root)
    )
    found = prior_episodes(following, make_task("pendulum", 0.2))
    assert [episode.finished for episode in found] == [False, True]


def test_a_learner_on_another_machine_gets_them(tmp_path):
    settings = Config.model_validate({"model": {"interrupted": True}})
    run = RunFolder.create(tmp_path / "run", settings, describe("pendulum"))
    write_manifest(run.bundle(0), 0)
    attempt(run.next_unfinished_name(0), 12)
    attempt(run.next_unfinished_name(0), 13, whole=False)
    finish_episode(run)
    attempt(run.next_unfinished_name(1), 14)
    with pair(run) as robot:
        mirror = Mirror(robot.client, tmp_path / "mirror")
        mirror.fetch()
    theirs, ours = (folder.interrupted(0) for folder in (run, mirror.run))
    assert len(ours) == 2 and not mirror.run.interrupted(1)
    for there, here in zip(theirs, ours, strict=True):
        parts = [sound_part(path, SPEC, STEPS, settings).episode for path in (there, here)]
        np.testing.assert_array_equal(parts[0].states, parts[1].states)
        assert {f.name: f.read_bytes() for f in there.iterdir()} == {
            f.name: f.read_bytes() for f in here.iterdir()
        }
