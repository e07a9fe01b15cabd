"""The tolerance function of dm_control's rewards (Tassa et al., 2018), in torch."""

import math

import torch
from torch import Tensor


def tolerance(x: Tensor, lower: float, upper: float, margin: float) -> Tensor:
    """1 inside `[lower, upper]`, falling as a Gaussian to 0.1 at a distance of `margin`."""
    distance = torch.clamp(lower - x, min=0.0) + torch.clamp(x - upper, min=0.0)
    return torch.exp(math.log(0.1) * (distance / margin) ** 2)
