"""An action of the agent and what is known of it."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Source(IntEnum):
    """Where an action came from."""

    PLANNED = 0
    PREVIOUS = 1
    """The previous tick's plan, shifted."""
    POLICY = 2
    RANDOM = 3
    SAFE = 4
    """No effort."""


class Tick(NamedTuple):
    """An action and what is known of it. A number that doesn't exist is NaN."""

    action: NDArray[np.float64]
    """`(q,)` efforts [N m or N], within the limits."""
    source: Source
    iterations: int
    """Planner iterations done in this tick."""
    planned_return: float
    """Discounted return predicted for the plan, with the critic of its last state."""
    epistemic_std: float
    """Mean over state entries, in standard deviations of the normalised targets."""
    aleatoric_std: float
    """Mean over state entries, in standard deviations of the normalised targets."""
    hallucination: float
    """Mean |η| of the first step; 0 for a strategy without it."""
    optimistic: NDArray[np.float32] | None
    """`(H + 1, p)` trajectory that the plan imagines."""
    overrun: bool = False
    """The plan was not ready at the tick's deadline."""
