"""Writes bundles: the graphs once, then only new weights."""

import hashlib
import io
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto

from hucrl_ros.controller.bundle import PARITY, PROMISE, Promise, load_bundle
from hucrl_ros.controller.engines.networks import NETWORKS, to_arrays
from hucrl_ros.controller.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    BundleFields,
    Manifest,
    dump_manifest,
)
from hucrl_ros.learning.export_modules import Parts
from hucrl_ros.learning.graphs import (
    cut,
    export_parts,
    make_model,
    rollout_graph,
    score_graph,
    swap_weights,
)
from hucrl_ros.models.exploration import Step
from hucrl_ros.search import Actors, networks_of
from hucrl_ros.tasks import Task

PARITY_PARTICLES = 8
PARITY_STEPS = 5
"""Of the compared rollouts: a graph repeats one step, and a longer way through a model that has
learned little would amplify rounding beyond the tolerance."""


class BundleExporter:
    """Turns the present weights of its modules into bundles.

    The first bundle takes seconds, because torch traces the modules; the next ones only put
    new weights into the same graphs. Everything that changes while learning must therefore be
    a parameter or a buffer; each bundle's parity with torch is checked before it appears.
    """

    def __init__(self, task: Task, step: Step, actors: Actors, discount: float) -> None:
        """Export from these modules.

        Args:
            task: Gives features, rewards and the robot.
            step: The exploration strategy, with its dynamics model.
            actors: Policies and critic.
            discount: γ.
        """
        self._task = task
        self._parts = Parts(task, step, actors)
        self._width = task.spec.action_dim + step.hallucination_dim
        self._discount = discount
        self._models: dict[str, ModelProto] | None = None

    def write(self, path: Path, fields: BundleFields, promise: Promise | None) -> None:
        """Write a bundle; it appears under `path` when it is complete and verified.

        Args:
            path: Folder to make; one that exists is replaced.
            fields: What the learner says of it.
            promise: The imagined episode; None for a random bundle.

        Raises:
            BundleError: the graphs disagree with torch.
        """
        contents = self._graphs()
        networks = networks_of(self._parts.actors, self._parts.step)
        if networks is not None:
            contents[NETWORKS] = _npz(to_arrays(networks))
        contents[PARITY] = _npz(self._parity(fields.seed))
        if promise is not None:
            contents[PROMISE] = _npz(promise._asdict())
        manifest = self._manifest(fields, contents)
        for left_behind in path.parent.glob(f".{path.name}.*"):  # By a killed learner.
            shutil.rmtree(left_behind)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.mkdir(parents=True)
        try:
            for name, content in contents.items():
                (temporary / name).write_bytes(content)
            (temporary / MANIFEST).write_text(dump_manifest(manifest), encoding="utf-8")
            load_bundle(temporary, self._task.spec)
            if path.exists():
                shutil.rmtree(path)
            temporary.rename(path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _graphs(self) -> dict[str, bytes]:
        """Serialised graphs with the present weights, by file name."""
        if self._models is None:
            self._models = self._trace()
        weights = self._parts.state_dict(keep_vars=True)
        for model in self._models.values():
            swap_weights(model, weights)
        return {f"{name}.onnx": model.SerializeToString() for name, model in self._models.items()}

    def _trace(self) -> dict[str, ModelProto]:
        whole = export_parts(self._parts)
        critic = cut(whole, ["state"], ["value"])
        reward = cut(whole, ["state", "action"], ["reward"])
        limits = self._task.spec.effort_limits
        score = score_graph(reward, critic, limits, self._width, self._discount)
        body = cut(whole, ["state", "offset", "noise", "feedback"], ["next_state", "applied"])
        graphs = {
            "policy": cut(whole, ["state"], ["pi"]),
            "critic": critic,
            "dynamics": cut(whole, ["state", "action"], ["mean", "epistemic", "aleatoric"]),
            "step": cut(whole, ["state", "applied", "noise"], ["next_state", "reward"]),
            "score": score,
            "rollout": rollout_graph(body, score),
        }
        if self._parts.step.hallucination_dim:
            graphs["hallucination"] = cut(whole, ["state"], ["eta"])
        return {name: make_model(graph) for name, graph in graphs.items()}

    def _parity(self, seed: int) -> dict[str, NDArray[np.float32]]:
        """Inputs and torch's outputs of every graph, keyed `<graph>.in|out.<name>`."""
        spec, generator = self._task.spec, torch.Generator().manual_seed(seed)
        count, width = PARITY_PARTICLES, self._width
        states = self._task.imagined_states(count, generator)
        actions = self._parts.actors.effort(
            2.0 * torch.rand(count, spec.action_dim, generator=generator) - 1.0
        )
        rollout = {
            "state": states[0],
            "offsets": 0.3 * torch.randn(count, PARITY_STEPS, width, generator=generator),
            "noise": torch.randn(PARITY_STEPS, spec.predicted_dim, generator=generator),
            "feedback": torch.ones(()),
        }
        actors, model = self._parts.actors, self._parts.step.model
        with torch.no_grad():
            belief = model.predict(states, actions)
            imagined = self._parts.rollout(**rollout, discount=self._discount)
            step = {
                "state": states,
                "applied": rollout["offsets"][:, 0].clamp(-1.0, 1.0),
                "noise": rollout["noise"][0],
            }
            following, reward = self._parts.imagined_step(**step)
            cases = {
                "policy": ({"state": states}, {"pi": actors.policy(states)}),
                "critic": ({"state": states}, {"value": actors.critic(states)}),
                "dynamics": ({"state": states, "action": actions}, belief._asdict()),
                "step": (step, {"next_state": following, "reward": reward}),
                "score": (
                    {"states": imagined.states, "actions": imagined.actions},
                    {"returns": imagined.returns},
                ),
                "rollout": (rollout, imagined._asdict()),
            }
            if actors.hallucination is not None:
                cases["hallucination"] = ({"state": states}, {"eta": actors.hallucination(states)})
        return {
            f"{graph}.{kind}.{name}": tensor.numpy()
            for graph, tensors in cases.items()
            for kind, group in zip(("in", "out"), tensors, strict=True)
            for name, tensor in group.items()
        }

    def _manifest(self, fields: BundleFields, contents: Mapping[str, bytes]) -> Manifest:
        task, spec = self._task, self._task.spec
        return Manifest(
            **dict(fields),
            schema_version=SCHEMA_VERSION,
            task=task.name,
            action_penalty=task.action_penalty,
            discount=self._discount,
            steps=task.steps,
            robot=spec.name,
            joint_names=spec.joint_names,
            actuated_joints=spec.actuated_joints,
            effort_limits=spec.effort_limits,
            period=spec.period,
            observed=spec.observed,
            context=spec.context,
            angles=task.angles,
            reach=tuple(None if bound == math.inf else bound for bound in task.reach),
            hallucination_dim=self._parts.step.hallucination_dim,
            target_std=tuple(self._parts.step.model.targets.std.tolist()),
            files={name: hashlib.sha256(c).hexdigest() for name, c in contents.items()},
        )


def _npz(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
