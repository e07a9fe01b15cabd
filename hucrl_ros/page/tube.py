"""A tube around a way, as triangles: its radius is an uncertainty."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
SIDES = 12


def spread(ways: Array, centre: Array) -> Array:
    """Root mean square distance `(T,)` of N ways `(N, T, 3)` from one `(T, 3)` [m]."""
    squared = ((ways - centre) ** 2).sum(axis=-1)
    return np.asarray(np.sqrt(squared.mean(axis=0)))


def tube(way: Array, radii: Array) -> tuple[Array, NDArray[np.int64]]:
    """Vertices and faces of a tube.

    Args:
        way: `(T, 3)` its middle [m]; points may coincide.
        radii: `(T,)` [m]

    Returns:
        `(T · SIDES, 3)` vertices, each point's ring after another; `(2 (T − 1) SIDES, 3)` faces.
    """
    first, second = _across(way)
    angles = np.linspace(0.0, 2.0 * np.pi, SIDES, endpoint=False)[None, :, None]
    ring = np.cos(angles) * first[:, None] + np.sin(angles) * second[:, None]
    vertices = way[:, None] + radii[:, None, None] * ring
    here = np.arange(SIDES)
    along = np.arange(len(way) - 1)[:, None] * SIDES
    a, b = along + here, along + (here + 1) % SIDES
    faces = np.concatenate(
        [np.stack([a, b, b + SIDES], -1), np.stack([a, b + SIDES, a + SIDES], -1)]
    )
    return vertices.reshape(-1, 3), faces.reshape(-1, 3)


def _across(way: Array) -> tuple[Array, Array]:
    """Two unit vectors `(T, 3)` at right angles to the way; they turn as little as they can."""
    steps = np.diff(way, axis=0)
    directions = np.concatenate([steps, steps[-1:]])
    first = np.empty_like(way)
    before = np.array([0.0, 1.0, 0.0])
    heading = np.array([1.0, 0.0, 0.0])
    for row, direction in enumerate(directions):
        length = np.linalg.norm(direction)
        heading = direction / length if length > 1e-9 else heading
        directions[row] = heading
        across = before - heading * (before @ heading)
        if np.linalg.norm(across) < 1e-6:
            least = np.eye(3)[np.argmin(np.abs(heading))]
            across = least - heading * (least @ heading)
        before = first[row] = across / np.linalg.norm(across)
    return first, np.cross(directions, first)
