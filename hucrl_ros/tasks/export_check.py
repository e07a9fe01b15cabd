"""Traces torch modules to ONNX; whether a user's functions can become part of a bundle."""

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch
from torch import Tensor, nn

from hucrl_ros.controller.graph_check import AT_RUN
from hucrl_ros.controller.graph_sizes import check_sizes
from hucrl_ros.controller.graph_structure import parse_graph
from hucrl_ros.controller.graph_tensors import SMALL
from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.task import Task
from hucrl_ros.tasks.view import first_line

OPSET = 20
"""Newest operator set that both exporter and runtime are tested with."""
COUNT = SMALL + 1
"""States; with fewer, more would be known of the graph than of that of a bundle."""
TOLERANCE = 1e-3
"""Largest |onnx − torch| / (1 + |torch|), as in a bundle [1]."""


Function = Callable[[Tensor, Tensor], Tensor]
"""Of states and actions."""


class _Alone(nn.Module):
    def __init__(self, task: Task, function: Function) -> None:
        super().__init__()
        self.task = task  # Its buffers are the function's.
        self.function = function

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        return self.function(state, action)


def check_export(task: Task) -> None:
    """Export the reward alone, and each constraint that is a user's, and compare with torch.

    Raises:
        ConfigError: one can't be exported, or computes something else then: it branches on
            values, or leaves torch.
    """
    _check(task, "reward", task.reward, task.origin)
    for origin, room in task.room_functions:
        _check(task, "room", room, origin)


def _check(task: Task, name: str, function: Function, origin: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    states = task.imagined_states(2 * COUNT, generator)
    limits = torch.tensor(task.spec.effort_limits)
    actions = limits * (2.0 * torch.rand(len(states), len(limits), generator=generator) - 1.0)
    inputs = {"state": states[COUNT:].numpy(), "action": actions[COUNT:].numpy()}
    try:
        # Another number of states, as none may stay in the graph.
        content = trace(
            _Alone(task, function), {"state": states[:3], "action": actions[:3]}, [name]
        )
        check_sizes(parse_graph(content, loop=False), {"particles": COUNT}, AT_RUN)
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        exported = session.run(None, inputs)[0]
    except Exception as error:
        raise ConfigError(
            f"{origin}: the {name} can't be exported to ONNX: {_cause(error)}; it must be "
            "made of torch operations, not of numpy's, with torch.where in place of branches on "
            "values, and len(x) be x.shape[0]"
        ) from None
    with torch.no_grad():
        expected = function(states[COUNT:], actions[COUNT:]).numpy()
    if exported.shape != expected.shape:
        raise ConfigError(
            f"{origin}: exported to ONNX the {name} is {exported.size} numbers for {COUNT} "
            "states; it must be made of torch operations alone"
        )
    wrong = np.abs(exported - expected) / (1.0 + np.abs(expected))
    if not wrong.max() <= TOLERANCE:
        worst = int(np.nan_to_num(wrong, nan=np.inf).argmax())
        raise ConfigError(
            f"{origin}: exported to ONNX the {name} is {exported[worst]:.6g} where torch says "
            f"{expected[worst]:.6g}; it must be made of torch operations alone"
        )


def trace(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    single: Sequence[str] = (),
) -> bytes:
    """A serialised ONNX model of `module.forward`, weights under their names in the module.

    By torch's older exporter, as the newer one, which reads types and shapes symbolically, takes
    twenty times as long for the same operations.

    Args:
        module: What to trace.
        inputs: One tensor for each argument, by names that the graph gives them.
        outputs: Names of what it returns.
        single: Inputs without a row for each of any number of particles.

    Raises:
        Exception: of any class, where torch can't tell what `forward` does at all values.
    """
    rows = {name: {0: "particles"} for name in (*inputs, *outputs) if name not in single}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # The trace would have the branch of these values alone.
        warnings.filterwarnings("error", "Converting a tensor to a Python boolean")
        torch.onnx.export(
            module.train(),
            tuple(inputs.values()),
            buffer,  # type: ignore[arg-type]
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=rows,
            opset_version=OPSET,
            do_constant_folding=False,  # Of weights, too.
            # In evaluation it would merge weights that are equal as yet, such as all zero biases.
            training=torch.onnx.TrainingMode.PRESERVE,
            dynamo=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    kept = {value.name for value in model.graph.input}
    for name in inputs.keys() - kept:  # What `forward` makes no use of is an input all the same.
        dims = [
            *(["particles"] if name not in single else []),
            *inputs[name].shape[name not in single :],
        ]
        value = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, dims)
        model.graph.input.append(value)
    content: bytes = model.SerializeToString()
    return content


def _cause(error: BaseException) -> str:
    """The first error of a chain: the exporter wraps it in pages of advice."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {first_line(error)}"
