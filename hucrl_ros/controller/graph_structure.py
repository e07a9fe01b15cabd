"""What an ONNX graph of a bundle may consist of; looked at before ONNX Runtime sees any of it."""

from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING

from hucrl_ros.errors import quoted, shortened

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

OPSETS = range(13, 21)
"""Versions of ONNX's operators; learners write the last one."""
MOST_NODES = 5000
"""[1] Operators in a graph, those of a `Scan` included."""
MOST_DIMENSIONS = 16
"""[1] Of a constant."""
_NAMES = """
    Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh Cast CastLike Ceil Celu Clip Concat
    Constant ConstantOfShape Cos Cosh CumSum Div Einsum Elu Equal Erf Exp Expand EyeLike Flatten
    Floor Gather GatherElements GatherND Gelu Gemm Greater GreaterOrEqual HardSigmoid HardSwish
    Identity
    IsInf IsNaN LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max Mean Min
    Mod Mul Neg Not OneHot Or PRelu Pad Pow Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum
    ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu
    Reshape Round ScatterElements ScatterND Selu Shape Sigmoid Sign Sin Sinh Size Slice Softmax
    Softplus Softsign Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile TopK Transpose
    Trilu Unsqueeze Where Xor
"""
OPERATORS = frozenset(_NAMES.split())
"""Arithmetic, and what torch's exporter makes of indexing; shapes of all results can be told
before anything runs. No control flow, no random numbers, nothing that reads or calls."""
LOOP = "Scan"
"""The only loop, as often as there are control periods to look ahead; not within another."""
TYPES = {1: "float", 11: "double", 6: "int32", 7: "int64", 9: "bool"}
"""Of numbers, as ONNX counts."""
_FIELDS = {
    1: ("float_data", 4),
    11: ("double_data", 8),
    6: ("int32_data", 4),
    7: ("int64_data", 8),
    9: ("int32_data", 1),
}
"""Where a constant of each type keeps its numbers, if not as bytes, and how many bytes each is."""
_ATTRIBUTES = {"name", "type", "doc_string", "f", "i", "s", "t", "floats", "ints", "strings"}
_MODEL = {
    "ir_version",
    "opset_import",
    "producer_name",
    "producer_version",
    "domain",
    "model_version",
    "doc_string",
    "metadata_props",
    "graph",
}
_GRAPH = {"node", "name", "initializer", "doc_string", "input", "output", "value_info"}
_NODE = {"input", "output", "name", "op_type", "domain", "attribute", "doc_string"}


def parse_graph(content: bytes, loop: bool) -> "ModelProto":
    """The model in a file, if it is harmless as far as its structure tells.

    Args:
        content: Of the file.
        loop: It may have a `Scan`.

    Returns:
        Without fields that are not known here, so that nobody else can read more out of it.

    Raises:
        ValueError: it isn't; says what it has that isn't accepted.
    """
    from onnx import ModelProto  # A robot that never loads a bundle needs none of it.

    model = ModelProto()
    try:
        model.ParseFromString(content)
    except Exception as error:  # DecodeError, of a package that isn't ours
        raise ValueError(f"can't be loaded: {shortened(error)}") from None
    model.DiscardUnknownFields()
    _only(model, _MODEL, "the model")
    versions = [(entry.domain, entry.version) for entry in model.opset_import]
    if len(versions) != 1 or versions[0][0] not in ("", "ai.onnx") or versions[0][1] not in OPSETS:
        raise ValueError(
            f"operator sets are {shortened(versions, 80)}; accepted is one, ONNX's own, "
            f"{OPSETS[0]} to {OPSETS[-1]}"
        )
    _check_graph(model.graph, loop)
    if (count := sum(1 for _ in nodes(model.graph))) > MOST_NODES:
        raise ValueError(f"{count} operators, more than the {MOST_NODES} accepted")
    return model


def declared_shapes(values: Iterable["ValueInfoProto"]) -> dict[str, tuple[int | str, ...]]:
    """Shapes of inputs or outputs by their names; a name stands for a size that is free.

    Raises:
        ValueError: one is no tensor of float32, or two have the same name.
    """
    found: dict[str, tuple[int | str, ...]] = {}
    for value in values:
        kind = value.type.tensor_type
        if kind.elem_type != 1 or value.name in found:
            raise ValueError(f"{quoted(value.name)} is no tensor of float, or is two")
        found[value.name] = tuple(dim.dim_param or dim.dim_value for dim in kind.shape.dim)
    return found


def nodes(graph: "GraphProto") -> Iterator["NodeProto"]:
    """All operators of a graph, those in its loop included."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes(attribute.g)


def _check_graph(graph: "GraphProto", loop: bool) -> None:
    _only(graph, _GRAPH, "the graph")
    for tensor in graph.initializer:
        _check_tensor(tensor)
    for node in graph.node:
        _only(node, _NODE, "an operator")
        kind = node.op_type
        is_loop = loop and kind == LOOP
        if node.domain not in ("", "ai.onnx") or not (kind in OPERATORS or is_loop):
            raise ValueError(f"operator {quoted(kind)} is not accepted")
        for attribute in node.attribute:
            shown = f"attribute {quoted(attribute.name)} of {kind}"
            if is_loop and attribute.name == "body":
                _only(attribute, {"name", "type", "g"}, shown)
                _check_graph(attribute.g, loop=False)
                continue
            _only(attribute, _ATTRIBUTES, shown)
            if attribute.HasField("t"):
                _check_tensor(attribute.t)


def _check_tensor(tensor: "TensorProto") -> None:
    name = quoted(tensor.name)
    if tensor.data_location or tensor.external_data:
        raise ValueError("weights are in another file, which no hash covers")
    if tensor.HasField("segment") or tensor.data_type not in TYPES:
        accepted = ", ".join(TYPES.values())
        raise ValueError(f"constant {name} has the type {tensor.data_type}, not {accepted}")
    field, size = _FIELDS[tensor.data_type]
    count = prod(tensor.dims[:MOST_DIMENSIONS])
    found = {f.name: len(data) for f, data in tensor.ListFields() if f.name.endswith("_data")}
    # Not only less of it: ONNX Runtime writes what is too much over what isn't its own.
    exact = found in ({"raw_data": size * count}, {field: count}) or (not found and not count)
    small = len(tensor.dims) <= MOST_DIMENSIONS and all(dim >= 0 for dim in tensor.dims)
    if not (small and exact):
        # A million dimensions in words would take more memory than all else.
        shape = shortened(list(tensor.dims[: MOST_DIMENSIONS + 1]), 80)
        raise ValueError(f"constant {name} is {shape}, and has no such data")


def _only(message: "object", known: set[str], what: str) -> None:
    """Refuse a part that has other fields than `known`."""
    for field, _ in message.ListFields():  # type: ignore[attr-defined]
        if field.name not in known:
            raise ValueError(f"{what} has {field.name}, which is not accepted")
