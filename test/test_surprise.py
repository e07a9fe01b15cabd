"""A robot that does what its bundle claims surprises nobody; another one does, and soon."""

import dataclasses
import math

import numpy as np
import pytest
from pydantic import ValidationError

from hucrl_ros.config.schema import SafetySettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.controller.passage import Transition
from hucrl_ros.controller.surprise import FLOOR, LARGEST, MEMORY, WARY, Level, Surprise

STATE, ACTION = np.array([0.3, -0.5]), np.array([0.2])
EPISTEMIC, ALEATORIC = np.array([0.03, 0.3], "f"), np.array([0.04, 0.4], "f")
DEVIATION = np.array([0.05, 0.5])
MEAN = np.array([0.31, -0.4], "f")


def changed(bundle, **changes):
    return dataclasses.replace(bundle, manifest=bundle.manifest.model_copy(update=changes))


def watch(bundle, threshold=0.0, known=True, **changes):
    """A watch whose floor is nothing, by default of a bundle that an episode has tested."""
    made = {
        "safety": SafetySettings(surprise=threshold),
        "report": LearningReport(surprise=0.1 if known else None),
        "target_std": (1e-9, 1e-9),
        **changes,
    }
    manifest = changed(bundle, **made).manifest
    return Surprise(manifest, manifest.safety)


def off_by(z, irregular=0.0):
    """A transition that is so many deviations off what is claimed."""
    return Transition(STATE, ACTION, MEAN + z * DEVIATION, irregular)


def see(surprise, z, times=1, irregular=0.0):
    for _ in range(times):
        surprise.see(off_by(np.asarray(z), irregular), MEAN, EPISTEMIC, ALEATORIC, MEAN)


def test_it_is_the_root_mean_square_of_the_entry_that_surprises_most(bundle):
    surprise = watch(bundle)
    assert surprise.value == 1.0
    see(surprise, [2.0, -3.0], times=4000)
    assert surprise.value == pytest.approx(3.0, rel=1e-4)
    share = 1.0 - math.exp(-bundle.manifest.period / MEMORY)
    see(surprise, [2.0, 0.0])
    assert surprise.value == pytest.approx(3.0 * math.sqrt(1.0 - share), rel=1e-4)
    surprise.reset()
    assert surprise.value == 1.0


def test_what_a_bundle_claims_truly_is_worth_one_and_calm(bundle):
    surprise, rng = watch(bundle, threshold=3.0), np.random.default_rng(0)
    values = []
    for z in rng.normal(size=(20_000, 2)):
        see(surprise, z)
        values.append(surprise.value)
        assert surprise.level is Level.CALM
    assert 1.0 < np.mean(values) < 1.2, "the larger one of two"
    assert max(values) < 2.0


def test_a_robot_that_is_five_deviations_off_is_noticed_within_half_a_second(bundle):
    surprise, rng = watch(bundle, threshold=4.0), np.random.default_rng(0)
    for _ in range(round(0.5 / bundle.manifest.period)):
        see(surprise, rng.normal([5.0, 0.0]))
    assert surprise.level is Level.ALARMED
    assert surprise.reason == (
        f"surprise: position of joint 'pendulum_joint' was {surprise.value:.1f} standard "
        "deviations off what the bundle claims, root mean square over 0.5 s; an episode ends at "
        "4 (safety.surprise)"
    )


@pytest.mark.parametrize("error", [1e6, math.inf, math.nan])
def test_a_single_knock_alarms_nobody_however_hard(bundle, error):
    surprise = watch(bundle, threshold=3.0)
    see(surprise, [error, 0.0])
    assert surprise.level is Level.CALM
    assert surprise.value < 2.0
    see(surprise, [error, 0.0], times=200)
    assert surprise.level is Level.ALARMED
    assert surprise.value <= LARGEST


def test_without_a_threshold_it_is_wary_at_most(bundle):
    surprise = watch(bundle)
    see(surprise, [WARY + 1.0, 0.0], times=4000)
    assert surprise.level is Level.WARY
    see(surprise, [1.0, 0.0], times=4000)
    assert surprise.level is Level.CALM


def test_a_bundle_that_no_episode_has_tested_ends_none(bundle):
    surprise = watch(bundle, threshold=5.0, known=False)
    see(surprise, [9.0, 9.0], times=4000)
    assert surprise.level is Level.WARY


