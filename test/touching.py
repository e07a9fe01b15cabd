"""States in which a link of an arm touches an object."""

import torch
from torch import Tensor

from hucrl_ros.tasks import Task


def touching(task: Task, count: int) -> Tensor:
    """Imagined states `(count, p)`: the object is close to a link of the arm, which is at rest."""
    draws = torch.Generator().manual_seed(0)
    states = task.imagined_states(100 * count, draws)
    geometry, joints = task.geometry, len(task.spec.joint_names)
    states[:, joints : 2 * joints] = 0.0
    link, (x, y, z) = geometry.touches[0], geometry.object_entries
    first, second = (geometry.sites[end](states[:, :joints]) for end in (link.first, link.second))
    place = first + torch.rand(len(states), 1, generator=draws) * (second - first)
    place += 0.05 * torch.randn(place.shape, generator=draws)
    states[:, x], states[:, y] = place[:, 0], place[:, 1]
    level = (place[:, 2] - states[:, z]).abs() < 0.03
    assert level.sum() >= count
    return states[level][:count]
