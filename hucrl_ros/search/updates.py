"""Gradient steps that never leave anything behind that isn't a number."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

MAX_GRADIENT = 1.0
"""Longer gradients are shortened to this."""


class GuardedAdam(torch.optim.Adam):
    """Adam on clipped gradients; a step whose gradient isn't finite is refused and counted."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        self.refused = 0
        """Steps refused so far."""
        super().__init__(parameters, lr=lr, fused=True)

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Go a step, or leave weights and moments as they are."""
        assert closure is None
        parameters = [p for group in self.param_groups for p in group["params"]]
        norm = torch.nn.utils.clip_grad_norm_(parameters, MAX_GRADIENT)
        if torch.isfinite(norm):
            super().step()
        else:
            self.refused += 1


def descend(loss: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """One step of gradient descent."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
