"""What every planner has in common (App. Online Planning). numpy only."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.schema import PlannerSettings

Array = NDArray[np.float32]


class Rollouts(NamedTuple):
    """Imagined trajectories of N particles. The arrays may be overwritten by the next call."""

    returns: Array
    """`(N,)` discounted rewards, then the discounted critic of the last state."""
    states: Array
    """`(N, H + 1, p)`."""
    actions: Array
    """`(N, H, q + h)` efforts and hallucinated actions as applied, in [-1, 1]."""


class Imagine(Protocol):
    """Rolls particles out from the present state."""

    @property
    def state(self) -> Array:
        """The present state `(p,)`."""

    def __call__(self, offsets: Array, noise: Array, feedback: float) -> Rollouts:
        """Imagine the outcome of `clip(feedback · (π, η) + offsets, -1, 1)`.

        Args:
            offsets: `(N, H, q + h)` in shares of the limits; N is the planner's `particles`.
            noise: `(H, m)` standard normal, the same for all particles.
            feedback: 1 adds the learned policies, 0 plans open loop.
        """


class System(Protocol):
    """The imagined system, for planners that need more of it than rollouts."""

    steps: int
    """Control periods in an episode."""
    discount: float
    """γ, for one control period."""
    angles: tuple[int, ...]
    """State entries that are angles."""
    state_bounds: NDArray[np.float32]
    """`(2, m)` least and largest value of each predicted entry; infinite where there are none."""

    def step(
        self,
        states: NDArray[np.float64],
        actions: NDArray[np.float64],
        noise: NDArray[np.float64] | float = 0.0,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Next states `(N, p)` and rewards `(N,)`.

        Args:
            states: `(N, p)`.
            actions: `(N, q + h)` efforts and hallucinated actions, in [-1, 1].
            noise: `(m,)` standard normal, the same for all; or one number for all entries.
        """

    def rewards(
        self, states: NDArray[np.float64], actions: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Rewards `(N,)` alone."""

    def values(self, states: NDArray[np.float64]) -> NDArray[np.float64]:
        """The critic's values `(N,)` of `states` `(N, p)`."""


class Plan(NamedTuple):
    """The plan of one tick."""

    actions: Array
    """`(H, q + h)` efforts and hallucinated actions, in [-1, 1]; means, where policies react."""
    states: Array
    """`(H + 1, p)` mean of the trajectories that the strategy imagines for them."""
    planned_return: float
    """Expected return: discounted rewards, then the critic of the last state."""
    iterations: int
    """Refinements done."""


class Planner(ABC):
    """Chooses the actions of the next H control periods.

    A planner keeps what it needs of the last tick's plan, so `plan` is called once a tick.
    """

    needs_gradients: ClassVar[bool] = False
    """Whether plans follow the gradient of the reward."""
    particles: int
    """N, particles in each call of `imagine`."""

    def __init__(self, settings: PlannerSettings, state_dim: int, width: int) -> None:
        """Plan for m = `state_dim` predicted entries and actions `(width,)`, width = q + h."""
        self.settings = settings
        self.state_dim = state_dim
        self.width = width
        self.particles = settings.particles

    def prepare(self, system: System) -> None:  # noqa: B027 - most need nothing of it
        """Do what needs the imagined system but no state; called once, and it may take seconds."""

    @abstractmethod
    def reset(self, rng: np.random.Generator) -> None:
        """Forget the last plan; draw from `rng` from now on."""

    @abstractmethod
    def plan(self, imagine: Imagine, go_on: Callable[[], bool], periods: int = 1) -> Plan | None:
        """Plan one tick.

        Args:
            imagine: Rolls out from the present state.
            go_on: Asked before each iteration; False means that the time is up.
            periods: Since the last call; more than 1 where ticks went by without one.

        Returns:
            The best plan found so far, or None when there was no time for a single iteration
            or nothing finite came out.
        """


def draw_noise(rng: np.random.Generator, settings: PlannerSettings, state_dim: int) -> Array:
    """Standard normal `(K, H, state_dim)` for one tick, K = `noise_draws`; or one of zeros.

    All particles of a tick share them (common random numbers): with noise of its own, the
    luckiest one would win. Half of them are the others with the sign changed (antithetic
    variates, Hammersley & Morton 1956): a plan knows all draws, and where their mean isn't zero
    it would counteract that, which no robot can.
    """
    shape = (settings.noise_draws // 2, settings.horizon, state_dim)
    drawn = rng.standard_normal(shape, dtype=np.float32)
    return np.concatenate([drawn, -drawn]) if len(drawn) else np.zeros((1, *shape[1:]), np.float32)


def expect(imagine: Imagine, offsets: Array, noise: Array, feedback: float) -> Rollouts:
    """Means of the rollouts under each of the noises `(K, H, m)`, in new arrays."""
    drawn = [[array.copy() for array in imagine(offsets, each, feedback)] for each in noise]
    return Rollouts(*(np.mean(arrays, axis=0) for arrays in zip(*drawn, strict=True)))
