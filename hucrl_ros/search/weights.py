"""Weights and constants of torch's modules, as arrays for the compiled kernel."""

import numpy as np
import torch
from torch import Tensor, nn

from hucrl_ros.controller.engines.networks import (
    GEOMETRY,
    WAVES,
    Dense,
    Floats,
    Networks,
    Process,
)
from hucrl_ros.models import DeterministicEnsemble, Ensemble
from hucrl_ros.models.exploration import (
    GreedyDynamics,
    HallucinatedDynamics,
    ImaginedDynamics,
    ThompsonDynamics,
)
from hucrl_ros.models.fourier import FourierModel
from hucrl_ros.models.gaussian_process import GaussianProcess
from hucrl_ros.models.kernel import FourierFeatures
from hucrl_ros.search.actor_critic import ActorCritic
from hucrl_ros.tasks import Task
from hucrl_ros.tasks.contact import FLATTEST, NEAR_CONTACT
from hucrl_ros.tasks.geometry import NEAR_STOP, VECTOR_UNIT, Geometry
from hucrl_ros.tasks.kinematics import ForwardKinematics

NO_NOISE = -100.0
"""The kernel's softplus makes an exact 0 of it."""


def networks_of(actor_critic: ActorCritic, dynamics: ImaginedDynamics) -> Networks | None:
    """The present weights; None for parts that the kernel doesn't know how to compute."""
    task = actor_critic.task
    known_features = type(task).features is Task.features
    known_features &= type(task).model_features is Task.model_features
    if not (known_features and _known_dynamics(dynamics)):
        return None
    model, drawn = dynamics.model, isinstance(dynamics, ThompsonDynamics)
    activation: str = WAVES
    whitener: Floats = np.zeros((0, 0), np.float32)
    process: Process | None = None
    layers: list[Dense]
    choice = torch.ones(1)
    # A subclass, e.g. of a plug-in, may compute something else.
    if type(model) in (Ensemble, DeterministicEnsemble):
        assert isinstance(model, Ensemble)
        used, choice = _used_heads(model, drawn)
        layers, activation = _heads(model, used), model.settings.activation
        scale = model.epistemic_scale
        least = model.settings.min_aleatoric_std if model.noisy else 0.0
    elif type(model) is FourierModel:
        layers, least = _waves(model, drawn), 0.0
        scale = model.epistemic_scale * model.prior_std
        if not drawn:
            whitener, choice = _whitener(model), torch.full((2,), 0.5)
    elif type(model) is GaussianProcess:
        layers, least, process = _prior(model) if drawn else [], 0.0, _process(model, drawn)
        scale = model.epistemic_scale * model.prior_std
        choice = torch.ones(1) if drawn else torch.full((2,), 0.5)
    else:
        return None
    policy, hallucination = policies_of(actor_critic)
    return Networks(
        policy=policy,
        hallucination=hallucination,
        model=layers,
        activation=activation,
        whitener=whitener,
        constants={
            "scales": np.array(task.scales, np.float32),
            "limits": _numpy(actor_critic.limits),
            "input_mean": _numpy(model.inputs.mean),
            "input_std": _numpy(model.inputs.std),
            "target_mean": _numpy(model.targets.mean),
            "target_std": _numpy(model.targets.std),
            "reach": _numpy(dynamics.bounds),
            # Weight of each head's mean and variance in the imagined next state.
            "choice": _numpy(choice),
            "epistemic_scale": _numpy(scale),
            "min_aleatoric": np.array(least, np.float32),
            "beta": _numpy(dynamics.beta)
            if isinstance(dynamics, HallucinatedDynamics)
            else np.zeros((), np.float32),
            "total": np.array(dynamics.total, np.float32),
            "unchosen": _numpy(dynamics.unchosen),
            "coast": _numpy(model.coast),
        },
        angles=task.angles,
        joints=len(task.spec.joint_names),
        period=task.spec.period,
        geometry=_geometry(task.geometry or Geometry(task.spec)),
        process=process,
    )


def policies_of(actor_critic: ActorCritic) -> tuple[list[Dense], list[Dense]]:
    """The present weights of π and of η; none where there is no η."""
    hallucination = actor_critic.hallucination
    return (
        _dense(actor_critic.policy.network),
        _dense(hallucination.network) if hallucination is not None else [],
    )


def critic_of(actor_critic: ActorCritic) -> list[Dense]:
    """The present weights of the critic, in units of its scale."""
    return _dense(actor_critic.critic.network)


def _geometry(geometry: Geometry) -> dict[str, Floats]:
    """Arrays as `controller.engines.networks.GEOMETRY` describes them."""
    body = geometry.contact.shape if geometry.contact else None
    sites = [site for site in geometry.sites if isinstance(site, ForwardKinematics)]
    links = [
        [index, joint.column, joint.slides, *joint.axis, *joint.transform(0.0)[:3].ravel()]
        for index, site in enumerate(sites)
        for joint in reversed(site.chain)
    ]
    found = {
        "stops": geometry.stops,
        "links": links,
        "tips": [site.tip[:3] for site in sites],
        "vectors": geometry.components,
        "units": (NEAR_STOP, VECTOR_UNIT),
        "touches": geometry.touches,
        "object": [
            *geometry.object_entries,
            *(body.radius, body.half_height, NEAR_CONTACT),
            FLATTEST if body.level else 0.0,
        ]
        if body
        else [],
    }
    return {
        name: np.array(found[name], np.float32).reshape(-1, *shape[1:])
        for name, shape in GEOMETRY.items()
    }


