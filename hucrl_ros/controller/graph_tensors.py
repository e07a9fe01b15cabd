"""What is known of a graph's tensors before it runs: shapes, and values of the small ones."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.errors import quoted, shortened

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto

SMALL = 64
"""[1] Most numbers in a tensor whose values are looked at: those are shapes and indices."""
KEPT_BYTES = 4096
"""Largest operator, constants included, whose result is kept."""


@dataclass
class Tensors:
    """What is known of the tensors of a graph by their names."""

    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    constants: dict[str, "TensorProto"] = field(default_factory=dict)
    """Small ones with known values."""
    producers: dict[str, "NodeProto"] = field(default_factory=dict)
    """Of small ones, whose values aren't known yet."""

    def inner(self) -> "Tensors":
        """The same for a loop, which sees what is around it."""
        parts = (self.shapes, self.types, self.constants, self.producers)
        return Tensors(*(part.copy() for part in parts))  # type: ignore[arg-type]

    def add(self, name: str, kind: int, shape: Sequence[int]) -> None:
        """A tensor of a type, as ONNX counts types."""
        if name in self.shapes:
            raise ValueError(f"two tensors are called {quoted(name)}")
        self.shapes[name], self.types[name] = tuple(shape), kind


def add_constant(tensors: Tensors, name: str, tensor: "TensorProto") -> None:
    """A tensor with known values."""
    tensors.add(name, tensor.data_type, tensor.dims)
    if prod(tensor.dims) <= SMALL:
        tensors.constants[name] = tensor


def constant_of(node: "NodeProto") -> "TensorProto":
    """The value of a `Constant`."""
    from onnx import numpy_helper

    if len(node.attribute) == len(node.output) == 1:
        given = node.attribute[0]
        if given.name == "value" and given.HasField("t"):
            return given.t
        for name, value, kind in (
            ("value_float", given.f, np.float32),
            ("value_floats", list(given.floats), np.float32),
            ("value_int", given.i, np.int64),
            ("value_ints", list(given.ints), np.int64),
        ):
            if given.name == name:
                return numpy_helper.from_array(np.array(value, kind))
    raise ValueError("a Constant has no numbers")


def find_value(tensors: Tensors, name: str, model: "ModelProto") -> bool:
    """Whether the values of a tensor are known, once they were looked for."""
    from onnx import helper, numpy_helper

    if name in tensors.constants:
        return True
    node = tensors.producers.pop(name, None)  # popped: it is tried once
    if node is None:
        return False
    given = [each for each in node.input if each]
    if node.op_type == "Shape":
        # Of its input only the shape counts, which may be of many numbers.
        shape = tensors.shapes[node.input[0]]
        ends = {attribute.name: attribute.i for attribute in node.attribute}
        part = shape[ends.get("start", 0) : ends.get("end", len(shape))]
        tensors.constants[name] = numpy_helper.from_array(np.array(part, np.int64))
        return True
    if not all(find_value(tensors, each, model) for each in given):
        return False
    graph = helper.make_graph(
        [node],
        "one",
        [],
        [
            helper.make_tensor_value_info(each, tensors.types[each], tensors.shapes[each])
            for each in (name,)
        ],
        [_named(tensors.constants[each], each) for each in dict.fromkeys(given)],
    )
    tensors.constants[name] = numpy_helper.from_array(_run(graph, model))
    return True


def _named(tensor: "TensorProto", name: str) -> "TensorProto":
    from onnx import TensorProto

    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy


def _run(graph: "GraphProto", model: "ModelProto") -> NDArray[np.generic]:
    """The one small result of an operator on small constants."""
    from onnx import helper

    alone = helper.make_model(
        graph, opset_imports=list(model.opset_import), ir_version=model.ir_version
    )
    content = alone.SerializeToString()
    compute = _computed if len(content) <= KEPT_BYTES else _computed.__wrapped__
    try:
        return compute(content)
    except Exception as error:  # ONNX Runtime's own errors share no base class.
        raise ValueError(f"{graph.node[0].op_type}: {shortened(error, 100)}") from None


@lru_cache(maxsize=1024)
def _computed(content: bytes) -> NDArray[np.generic]:
    """Kept, as a bundle's graphs ask for the same again, and those of the next bundle do."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"])
    (found,) = session.run(None, {})
    result = np.asarray(found)
    result.setflags(write=False)
    return result
