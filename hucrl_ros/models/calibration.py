"""Whether a model's intervals cover what they claim, and the scale that makes them do so."""

from typing import NamedTuple

import torch
from torch import Tensor

LEVELS = torch.arange(0.05, 0.96, 0.05)
"""Probabilities of the intervals that are judged."""
SCALES = torch.logspace(-1.0, 1.0, 81)
"""Factors on the epistemic deviation that are tried."""
RELUCTANCE = 0.002
"""Calibration error that a factor of e in the scale must gain: else 1 stays."""


class Residuals(NamedTuple):
    """What a model said of transitions, and what came; in standard deviations of the targets."""

    error: Tensor
    """`(n, m)` observed minus expected."""
    epistemic: Tensor
    """`(n, m)`"""
    aleatoric: Tensor
    """`(n, m)`"""

    def std(self, scale: Tensor) -> Tensor:
        """Total deviation `(n, m)` with the epistemic one times `scale` `(m,)`."""
        total = ((scale * self.epistemic) ** 2 + self.aleatoric**2).sqrt()
        return total.clamp_min(1e-6)  # One head without noise claims certainty.


def calibration_error(residuals: Residuals, scale: Tensor) -> Tensor:
    """Expected calibration error `(m,)`: mean |claimed − observed| coverage over the levels.

    The central intervals of the Gaussian prediction (Kuleshov et al., 2018, with equal weights).
    """
    levels = LEVELS.to(residuals.error.device)
    reach = torch.special.ndtri((1.0 + levels) / 2.0)
    inside = (residuals.error.abs() / residuals.std(scale)).unsqueeze(-1) <= reach
    difference: Tensor = inside.float().mean(dim=0) - levels
    return difference.abs().mean(dim=-1)


def epistemic_scale(residuals: Residuals) -> Tensor:
    """Factor `(m,)` on each entry's epistemic deviation with the least calibration error.

    One number an entry, so that some ten held-out transitions suffice, and a recalibrated
    model is still a mean and a deviation that can be planned with (cf. Malik et al., 2019).
    """
    scales = SCALES.to(residuals.error.device)
    errors = torch.stack([calibration_error(residuals, scale) for scale in scales])
    cost = errors + RELUCTANCE * scales.log().abs().unsqueeze(-1)
    return scales[cost.argmin(dim=0)]
