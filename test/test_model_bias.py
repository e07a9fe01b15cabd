"""What a model gets wrong again and again is known, and chance is not taken for it."""

import numpy as np
import pytest

from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.model_bias import LARGEST, ModelBias
from hucrl_ros.controller.passage import Transition
from hucrl_ros.controller.timing import InForce

STATE, ACTION = np.array([0.3, -0.5]), np.array([0.2])
EPISTEMIC, ALEATORIC = np.array([0.03, 0.3], "f"), np.array([0.04, 0.4], "f")
DEVIATION = np.array([0.05, 0.5])
MEAN = np.array([0.31, -0.4], "f")


@pytest.fixture
def bias(bundle):
    return ModelBias(bundle.manifest)


def see(bias, errors):
    """Transitions that ended so far `(n, 2)` from where the bundle claims."""
    for error in np.atleast_2d(errors):
        passed = Transition(STATE, ACTION, MEAN + error, 0.0)
        bias.see(passed, MEAN, EPISTEMIC, ALEATORIC)
    return bias.value


def test_there_is_none_until_something_was_seen(bias):
    np.testing.assert_array_equal(bias.value, [0.0, 0.0])
    see(bias, np.full((50, 2), 0.01))
    bias.reset()
    np.testing.assert_array_equal(see(bias, [0.0, 0.0]), [0.0, 0.0])


def test_a_constant_error_is_known_and_never_overestimated(bias):
    error, before = np.array([0.02, -0.3]), 0.0
    for _ in range(200):
        share = see(bias, error) / error
        assert (before <= share + 1e-12).all() and (share <= 1.0).all()
        before = share
    np.testing.assert_allclose(share, 1.0, atol=1e-4)


def test_errors_that_change_their_sign_are_no_bias(bias):
    for sign in [1.0, -1.0] * 100:
        value = see(bias, sign * DEVIATION)
    np.testing.assert_array_equal(value, [0.0, 0.0])


def test_noise_is_mostly_taken_for_chance(bias):
    rng = np.random.default_rng(0)
    values = np.array([see(bias, each) for each in rng.normal(0.0, DEVIATION, (4000, 2))])
    # The mean itself has this deviation, by the closed form of fading weights.
    plain = DEVIATION * np.sqrt(bias._of_mean)
    assert (values == 0.0).mean() > 0.6
    assert (np.sqrt((values[100:] ** 2).mean(axis=0)) < 0.75 * plain).all()


def test_what_is_constant_is_found_under_noise(bias):
    rng, error = np.random.default_rng(0), np.array([0.05, -0.5])
    noise = rng.normal(0.0, DEVIATION / 2, (4000, 2))
    values = np.array([see(bias, error + each) for each in noise])
    np.testing.assert_allclose(values[100:].mean(axis=0), error, rtol=0.1)


def test_a_single_knock_counts_no_more_than_some_deviations(bundle):
    knocks = [np.array([3.0, 1e6]), LARGEST * DEVIATION]
    found = []
    for knock in knocks:
        bias = ModelBias(bundle.manifest)
        see(bias, np.full((100, 2), 0.01))
        found.append(see(bias, knock))
    np.testing.assert_allclose(*found, rtol=1e-6)


def test_whole_turns_are_no_error(bundle):
    bias = ModelBias(bundle.manifest.model_copy(update={"angles": (0,)}))
    value = see(bias, np.tile([2 * np.pi + 0.01, 0.0], (300, 1)))
    np.testing.assert_allclose(value, [0.01, 0.0], atol=1e-5)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_predictions_that_are_no_numbers_teach_nothing(bias, wrong):
    see(bias, np.full((100, 2), 0.01))
    passed = Transition(STATE, ACTION, MEAN + 0.01, 0.0)
    broken = np.full(2, wrong, "f")
    for claim in ((broken, EPISTEMIC, ALEATORIC), (MEAN, broken, ALEATORIC)):
        bias.see(passed, *claim)
        assert np.isfinite(bias.value).all()


@pytest.mark.parametrize("delay", [1, 3])
def test_a_controller_that_acts_late_rests_where_one_in_time_does(bundle, delay):
    """x' = x + u + d, of which the model knows x' = x + u, under u = -K x.

    In time it rests at d / K. Late by n periods it plans from x plus the n commands that are on
    their way, all -d by then, so n d beside that; unless it knows the bias.
    """
    gain, disturbance = 0.2, 0.1

    def rest(known):
        bias, x, coming = ModelBias(bundle.manifest), 0.5, [0.0] * delay
        for _ in range(2000):
            ahead = x + sum(coming) + delay * bias.value[0] * known
            coming.append(-gain * ahead)
            u = coming.pop(0)
            claimed = np.array([x + u, 0.0], "f")
            x += u + disturbance
            following = np.array([x, 0.0])
            bias.see(Transition(STATE, ACTION, following, 0.0), claimed, EPISTEMIC, ALEATORIC)
        return x

    assert rest(known=False) == pytest.approx(disturbance / gain + delay * disturbance, rel=1e-3)
    assert rest(known=True) == pytest.approx(disturbance / gain, rel=1e-2)


def test_only_what_is_predicted_before_a_plan_has_it(bundle):
    asked = []
    agent = Agent(bundle, None)
    plan = agent._make_plan
    agent._make_plan = lambda state: asked.append(state) or plan(state)
    coming = [InForce(np.zeros(1), 0.25)]
    state = np.array([0.3, -0.5])
    agent.act(state, coming=coming)
    agent.bias.recall(np.array([0.0, 0.4]))
    tick = agent.act(state, coming=coming)
    np.testing.assert_allclose(asked[1] - asked[0], [0.0, 0.1], atol=1e-6)
    assert tick.decided == {"bias_1": 0.4}
    assert agent.act(state).decided == {}, "nothing is on its way"
    np.testing.assert_array_equal(asked[2], state)
    agent.start_episode(0)
    np.testing.assert_array_equal(agent.bias.value, [0.0, 0.0])
