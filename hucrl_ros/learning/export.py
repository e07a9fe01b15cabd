"""Writes bundles: torch is traced into graphs once, later bundles get new weights."""

import hashlib
import io
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import ModelProto
from torch import Tensor, nn

from hucrl_ros.config.files import to_disk
from hucrl_ros.controller.bundle import IMAGINED, PARITY, ImaginedEpisode, load_bundle
from hucrl_ros.controller.engines.networks import NETWORKS, to_arrays
from hucrl_ros.controller.manifest import (
    MANIFEST,
    SCHEMA_VERSION,
    BundleFields,
    Manifest,
    dump_manifest,
)
from hucrl_ros.controller.motors import limits_under
from hucrl_ros.controller.signature import sign_for_run
from hucrl_ros.learning.graphs import (
    cut,
    export_parts,
    make_model,
    rollout_graph,
    score_graph,
    swap_weights,
)
from hucrl_ros.models.exploration import ImaginedDynamics
from hucrl_ros.robots.stopping import Promised, promised
from hucrl_ros.search import ActorCritic, networks_of
from hucrl_ros.tasks import Task

PARITY_PARTICLES, PARITY_STEPS = 8, 5
"""Size of the compared rollouts. They are short because a graph repeats one step, and a longer way
through a model that has learned little would amplify rounding beyond the tolerance."""


class PartsOutput(NamedTuple):
    """Outputs of `Parts`, named like the tensors of the exported graph."""

    pi: Tensor
    """`(N, q)` π(s), shares of the effort limits."""
    eta: Tensor
    """`(N, h)` η(s)."""
    value: Tensor
    """`(N,)` critic."""
    applied: Tensor
    """`(N, q + h)` clipped sum of policies and offset."""
    action: Tensor
    """`(N, q)` efforts [N m or N]."""
    mean: Tensor
    """`(N, m)` predicted entries of the next state, expected by the ensemble."""
    epistemic: Tensor
    """`(N, m)` their deviation between heads."""
    aleatoric: Tensor
    """`(N, m)` their noise."""
    reward: Tensor
    """`(N,)`."""
    next_state: Tensor
    """`(N, p)` next state imagined by the exploration strategy."""


class RolloutOutput(NamedTuple):
    """Imagined trajectories of N particles."""

    returns: Tensor
    """`(N,)` discounted rewards plus the discounted critic at the end."""
    states: Tensor
    """`(N, H + 1, p)`."""
    actions: Tensor
    """`(N, H, q + h)` after clipping, in [-1, 1]."""


class JudgementOutput(NamedTuple):
    """What is told of states and actions where there are constraints."""

    room: Tensor
    """`(N, K)` [margins]."""
    reward: Tensor
    """`(N,)` the task's own."""


