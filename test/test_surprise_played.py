"""The watch in the control loop: on true physics, on one that changes, and in a run."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from bundle_factory import write_bundle
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.schema import BodySettings, ControlSettings, SafetySettings
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import build_control_loop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import LearningReport, read_manifest
from hucrl_ros.controller.state_reader import JointReading
from hucrl_ros.controller.surprise import Level, Surprise
from hucrl_ros.controller.ticks import Source, Tick
from hucrl_ros.errors import SurpriseError
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.learner import Learner
from hucrl_ros.robots import make_robot
from hucrl_ros.robots.body import alter
from hucrl_ros.robots.mujoco_robot import Plant
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task

SPEC = make_robot("pendulum").spec
CHANGE = 80
"""Tick in which the robot changes: after a second."""
SECOND = round(1.0 / SPEC.period)


class TrueModel:
    """The pendulum's own physics in the place of the learned graph; it claims a little noise."""

    def __init__(self, claimed):
        self._robot, self._claimed = make_robot("pendulum"), claimed

    def run(self, names, inputs):
        means = []
        for state, action in zip(inputs["state"], inputs["action"], strict=True):
            self._robot.set_state(state.astype(float))
            means.append(self._robot.step(action.astype(float)))
        noise = np.tile(self._claimed, (len(means), 1))
        return [np.array(means, "f"), noise.astype("f"), noise.astype("f")]


def swaying(seed):
    """What acts: efforts of another size and sign in every second period."""
    draws, calls = np.random.default_rng(seed), itertools.count()
    effort = np.zeros(1)

    def act(state, *others):
        if next(calls) % 2 == 0:
            effort[:] = draws.uniform(-1.0, 1.0)
        return Tick(effort.copy(), Source.POLICY, 0, 0.0, 0.0, None)

    return act


@pytest.fixture(scope="module")
def true_bundle(tmp_path_factory):
    bundle = load_bundle(write_bundle(tmp_path_factory.mktemp("bundles") / "bundle"))
    manifest = bundle.manifest.model_copy(
        update={
            "planner": bundle.manifest.planner.model_copy(update={"algorithm": "policy"}),
            "safety": SafetySettings(surprise=6.0),
            "report": LearningReport(surprise=0.01),
            "target_std": (0.03, 0.2),
            "steps": 10_000,
        }
    )
    graphs = {**bundle.graphs, "dynamics": TrueModel(0.01 * np.array([0.03, 0.2]))}
    return dataclasses.replace(bundle, manifest=manifest, graphs=graphs)


def alarm(bundle, seed, change=lambda plant: None, late=False, ticks=CHANGE + 2 * SECOND):
    """Ticks after the change until the loop ends the episode; None: it didn't."""
    loop = build_control_loop(bundle, Guard(SPEC, bundle.manifest.safety), ControlSettings())
    loop.player.act = swaying(seed)
    loop.start(seed)
    plant = Plant(make_robot("pendulum"), seed)
    waiting = []

    def send(command):
        waiting.append(command)
        if not (late and step >= CHANGE) or len(waiting) > 1:
            plant.command(waiting.pop(0))

    for step in range(ticks):
        if step == CHANGE:
            assert loop.player.surprise.level is Level.CALM
            change(plant)
        seen = plant.sample()
        places, speeds = seen.positions.tolist(), seen.velocities.tolist()
        try:
            loop.answer(JointReading(plant.joints, places, speeds, seen.stamp_ns), 0.0, send)
        except SurpriseError as error:
            assert "of joint 'pendulum_joint' was" in str(error)
            return step - CHANGE
        plant.period()
    return None


@pytest.mark.parametrize("seed", range(3))
def test_a_robot_that_stays_the_same_is_left_alone(true_bundle, seed):
    assert alarm(true_bundle, seed, ticks=20 * SECOND) is None


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "body", [{"payload": 0.5}, {"friction": 0.2}, {"motor_error": -0.5}, {"mass_error": 1.0}]
)
def test_another_body_is_noticed_within_a_second(true_bundle, seed, body):
    found = alarm(
        true_bundle, seed, lambda plant: alter(plant.robot.model, SPEC, BodySettings(**body))
    )
    assert found is not None and 1 < found <= SECOND


@pytest.mark.parametrize("seed", range(2))
def test_commands_that_come_a_period_late_are_noticed(true_bundle, seed):
    assert alarm(true_bundle, seed, late=True) is not None


# In a run


@pytest.fixture(scope="module")
def cut_run(tmp_path_factory, short_episodes):  # noqa: F811
    """Its robot surprises more with each transition, and bundles that were tested end that."""

    def see(self, *unused):
        self._means += 0.5

    config = tiny_config(episodes=4, safety={"surprise": 2.0})
    run = RunFolder.create(tmp_path_factory.mktemp("train") / "run", config)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Surprise, "see", see)
        return run, train(config, run)


def test_what_was_cut_off_counts_as_an_episode_and_is_learned_from(cut_run):
    run, summary = cut_run
    assert [episode.cut for episode in summary.episodes] == [False, False, True, True]
    assert [episode.steps for episode in summary.episodes[:2]] == [STEPS] * 2
    # 1 + 0.5 k = 2² after six transitions, the last of which is seen after the seventh command.
    assert [episode.steps for episode in summary.episodes[2:]] == [7] * 2
    assert [read_manifest(run.bundle(k)).report.surprise is None for k in (1, 2, 3, 4)] == [
        *(True, False, False, False)
    ]
    task = make_task("pendulum", 0.2)
    learner = Learner(run.config, run)
    learner.learn(lambda phase, share: None)
    lengths = [len(each.actions) for each in learner._recorded]
    assert lengths == [episode.steps for episode in summary.episodes]
    bag = read_episode(run.bag(3), task.spec, task.steps, run.config)
    assert bag.cut and not bag.interrupted and bag.contiguous.all()
    assert bag.ticks["surprise"][-1] >= 2.0


def test_the_return_of_what_was_cut_off_is_no_return(cut_run):
    run, summary = cut_run
    assert summary.best_return == max(episode.return_ for episode in summary.episodes[:2])
    said = [event for event in summary.events if "at a surprise of" in event]
    assert [event.partition(":")[0] for event in said] == ["episode 2", "episode 3"]
    told = json.loads(run.summary.read_text())["episodes"]
    assert [episode["cut"] for episode in told] == [False, False, True, True]
