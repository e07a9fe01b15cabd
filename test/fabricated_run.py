"""Folders of runs that nobody learned: random and energy-pumping episodes, recorded as bags."""

import json
import math
from pathlib import Path

import numpy as np
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

from hucrl_ros.bags.messages import string
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.topics import SETUP
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import EpisodeSummary, Summary, TickStatistics, write_summary
from hucrl_ros.tasks import make_task

PERIOD_NS = 12_500_000
STEPS = 400


def swing_up(noise, rng):
    """States `(401, 2)` and actions `(400, 1)` of a pendulum that is pumped up and balanced."""
    robot = make_task("pendulum", 0.2).robot()
    states, actions = [robot.reset(rng)], []
    for _ in range(STEPS):
        angle, speed = states[-1]
        upright = math.remainder(angle, 2 * math.pi)
        energy = 0.5 * speed**2 + 9.81 / 0.5 * (math.cos(angle) - 1)
        torque = (
            -4 * upright - speed if abs(upright) < 0.4 else -math.copysign(0.6, energy * speed)
        )
        actions.append(np.clip([torque + noise * rng.normal()], -1, 1))
        states.append(robot.step(actions[-1]))
    return np.stack(states), np.stack(actions)


def play_random(rng):
    """States and actions of a pendulum under random torques."""
    robot = make_task("pendulum", 0.2).robot()
    states, actions = [robot.reset(rng)], rng.uniform(-1, 1, (STEPS, 1))
    states += [robot.step(action) for action in actions]
    return np.stack(states), actions


def record(folder, states, actions, tick_ms, bundle=None, left_out=()):
    """Write an episode's bag.

    `bundle`: path of the one that played, if the bag tells; `left_out`: numbers of joint states
    that are not in it.
    """
    recording = Recording(folder)
    if bundle is not None:
        told = {"step": 0, "bundle": Path(bundle).name}
        recording.add(SETUP, string(json.dumps(told)))
    recording.add(ACTIVE, boolean(True))
    begin = recording.now_ns
    for k, state in enumerate(states):
        stamp = (k + 10) * PERIOD_NS
        effort = [0.0] if k == 0 else actions[k - 1]
        recording.now_ns = max(recording.now_ns, begin + k * PERIOD_NS)
        if k not in left_out:
            recording.add(JOINT_STATES, joint_state(stamp, state[:1], state[1:], effort))
        if k < len(actions):
            recording.add(COMMANDS, floats(actions[k]))
            recording.add(TICKS, tick(stamp, k, actions[k], tick_ms[k]))
    recording.add(ACTIVE, boolean(False))
    recording.writer.close()


def fabricate_run(root: Path, noises=(0.4, 0.0), steps=400, **settings) -> RunFolder:
    """A random episode, then one for each of `noises`, with bags and a summary."""
    rng = np.random.default_rng(0)
    config = Config(**{"episodes": 1 + len(noises), **settings})
    run = RunFolder.create(root, config)
    task = make_task("pendulum", config.action_penalty)
    dream = swing_up(0.0, rng)
    episodes = []
    for index, noise in enumerate([None, *noises]):
        states, actions = play_random(rng) if noise is None else swing_up(noise, rng)
        states, actions = states[: steps + 1], actions[:steps]
        tick_ms = rng.lognormal(1.0, 0.1, steps)
        record(run.bag(index), states, actions, tick_ms)
        rewards = task.rewards(dream[0][:-1], dream[1])
        run.bundle(index).mkdir()
        if noise is not None:
            np.savez(
                run.bundle(index) / "promise.npz",
                states=dream[0],
                actions=dream[1],
                rewards=rewards,
            )
        episodes.append(
            EpisodeSummary(
                index=index,
                return_=task.rewards(states[:-1], actions).sum(),
                predicted_return=None if noise is None else rewards.sum(),
                steps=steps,
                tick_ms=TickStatistics.of(tick_ms),
                bag=str(run.bag(index).relative_to(run.root)),
            )
        )
    write_summary(
        run.summary,
        Summary.of(config, optimum=task.optimum, episodes=episodes, wall_s=1.0, cpu_s=1.0),
    )
    return run
