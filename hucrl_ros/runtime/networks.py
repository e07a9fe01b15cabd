"""`networks.npz`: the weights of a bundle, for the compiled planning kernel."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.runtime.manifest import Manifest

NETWORKS = "networks.npz"
Arrays = Mapping[str, NDArray[np.generic]]
Floats = NDArray[np.float32]


class Dense(NamedTuple):
    """One layer; `(heads, ...)` for the model's."""

    weights: Floats
    """`(inputs, outputs)`."""
    biases: Floats
    """`(outputs,)`."""


class Networks(NamedTuple):
    """Everything that an imagined step needs, besides the reward."""

    policy: list[Dense]
    """π: SiLU between the layers, tanh at the end."""
    hallucination: list[Dense]
    """η, like π; empty for a strategy without one."""
    model: list[Dense]
    """Ensemble: features and efforts, normalised, to 2 m outputs."""
    activation: str
    """Of the model: relu, silu or tanh."""
    constants: dict[str, Floats]
    """`CONSTANTS`, and `limits`, `reach` and `target_std`."""
    angles: tuple[int, ...]
    """State entries that are angles."""
    ramps: Floats
    """`(k, 5)` the model's inputs between features and efforts, each max(0, c + a q + b q̇): the
    places of q and q̇ in the state, a, b, c."""


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
)
"""What the file holds: fields of `program.Program`; the manifest has the other three."""
_NETWORKS = ("policy", "hallucination", "model")


def to_arrays(networks: Networks) -> dict[str, NDArray[np.generic]]:
    """What goes into the file."""
    arrays: dict[str, NDArray[np.generic]] = {
        "activation": np.array(networks.activation),
        "ramps": networks.ramps,
        **{name: networks.constants[name] for name in CONSTANTS},
    }
    for name in _NETWORKS:
        for index, layer in enumerate(getattr(networks, name)):
            arrays[f"{name}.{index}.weights"] = layer.weights
            arrays[f"{name}.{index}.biases"] = layer.biases
    return arrays


def from_arrays(arrays: Arrays, manifest: Manifest) -> Networks:
    """Check and sort the arrays of the file.

    Raises:
        KeyError, ValueError: it doesn't fit the manifest; says what differs.
    """
    networks = Networks(
        policy=_layers(arrays, "policy"),
        hallucination=_layers(arrays, "hallucination"),
        model=_layers(arrays, "model"),
        activation=str(arrays["activation"]),
        constants={
            **{name: arrays[name].astype(np.float32) for name in CONSTANTS},
            "limits": np.array(manifest.effort_limits, np.float32),
            "target_std": np.array(manifest.target_std, np.float32),
            "reach": manifest.bounds,
        },
        angles=manifest.angles,
        # Bundles of version 0.1 had none.
        ramps=np.asarray(arrays.get("ramps", np.zeros((0, 5))), np.float32),
    )
    spec, features = manifest.spec, len(networks.angles) * 2 + len(networks.constants["scales"])
    _check_ramps(networks.ramps, spec.state_dim)
    predicted, actions = spec.predicted_dim, spec.action_dim
    seen = features - len(spec.context) + len(networks.ramps) + actions
    heads = len(networks.constants["choice"])
    shapes = {
        "scales": (spec.state_dim - len(networks.angles),),
        **dict.fromkeys(("input_mean", "input_std"), (seen,)),
        **dict.fromkeys(("target_mean", "epistemic_scale"), (predicted,)),
        "choice": (heads,),
        **dict.fromkeys(("min_aleatoric", "beta", "total"), ()),
    }
    for name, shape in shapes.items():
        if networks.constants[name].shape != shape:
            raise ValueError(f"{name} has the shape {networks.constants[name].shape}, not {shape}")
    _check_chain("policy", networks.policy, (), features, actions)
    if manifest.hallucination_dim:
        _check_chain("hallucination", networks.hallucination, (), features, predicted)
    _check_chain("model", networks.model, (heads,), seen, 2 * predicted)
    return networks


def _check_ramps(ramps: Floats, state_dim: int) -> None:
    """The kernel reads the entries that they name without a look at its bounds."""
    if ramps.ndim != 2 or ramps.shape[1] != 5 or not np.isfinite(ramps).all():
        raise ValueError(f"ramps have the shape {ramps.shape}, not (k, 5), or aren't finite")
    for entry in ramps[:, :2].ravel():
        if entry not in range(state_dim):
            raise ValueError(f"ramps name entry {entry:g} of a state of {state_dim}")


def _layers(arrays: Arrays, name: str) -> list[Dense]:
    layers: list[Dense] = []
    while f"{name}.{len(layers)}.weights" in arrays:
        key = f"{name}.{len(layers)}"
        weights, biases = arrays[f"{key}.weights"], arrays[f"{key}.biases"]
        layers.append(Dense(weights.astype(np.float32), biases.astype(np.float32)))
    return layers


def _check_chain(
    name: str, layers: list[Dense], batch: tuple[int, ...], inputs: int, outputs: int
) -> None:
    """Each layer takes what the one before gives."""
    for index, layer in enumerate(layers):
        given = layer.weights.shape
        if len(given) != len(batch) + 2 or given[:-1] != (*batch, inputs):
            raise ValueError(f"{name}.{index}.weights has the shape {given}, inputs are {inputs}")
        if layer.biases.shape != (*batch, given[-1]):
            raise ValueError(f"{name}.{index}.biases has the shape {layer.biases.shape}")
        inputs = given[-1]
    if not layers or inputs != outputs:
        raise ValueError(f"{name} has {inputs} outputs in {len(layers)} layers, not {outputs}")
