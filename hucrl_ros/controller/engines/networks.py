"""`networks.npz`: the weights of a bundle, for the compiled planning kernel."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.controller.manifest import Manifest

NETWORKS = "networks.npz"
Arrays = Mapping[str, NDArray[np.generic]]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


WAVES = "waves"
"""Activation of a Fourier model: each number's cosine, then each number's sine."""
LINK = 18
"""Numbers that describe a link."""


class Dense(NamedTuple):
    """One layer; `(heads, ...)` for the model's."""

    weights: Floats
    """`(inputs, outputs)`."""
    biases: Floats
    """`(outputs,)`."""


class Process(NamedTuple):
    """A Gaussian process with m independent outputs, given n points; all in float64."""

    points: Doubles
    """`(n, inputs)`, normalised."""
    lengthscales: Doubles
    """`(m, inputs)`."""
    weights: Doubles
    """`(m, n)` α: the mean is Σ α k(·, point)."""
    whitener: Doubles
    """`(m, n, n)` lower triangles W; 1 − ‖W k‖² is the variance, in units of `epistemic_scale`.
    `(m, 0, 0)` of a drawn function, whose `model` is what was drawn of the prior."""
    noise: Doubles
    """`(m,)` deviation of the noise."""


class Networks(NamedTuple):
    """Everything that an imagined step needs, besides the reward."""

    policy: list[Dense]
    """π: SiLU between the layers, tanh at the end."""
    hallucination: list[Dense]
    """η, like π; empty for a strategy without one."""
    model: list[Dense]
    """Each head: features and efforts, normalised, to 2 m outputs. Of a Gaussian process none,
    or, for each output of a drawn function, to that and an unused one."""
    activation: str
    """Of the model: relu, silu, tanh or `WAVES`."""
    whitener: Floats
    """`(D, D)` lower triangle W for the D numbers φ that the model's last layer takes: ‖Wφ‖ is
    the epistemic deviation, in units of `epistemic_scale`. `(0, 0)`: heads have it."""
    constants: dict[str, Floats]
    """`CONSTANTS`, and `limits`, `reach` and `target_std`."""
    angles: tuple[int, ...]
    """State entries that are angles."""
    joints: int
    """Positions, then velocities, at the beginning of the state."""
    period: float
    """Control period [s]."""
    geometry: dict[str, Floats]
    """`GEOMETRY`: what networks see besides the state's entries; see `tasks.geometry`."""
    process: Process | None = None
    """The model, where it is a Gaussian process."""


CONSTANTS = (
    "scales",
    "input_mean",
    "input_std",
    "target_mean",
    "choice",
    "epistemic_scale",
    "min_aleatoric",
    "beta",
    "total",
    "unchosen",
    "coast",
)
"""What the file holds: fields of `program.Program`; the manifest has the other three."""
GEOMETRY = {
    "stops": (0, 3),
    "links": (0, LINK),
    "tips": (0, 3),
    "vectors": (0, 3),
    "units": (2,),
    "touches": (0, 3),
    "object": (0, 7),
}
"""Shapes of the arrays where networks see nothing besides the state's entries.

Stops: joint, lower and upper limit [rad or m]. Links, from each site to the world: site, joint,
whether it slides, axis, and the constant transform from the link before, 3 × 4 in rows. Tips: the
sites in the frames of their last links [m]. Vectors: site, axis, entry of the state. Units:
`NEAR_STOP` and `VECTOR_UNIT`. Touches: the two ends of a link, which are sites, and its reach [m].
Object, at most one: entries of its coordinates, radius and half height [m], `NEAR_CONTACT`, and
`FLATTEST` where it moves level with the ground only, else 0.
"""
_NETWORKS = ("policy", "hallucination", "model")


