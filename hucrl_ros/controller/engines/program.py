"""How the planning kernel sees a bundle, and its memory."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.controller.engines.networks import (
    WAVES,
    Dense,
    Doubles,
    Floats,
    Networks,
    Process,
)
from hucrl_ros.controller.engines.simd import BLOCK, LANES, PAIR, VECTOR

TINY = 1e-6
"""[m] Lengths in contacts are taken to be at least as long where something is divided by them."""
ROUNDS = 6
"""Halvings of a link in the search for its point nearest to an object."""


NONE, RELU, SILU, TANH, FOURIER = range(5)
ACTIVATIONS = {"relu": RELU, "silu": SILU, "tanh": TANH, WAVES: FOURIER}
LEAST_VARIANCE = 1e-10
"""Of a Gaussian process whose prior has 1; `models.gaussian_process` says why."""
OUTPUT_ROWS = BLOCK - 1
"""Rows that a layer or the whitener may write beyond its outputs."""


class Layer(NamedTuple):
    """A row of `Program.layers`."""

    weights: int
    """Where they begin in `Program.weights`, packed by `pack`."""
    biases: int
    """Where they begin in `Program.weights`."""
    inputs: int
    outputs: int
    activation: int


class Program(NamedTuple):
    """Networks and constants of one bundle.

    States have p entries, of which the model predicts m; n joints, q efforts.
    """

    layers: NDArray[np.int64]
    """`(…, 5)`: each a `Layer`; those of π, of η, of each head, then of the critic."""
    weights: Floats
    policy_layers: int
    hallucination_layers: int
    head_layers: int
    whitener: Floats
    """Of a Fourier model, packed by `pack_triangle`; else empty."""
    points: Doubles
    """`(m, …)` a Gaussian process's points in length-scales of each output, packed by
    `pack_rows`; else empty."""
    inverses: Doubles
    """`(m, inputs)` one over each length-scale."""
    alphas: Doubles
    """`(m, n)` weights of the points."""
    triangles: Doubles
    """`(m, …)` whiteners, packed by `pack_triangle`."""
    noise: Floats
    """`(m,)` deviations of the noise."""
    critic_layers: int
    """0 where there is no critic: rewards and values of a bundle are ONNX Runtime's."""
    angles: NDArray[np.int64]
    """State entries whose cosines, then sines, are the first features."""
    others: NDArray[np.int64]
    """The other state entries, in units of `scales`."""
    scales: Floats
    period: np.float32
    lower: Floats
    """`(n,)` where each joint stops; infinite where it doesn't."""
    upper: Floats
    stopped: NDArray[np.int64]
    """`(k,)` joints whose stops the model sees, from the distance `near_stop` on."""
    near_stop: np.float32
    links: NDArray[np.int64]
    """`(…, 3)` site, joint, and whether it slides, from each site to the world."""
    placements: Floats
    """`(…, 5, 3)` a link's axis, then the rotation and the place of the frame that it moves in."""
    tips: Floats
    """`(…, 3)` sites in the frames of their last links."""
    vectors: NDArray[np.int64]
    """`(…, 3)` site, axis, entry of the state: what policies and critic see besides."""
    vector_unit: np.float32
    seen_sites: int
    """Sites of vectors, which come first; the others are ends of links."""
    moving: NDArray[np.int64]
    """`(…,)` rows of `vectors` that the model sees as well."""
    touches: NDArray[np.int64]
    """`(…, 2)` sites at the ends of each link that can push the object."""
    reach_of: Floats
    """`(…,)` of those links [m]."""
    pushed: NDArray[np.int64]
    """`(3,)` the object's entries of the state; empty where there is none."""
    shape: Floats
    """`(4,)` the object's radius and half height [m], `NEAR_CONTACT`, and `FLATTEST` where it only
    moves level with the ground, else 0; empty like `pushed`."""
    context: int
    """Entries at the end of the state that the model neither sees nor predicts."""
    limits: Floats
    """`(q,)` effort limits."""
    rate: np.float32
    """Largest change of an action from one period to the next; infinite in plans."""
    input_mean: Floats
    """Of the inputs: features without context, stops, vectors to what moves, contact, efforts."""
    input_std: Floats
    target_mean: Floats
    """`(m,)` of what the model predicts."""
    target_std: Floats
    coast: np.float32
    """How long joints go on at their velocities before a change is added [s]."""
    reach: Floats
    """`(2, m)` least and largest values of the imagined states."""
    choice: Floats
    """`(heads,)` weight of each head's mean and variance in the imagined next state."""
    epistemic_scale: Floats
    """`(m,)` factor on the deviation between heads."""
    min_aleatoric: np.float32
    beta: np.float32
    total: bool
    """η moves by the noise's deviation as well, and there is no noise."""
    unchosen: np.float32
    """Share of the epistemic variance that is noise."""


