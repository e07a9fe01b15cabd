"""stable-baselines3 on our tasks, beside our own runs: `python baseline_sb3.py pendulum`."""

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise

import hucrl_ros.experiments.environments  # noqa: F401 - registers the tasks
from hucrl_ros.experiments.statistics import Row, write_rows


def train(task: str, algorithm: str, penalty: float, seed: int, episodes: int) -> list[Row]:
    """One run with the library's defaults; returns one row for each training episode.

    Three things differ: the policy sees the task's features, as ours do; exactly the first
    episode is random; TD3 has the exploration noise of its paper, as the library has none.
    """
    env = gymnasium.make(f"hucrl_ros/{task}-v0", action_penalty=penalty, features=True)
    steps, count = env.unwrapped.task.steps, env.action_space.shape
    arguments = {"learning_starts": steps, "train_freq": 1, "gradient_steps": 1, "seed": seed}
    if algorithm == "td3":
        arguments["action_noise"] = NormalActionNoise(np.zeros(count), np.full(count, 0.1))
    wall, cpu = time.perf_counter(), time.process_time()
    model = {"sac": SAC, "td3": TD3}[algorithm]("MlpPolicy", env, device="cpu", **arguments)
    model.learn(steps * episodes)
    wall_s, cpu_s = time.perf_counter() - wall, time.process_time() - cpu
    return [
        Row(task, algorithm, penalty, "", "", seed, episode, total, *[None] * 4, wall_s, cpu_s)
        for episode, total in enumerate(model.get_env().envs[0].get_episode_rewards())
    ]


def main(words: list[str] | None = None) -> None:
    """Train every run in turn; `returns.csv` grows by each that is done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task")
    parser.add_argument("--algorithm", choices=("sac", "td3"), default="sac")
    parser.add_argument("--action-penalties", type=float, nargs="+", default=[0.2, 0.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True, help="folder of returns.csv")
    asked, rows = parser.parse_args(words), list[Row]()
    asked.out.mkdir(parents=True, exist_ok=True)
    for seed in asked.seeds:
        for penalty in asked.action_penalties:
            rows += train(asked.task, asked.algorithm, penalty, seed, asked.episodes)
            write_rows(asked.out / "returns.csv", rows)
            print(f"{asked.algorithm}, ρ = {penalty:g}, seed {seed}: {rows[-1].return_:.1f} in "
                  f"the last episode, {rows[-1].wall_s:.0f} s", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
