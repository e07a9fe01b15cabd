"""Rewards where no torch is: a bundle's are the task's."""

import numpy as np
import pytest
from bundle_factory import SHORT_RAIL, write_bundle
from fabricated_run import play_random, swing_up

from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.robots import describe
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.judged_task import OTHER_REWARDS, BundledTask, check_remote
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.tasks import make_task

TASK = make_task("pendulum", 0.2)


def bundled(run):
    return BundledTask(run, Config(), describe("pendulum"))


@pytest.mark.parametrize("strategy", ["greedy", "thompson", "optimistic"])
def test_a_bundle_tells_the_tasks_rewards(run_folder, strategy):
    write_bundle(run_folder.bundle(0), strategy)
    rng = np.random.default_rng(0)
    for states, actions in (play_random(rng), swing_up(0.1, rng)):
        expected = TASK.rewards(states[:-1], actions)
        found = bundled(run_folder).rewards(states[:-1], actions)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_what_is_paid_for_constraints_is_no_part_of_the_tasks_rewards(run_folder):
    write_bundle(run_folder.bundle(0), task=SHORT_RAIL)
    task = make_task(SHORT_RAIL, 0.2)
    states = np.array([[0.0, 3.0, 0.0, 0.0], [1.2, 3.0, 1.0, 0.0]])
    found = BundledTask(run_folder, Config(), task.described).rewards(states, np.ones((2, 1)))
    np.testing.assert_allclose(found, task.rewards(states, np.ones((2, 1))), atol=1e-5)


def test_efforts_beyond_the_limits_cost_what_they_cost(run_folder):
    write_bundle(run_folder.bundle(0))
    states, actions = np.zeros((3, 2)), np.array([[-1.5], [0.0], [1.5]])
    expected = TASK.rewards(states, actions)
    np.testing.assert_allclose(bundled(run_folder).rewards(states, actions), expected, atol=1e-5)


def test_the_rest_is_the_tasks_as_well(run_folder):
    task = bundled(run_folder)
    assert (task.spec, task.steps, task.optimum) == (TASK.spec, TASK.steps, TASK.optimum)


def test_nothing_has_no_reward_and_needs_no_bundle(run_folder):
    assert bundled(run_folder).rewards(np.zeros((0, 2)), np.zeros((0, 1))).shape == (0,)


def test_without_a_bundle_that_is_said(run_folder):
    with pytest.raises(RunError, match="no bundle that tells the reward"):
        bundled(run_folder).rewards(np.zeros((1, 2)), np.zeros((1, 1)))


@pytest.mark.parametrize("strategy", OTHER_REWARDS)
def test_a_strategy_whose_bundles_tell_another_reward_is_refused(run_folder, strategy, tmp_path):
    write_bundle(run_folder.bundle(0), strategy)
    rng = np.random.default_rng(0)
    states, actions = play_random(rng)
    other = bundled(run_folder).rewards(states[:-1], actions)
    assert np.abs(other - TASK.rewards(states[:-1], actions)).max() > 0.01, "or let it be played"
    options = RunOptions(
        "pendulum", overrides={"strategy": strategy}, out=tmp_path / "new", remote_learner=True
    )
    with pytest.raises(ConfigError, match=f"strategy = '{strategy}': .* choose one of: greedy"):
        prepare_run(options)
    assert not (tmp_path / "new").exists()
    check_remote(Config(strategy="thompson"))
