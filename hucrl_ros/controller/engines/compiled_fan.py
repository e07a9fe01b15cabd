"""Fans by the planning kernel, with a backup policy in the place of π."""

import math
from collections.abc import Sequence

import numpy as np

from hucrl_ros.controller.backup import Array, Backup, Joints
from hucrl_ros.controller.engines import kernel
from hucrl_ros.controller.engines.fan import Fan, noise_shares, unseen_of
from hucrl_ros.controller.engines.networks import Dense, Floats, Networks
from hucrl_ros.controller.engines.program import (
    NONE,
    Program,
    compile_program,
    pack,
    padded,
    scratch_memory,
)


class CompiledFans:
    """Rolls out one program for each head, and one for the mean and η."""

    def __init__(
        self,
        networks: Networks,
        horizon: int,
        joints: Joints,
        limits: Array,
        rate: float = math.inf,
    ) -> None:
        """Prepare for `horizon` periods; see `make_fans`."""
        self.horizon = horizon
        self._joints = joints
        self._angles = networks.angles
        features = networks.policy[0].weights.shape[0]
        self._scales = networks.constants["scales"]
        predicted, count = len(networks.constants["target_mean"]), len(joints.positions)
        nothing = np.zeros((features, count), np.float32)
        self._policy = Dense(nothing, np.zeros(count, np.float32))
        held = Dense(np.zeros((features, predicted), np.float32), np.zeros(predicted, np.float32))
        heads = len(networks.constants["choice"])
        # Of a model with a prior, η stands for all doubt.
        alone = networks.process is None and not len(networks.whitener)
        anywhere = np.full(predicted, np.inf, np.float32)
        mean = networks.constants | {
            "choice": np.full(heads, 1.0 / heads, np.float32),
            # What the model doesn't know is η's alone, whatever the strategy makes of it.
            "total": np.zeros((), np.float32),
            "unchosen": np.zeros((), np.float32),
            "limits": limits.astype(np.float32),
            "reach": np.stack([-anywhere, anywhere]),
        }
        base = networks._replace(policy=[self._policy], hallucination=[held], constants=mean)
        self._shifted = _linear(base, rate)
        self._heads = [
            _linear(_one_head(base, head), rate) for head in range(heads if alone else 0)
        ]
        self._state_dim = len(networks.angles) + len(self._scales)
        self._width = count + predicted
        self._scratch = [
            scratch_memory(program, self._state_dim, self._width)
            for program in (self._shifted, *self._heads[:1])
        ]

    @property
    def heads(self) -> int:
        """J heads that are followed one by one."""
        return len(self._heads)

    def follow_heads(self, states: Array, shares: Array) -> Array:
        """One period of each; see `FanEngine`."""
        actions, predicted = shares.shape[1], self._width - shares.shape[1]
        found = np.empty((len(states), predicted))
        starts = np.ascontiguousarray(states.astype(np.float32))
        offsets = np.zeros((1, 1, self._width), np.float32)
        noise = np.zeros((1, predicted, padded(1)), np.float32)
        after = np.empty((1, 2, self._state_dim), np.float32)
        applied = np.empty((1, 1, self._width), np.float32)
        for row, program in enumerate(self._heads):
            offsets[0, 0, :actions] = shares[row]
            kernel.roll_out(
                program,
                self._scratch[1],
                starts[row : row + 1],
                offsets,
                noise,
                np.float32(0.0),
                0,
                1,
                after,
                applied,
            )
            found[row] = after[0, 1, :predicted]
        return found

    def __call__(
        self,
        state: Array,
        first: Array,
        backup: Backup,
        patterns: Array,
        beta: float,
        away: Array | float = 0.0,
        begins: Array | None = None,
    ) -> Fan:
        """Imagine; see `FanEngine`."""
        policy = self._dense(backup)
        packed = pack(policy.weights)  # It is the first layer of each program.
        for program in (self._shifted, *self._heads):
            first_bias = program.layers[0, 1]
            program.weights[: packed.size] = packed
            program.weights[first_bias : first_bias + len(policy.biases)] = policy.biases
        heads = self._heads if beta > 0.0 else []
        if begins is None:  # Then they share what goes into them.
            fans = self._roll(heads, 1, state, state[None], first, backup, None)
        else:
            fans = []
            for head, start in zip(heads, begins[: len(heads), None], strict=True):
                fans += self._roll([head], 1, state, start, first, backup, None)
        shifted = self._shifted._replace(beta=np.float32(beta))
        led = np.broadcast_to(state + away, (len(patterns), len(state)))
        signs = patterns.astype(np.float32)
        fans += self._roll([shifted], 0, state, led, first, backup, signs)
        return Fan(*(np.concatenate(arrays, axis=1) for arrays in zip(*fans, strict=True)))

    def _roll(
        self,
        programs: Sequence[Program],
        scratch: int,
        state: Array,
        begins: Array,
        first: Array,
        backup: Backup,
        patterns: Floats | None,
    ) -> list[Fan]:
        """Trajectories of `first` `(C, q)` from each of `begins` `(P, p)`, by each program.

        Under `patterns` `(P, m)`; None: no doubt.
        """
        if not programs:
            return []
        (count, actions), each = first.shape, len(begins)
        lanes, horizon = count * each, self.horizon
        offsets = np.zeros((lanes, horizon, self._width), np.float32)
        before = self._joints.shares(backup, begins)
        offsets[:, 0, :actions] = (first[:, None] - before).reshape(lanes, actions)
        unseen = unseen_of(self._joints, backup, state, begins)
        offsets[:, 1:, :actions] = np.tile(unseen, (count, 1))[:, None]
        noise = np.zeros((horizon, self._width - actions, padded(lanes)), np.float32)
        if patterns is not None:
            signs = np.tile(patterns, (count, 1))
            offsets[:, :, actions:] = signs[:, None]
            noise[:, :, :lanes] = noise_shares(horizon)[:, None, None] * signs.T
        # Laid out as always: for another layout numba compiles the kernel again, in a tick.
        starts = np.ascontiguousarray(np.tile(begins.astype(np.float32), (count, 1)))
        fans = []
        for program in programs:
            states = np.empty((lanes, horizon + 1, self._state_dim), np.float32)
            applied = np.empty((lanes, horizon, self._width), np.float32)
            kernel.roll_out(
                program,
                self._scratch[scratch],
                starts,
                offsets,
                noise,
                np.float32(1.0),
                0,
                lanes,
                states,
                applied,
            )
            fan = Fan(
                states.reshape(count, each, horizon + 1, -1),
                applied[:, :, :actions].reshape(count, each, horizon, actions),
            )
            fans.append(fan)
        return fans

    def _dense(self, backup: Backup) -> Dense:
        """The backup as a layer on features: cosines and sines of angles, entries in units."""
        joints, angles = self._joints, list(self._angles)
        others = [i for i in range(self._state_dim) if i not in angles]
        weights = np.zeros(self._policy.weights.shape, np.float64)
        biases = backup.bias.copy()
        for column, (position, velocity) in enumerate(
            zip(joints.positions, joints.velocities, strict=True)
        ):
            pull, place = backup.stiffness[:, column], backup.place[column]
            if joints.turns[column]:  # sin(q − place) = sin q cos place − cos q sin place
                row = angles.index(int(position))
                weights[row] += pull * np.sin(place)
                weights[len(angles) + row] -= pull * np.cos(place)
            else:
                row = others.index(int(position))
                weights[2 * len(angles) + row] -= pull * self._scales[row]
                biases += pull * place
            row = others.index(int(velocity))
            weights[2 * len(angles) + row] -= backup.damping[:, column] * self._scales[row]
        return Dense(weights.astype(np.float32), biases.astype(np.float32))


def _one_head(networks: Networks, head: int) -> Networks:
    """The networks with what one head says as all that there is, and no noise."""
    constants = networks.constants | {
        "choice": np.ones(1, np.float32),
        "beta": np.zeros((), np.float32),
    }
    model = [
        Dense(layer.weights[head : head + 1], layer.biases[head : head + 1])
        for layer in networks.model
    ]
    return networks._replace(model=model, constants=constants)


def _linear(networks: Networks, rate: float) -> Program:
    """The program with policies that are one layer, not squashed, and a limited rate."""
    program = compile_program(networks)._replace(rate=np.float32(rate))
    program.layers[:2, 4] = NONE
    return program