class Scratch(NamedTuple):
    """Memory of one thread: rows of `LANES` particles."""

    state: Floats
    joints: Floats
    """`(3, n, LANES)` positions, their cosines and sines."""
    sites: Floats
    """`(3 sites, LANES)`."""
    features: Floats
    inputs: Floats
    applied: Floats
    hidden: Floats
    """`(2, rows, LANES)`, by turns input and output of a layer."""
    heads: Floats
    """`(heads, 2 m, LANES)` means and deviations, normalised."""
    scaled: Doubles
    """`(inputs, LANES)` in length-scales, of a Gaussian process."""
    covariances: Doubles
    """`(2, rows, LANES)` with its points, and whitened."""


def pack(weights: Floats) -> Floats:
    """Weights `(inputs, outputs)` in the order in which `_layer` reads them."""
    inputs, outputs = weights.shape
    padded = np.zeros((inputs, outputs + outputs % PAIR), np.float32)
    padded[:, :outputs] = weights
    parts, first = [], 0
    while first < padded.shape[1]:
        size = BLOCK if padded.shape[1] - first >= BLOCK else PAIR
        parts.append(padded[:, first : first + size].ravel())
        first += size
    return np.concatenate(parts)


def pack_triangle(matrix: NDArray[Any]) -> NDArray[Any]:
    """A lower triangle `(D, D)` in the order in which `_whiten` reads it, behind a block of 0."""
    parts = [np.zeros(BLOCK, matrix.dtype)]
    for first in range(0, len(matrix), BLOCK):
        rows = np.zeros((BLOCK, min(first + BLOCK, len(matrix))), matrix.dtype)
        block = matrix[first : first + BLOCK, : rows.shape[1]]
        rows[: len(block)] = np.tril(block, first)
        parts.append(rows.T.ravel())
    return np.concatenate(parts)


def pack_rows(matrix: Doubles) -> Doubles:
    """Rows `(n, d)`, some of zeros added, in the order in which `_condition` reads them."""
    rows = np.pad(matrix, ((0, -len(matrix) % BLOCK), (0, 0)))
    return np.ascontiguousarray(rows.reshape(-1, BLOCK, matrix.shape[1]).swapaxes(1, 2)).ravel()


