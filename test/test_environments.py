"""The tasks as gymnasium environments: its own checker, and the physics of training."""

import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch
from documents import DOCS, blocks
from gymnasium.utils.env_checker import check_env
from own_robots import ARM, write
from tiny_learning import short_episodes, tiny_config  # noqa: F401

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.environments import NAMESPACE, Environment
from hucrl_ros.experiments.train import train
from hucrl_ros.experiments.video import SIZE
from hucrl_ros.robots import make_robot
from hucrl_ros.robots.mujoco_robot import Plant
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.folder import RunFolder

EACH_TASK = pytest.mark.parametrize("task", known_tasks())
NO_BOUNDS = pytest.mark.filterwarnings("ignore:.*A Box observation space m.* value is")


def make(name, **options):
    return gymnasium.make(f"{NAMESPACE}/{name}-v0", **options).unwrapped


def play(env, actions, **options):
    """Observations `(T + 1, p)` and rewards `(T,)` of an episode."""
    observations, rewards = [env.reset(**options)[0]], []
    for action in actions:
        observation, reward, terminated, _, _ = env.step(action)
        assert not terminated
        observations.append(observation)
        rewards.append(reward)
    return np.array(observations), np.array(rewards)


def some_actions(env, count, seed=0):
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (count, *env.action_space.shape))


@NO_BOUNDS
@pytest.mark.parametrize("features", [False, True])
@EACH_TASK
def test_gymnasium_finds_nothing_to_complain_of(task, features):
    check_env(make(task, features=features), skip_render_check=True)


@NO_BOUNDS
def test_a_robot_of_ones_own_is_an_environment(tmp_path):
    env = make("robot", task=str(write(tmp_path, ARM)), action_penalty=0.5)
    check_env(env, skip_render_check=True)
    assert env.task.name == "mine"
    assert env.task.action_penalty == 0.5


@EACH_TASK
def test_physics_and_starts_are_the_simulators_to_the_last_bit(task):
    env = make(task)
    actions = some_actions(env, 20)
    env.reset(seed=5)
    plant = Plant(make_robot(task), seed=5)
    efforts = actions * np.asarray(plant.robot.spec.effort_limits)
    for episode in range(2):
        plant.reset(episode)
        seen, rewards = play(env, actions, seed=5) if episode == 0 else play(env, actions)
        states = [plant.robot.state]
        for effort in efforts:
            plant.command(effort)
            plant.period()
            states.append(plant.robot.state)
        told = [k for k, name in enumerate(env.task.described.robot.entries)
                if not name.startswith("object") or not name.endswith("velocity")]  # fmt: skip
        assert np.array_equal(seen[:, told], np.array(states)[:, told])
        together = env.task.rewards(seen[:-1], efforts)  # rounded otherwise by some processors
        np.testing.assert_allclose(rewards, together, rtol=1e-12)


@pytest.mark.usefixtures("short_episodes")
def test_actions_of_a_trained_episode_earn_its_return(tmp_path):
    run = RunFolder.create(tmp_path / "run", tiny_config(seed=3))
    summary = train(run.config, run)
    env = make("pendulum")
    env.reset(seed=3)
    for episode in summary.episodes:
        recorded = read_episode(run.bag(episode.index), env.task.spec, env.task.steps)
        options = {} if episode.index else {"seed": 3}
        shares = recorded.actions / np.asarray(env.task.spec.effort_limits)
        states, rewards = play(env, shares, **options)
        assert np.array_equal(states, recorded.states)
        assert rewards.sum() == episode.return_


def test_a_body_unlike_its_model_is_that_of_training(tmp_path):
    body = {"mass_error": 0.5, "motor_error": -0.4}
    path = write(tmp_path, {**ARM, "/**": {"ros__parameters": {"body": body}}})
    env, config = Environment(str(path)), asked_config(RunOptions(str(path)))
    assert config.body.mass_error == 0.5
    seen, _ = env.reset(seed=0)
    robot = env.task.robot(body=config.body)
    robot.set_state(seen)
    action = np.full(env.action_space.shape, 0.5, np.float32)
    expected = robot.step(action * np.asarray(env.task.spec.effort_limits))
    np.testing.assert_array_equal(env.step(action)[0], expected)


