"""Imagined trajectories by the compiled kernel that the controller plans with."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from hucrl_ros.controller.engines import kernel
from hucrl_ros.controller.engines.compiled import run_shared, shares
from hucrl_ros.controller.engines.networks import Floats, Networks
from hucrl_ros.controller.engines.program import (
    compile_program,
    padded,
    scratch_memory,
    write_layers,
)
from hucrl_ros.models.exploration import ImaginedDynamics
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.search.model_rollout import ModelRollout
from hucrl_ros.search.weights import critic_of, policies_of


class CompiledModelRollout(ModelRollout):
    """Imagines with the compiled kernel: several times as fast as torch, equal but for rounding.

    The model's weights are copied at construction; those of policies and critic at each call.
    """

    def __init__(
        self, actor_critic: ActorCritic, dynamics: ImaginedDynamics, networks: Networks
    ) -> None:
        """Lay out `networks`, which `networks_of` made of `actor_critic` and `dynamics`."""
        super().__init__(actor_critic, dynamics)
        spec = actor_critic.task.spec
        # The kernel reads memory without a look at its bounds.
        assert networks.constants["reach"].shape == (2, spec.predicted_dim)
        assert actor_critic.hallucination_dim == dynamics.hallucination_dim
        self._program = compile_program(networks, critic_of(actor_critic))
        self._state_dim = spec.state_dim
        self._width = spec.action_dim + actor_critic.hallucination_dim
        threads = torch.get_num_threads()
        self._scratch = [
            scratch_memory(self._program, self._state_dim, self._width) for _ in range(threads)
        ]
        self._helpers = ThreadPoolExecutor(max(threads - 1, 1), "imagine")

    def _roll_out(
        self, starts: Tensor, offsets: Tensor, noise: Tensor, feedback: bool
    ) -> tuple[Tensor, Tensor]:
        program, (steps, count, predicted) = self._program, noise.shape
        assert starts.shape == (count, self._state_dim)
        assert offsets.shape == (steps, count, self._width)
        assert predicted == len(program.target_mean)
        if feedback:
            policy, hallucination = policies_of(self.actor_critic)
            write_layers(program.layers, program.weights, [*policy, *hallucination])
        begins, added = _rows(starts), _rows(offsets.transpose(0, 1))
        disturbances = np.zeros((steps, predicted, padded(count)), np.float32)
        disturbances[:, :, :count] = noise.transpose(1, 2).numpy()
        states = np.empty((count, steps + 1, self._state_dim), np.float32)
        joint = np.empty((count, steps, self._width), np.float32)
        share = np.float32(feedback)

        def follow(index: int, first: int, last: int) -> None:
            scratch = self._scratch[index]
            kernel.roll_out(
                program, scratch, begins, added, disturbances, share, first, last, states, joint
            )

        run_shared(self._helpers, shares(count, len(self._scratch)), follow)
        return (
            torch.from_numpy(states).transpose(0, 1).contiguous(),
            torch.from_numpy(joint).transpose(0, 1).contiguous(),
        )

    def _values(self, states: Tensor) -> Tensor:
        program, critic = self._program, critic_of(self.actor_critic)
        write_layers(program.layers[-len(critic) :], program.weights, critic)
        assert states.shape[1] == self._state_dim
        visited, values = _rows(states), np.empty(len(states), np.float32)

        def evaluate(index: int, first: int, last: int) -> None:
            kernel.evaluate(program, self._scratch[index], visited, first, last, values)

        run_shared(self._helpers, shares(len(states), len(self._scratch)), evaluate)
        return self.actor_critic.critic.scale * torch.from_numpy(values)


def _rows(tensor: Tensor) -> Floats:
    """`tensor` as the kernel reads it."""
    array: Floats = tensor.contiguous().numpy()
    return array