def _known_dynamics(dynamics: ImaginedDynamics) -> bool:
    if isinstance(dynamics, GreedyDynamics | HallucinatedDynamics):
        return dynamics.settings.covariance == "diagonal"
    return isinstance(dynamics, ThompsonDynamics)


def _used_heads(model: Ensemble, drawn: bool) -> tuple[slice, Tensor]:
    """The heads that the kernel needs, and the weight of each in the imagined mean."""
    choice = model.heads.choice
    if not drawn:
        return slice(None), torch.full_like(choice, 1.0 / len(choice))
    if model.settings.recalibrate:  # The others tell how far the drawn one is away.
        return slice(None), choice
    head = int(choice.argmax())
    return slice(head, head + 1), torch.ones(1)


def _heads(model: Ensemble, used: slice) -> list[Dense]:
    """The used heads' layers with 2 m outputs; without noise, the last m are `NO_NOISE`."""
    heads = model.heads
    weights, biases = list(heads.weights), list(heads.biases)
    if not model.noisy:
        last, bias = weights[-1], biases[-1]
        weights[-1] = torch.cat([last, torch.zeros_like(last)], dim=-1)
        biases[-1] = torch.cat([bias, torch.full_like(bias, NO_NOISE)], dim=-1)
    return [
        Dense(_numpy(weight[used]), _numpy(bias[used]).squeeze(1))
        for weight, bias in zip(weights, biases, strict=True)
    ]


def _process(model: GaussianProcess, drawn: bool) -> Process:
    """The points that there are; with the weights of the drawn function, without whiteners."""
    outputs, weights = model.output_dim, model.weights
    count = max(int((model.whitener[0].diagonal() != 0.0).sum()), 1)
    if drawn:
        weights = weights + _share_of(model) * (model.drawn_weights - weights)
    seen = 0 if drawn else count
    return Process(
        points=model.points[:count].numpy().copy(),
        lengthscales=model.kernel.lengthscales.expand(outputs, -1).numpy().copy(),
        weights=weights[:, :count].double().numpy().copy(),
        whitener=model.whitener[:, :seen, :seen].expand(outputs, -1, -1).numpy().copy(),
        noise=model.noise_like(model.prior_std).double().numpy().copy(),
    )


def _prior(model: GaussianProcess) -> list[Dense]:
    """The drawn function of the prior: of each output frequencies, then weights of waves."""
    outputs, scales = model.output_dim, model.kernel.lengthscales.unsqueeze(-1)
    frequencies = (model.prior.frequencies.T / scales).expand(outputs, -1, -1)
    drawn = _of_waves(model.prior, _share_of(model) * model.drawn_prior).unsqueeze(-1)
    return [
        Dense(_numpy(frequencies), np.zeros((outputs, frequencies.shape[-1]), np.float32)),
        Dense(_numpy(nn.functional.pad(drawn, (0, 1))), np.zeros((outputs, 2), np.float32)),
    ]


def _share_of(model: GaussianProcess) -> Tensor:
    """`(m, 1)` how far from the mean a drawn function is: as far as the scale says."""
    scale = model.epistemic_scale.unsqueeze(1)
    return scale if model.settings.recalibrate else torch.ones_like(scale)


def _waves(model: FourierModel, drawn: bool) -> list[Dense]:
    """Frequencies, then weights of cosines and sines; the last m outputs are constant noise."""
    frequencies = model.features.frequencies / model.kernel.lengthscales
    means = model.drawn if drawn else model.weights
    if drawn and model.settings.recalibrate:  # As far from the mean as the scale says.
        means = model.weights + model.epistemic_scale.unsqueeze(1) * (means - model.weights)
    weights = _of_waves(model.features, means)
    noise = model.noise_like(model.prior_std).double().expm1().log().clamp_min(NO_NOISE)
    return [
        Dense(_numpy(frequencies.T)[None], np.zeros((1, len(frequencies)), np.float32)),
        Dense(
            np.pad(_numpy(weights.T), ((0, 0), (0, len(noise))))[None],
            np.concatenate([np.zeros(len(noise), np.float32), _numpy(noise)])[None],
        ),
    ]


def _whitener(model: FourierModel) -> Floats:
    """`(D, D)` for cosines and sines."""
    columns = _numpy(_of_waves(model.features, model.whitener))
    return np.pad(columns, ((0, columns.shape[1] - len(columns)), (0, 0)))


def _of_waves(features: FourierFeatures, matrix: Tensor) -> Tensor:
    """`(k, D)` on features as `(k, 2 waves)` on cosines and sines: a sine may be no feature."""
    waves = matrix * features.amplitudes
    return nn.functional.pad(waves, (0, 2 * len(features.frequencies) - waves.shape[1]))


def _dense(network: nn.Sequential) -> list[Dense]:
    layers = (layer for layer in network if isinstance(layer, nn.Linear))
    return [Dense(_numpy(layer.weight).T.copy(), _numpy(layer.bias)) for layer in layers]


def _numpy(tensor: Tensor) -> Floats:
    array: Floats = tensor.detach().cpu().numpy().astype(np.float32)
    return array
