"""What goes into a bundle's graphs and what comes out."""

from collections.abc import Sequence
from typing import NamedTuple

from hucrl_ros.runtime.manifest import Manifest

Shape = tuple[int | str, ...]
"""Dimensions; a name stands for a size that is free, the same wherever it occurs."""
PARTICLES, HORIZON, STATES = "particles", "horizon", "horizon + 1"


class Signature(NamedTuple):
    """Names and shapes of a graph's inputs and outputs, all float32."""

    inputs: dict[str, Shape]
    outputs: dict[str, Shape]


def signatures(manifest: Manifest) -> dict[str, Signature]:
    """The graphs that a bundle must hold."""
    state, action = manifest.spec.state_dim, manifest.spec.action_dim
    predicted = manifest.spec.predicted_dim
    horizon, width, hallucination = (
        manifest.planner.horizon,
        manifest.width,
        manifest.hallucination_dim,
    )
    graphs = {
        "policy": Signature({"state": (None, state)}, {"pi": (None, action)}),
        "critic": Signature({"state": (None, state)}, {"value": (None,)}),
        "dynamics": Signature(
            {"state": (None, state), "action": (None, action)},
            dict.fromkeys(("mean", "epistemic", "aleatoric"), (None, predicted)),
        ),
        "rollout": Signature(
            {
                "state": (state,),
                "offsets": (None, horizon, width),
                "noise": (None, horizon, predicted),
                "feedback": (),
            },
            {
                "returns": (None,),
                "states": (None, horizon + 1, state),
                "actions": (None, horizon, width),
            },
        ),
    }
    if hallucination:
        graphs["hallucination"] = Signature(
            {"state": (None, state)}, {"eta": (None, hallucination)}
        )
    return graphs


def fits(found: Sequence[int], expected: Shape) -> bool:
    """Whether an array of the shape `found` may stand where `expected` is wanted."""
    return len(found) == len(expected) and all(
        size == wanted if wanted is not None else size > 0
        for size, wanted in zip(found, expected, strict=True)
    )