def to_arrays(networks: Networks) -> dict[str, NDArray[np.generic]]:
    """What goes into the file."""
    arrays: dict[str, NDArray[np.generic]] = {
        "activation": np.array(networks.activation),
        **networks.geometry,
        **{name: networks.constants[name] for name in CONSTANTS},
    }
    for name in _NETWORKS:
        for index, layer in enumerate(getattr(networks, name)):
            arrays[f"{name}.{index}.weights"] = layer.weights
            arrays[f"{name}.{index}.biases"] = layer.biases
    if len(networks.whitener):
        arrays["whitener"] = networks.whitener
    if networks.process is not None:
        arrays.update({f"process.{k}": v for k, v in networks.process._asdict().items()})
    return arrays


def from_arrays(arrays: Arrays, manifest: Manifest) -> Networks:
    """Check and sort the arrays of the file.

    Raises:
        KeyError, ValueError: it doesn't fit the manifest; says what differs.
    """
    # Before there was an `unchosen`, greedy strategies had `total` in its place.
    if "unchosen" not in arrays:
        total = arrays["total"]
        arrays = {**arrays, "unchosen": 0 * total if manifest.hallucination_dim else total}
    if "coast" not in arrays and manifest.schema_version < 3:
        arrays = {**arrays, "coast": np.zeros(())}
    networks = Networks(
        policy=_layers(arrays, "policy"),
        hallucination=_layers(arrays, "hallucination"),
        model=_layers(arrays, "model"),
        activation=str(arrays["activation"]),
        whitener=np.asarray(arrays.get("whitener", np.zeros((0, 0))), np.float32),
        constants={
            **{name: arrays[name].astype(np.float32) for name in CONSTANTS},
            "limits": np.array(manifest.effort_limits, np.float32),
            "target_std": np.array(manifest.target_std, np.float32),
            "reach": manifest.bounds,
        },
        angles=manifest.angles,
        joints=len(manifest.spec.joint_names),
        period=manifest.spec.period,
        # The first bundles had none.
        geometry={
            name: np.asarray(arrays.get(name, np.ones(shape)), np.float32, "C")
            for name, shape in GEOMETRY.items()
        },
        process=_process(arrays),
    )
    spec, entries = manifest.spec, len(networks.angles) * 2 + len(networks.constants["scales"])
    _check_geometry(networks.geometry, networks.joints, spec.state_dim)
    vectors, stops = networks.geometry["vectors"], networks.geometry["stops"]
    predicted, actions = spec.predicted_dim, spec.action_dim
    moving = int((vectors[:, 2] < predicted).sum())
    features = entries + len(vectors)
    ramps = 2 * len(stops) + 3 * len(networks.geometry["object"])
    seen = entries - len(spec.context) + ramps + moving + actions
    heads, whitener = len(networks.constants["choice"]), networks.whitener
    shapes = {
        "scales": (spec.state_dim - len(networks.angles),),
        **dict.fromkeys(("input_mean", "input_std"), (seen,)),
        **dict.fromkeys(("target_mean", "epistemic_scale"), (predicted,)),
        "choice": (heads,),
        **dict.fromkeys(("min_aleatoric", "beta", "total", "unchosen", "coast"), ()),
    }
    for name, shape in shapes.items():
        if networks.constants[name].shape != shape:
            raise ValueError(f"{name} has the shape {networks.constants[name].shape}, not {shape}")
    if networks.activation not in ("relu", "silu", "tanh", WAVES):
        raise ValueError(f"activation is {networks.activation!r}")
    _check_chain("policy", networks.policy, (), features, actions)
    if manifest.hallucination_dim:
        _check_chain("hallucination", networks.hallucination, (), features, predicted)
    elif networks.hallucination:
        raise ValueError("hallucination has layers, but hallucination_dim is 0")
    widening = 2 if networks.activation == WAVES else 1
    if networks.process is not None:
        _check_process(networks.process, seen, predicted, heads)
        if heads == 1:
            _check_chain("model", networks.model, (predicted,), seen, 2, widening)
        if whitener.size or bool(networks.model) != (heads == 1):
            raise ValueError("whitener and model are those of networks, next to a process")
        return networks
    given = 1 if whitener.size else heads
    _check_chain("model", networks.model, (given,), seen, 2 * predicted, widening)
    depth = networks.model[-1].weights.shape[1]
    if whitener.shape != (0, 0) and (whitener.shape != (depth, depth) or heads != 2):
        raise ValueError(f"whitener has the shape {whitener.shape}, choice has {heads}")
    return networks


