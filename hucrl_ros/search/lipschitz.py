"""Networks that can't change faster than they are allowed to."""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

SILU_SLOPE = 1.1
"""Largest slope of SiLU, rounded up."""


class RowBound(nn.Module):
    """Scales the rows of a weight matrix down to a sum of absolute values (Liu et al., 2022).

    That sum bounds the layer's Lipschitz constant in the maximum norm.
    """

    def __init__(self, bound: float) -> None:
        super().__init__()
        self._bound = bound

    def forward(self, weight: Tensor) -> Tensor:
        """The weight `(outputs, inputs)` that the layer uses."""
        sums = weight.abs().sum(dim=1, keepdim=True)
        return weight * (self._bound / torch.clamp_min(sums, self._bound))


def bound_lipschitz(network: nn.Sequential, constant: float) -> None:
    """Let no output change by more than `constant` times the largest change of an input.

    Each of the L linear layers gets an equal share of the constant, SiLU's slope between them
    counted. The bound holds for any weights, so that learning needs no penalty.
    """
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    share = (constant / SILU_SLOPE ** (len(linear) - 1)) ** (1.0 / len(linear))
    for layer in linear:
        parametrize.register_parametrization(layer, "weight", RowBound(share))
