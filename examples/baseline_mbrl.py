"""mbrl-lib's MBPO and PETS on our tasks: `python baseline_mbrl.py pendulum --out DIR`.

It wants `pip install --no-deps mbrl==0.2.0 hydra-core==1.3.2 omegaconf==2.3.0
antlr4-python3-runtime==4.9.3 termcolor`, whose own pins don't fit this Python.
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from baseline_sb3 import main

from hucrl_ros.experiments.environments import Environment
from hucrl_ros.experiments.statistics import Row
from hucrl_ros.tasks.task import Task

try:
    import mbrl
    from mbrl.algorithms import mbpo, pets
    from omegaconf import DictConfig, OmegaConf
except ModuleNotFoundError as missing:
    sys.exit(f"{missing.name} isn't installed; the head of {Path(__file__).name} says how")

CONFIG = Path(mbrl.__file__).parent / "examples/conf"
CEM = {
    "_target_": "mbrl.planning.CEMOptimizer",
    "num_iterations": "${overrides.cem_num_iters}",
    "elite_ratio": "${overrides.cem_elite_ratio}",
    "population_size": "${overrides.cem_population_size}",
    "alpha": "${overrides.cem_alpha}",
    "lower_bound": "???",
    "upper_bound": "???",
    "return_mean_elites": True,
    "device": "cpu",
    "clipped_normal": "${overrides.cem_clipped_normal}",
}
"""The file that the package leaves out."""
OURS: dict[str, dict[str, Any]] = {
    "mbpo": {},
    # With its 350 candidates x 20 particles a control period takes seconds on one core; its 15
    # periods are 0.2 s of a pendulum.
    "pets": {"cem_population_size": 100, "num_particles": 5, "planning_horizon": 30},
}
"""What differs from the library's settings for its own cart-pole, besides an episode's length."""


class Recorded(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps the return of each whole episode."""

    def __init__(self, env: Environment, seed: int) -> None:
        super().__init__(env)
        self.returns: list[float] = []
        self._total = 0.0
        self.action_space.seed(seed)
        env.reset(seed=seed)

    def reset(self, **arguments: Any) -> Any:  # noqa: ANN401
        """Begin an episode."""
        self._total = 0.0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> Any:  # noqa: ANN401
        """Play a period."""
        found = self.env.step(action)
        self._total += float(found[1])
        if found[3]:
            self.returns.append(self._total)
        return found


def settings(algorithm: str, seed: int, steps: int, episodes: int) -> DictConfig:
    """The library's own, for its cart-pole; the first episode is random."""
    parts = {
        "algorithm": f"algorithm/{algorithm}",
        "dynamics_model": "dynamics_model/gaussian_mlp_ensemble",
        "overrides": f"overrides/{algorithm}_cartpole",
    }
    found = {name: OmegaConf.load(CONFIG / f"{path}.yaml") for name, path in parts.items()}
    config = OmegaConf.create(
        {**found, "action_optimizer": CEM, "seed": seed, "device": "cpu", "debug_mode": False}
    )
    config.log_frequency_agent = 10**9
    # The library makes these parts' parts by itself, as they were with the hydra of its time.
    config.dynamics_model._recursive_ = False
    if algorithm == "pets":
        config.algorithm.agent._recursive_ = False
    given, changed = config.overrides, dict(OURS[algorithm])
    given.num_steps, given.trial_length = (episodes - 1) * steps, steps
    config.algorithm.initial_exploration_steps = steps
    config.algorithm.dataset_size = episodes * steps
    if algorithm == "mbpo":
        given.epoch_length = steps
        config.algorithm.random_initial_explore = True
        # Its lists are none to today's gymnasium; the shape is filled in from the environment.
        space = {"_target_": "gymnasium.spaces.Box", "low": -1.0, "high": 1.0, "shape": "???"}
        config.algorithm.agent.action_space = space
    else:
        config.algorithm.num_particles = changed.pop("num_particles")
    given.update(changed)
    return config


def train(env: Environment, algorithm: str, seed: int, episodes: int) -> list[Row]:
    """One run; returns one row for each training episode."""
    task, penalty = env.task, env.task.action_penalty
    torch.manual_seed(seed)
    np.random.seed(seed)
    config = settings(algorithm, seed, task.steps, episodes)
    played = Recorded(env, seed)
    wall, cpu = time.perf_counter(), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        if algorithm == "mbpo":
            tested = Environment(str(task.described.path), penalty, features=True)
            mbpo.train(played, tested, _never, config, silent=True, work_dir=folder)
        else:

            def reward(action: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
                effort = action * torch.tensor(task.spec.effort_limits)
                return task.reward(_state(task, features), effort)[:, None]

            config.overrides.learned_rewards = False
            pets.train(played, _never, reward, config, silent=True, work_dir=folder)
    times = (time.perf_counter() - wall, time.process_time() - cpu)
    return [
        Row(task.name, algorithm, penalty, "", "", seed, episode, total, *[None] * 4, *times)
        for episode, total in enumerate(played.returns)
    ]


def _state(task: Task, features: torch.Tensor) -> torch.Tensor:
    """States `(n, p)` of features `(n, f)`, angles in (-π, π]."""
    state = features.new_zeros(len(features), task.spec.state_dim)
    count = len(task.angles)
    state[:, list(task.angles)] = torch.atan2(features[:, count : 2 * count], features[:, :count])
    rest = features[:, 2 * count : 2 * count + len(task.others)]
    state[:, task.others] = rest * torch.tensor(task.scales)
    return state


def _never(action: torch.Tensor, observed: torch.Tensor) -> torch.Tensor:
    """Episodes end by their length alone."""
    return torch.zeros(len(observed), 1, dtype=torch.bool)


if __name__ == "__main__":
    main(sys.argv[1:], train, ("mbpo", "pets"), Path(__file__).name)
