"""What the compiled planning kernel needs of torch's modules."""

import numpy as np
from torch import Tensor, nn

from hucrl_ros.exploration import GreedyStep, OptimisticStep, Step, ThompsonStep
from hucrl_ros.export.parts import Parts
from hucrl_ros.models import Ensemble
from hucrl_ros.runtime.networks import Dense, Floats, Networks
from hucrl_ros.search.networks import Policy
from hucrl_ros.tasks import Task


def networks_of(parts: Parts) -> Networks | None:
    """The present weights; None for parts that the kernel doesn't know how to compute."""
    task, step, model = parts.task, parts.step, parts.step.model
    known_features = type(task).features is Task.features
    known_features &= type(task).model_features is Task.model_features
    known_step = type(step) in (GreedyStep, OptimisticStep, ThompsonStep)
    if not (known_features and known_step and type(model) is Ensemble):
        return None
    actors = parts.actors
    return Networks(
        policy=_dense(actors.policy),
        hallucination=_dense(actors.hallucination) if actors.hallucination else [],
        model=[
            Dense(_numpy(weight), _numpy(bias).squeeze(1))
            for weight, bias in zip(model.weights, model.biases, strict=True)
        ],
        activation=model.settings.activation,
        constants={
            "scales": np.array(task.scales, np.float32),
            "limits": _numpy(actors.limits),
            "input_mean": _numpy(model.inputs.mean),
            "input_std": _numpy(model.inputs.std),
            "target_mean": _numpy(model.targets.mean),
            "target_std": _numpy(model.targets.std),
            "reach": _numpy(step.reach),
            "choice": _choice(step),
            "min_aleatoric": np.array(model.settings.min_aleatoric_std, np.float32),
            "beta": _numpy(step.beta)
            if isinstance(step, OptimisticStep)
            else np.zeros((), np.float32),
            "total": np.array(isinstance(step, GreedyStep), np.float32),
        },
        angles=task.angles,
    )


def _choice(step: Step) -> Floats:
    """Weight of each head in the imagined next state."""
    if isinstance(step, ThompsonStep):
        return _numpy(step.choice)
    heads = step.model.settings.heads
    return np.full(heads, 1.0 / heads, np.float32)


def _dense(policy: Policy) -> list[Dense]:
    layers = (layer for layer in policy.network if isinstance(layer, nn.Linear))
    return [Dense(_numpy(layer.weight).T.copy(), _numpy(layer.bias)) for layer in layers]


def _numpy(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().cpu().numpy().astype(np.float32)
    return array