class Judgement(nn.Module):
    """What the safety filter asks, and whoever judges an episode without torch."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def forward(self, state: Tensor, action: Tensor) -> JudgementOutput:
        """Of states `(N, p)` and actions `(N, q)` [N m or N]."""
        return JudgementOutput(self.task.room(state, action), self.task.reward(state, action))


class Parts(nn.Module):
    """All parts of one planning step in one module, exported once and then cut into graphs."""

    def __init__(self, task: Task, dynamics: ImaginedDynamics, actor_critic: ActorCritic) -> None:
        super().__init__()
        self.task = task
        self.dynamics = dynamics
        self.actor_critic = actor_critic

    def forward(
        self, state: Tensor, offset: Tensor, noise: Tensor, feedback: Tensor
    ) -> PartsOutput:
        """One imagined step of Algorithm 7.

        Args:
            state: `(N, p)`.
            offset: `(N, q + h)` added to the policies, in [-1, 1] units.
            noise: `(m,)` standard normal.
            feedback: `()`; 1 adds the policies, 0 plans open loop.
        """
        pi, eta = self.actor_critic.policy(state), self.actor_critic.eta(state)
        applied = torch.clamp(feedback * torch.cat([pi, eta], dim=-1) + offset, -1.0, 1.0)
        action_dim = self.task.spec.action_dim
        action = self.actor_critic.effort(applied[..., :action_dim])
        prediction = self.dynamics.model.predict(state, action)
        return PartsOutput(
            pi=pi,
            eta=eta,
            value=self.actor_critic.critic(state),
            applied=applied,
            action=action,
            mean=prediction.mean,
            epistemic=prediction.epistemic,
            aleatoric=prediction.aleatoric,
            reward=self.dynamics.reward(self.task, state, action),
            next_state=self.dynamics(state, action, applied[..., action_dim:], noise),
        )

    def rollout(
        self, state: Tensor, offsets: Tensor, noise: Tensor, feedback: Tensor, discount: float
    ) -> RolloutOutput:
        """The trajectories that `rollout.onnx` must compute.

        Args:
            state: `(p,)` start of all particles.
            offsets: `(N, H, q + h)`.
            noise: `(H, m)`.
            feedback: `()`.
            discount: γ.
        """
        states, actions = [state.expand(len(offsets), -1)], []
        returns = torch.zeros(len(offsets))
        for t in range(offsets.shape[1]):
            output = self(states[-1], offsets[:, t], noise[t], feedback)
            returns = returns + discount**t * output.reward
            states.append(output.next_state)
            actions.append(output.applied)
        returns = returns + discount ** offsets.shape[1] * self.actor_critic.critic(states[-1])
        return RolloutOutput(returns, torch.stack(states, dim=1), torch.stack(actions, dim=1))


class BundleExporter:
    """Turns the present weights of its modules into bundles.

    The first bundle takes seconds, because torch traces the modules; the next ones only put
    new weights into the same graphs. Everything that changes while learning must therefore be
    a parameter or a buffer; each bundle's parity with torch is checked before it appears.
    """

    def __init__(
        self,
        task: Task,
        dynamics: ImaginedDynamics,
        actor_critic: ActorCritic,
        discount: float,
        signing_key: str = "",
    ) -> None:
        """Export from these modules.

        Args:
            task: Their task.
            dynamics: The strategy's step.
            actor_critic: Policies and critic.
            discount: γ of the returns.
            signing_key: File of the private key that signs the bundles; empty: none does.
        """
        self._task, self._key = task, signing_key
        self._parts = Parts(task, dynamics, actor_critic)
        self._width = task.spec.action_dim + dynamics.hallucination_dim
        self._discount = discount
        self._models: dict[str, ModelProto] | None = None
        self._promised: Promised | None = None

    def write(self, path: Path, fields: BundleFields, imagined: ImaginedEpisode | None) -> None:
        """Write a bundle; it appears under `path` when it is complete and verified.

        Args:
            path: Folder to make; one that exists is replaced.
            fields: The manifest's entries that the learner knows.
            imagined: The imagined episode; None for a random bundle.

        Raises:
            BundleError: the graphs disagree with torch.
        """
        contents = self._graphs()
        networks = networks_of(self._parts.actor_critic, self._parts.dynamics)
        if networks is not None:
            contents[NETWORKS] = _npz(to_arrays(networks))
        contents[PARITY] = _npz(self._parity(fields.seed))
        if imagined is not None:
            contents[IMAGINED] = _npz(imagined._asdict())
        manifest = self._manifest(fields, contents)
        for left_behind in path.parent.glob(f".{path.name}.*"):  # By a killed learner.
            shutil.rmtree(left_behind)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.mkdir(parents=True)
        try:
            for name, content in contents.items():
                (temporary / name).write_bytes(content)
            (temporary / MANIFEST).write_text(dump_manifest(manifest), encoding="utf-8")
            sign_for_run(temporary, self._key)
            load_bundle(temporary, self._task.spec)
            to_disk(*temporary.iterdir())
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
        spec, count = self._task.spec, 3
        inputs = {
            "state": torch.zeros(count, spec.state_dim),
            "offset": torch.zeros(count, self._width),
            "noise": torch.zeros(spec.predicted_dim),
            "feedback": torch.ones(()),
        }
        whole = export_parts(self._parts, inputs, PartsOutput._fields)
        critic = cut(whole, ["state"], ["value"])
        reward = cut(whole, ["state", "action"], ["reward"])
        score = score_graph(reward, critic, spec.effort_limits, self._width, self._discount)
        body = cut(whole, ["state", "offset", "noise", "feedback"], ["next_state", "applied"])
        graphs = {
            "policy": cut(whole, ["state"], ["pi"]),
            "critic": critic,
            "dynamics": cut(whole, ["state", "action"], ["mean", "epistemic", "aleatoric"]),
            "step": cut(whole, ["state", "applied", "noise"], ["next_state", "reward"]),
            "score": score,
            "rollout": rollout_graph(body, score),
        }
        if self._parts.dynamics.hallucination_dim:
            graphs["hallucination"] = cut(whole, ["state"], ["eta"])
        if self._task.constraint_names:
            both = {"state": inputs["state"], "action": torch.zeros(count, spec.action_dim)}
            judged = export_parts(Judgement(self._task), both, JudgementOutput._fields)
            graphs["constraints"] = cut(judged, list(both), ["room"])
            graphs["reward"] = cut(judged, list(both), ["reward"])
        return {name: make_model(graph) for name, graph in graphs.items()}

    def _parity(self, seed: int) -> dict[str, NDArray[np.float32]]:
        """Inputs and torch's outputs of every graph, keyed `<graph>.in|out.<name>`."""
        spec, generator = self._task.spec, torch.Generator().manual_seed(seed)
        count, width = PARITY_PARTICLES, self._width
        states = self._task.imagined_states(count, generator)
        actions = self._parts.actor_critic.effort(
            2.0 * torch.rand(count, spec.action_dim, generator=generator) - 1.0
        )
        rollout = {
            "state": states[0],
            "offsets": 0.3 * torch.randn(count, PARITY_STEPS, width, generator=generator),
            "noise": torch.randn(PARITY_STEPS, spec.predicted_dim, generator=generator),
            "feedback": torch.ones(()),
        }
        with torch.no_grad():
            prediction = self._parts.dynamics.model.predict(states, actions)
            imagined = self._parts.rollout(**rollout, discount=self._discount)
            step = {
                "state": states,
                "applied": rollout["offsets"][:, 0].clamp(-1.0, 1.0),
                "noise": rollout["noise"][0],
            }
            output = self._parts(*step.values(), torch.zeros(()))
            cases = {
                "policy": ({"state": states}, {"pi": output.pi}),
                "critic": ({"state": states}, {"value": output.value}),
                "dynamics": ({"state": states, "action": actions}, prediction._asdict()),
                "step": (step, {"next_state": output.next_state, "reward": output.reward}),
                "score": (
                    {"states": imagined.states, "actions": imagined.actions},
                    {"returns": imagined.returns},
                ),
                "rollout": (rollout, imagined._asdict()),
            }
            if self._parts.dynamics.hallucination_dim:
                cases["hallucination"] = ({"state": states}, {"eta": output.eta})
            if self._task.constraint_names:
                judged = Judgement(self._task)(states, actions)
                both = {"state": states, "action": actions}
                cases["constraints"] = (both, {"room": judged.room})
                cases["reward"] = (both, {"reward": judged.reward})
        return {
            f"{graph}.{kind}.{name}": tensor.numpy()
            for graph, tensors in cases.items()
            for kind, group in zip(("in", "out"), tensors, strict=True)
            for name, tensor in group.items()
        }

    def _manifest(self, fields: BundleFields, contents: Mapping[str, bytes]) -> Manifest:
        task, spec = self._task, self._task.spec
        if self._promised is None:  # of a run, whose settings stay
            self._promised = Promised()
            if task.constraint_names:
                self._promised = promised(task.robot(), limits_under(spec, fields.safety))
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
            command=spec.command,
            deceleration=self._promised.deceleration,
            acceleration=self._promised.acceleration,
            steady_speed=self._promised.speed,
            period=spec.period,
            observed=spec.observed,
            context=spec.context,
            angles=task.angles,
            reach=tuple(None if bound == math.inf else bound for bound in task.state_bounds),
            hallucination_dim=self._parts.dynamics.hallucination_dim,
            constraints=task.constraint_names,
            target_std=tuple(self._parts.dynamics.model.targets.std.tolist()),
            files={name: hashlib.sha256(c).hexdigest() for name, c in contents.items()},
        )


def _npz(arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
