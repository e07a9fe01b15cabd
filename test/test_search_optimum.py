"""Every policy search against optima that matrix equations give, without and with optimism.

The fast tests ask for most of the way in a few seconds. The slow ones ask for the optimum within
2%, value and gain: `pytest -m slow test/test_search_optimum.py`, 10 to 90 seconds a search.
"""

import numpy as np
import pytest
import torch
from linear_system import (
    DISCOUNT,
    ExactStep,
    optimal_gain,
    optimal_value_matrix,
    optimistic_solution,
)
from searching import Climb, actors_of, search, settings_of, some_states

from hucrl_ros.search import SEARCHES, ModelRollout

EACH_SEARCH = pytest.mark.parametrize("algorithm", SEARCHES)
SCALES = (1.0, 0.0)
"""β σ of position and speed in the optimistic problem: the optimal η stays below 0.6."""
EXACT = {
    "lookahead": {"candidates": 32},
    "pathwise": {"candidate_noise": 0.01},
    "bptt": {"candidate_noise": 0.01, "bptt_kl": 0.0, "bptt_horizon": 5},
    "mpo": {"mpo_epsilon": 0.5, "mpo_epsilon_mean": 1.0, "candidates": 64},
    "td3": {"target_rate": 0.1, "expansion_steps": 10, "real_share": 0.0},
    "sac": {"target_rate": 0.1, "expansion_steps": 10, "real_share": 0.0, "entropy_weight": 0.003},
    "ppo": {"trace": 0.3, "policy_steps": 8},
}
"""Settings of each search for a smooth problem without noise."""
LONG = {"learning_rate": 5e-3, "iterations": 600, "policy_steps": 8}
SLOWER = {"td3": LONG, "sac": LONG, "ppo": {**LONG, "candidate_noise": 0.05}}
"""For the last percents."""
PUSHED = {**EXACT, "mpo": {}}
"""MPO's large steps lose their way where the critic is still wrong."""
CRITIC_ERROR = {"td3": 0.1, "sac": 0.15}
"""With optimism; seed 0 gave 0.078 and 0.132. V is only their guide for whole trajectories: they
climb their own action values."""
PATIENT = {
    "iterations": 300,
    "pool": 128,
    "batch_size": 256,
    "critic_steps": 8,
    "trial_interval": 1000,  # The end alone counts: a trial tells values, not gains.
}


class Outcome:
    """What a search achieves on the pushed mass, relative to the optimum."""

    def __init__(self, actors, step, value_matrix, gain):
        states = some_states()
        p = torch.tensor(value_matrix, dtype=torch.float32)
        optimum = -(states @ p * states).sum(dim=-1)
        rewards = ModelRollout(actors, step).imagine(states, 80).rewards
        achieved = (DISCOUNT ** torch.arange(80.0)[:, None] * rewards).sum(dim=0)
        with torch.no_grad():
            critic, joint = actors.critic(states), actors.joint(states)
            answers = torch.cat([actors.effort(joint[:, :1]), joint[:, 1:]], dim=-1)
        found = -np.linalg.lstsq(states.numpy(), answers.numpy(), rcond=None)[0].T
        size = float(optimum.abs().mean())
        self.regret = float((optimum - achieved).mean()) / size
        self.critic_error = float((critic - optimum).abs().mean()) / size
        self.gain_error = np.linalg.norm(found[: len(gain)] - gain) / np.linalg.norm(gain)


def regret_of_doing_nothing():
    actors = actors_of(settings_of())
    with torch.no_grad():
        for parameter in actors.policy.parameters():
            parameter.zero_()
    value, gain = optimistic_solution(SCALES)
    return Outcome(actors, ExactStep(), value, gain[:1]).regret


def outcome_of(algorithm, optimistic, seed=0, **changes):
    settings = settings_of(algorithm, **{**EXACT[algorithm], **changes})
    step = ExactStep(SCALES if optimistic else 0.0)
    solution = (
        optimistic_solution(SCALES) if optimistic else (optimal_value_matrix(), optimal_gain())
    )
    actors, result = search(settings, step, seed=seed)
    assert result.refused == 0
    actors.load_state_dict(result.weights)
    return Outcome(actors, step, *solution)


def test_the_augmented_problem_without_uncertainty_is_the_ordinary_one():
    value, gain = optimistic_solution((0.0, 0.0))
    np.testing.assert_allclose(value, optimal_value_matrix(), rtol=1e-9)
    np.testing.assert_allclose(gain, optimal_gain(), rtol=1e-9)


def test_optimism_is_worth_something_and_stays_within_bounds():
    value, gain = optimistic_solution(SCALES)
    assert (np.linalg.eigvalsh(optimal_value_matrix() - value) > 0.0).all()
    corners = np.array([[0.5, 0.5], [0.5, -0.5]]).T
    assert np.abs(gain[1:] @ corners).max() <= 0.6


@pytest.mark.parametrize("algorithm", ["lookahead", "pathwise", "td3", "ppo"])
def test_a_short_search_goes_most_of_the_way_to_the_optimistic_optimum(algorithm):
    # `td3`'s first rounds are luck: of five seeds, two are still worse than nothing after 40.
    iterations = 80 if algorithm == "td3" else 40
    short = outcome_of(algorithm, optimistic=True, iterations=iterations, trial_interval=40)
    assert short.regret < 0.1 * regret_of_doing_nothing()


@EACH_SEARCH
@pytest.mark.slow
@pytest.mark.parametrize("optimistic", [False, True], ids=["certain", "optimistic"])
def test_a_search_finds_the_optimum(algorithm, optimistic):
    found = outcome_of(algorithm, optimistic, **{**PATIENT, **SLOWER.get(algorithm, {})})
    assert found.regret < 0.02
    if optimistic:  # There, the value hardly depends on the effort, as η does most of the work.
        assert found.critic_error < CRITIC_ERROR.get(algorithm, 0.05)
    else:
        assert found.critic_error < 0.02
        assert found.gain_error < 0.02


@EACH_SEARCH
@pytest.mark.slow
def test_optimism_pushes_towards_reward(algorithm):
    settings = settings_of(algorithm, **{**PUSHED[algorithm], "restart": 0.5})
    actors, result = search(settings, ExactStep(0.3), Climb(0.0), seed=2)
    with torch.no_grad():
        joint = actors.joint(some_states())
    assert (joint.mean(dim=0) > 0.8).all()  # the push, and η of position and speed
    honest = ModelRollout(actors, ExactStep()).imagine(result.episode.states[0], Climb.steps)
    assert result.episode.rewards.sum(dim=0).mean() > honest.rewards.sum(dim=0).mean()