def _check_geometry(geometry: dict[str, Floats], joints: int, state_dim: int) -> None:
    """The kernel reads what these name without a look at its bounds."""
    for name, shape in GEOMETRY.items():
        found = geometry[name]
        # Bundles from before an object had its last number have none of it where they have none.
        other = found.shape[-1:] != shape[-1:] and (len(found) or name != "object")
        if other or found.ndim != len(shape):
            raise ValueError(f"{name} has the shape {found.shape}, not {('k', *shape[1:])}")
        if not np.isfinite(found).all():
            raise ValueError(f"{name} isn't finite")
    if len(geometry["object"]) > 1 or (geometry["object"][:, 5] <= 0.0).any():
        raise ValueError("object is more than one, or has no distance from which it is near")
    sites = len(geometry["tips"])
    for name, column, count in (
        ("stops", 0, joints),
        ("links", 0, sites),
        ("links", 1, joints),
        ("vectors", 0, sites),
        ("vectors", 1, 3),
        ("vectors", 2, state_dim),
        ("touches", 0, sites),
        ("touches", 1, sites),
        ("object", 0, state_dim),
        ("object", 1, state_dim),
        ("object", 2, state_dim),
    ):
        for index in geometry[name][:, column]:
            if index not in range(count):
                raise ValueError(f"{name} has {index:g}, of {count} that there are")


def _process(arrays: Arrays) -> Process | None:
    if "process.points" not in arrays:
        return None
    # In one order whatever the file's: the kernel would be compiled anew for another.
    found = (np.asarray(arrays[f"process.{name}"], np.float64, "C") for name in Process._fields)
    return Process(*found)


def _check_process(process: Process, inputs: int, outputs: int, heads: int) -> None:
    if heads not in (1, 2):
        raise ValueError(f"choice has {heads}, not one for a drawn function, or two")
    count = len(process.points)
    seen = count if heads == 2 else 0
    shapes = {
        "points": (count, inputs),
        "lengthscales": (outputs, inputs),
        "weights": (outputs, count),
        "whitener": (outputs, seen, seen),
        "noise": (outputs,),
    }
    for name, shape in shapes.items():
        found = getattr(process, name)
        if found.shape != shape or not np.isfinite(found).all():
            raise ValueError(
                f"process.{name} has the shape {found.shape}, not {shape}, or isn't finite"
            )
    if not count or (process.lengthscales <= 0.0).any():
        raise ValueError("process.points is empty, or process.lengthscales aren't above 0")


def _layers(arrays: Arrays, name: str) -> list[Dense]:
    layers: list[Dense] = []
    while f"{name}.{len(layers)}.weights" in arrays:
        key = f"{name}.{len(layers)}"
        weights, biases = arrays[f"{key}.weights"], arrays[f"{key}.biases"]
        layers.append(Dense(weights.astype(np.float32), biases.astype(np.float32)))
    return layers


def _check_chain(
    name: str,
    layers: list[Dense],
    batch: tuple[int, ...],
    inputs: int,
    outputs: int,
    widening: int = 1,
) -> None:
    """Each layer takes what the one before gives, `widening` times as many."""
    for index, layer in enumerate(layers):
        given = layer.weights.shape
        if len(given) != len(batch) + 2 or given[:-1] != (*batch, inputs) or not given[-1]:
            raise ValueError(f"{name}.{index}.weights has the shape {given}, inputs are {inputs}")
        if layer.biases.shape != (*batch, given[-1]):
            raise ValueError(f"{name}.{index}.biases has the shape {layer.biases.shape}")
        inputs = widening * given[-1]
    if not layers or inputs != widening * outputs:
        raise ValueError(
            f"{name} has {inputs // widening} outputs in {len(layers)} layers, not {outputs}"
        )