def test_the_threshold_in_force_counts_not_the_bundles(bundle):
    tested = changed(bundle, report=LearningReport(surprise=0.1))
    agent = Agent(tested, None, safety=SafetySettings(surprise=5.0))
    see(agent.surprise, [1e6, 1e6], times=4000)
    assert agent.surprise.level is Level.ALARMED


def test_a_threshold_that_chance_exceeds_is_refused():
    with pytest.raises(ValidationError, match="expected 0, or 2 to 10"):
        SafetySettings(surprise=1.5)


def test_a_random_bundle_claims_nothing(bundle):
    surprise = watch(bundle, threshold=5.0, random=True)
    assert math.isnan(surprise.value)
    assert surprise.level is Level.CALM


def test_an_angle_that_has_gone_all_around_is_where_it_was(bundle):
    (angle,) = bundle.manifest.angles
    surprise = watch(bundle)
    turned = off_by(np.zeros(2))
    turned.following[angle] += 2 * math.pi
    for _ in range(100):
        surprise.see(turned, MEAN, EPISTEMIC, ALEATORIC, MEAN)
    assert surprise.value < 1.0


def test_nobody_is_blamed_for_what_rounding_does_to_a_joint_that_has_turned_often(bundle):
    surprise, nothing = watch(bundle, target_std=(1e-6, 1e-6)), np.zeros(2, "f")
    far = np.array([300.0, 0.0], "f")
    after = np.nextafter(far, np.float32(np.inf))
    for _ in range(4000):
        surprise.see(Transition(far, ACTION, after, 0.0), far, nothing, nothing, far)
    assert surprise.value < 1.1


def test_nobody_is_blamed_for_less_than_the_floor(bundle):
    surprise = watch(bundle, target_std=(1.0, 1.0))
    nothing, following = np.zeros(2, "f"), STATE + FLOOR
    for _ in range(4000):
        surprise.see(Transition(STATE, ACTION, following, 0.0), STATE, nothing, nothing, STATE)
    assert surprise.value == pytest.approx(1.0)


def test_where_stamps_are_irregular_the_change_is_less_sure(bundle):
    regular, irregular = watch(bundle), watch(bundle)
    see(regular, [8.0, 0.0], times=10)
    see(irregular, [8.0, 0.0], times=10, irregular=50.0)
    assert irregular.value < 1.0 < regular.value


def test_the_agent_asks_about_what_has_passed_in_the_run_it_makes_anyway(bundle):
    agent, runs = Agent(bundle, None), []
    graph = bundle.graphs["dynamics"]

    class Counting:
        def run(self, names, inputs):
            runs.append(len(inputs["state"]))
            return graph.run(names, inputs)

    agent.bundle = dataclasses.replace(bundle, graphs={**bundle.graphs, "dynamics": Counting()})
    alone = agent.uncertainty(STATE, ACTION)
    other = Transition(STATE + 0.1, ACTION, STATE, 0.0)
    agent.uncertainty(STATE, ACTION, [other])
    assert agent.surprise.value != 1.0
    found = agent.surprise._means.copy()
    agent.surprise.reset()
    mean, epistemic, aleatoric = (
        x[0]
        for x in bundle.run(
            "dynamics", state=other.state[None].astype("f"), action=ACTION[None].astype("f")
        )
    )
    agent.surprise.see(other, mean, epistemic, aleatoric, mean)
    np.testing.assert_allclose(agent.surprise._means, found, rtol=1e-3)
    # Of the tick before it knows already, and the numbers are as if nothing had been asked.
    assert agent.uncertainty(STATE, ACTION, [Transition(STATE, ACTION, STATE, 0.0)]) == alone
    assert runs == [1, 2, 1]


def test_what_depends_on_when_exactly_a_command_acts_is_less_sure(bundle):
    sure, unsure = watch(bundle), watch(bundle)
    for _ in range(10):
        sure.see(off_by(np.array([0.0, 8.0])), MEAN, EPISTEMIC, ALEATORIC, MEAN)
        unsure.see(off_by(np.array([0.0, 8.0])), MEAN, EPISTEMIC, ALEATORIC, MEAN + 100.0)
    assert unsure.value < 1.0 < sure.value
