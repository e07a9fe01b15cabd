"""Affine normalisation fitted to data and stored inside the graph."""

import torch
from torch import Tensor, nn


class Normaliser(nn.Module):
    """Maps data to zero mean and unit variance, and back.

    Dividing entries that (almost) never vary in the data by their tiny deviation would turn the
    smallest novelty into a huge input; they get another one.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(dim))
        self.register_buffer("std", torch.ones(dim))

    def fit(
        self, data: Tensor, instead: Tensor | None = None, least: Tensor | None = None
    ) -> None:
        """Take mean and deviation of `data` `(n, dim)`.

        Args:
            data: What is to be of order one.
            instead: Deviations `(dim,)` for entries that don't vary; None: 1.
            least: Smallest deviations `(dim,)` of those that do; None: 0.
        """
        mean, std = data.mean(dim=0), data.std(dim=0, unbiased=False)
        rounding = 1e-8 + 1e-6 * mean.abs()  # what float32 makes of a constant column
        self.mean.copy_(mean)
        still = std < rounding
        std = std if least is None else torch.maximum(std, least)
        self.std.copy_(
            torch.where(still, torch.ones_like(std) if instead is None else instead, std)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `(..., dim)`."""
        return (x - self.mean) / self.std

    def inverse(self, x: Tensor) -> Tensor:
        """Undo `forward`."""
        return x * self.std + self.mean