def padded(particles: int) -> int:
    """Particles rounded up to whole vectors."""
    return -(-particles // VECTOR) * VECTOR


def compile_program(networks: Networks, critic: Sequence[Dense] = ()) -> Program:
    """Lay the weights out as the kernel reads them."""
    chains = _chain(networks.policy, SILU, TANH) + _chain(networks.hallucination, SILU, TANH)
    inner = ACTIVATIONS[networks.activation]
    for head in range(len(networks.model[0].weights) if networks.model else 0):
        layers = [Dense(layer.weights[head], layer.biases[head]) for layer in networks.model]
        chains += _chain(layers, inner, NONE)
    chains += _chain(critic, SILU, NONE)
    table, used = [], 0
    for (weights, _), activation in chains:
        inputs, outputs = weights.shape
        biases = used + inputs * (outputs + outputs % PAIR)
        table.append(Layer(used, biases, inputs, outputs, activation))
        used = biases + padded(outputs)
    rows, memory = np.array(table, np.int64), np.zeros(used, np.float32)
    write_layers(rows, memory, [layer for layer, _ in chains])
    constants = networks.constants
    angles = np.array(networks.angles, np.int64)
    state_dim = len(angles) + len(constants["scales"])
    stops, links = networks.geometry["stops"], networks.geometry["links"]
    vectors = networks.geometry["vectors"].astype(np.int64)
    touches, pushed = networks.geometry["touches"], networks.geometry["object"]
    near_stop, vector_unit = networks.geometry["units"]
    lower, upper = np.full((2, networks.joints), np.inf, np.float32)
    lower[:] = -np.inf
    for joint, least, largest in stops:
        lower[int(joint)], upper[int(joint)] = least, largest
    process = networks.process or Process(*(np.zeros((0,) * axes) for axes in (2, 2, 2, 3, 1)))
    return Program(
        layers=rows,
        weights=memory,
        policy_layers=len(networks.policy),
        hallucination_layers=len(networks.hallucination),
        head_layers=len(networks.model),
        whitener=pack_triangle(networks.whitener)
        if len(networks.whitener)
        else networks.whitener.ravel(),
        points=_each([pack_rows(process.points / scale) for scale in process.lengthscales]),
        inverses=1.0 / process.lengthscales,
        alphas=process.weights,
        triangles=_each([pack_triangle(matrix) for matrix in process.whitener]),
        noise=process.noise.astype(np.float32),
        critic_layers=len(critic),
        angles=angles,
        others=np.setdiff1d(np.arange(state_dim), angles).astype(np.int64),
        scales=constants["scales"],
        period=np.float32(networks.period),
        lower=lower,
        upper=upper,
        stopped=stops[:, 0].astype(np.int64),
        near_stop=near_stop,
        links=links[:, :3].astype(np.int64),
        placements=_placements(links),
        tips=networks.geometry["tips"],
        vectors=vectors,
        vector_unit=vector_unit,
        seen_sites=int(vectors[:, 0].max(initial=-1)) + 1,
        moving=np.flatnonzero(vectors[:, 2] < len(constants["target_mean"])),
        touches=np.ascontiguousarray(touches[:, :2], np.int64),
        reach_of=np.ascontiguousarray(touches[:, 2]),
        pushed=pushed[:, :3].ravel().astype(np.int64),
        shape=np.ascontiguousarray(pushed[:, 3:]).ravel(),
        context=state_dim - len(constants["target_mean"]),
        limits=constants["limits"],
        rate=np.float32(np.inf),
        input_mean=constants["input_mean"],
        input_std=constants["input_std"],
        target_mean=constants["target_mean"],
        target_std=constants["target_std"],
        coast=np.float32(constants["coast"]),
        reach=constants["reach"],
        choice=constants["choice"],
        epistemic_scale=constants["epistemic_scale"],
        min_aleatoric=np.float32(constants["min_aleatoric"]),
        beta=np.float32(constants["beta"]),
        total=bool(constants["total"]),
        unchosen=np.float32(constants["unchosen"]),
    )


def _each(rows: list[Doubles]) -> Doubles:
    return np.stack(rows) if rows else np.zeros((0, 0))


def _placements(links: Floats) -> Floats:
    """Axes, and transforms 3 × 4 as rotation and place."""
    transforms = links[:, 6:].reshape(-1, 3, 4)
    parts = [links[:, None, 3:6], transforms[:, :, :3], transforms[:, None, :, 3]]
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


def write_layers(table: NDArray[np.int64], memory: Floats, layers: Iterable[Dense]) -> None:
    """Put the weights of `layers`, which are the first rows of `table`, into `memory`."""
    for row, (weights, biases) in zip(table, layers, strict=False):
        packed, entry = pack(weights), Layer(*row)
        memory[entry.weights : entry.weights + packed.size] = packed
        memory[entry.biases : entry.biases + len(biases)] = biases


def _chain(layers: Sequence[Dense], inner: int, outer: int) -> list[tuple[Dense, int]]:
    """Layers with the activation that follows each."""
    last = len(layers) - 1
    return [(layer, outer if i == last else inner) for i, layer in enumerate(layers)]


def scratch_memory(program: Program, state_dim: int, width: int) -> Scratch:
    """Memory for one thread."""
    # Waves double the outputs: they are the next layer's inputs.
    rows = int(program.layers[:, 2:4].max()) + OUTPUT_ROWS
    features = len(program.angles) + state_dim + len(program.vectors)

    def lanes(*shape: int) -> Floats:
        return np.zeros((*shape, LANES), np.float32)

    return Scratch(
        state=lanes(state_dim),
        joints=lanes(3, len(program.lower)),
        sites=lanes(3 * len(program.tips)),
        features=lanes(features),
        inputs=lanes(len(program.input_mean)),
        applied=lanes(width),
        hidden=lanes(2, rows),
        heads=lanes(len(program.choice), 2 * len(program.target_mean)),
        scaled=np.zeros((program.inverses.shape[1], LANES)),
        covariances=np.zeros((2, program.alphas.shape[1] + 2 * BLOCK, LANES)),
    )
