"""Torch and ONNX compute the same, also after the weights were swapped."""

import hashlib
import sys

import numpy as np
import onnx
import pytest
import torch
import yaml
from bundle_factory import (
    DISCOUNT,
    PLANNER,
    SHORT_RAIL,
    STRATEGIES,
    fields,
    imagined_episode,
    learned,
    shake,
)
from bundle_factory import write_bundle as write
from own_robots import PENDULUM
from own_robots import write as own_robot

from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.manifest import MANIFEST, read_manifest
from hucrl_ros.errors import BundleError
from hucrl_ros.learning.graphs import cut, make_model, swap_weights

PARTICLES = 5
TOLERANCE = 1e-4


def rollout_inputs(modules, seed=0):
    generator = torch.Generator().manual_seed(seed)
    width = 1 + modules.dynamics.hallucination_dim
    horizon = PLANNER.horizon
    return {
        "state": torch.tensor([3.0, -0.5]),
        "offsets": torch.randn(PARTICLES, horizon, width, generator=generator),
        "noise": torch.randn(horizon, 2, generator=generator),
    }


def imagined(modules, state, offsets, noise, feedback):
    """Algorithm 7's imagination of one particle, written out."""
    total, states, actions = 0.0, [state], []
    for t in range(PLANNER.horizon):
        policies = torch.cat([modules.actor_critic.policy(state), modules.actor_critic.eta(state)])
        both = torch.clamp(feedback * policies + offsets[t], -1.0, 1.0)
        effort = both[:1] * modules.task.spec.effort_limits[0]
        total = total + DISCOUNT**t * modules.dynamics.reward(modules.task, state, effort)
        state = modules.dynamics(state, effort, both[1:], noise[t])
        states.append(state)
        actions.append(both)
    total = total + DISCOUNT**PLANNER.horizon * modules.actor_critic.critic(state)
    return total, torch.stack(states), torch.stack(actions)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("feedback", [0.0, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_rollout_graph_is_algorithm_7_after_a_weight_swap(tmp_path, strategy, feedback, seed):
    modules = learned(strategy)
    shake(modules, seed)
    bundle = load_bundle(write(tmp_path / "bundle", strategy))
    inputs = rollout_inputs(modules, seed)
    arrays = {name: tensor.numpy() for name, tensor in inputs.items()}
    outputs = bundle.run("rollout", **arrays, feedback=np.array(feedback, np.float32))
    with torch.no_grad():
        for i in range(PARTICLES):
            offsets, noise = inputs["offsets"][i], inputs["noise"]
            expected = imagined(modules, inputs["state"], offsets, noise, feedback)
            for output, reference in zip(outputs, expected, strict=True):
                np.testing.assert_allclose(output[i], reference, TOLERANCE, TOLERANCE)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_single_graphs_equal_their_modules(tmp_path, strategy):
    modules = learned(strategy)
    shake(modules, 3)
    bundle = load_bundle(write(tmp_path / "bundle", strategy))
    state, action = torch.randn(7, 2), torch.rand(7, 1)
    belief = modules.model.predict(state, action)
    expected = {
        "policy": [modules.actor_critic.policy(state)],
        "critic": [modules.actor_critic.critic(state)],
    }
    if modules.dynamics.hallucination_dim:
        expected["hallucination"] = [modules.actor_critic.eta(state)]
    for graph, references in expected.items():
        for output, reference in zip(
            bundle.run(graph, state=state.numpy()), references, strict=True
        ):
            np.testing.assert_allclose(output, reference.detach(), TOLERANCE, TOLERANCE)
    outputs = bundle.run("dynamics", state=state.numpy(), action=action.numpy())
    for output, reference in zip(outputs, belief[:3], strict=True):
        np.testing.assert_allclose(output, reference.detach(), TOLERANCE, TOLERANCE)


@pytest.mark.parametrize("strategy", ["greedy", "thompson", "sombrl"])
def test_strategies_without_hallucination_have_no_such_graph(tmp_path, strategy):
    bundle = load_bundle(write(tmp_path / "bundle", strategy))
    assert not (tmp_path / "bundle" / "hallucination.onnx").exists()
    assert bundle.manifest.hallucination_dim == 0


def test_every_parameter_and_buffer_reaches_the_graph(tmp_path):
    """A weight that the template had baked in would show as an unchanged rollout."""
    modules = learned()
    arrays = {name: tensor.numpy() for name, tensor in rollout_inputs(modules).items()}
    arrays["feedback"] = np.array(1.0, np.float32)

    def returns():
        bundle = load_bundle(write(tmp_path / "bundle"))
        return bundle.run("rollout", **arrays)[0]

    before = returns()
    for name, tensor in (
        *modules.dynamics.state_dict().items(),
        *modules.actor_critic.state_dict().items(),
    ):
        if name == "model.heads.choice":
            continue  # Thompson sampling's alone.
        kept = tensor.clone()
        tensor.mul_(1.1).add_(0.01)
        assert np.abs(returns() - before).max() > 0.0, name
        tensor.copy_(kept)


def test_tracing_needs_no_symbolic_exporter(tmp_path, monkeypatch):
    """Its imports and symbolic shapes took most of a run's start."""
    monkeypatch.setattr(torch.export, "export", None)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    monkeypatch.setattr(learned().exporter, "_models", None)
    load_bundle(write(tmp_path / "bundle"))


def test_weights_that_are_equal_when_traced_may_differ_later(tmp_path, monkeypatch):
    modules = learned()
    with torch.no_grad():
        for parameter in modules.actor_critic.parameters():
            parameter.zero_()
    monkeypatch.setattr(modules.exporter, "_models", None)
    write(tmp_path / "bundle")
    shake(modules, 5)
    write(tmp_path / "bundle")  # It compares with torch.


def test_torch_traces_the_modules_once(tmp_path, monkeypatch):
    write(tmp_path / "first")
    monkeypatch.setattr(torch.onnx, "export", None)
    write(tmp_path / "second")


def test_a_bundle_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    def fail(*_):
        raise BundleError("refused")

    monkeypatch.setattr("hucrl_ros.learning.export.load_bundle", fail)
    with pytest.raises(BundleError):
        write(tmp_path / "bundle")
    assert list(tmp_path.iterdir()) == []


def test_a_bundle_replaces_what_an_interrupted_learner_left(tmp_path):
    (tmp_path / ".bundle.123").mkdir()
    (tmp_path / ".bundle.123" / "policy.onnx").touch()
    write(tmp_path / "bundle", episode=1)
    (tmp_path / "bundle" / "stray").touch()
    write(tmp_path / "bundle", episode=2)
    assert load_bundle(tmp_path / "bundle").manifest.episode == 2
    assert not (tmp_path / "bundle" / "stray").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_wrong_weights_are_refused_before_the_bundle_appears(tmp_path, monkeypatch):
    modules = learned()

    def forget_the_swap(model, weights):
        return swap_weights(model, {k: v for k, v in weights.items() if ".critic." not in k})

    shake(modules, 4)
    monkeypatch.setattr("hucrl_ros.learning.export.swap_weights", forget_the_swap)
    with pytest.raises(BundleError, match=r"critic\.onnx: output 'value' differs from torch's"):
        write(tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_the_imagined_episode_is_kept_with_the_bundle(tmp_path):
    made = imagined_episode(steps=4)._replace(rewards=np.arange(4.0))
    learned().exporter.write(tmp_path / "bundle", fields(), made)
    loaded = load_bundle(tmp_path / "bundle").imagined
    for array, expected in zip(loaded, made, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_same_weights_give_the_same_bytes(tmp_path):
    contents = []
    for name in ("one", "two"):
        folder = write(tmp_path / name)
        contents.append({file.name: file.read_bytes() for file in folder.iterdir()})
    assert contents[0] == contents[1]


def test_cutting_a_graph_needs_all_its_inputs():
    float_info = onnx.helper.make_tensor_value_info
    x, y, z = (float_info(name, onnx.TensorProto.FLOAT, ["particles"]) for name in "xyz")
    add = onnx.helper.make_node("Add", ["x", "y"], ["z"])
    graph = onnx.helper.make_graph([add], "sum", [x, y], [z])
    assert len(make_model(cut(graph, ["x", "y"], ["z"])).graph.node) == 1
    with pytest.raises(ValueError, match="can't be computed without input 'y'"):
        cut(graph, ["x"], ["z"])


def states_about_the_limits(task, count=40):
    """Most of them near the limit of 1 m, or beyond it, and actions."""
    generator = torch.Generator().manual_seed(4)
    states = task.imagined_states(count, generator)
    states[:, 0] = 2.4 * torch.rand(count, generator=generator) - 1.2
    limits = torch.tensor(task.spec.effort_limits)
    return states, limits * (2.0 * torch.rand(count, 1, generator=generator) - 1.0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_bundle_tells_rooms_and_rewards_and_plans_for_both(tmp_path, strategy):
    modules = learned(strategy, SHORT_RAIL)
    shake(modules, 3)
    bundle = load_bundle(write(tmp_path / "bundle", strategy, SHORT_RAIL))
    task = modules.task
    assert bundle.manifest.constraints == task.constraint_names
    states, actions = states_about_the_limits(task)
    both = {"state": states.numpy(), "action": actions.numpy()}
    (room,) = bundle.run("constraints", **both)
    assert room.shape == (len(states), 1)
    np.testing.assert_allclose(room[:, 0], (1.0 - np.abs(both["state"][:, 0])) / 0.05, atol=1e-4)
    (reward,) = bundle.run("reward", **both)
    np.testing.assert_allclose(reward, task.reward(states, actions), atol=1e-5)
    width, limits = bundle.manifest.width, torch.tensor(task.spec.effort_limits)
    applied = torch.cat([actions / limits, torch.zeros(len(states), width - 1)], dim=-1)
    noise = np.zeros(task.spec.predicted_dim, np.float32)
    _, planned = bundle.run("step", state=both["state"], applied=applied.numpy(), noise=noise)
    with torch.no_grad():
        expected = modules.dynamics.reward(task, states, actions)
    np.testing.assert_allclose(planned, expected, rtol=1e-4, atol=1e-3)
    pays = room[:, 0] < 2.0
    assert 5 < pays.sum() < 35
    earned = modules.dynamics.earned(task, states, actions).detach().numpy()
    assert (planned[pays] < earned[pays] - 1e-3).all()
    np.testing.assert_allclose(planned[~pays], earned[~pays], rtol=1e-4, atol=1e-3)
    two = {"states": np.stack([states, states], axis=1), "actions": applied.numpy()[:, None]}
    (returns,) = bundle.run("score", **two)
    with torch.no_grad():
        closed = expected + DISCOUNT * modules.actor_critic.critic(states)
    np.testing.assert_allclose(returns, closed, rtol=1e-4, atol=1e-3)


def test_functions_with_constants_of_numpys_are_in_bundles_in_single_precision(tmp_path):
    (tmp_path / "cost.py").write_text(
        "import numpy as np, torch\nCOSTS = torch.from_numpy(np.array([1.0, 0.1]))\n"
        "def reward(state, action, robot):\n    return -(state**2 * COSTS).sum(-1)\n"
        "def room(state, action, robot):\n    return 40.0 + reward(state, action, robot)\n"
    )
    described = PENDULUM | {
        "reward": {"function": "cost.py:reward"},
        "constraints": [{"kind": "function", "function": "cost.py:room", "margin": 2.0}],
    }
    stick = str(own_robot(tmp_path, described))
    bundle = load_bundle(write(tmp_path / "bundle", "optimistic", stick))
    both = {"state": np.array([[1.0, 2.0]], np.float32), "action": np.zeros((1, 1), np.float32)}
    np.testing.assert_allclose(bundle.run("reward", **both)[0], [-1.4], rtol=1e-6)
    np.testing.assert_allclose(bundle.run("constraints", **both)[0], [[19.3]], rtol=1e-6)
    task = learned("optimistic", stick).task
    assert task.rewards(np.array([[1.0, 2.0]]), np.zeros((1, 1))) == [-1.0 - 4.0 * 0.1]


def test_a_bundle_without_constraints_has_no_graph_of_them(tmp_path):
    bundle = load_bundle(write(tmp_path / "bundle"))
    assert bundle.manifest.constraints == ()
    assert not {"constraints", "reward"} & bundle.graphs.keys()
    assert not {"constraints.onnx", "reward.onnx"} & bundle.manifest.files.keys()


def test_a_manifest_of_before_has_no_constraints(tmp_path):
    path = write(tmp_path / "bundle", task=SHORT_RAIL)
    manifest = read_manifest(path)
    assert manifest.constraints == ("position of cart_joint -1 … 1 (the short rail)",)
    document = yaml.safe_load((path / MANIFEST).read_text())
    del document["constraints"]
    (path / MANIFEST).write_text(yaml.safe_dump(document))
    assert read_manifest(path).constraints == ()
    assert "constraints" not in load_bundle(path).graphs


def test_a_graph_of_constraints_that_tells_other_rooms_is_refused(tmp_path):
    path = write(tmp_path / "bundle", task=SHORT_RAIL)
    document = yaml.safe_load((path / MANIFEST).read_text())
    reward = (path / "reward.onnx").read_bytes()
    (path / "constraints.onnx").write_bytes(reward)
    document["files"]["constraints.onnx"] = hashlib.sha256(reward).hexdigest()
    (path / MANIFEST).write_text(yaml.safe_dump(document))
    with pytest.raises(BundleError, match=r"constraints\.onnx: outputs are"):
        load_bundle(path)