def test_what_makes_no_sense_is_refused_in_one_line():
    with pytest.raises(ConfigError, match="task = ''"):
        gymnasium.make("hucrl_ros/robot-v0")
    with pytest.raises(ConfigError, match="action_penalty"):
        Environment("pendulum", action_penalty=-5.0)
    env = make("pendulum")
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=r"action = \[nan\]"):
        env.unwrapped.step(np.array([np.nan], np.float32))
    env = make("reacher")
    env.reset(seed=0)
    for action in (0.5, [0.5], [[0.5]] * 7):  # NumPy would take it for that of each joint.
        with pytest.raises(ConfigError, match=r"action = .*: expected 7 finite numbers, in a row"):
            env.unwrapped.step(np.array(action, np.float32))


def test_a_seed_decides_every_episode():
    env, other = make("cartpole"), make("cartpole")
    actions = some_actions(env, 5)
    first = [play(env, actions, seed=1)[0], play(env, actions)[0]]
    again = [play(other, actions, seed=1)[0], play(other, actions)[0]]
    assert np.array_equal(first, again)
    starts = [first[0][0], first[1][0], play(env, actions, seed=2)[0][0]]
    assert len({start.tobytes() for start in starts}) == 3


def test_without_a_seed_each_environment_starts_in_its_own_way():
    starts = [make("cartpole").reset()[0] for _ in range(2)]
    assert not np.array_equal(*starts)


def test_actions_are_shares_of_the_limits_and_the_reward_counts_the_applied_effort():
    env, limit = make("cartpole", action_penalty=0.05), 3.0
    for action, effort in ((0.5, 0.5 * limit), (1.0, limit), (7.0, limit), (-7.0, -limit)):
        state, _ = env.reset(seed=0)
        _, reward, *_ = env.step(np.array([action]))
        assert env.robot.data.ctrl == pytest.approx(effort)
        tip = env.task.rewards(state[None], np.zeros((1, 1)))[0]
        assert reward == pytest.approx(tip - 0.05 * effort**2)


def test_an_episode_is_truncated_after_its_periods():
    env = make("pendulum")
    env.reset(seed=0)
    ends = [env.step(np.zeros(1))[2:4] for _ in range(env.task.steps)]
    assert ends == [(False, False)] * (env.task.steps - 1) + [(False, True)]
    env.reset()
    assert env.step(np.zeros(1))[3] is False


def test_features_are_those_that_our_policies_see():
    states, _ = play(make("pendulum"), [[0.5]] * 5, seed=0)
    features, _ = play(make("pendulum", features=True), [[0.5]] * 5, seed=0)
    expected = np.stack([np.cos(states[:, 0]), np.sin(states[:, 0])], axis=-1)
    assert features[:, :2] == pytest.approx(expected)
    assert features == pytest.approx(make("pendulum").task.features(torch.tensor(states)).numpy())


def test_the_documented_lines_train_an_agent_of_another_library():
    (block,) = (b for b in blocks(DOCS / "words.md", "python") if "stable_baselines3" in b)
    scope = {}
    exec(block.replace("24_000", "410"), scope)
    assert scope["model"].num_timesteps == 410
    assert scope["env"].unwrapped.task.action_penalty == 0.2


def test_a_picture_shows_the_robot():
    code = (
        "import numpy, hucrl_ros.experiments.environments as e; "
        "env = e.Environment('cartpole', render_mode='rgb_array'); env.reset(seed=0); "
        "first = env.render(); [env.step([1.0]) for _ in range(10)]; second = env.render(); "
        "env.close(); print(first.shape, first.dtype, (first != second).any())"
    )
    environment = {**os.environ, "MUJOCO_GL": "egl"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True,
                          text=True, check=False)  # fmt: skip
    if done.returncode:
        pytest.skip("MuJoCo can't render on this machine")
    assert done.stdout == f"({SIZE}, {SIZE}, 3) uint8 True\n"
    assert make("cartpole").render() is None
