"""Fans: where a robot might be led by an action and a backup policy, all doubts of it against us.

Each trajectory takes one head of the model at its word, or the mean with η fixed at one pattern
and a share of the noise that adds up to two deviations of its sum. None ends at the bounds of what
plans imagine: what is to be kept may lie beyond them, and would always be kept.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.controller.backup import Array, Backup, Joints
from hucrl_ros.controller.bundle import Bundle
from hucrl_ros.controller.engines.networks import Floats


class Fan(NamedTuple):
    """Trajectories for each of C first actions."""

    states: NDArray[np.floating]
    """`(C, L, H + 1, p)`."""
    actions: NDArray[np.floating]
    """`(C, L, H, q)`, in [-1, 1]."""


class FanEngine(Protocol):
    """Imagines fans."""

    @property
    def heads(self) -> int:
        """J heads that are followed one by one."""

    @property
    def horizon(self) -> int:
        """H control periods that are looked ahead."""

    def follow_heads(self, states: Array, shares: Array) -> Array:
        """`(J, m)` what each head says of a period, from `(J, p)` under `(J, q)` of its own."""

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
        """Imagine one action, then a backup policy.

        Args:
            state: `(p,)` where the robot is.
            first: `(C, q)` actions of the first period, in [-1, 1].
            backup: What acts afterwards, no faster than the rate of actions allows.
            patterns: `(P, m)` η in [-1, 1], each held along its trajectory.
            beta: β, deviations of the model that η = 1 is worth; at 0 the mean is believed, and
                no head is asked.
            away: `(P, p)` how far from `state` each η begins. The backup, which acts on states
                that are predicted as this one was, doesn't see it.
            begins: `(J, p)` where each head begins, likewise; None: in `state`.
        """


def noise_shares(horizon: int) -> Floats:
    """`(H,)` deviations in each step whose sums are two deviations of the sum of the noise."""
    steps = np.arange(horizon + 1)
    return np.diff(2.0 * np.sqrt(steps)).astype(np.float32)


def unseen_of(joints: Joints, backup: Backup, state: Array, begins: Array) -> Array:
    """`(P, q)` what the backup adds who takes the robot for `state`, not for `begins` `(P, p)`."""
    return joints.shares(backup, state) - joints.shares(backup, begins)


class GraphFans:
    """Fans by `dynamics.onnx`, which tells nothing of single heads: η stands for them too."""

    heads = 0

    def __init__(
        self, bundle: Bundle, horizon: int, joints: Joints, limits: Array, rate: float = math.inf
    ) -> None:
        """Prepare for `horizon` periods; see `make_fans`."""
        self.horizon = horizon
        self._bundle, self._joints = bundle, joints
        self._limits, self._rate = limits, rate

    def follow_heads(self, states: Array, shares: Array) -> Array:
        """None is followed by itself."""
        return np.empty((0, states.shape[-1]))

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
        count, each, predicted = len(first), len(patterns), patterns.shape[1]
        signs = np.tile(patterns, (count, 1))
        led = np.broadcast_to(state + away, (each, len(state)))
        unseen = np.tile(unseen_of(self._joints, backup, state, led), (count, 1))
        now = np.tile(led, (count, 1))
        shares = np.repeat(first, each, axis=0)
        states: list[Array] = [now]
        actions: list[Array] = []
        for noise in noise_shares(self.horizon):
            shares = np.clip(shares, -1.0, 1.0)
            if actions:
                shares = np.clip(shares, actions[-1] - self._rate, actions[-1] + self._rate)
            mean, epistemic, aleatoric = self._bundle.run(
                "dynamics",
                state=now.astype(np.float32),
                action=(shares * self._limits).astype(np.float32),
            )
            following = mean + signs * (beta * epistemic + noise * aleatoric)
            now = now.copy()
            now[:, :predicted] = following
            actions.append(shares)
            states.append(now)
            shares = self._joints.shares(backup, now) + unseen
        shape = (count, each, -1)
        return Fan(
            np.stack(states, axis=1).reshape(*shape[:2], self.horizon + 1, len(state)),
            np.stack(actions, axis=1).reshape(*shape[:2], self.horizon, first.shape[1]),
        )
