"""What goes into a bundle's graphs and what comes out."""

from collections.abc import Sequence
from typing import NamedTuple

from hucrl_ros.controller.manifest import Manifest

Shape = tuple[int | str, ...]
"""Dimensions; a name stands for a size that is free, the same wherever it occurs."""
PARTICLES, HORIZON, STATES = "particles", "horizon", "horizon + 1"


class Signature(NamedTuple):
    """Names and shapes of a graph's inputs and outputs, all float32."""

    inputs: dict[str, Shape]
    outputs: dict[str, Shape]


def signatures(manifest: Manifest) -> dict[str, Signature]:
    """The graphs that a bundle must hold."""
    spec, width = manifest.spec, manifest.width
    state, predicted = (PARTICLES, spec.state_dim), (PARTICLES, spec.predicted_dim)
    action, value = (PARTICLES, spec.action_dim), (PARTICLES,)
    states = (PARTICLES, STATES, spec.state_dim)
    actions = (PARTICLES, HORIZON, width)
    graphs = {
        "policy": Signature({"state": state}, {"pi": action}),
        "critic": Signature({"state": state}, {"value": value}),
        "dynamics": Signature(
            {"state": state, "action": action},
            dict.fromkeys(("mean", "epistemic", "aleatoric"), predicted),
        ),
        "step": Signature(
            {
                "state": state,
                "applied": (PARTICLES, width),
                "noise": (spec.predicted_dim,),
            },
            {"next_state": state, "reward": value},
        ),
        "score": Signature({"states": states, "actions": actions}, {"returns": value}),
        "rollout": Signature(
            {
                "state": (spec.state_dim,),
                "offsets": actions,
                "noise": (HORIZON, spec.predicted_dim),
                "feedback": (),
            },
            {"returns": value, "states": states, "actions": actions},
        ),
    }
    if manifest.hallucination_dim:
        eta = (PARTICLES, manifest.hallucination_dim)
        graphs["hallucination"] = Signature({"state": state}, {"eta": eta})
    return graphs


def fits(found: Sequence[int], expected: Shape) -> bool:
    """Whether an array of the shape `found` may stand where `expected` is wanted."""
    return len(found) == len(expected) and all(
        size > 0 if isinstance(wanted, str) else size == wanted
        for size, wanted in zip(found, expected, strict=True)
    )
