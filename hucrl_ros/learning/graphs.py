"""ONNX graphs of a bundle: exported from `Parts` once, cut into parts, weights swapped later."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from hucrl_ros.controller.bundle import HORIZON, PARTICLES, STATES
from hucrl_ros.tasks.export_check import OPSET, trace

IR_VERSION = 10


def export_parts(
    parts: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str]
) -> GraphProto:
    """The graph of `parts.forward`, its weights kept under their names in the module.

    The first two inputs have a row for each of any number of particles.
    """
    single = list(inputs)[2:]
    graph = onnx.load_from_string(trace(parts, inputs, outputs, single)).graph
    for value, output in zip(graph.output, parts(*inputs.values()), strict=True):
        value.CopyFrom(_float(value.name, [PARTICLES, *output.shape[1:]]))
    for node in graph.node:
        # All inputs have as many particles; `state` is the one that every cut has.
        if node.op_type == "Shape" and node.input[0] == "offset":
            node.input[0] = "state"
    return graph


def cut(graph: GraphProto, inputs: Sequence[str], outputs: Sequence[str]) -> GraphProto:
    """The part of `graph` that computes `outputs` from `inputs` (names of any tensors)."""
    wanted, seen, nodes = list(outputs), set(inputs), set[int]()
    producer = {name: i for i, node in enumerate(graph.node) for name in node.output}
    initializers = {tensor.name: tensor for tensor in graph.initializer}
    used: list[str] = []
    while wanted:
        name = wanted.pop()
        if name in seen or not name:
            continue
        seen.add(name)
        if name in initializers:
            used.append(name)
        elif name in producer:
            nodes.add(producer[name])
            wanted.extend(graph.node[producer[name]].input)
        else:
            raise ValueError(f"{', '.join(outputs)} can't be computed without input {name!r}")
    infos = {value.name: value for value in (*graph.input, *graph.output)}
    return helper.make_graph(
        [graph.node[i] for i in sorted(nodes)],
        "_".join(outputs),
        [_float(name, _shape(infos[name])) for name in inputs],
        [_float(name, _shape(infos[name])) for name in outputs],
        [initializers[name] for name in sorted(used)],
    )


def rename(graph: GraphProto, names: Mapping[str, str], prefix: str = "") -> GraphProto:
    """A copy with other tensor names: by `names`, else `prefix` before all but the weights."""
    weights = {tensor.name for tensor in graph.initializer}
    copy = GraphProto()
    copy.CopyFrom(graph)

    def new(name: str) -> str:
        kept = not name or name in weights
        return names.get(name, name if kept else prefix + name)

    for node in copy.node:
        node.name = ""
        node.input[:] = [new(name) for name in node.input]
        node.output[:] = [new(name) for name in node.output]
    for value in (*copy.input, *copy.output):
        value.name = new(value.name)
    return copy


def score_graph(
    reward: GraphProto, critic: GraphProto, limits: Sequence[float], width: int, discount: float
) -> GraphProto:
    """Discounted returns of trajectories, all their steps at once.

    Args:
        reward: `(state, action) → reward`.
        critic: `state → value`, which closes the returns.
        limits: Effort limits `(q,)`.
        width: q + h.
        discount: γ.
    """
    state_dim, action_dim = (_shape(value)[1] for value in reward.input)
    steps = rename(reward, {"reward": "flat_rewards"}, prefix="reward/")
    tail = rename(critic, {"state": "last_state", "value": "last_value"}, prefix="critic/")
    nodes = [
        helper.make_node("Shape", ["actions"], ["horizon"], start=1, end=2),
        helper.make_node("Slice", ["states", "zero", "minus_one", "one"], ["present_states"]),
        helper.make_node("Reshape", ["present_states", "state_rows"], ["reward/state"]),
        helper.make_node("Slice", ["actions", "zero", "action_dim", "two"], ["shares"]),
        helper.make_node("Reshape", ["shares", "action_rows"], ["share_rows"]),
        helper.make_node("Mul", ["share_rows", "limits"], ["reward/action"]),
        *steps.node,
        helper.make_node("Concat", ["minus_one", "horizon"], ["reward_rows"], axis=0),
        helper.make_node("Reshape", ["flat_rewards", "reward_rows"], ["rewards"]),
        helper.make_node("Squeeze", ["horizon"], ["last"]),
        helper.make_node("Range", ["start", "last", "step"], ["times"]),
        helper.make_node("Cast", ["times"], ["exponents"], to=TensorProto.FLOAT),
        helper.make_node("Pow", ["discount", "exponents"], ["discounts"]),
        helper.make_node("MatMul", ["rewards", "discounts"], ["discounted"]),
        helper.make_node("Gather", ["states", "last"], ["last_state"], axis=1),
        *tail.node,
        helper.make_node("Cast", ["last"], ["last_exponent"], to=TensorProto.FLOAT),
        helper.make_node("Pow", ["discount", "last_exponent"], ["last_discount"]),
        helper.make_node("Mul", ["last_value", "last_discount"], ["rest"]),
        helper.make_node("Add", ["discounted", "rest"], ["returns"]),
    ]
    integers = {
        "zero": [0],
        "one": [1],
        "two": [2],
        "minus_one": [-1],
        "action_dim": [action_dim],
        "state_rows": [-1, state_dim],
        "action_rows": [-1, action_dim],
        "start": 0,
        "step": 1,
    }
    constants = [numpy_helper.from_array(np.array(v, np.int64), k) for k, v in integers.items()]
    numbers = {"discount": discount, "limits": limits}
    constants += [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in numbers.items()]
    weights = {tensor.name: tensor for tensor in (*steps.initializer, *tail.initializer)}
    return helper.make_graph(
        nodes,
        "score",
        [
            _float("states", [PARTICLES, STATES, state_dim]),
            _float("actions", [PARTICLES, HORIZON, width]),
        ],
        [_float("returns", [PARTICLES])],
        [*weights.values(), *constants],
    )


def rollout_graph(body: GraphProto, score: GraphProto) -> GraphProto:
    """Steps of `body` by ONNX Scan, closed by `score`.

    Args:
        body: `(state, offset, noise, feedback) → (next_state, applied)`.
        score: Of `score_graph`.
    """
    (_, state_dim), (_, width), (noise_dim,) = (_shape(value) for value in body.input[:3])
    feedback = {"feedback": "feedback"}  # Taken from the outer scope.
    step = rename(body, feedback, prefix="step/")
    names = {name: name for name in ("states", "actions", "returns")}
    end = rename(score, names, prefix="score/")
    nodes = [
        helper.make_node("Shape", ["offsets"], ["count"], start=0, end=1),
        helper.make_node("Concat", ["count", "state_dim"], ["start_shape"], axis=0),
        helper.make_node("Expand", ["state", "start_shape"], ["first"]),
        helper.make_node(
            "Scan",
            ["first", "offsets", "noise"],
            ["last_state", "later_states", "actions"],
            body=_scan_body(step),
            num_scan_inputs=2,
            scan_input_axes=[1, 0],
            scan_output_axes=[1, 1],
        ),
        helper.make_node("Unsqueeze", ["first", "axis_1"], ["first_states"]),
        helper.make_node("Concat", ["first_states", "later_states"], ["states"], axis=1),
        *end.node,
    ]
    constants = {"state_dim": np.array([state_dim], np.int64), "axis_1": np.array([1], np.int64)}
    weights = {tensor.name: tensor for tensor in (*step.initializer, *end.initializer)}
    return helper.make_graph(
        nodes,
        "rollout",
        [
            _float("state", [state_dim]),
            _float("offsets", [PARTICLES, HORIZON, width]),
            _float("noise", [HORIZON, noise_dim]),
            _float("feedback", []),
        ],
        [
            _float("returns", [PARTICLES]),
            _float("states", [PARTICLES, STATES, state_dim]),
            _float("actions", [PARTICLES, HORIZON, width]),
        ],
        [*weights.values(), *(numpy_helper.from_array(v, k) for k, v in constants.items())],
    )


def make_model(graph: GraphProto) -> ModelProto:
    """A checked model of a graph."""
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="hucrl_ros",
    )
    onnx.checker.check_model(model)
    return model


def swap_weights(model: ModelProto, weights: Mapping[str, Tensor]) -> None:
    """Put new values into the initializers that bear a weight's name."""
    for tensor in model.graph.initializer:
        if tensor.name in weights:
            value = weights[tensor.name].detach().cpu().numpy()
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))


def _scan_body(step: GraphProto) -> GraphProto:
    """`step` with inputs and outputs as Scan wants them; its weights move to the outer graph."""
    state, offset, noise, _ = step.input
    next_state, applied = step.output
    emitted = "step/emitted_state"
    copy = helper.make_node("Identity", [next_state.name], [emitted])
    return helper.make_graph(
        [*step.node, copy],
        "step",
        [state, offset, noise],
        [next_state, _float(emitted, _shape(next_state)), applied],
    )


def _float(name: str, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))


def _shape(value: onnx.ValueInfoProto) -> list[int | str]:
    """Dimensions, the one that has no fixed size as `PARTICLES`."""
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value if dim.HasField("dim_value") else PARTICLES for dim in dims]
