"""stable-baselines3 on our tasks: `python baseline_sb3.py pendulum --out DIR`."""

import argparse
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from stable_baselines3 import SAC, TD3
from stable_baselines3.common.noise import NormalActionNoise

from hucrl_ros.experiments.comparison import write_comparison
from hucrl_ros.experiments.environments import Environment
from hucrl_ros.experiments.statistics import Row, read_rows, write_rows
from hucrl_ros.run.asked import RunOptions, asked_config

TIMES_OURS = 20
"""Episodes of a run in multiples of ours."""


def train(env: Environment, algorithm: str, seed: int, episodes: int) -> list[Row]:
    """One run with the library's settings; returns one row for each training episode.

    Three things differ: the policy sees the task's features, as ours do; exactly the first
    episode is random; TD3 has the exploration noise of its paper, as the library has none.
    """
    task, penalty, count = env.task, env.task.action_penalty, env.action_space.shape
    arguments = {"learning_starts": task.steps, "train_freq": 1, "gradient_steps": 1, "seed": seed}
    if algorithm == "td3":
        arguments["action_noise"] = NormalActionNoise(np.zeros(count), np.full(count, 0.1))
    wall, cpu = time.perf_counter(), time.process_time()
    model = {"sac": SAC, "td3": TD3}[algorithm]("MlpPolicy", env, device="cpu", **arguments)
    model.learn(task.steps * episodes)
    times = (time.perf_counter() - wall, time.process_time() - cpu)
    return [
        Row(task.name, algorithm, penalty, "", "", seed, episode, total, *[None] * 4, *times)
        for episode, total in enumerate(model.get_env().envs[0].get_episode_rewards())
    ]


def main(
    words: list[str],
    train: Callable[[Environment, str, int, int], list[Row]] = train,
    algorithms: tuple[str, ...] = ("sac", "td3"),
    script: str = "baseline_sb3.py",
) -> None:
    """Train what `returns.csv` lacks, or has fewer episodes of; then write table and figure."""
    parser = argparse.ArgumentParser(
        description="Others' algorithms on our tasks, beside our runs."
    )
    parser.add_argument("task", help="its name, or the YAML of a robot of your own")
    parser.add_argument("--algorithms", choices=algorithms, nargs="*", default=algorithms)
    parser.add_argument("--action-penalties", type=float, nargs="+", help="default: the task's")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--episodes", type=int, help=f"default: {TIMES_OURS} times ours")
    parser.add_argument("--goal", type=float, help="return that counts as learned")
    parser.add_argument("--beside", type=Path, help="returns.csv of a sweep on the task")
    parser.add_argument("--out", type=Path, required=True, help="folder")
    asked = parser.parse_args(words)
    config = asked_config(RunOptions(asked.task))
    asked.out.mkdir(parents=True, exist_ok=True)
    table = asked.out / "returns.csv"
    rows = read_rows(table) if table.is_file() else list[Row]()
    if found := {row.task for row in rows} - {config.task}:
        parser.error(f"--out {asked.out}: holds runs of {', '.join(found)}, not {config.task}")
    penalties = asked.action_penalties or [config.action_penalty]
    episodes = asked.episodes or TIMES_OURS * config.episodes
    for seed in asked.seeds:
        for penalty in penalties:
            env = Environment(asked.task, penalty, features=True)
            for name in asked.algorithms:
                of_run = (name, penalty, seed)
                others = [r for r in rows if (r.strategy, r.action_penalty, r.seed) != of_run]
                if len(rows) - len(others) < episodes:
                    rows = [*others, *train(env, name, seed, episodes)]
                    write_rows(table, rows)
                    last = rows[-1]
                    print(f"{name}, ρ = {penalty:g}, seed {seed}: last return {last.return_:.1f}, "
                          f"{last.wall_s:.0f} s", flush=True)  # fmt: skip
    beside = read_rows(asked.beside) if asked.beside else []
    shown = {(row.task, row.action_penalty) for row in rows}
    ours = [row for row in beside if (row.task, row.action_penalty) in shown]
    command = shlex.join(["python", f"examples/{script}", *words])
    seconds = env.task.steps * env.task.spec.period
    optima = env.task.described.task.optima
    write_comparison(asked.out, [*ours, *rows], seconds, asked.goal, command, optima)


if __name__ == "__main__":
    main(sys.argv[1:])
