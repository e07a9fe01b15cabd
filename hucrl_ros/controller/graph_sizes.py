"""How much memory and work a graph takes, told from shapes alone, before anything of it runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hucrl_ros.controller.graph_structure import LOOP
from hucrl_ros.controller.graph_tensors import (
    SMALL,
    Tensors,
    add_constant,
    constant_of,
    find_value,
)
from hucrl_ros.errors import quoted, shortened

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

LARGEST_NUMBER = 8
"""[bytes]"""
PRODUCTS = ("MatMul", "Gemm", "Einsum")
WHOLE = (*range(2, 8), 12, 13)
"""Types of whole numbers, as ONNX counts types: a `Cast` makes any of them."""


@dataclass(frozen=True)
class Room:
    """What a graph may take."""

    memory: int
    """Of all its results together [bytes]."""
    work: int
    """Products of two numbers, or other results [1]."""


def check_sizes(
    model: "ModelProto", sizes: Mapping[str, int], room: Room
) -> dict[str, tuple[int, ...]]:
    """Refuse a graph that would take too much.

    Args:
        model: Of `parse_graph`.
        sizes: What names in the shapes of its inputs stand for.
        room: What it may take; its own constants don't count.

    Returns:
        Shapes of its outputs by their names.

    Raises:
        ValueError: it takes more, or its shapes can't be told.
    """
    tensors = Tensors()
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in kind.shape.dim]
        tensors.add(value.name, kind.elem_type, shape)
    _Walk(model, room).graph(model.graph, tensors, 1)
    return {value.name: tensors.shapes[value.name] for value in model.graph.output}


class _Walk:
    """Goes through a graph in its order, and adds up."""

    def __init__(self, model: "ModelProto", room: Room) -> None:
        from onnx import defs

        self._schema = defs.get_schema
        self._model, self._room = model, room
        self._memory = self._work = 0

    def graph(self, graph: "GraphProto", tensors: Tensors, times: int) -> None:
        """Of the graph, which runs so many times in the same memory."""
        for tensor in graph.initializer:
            add_constant(tensors, tensor.name, tensor)
        for node in graph.node:
            for name in node.input:
                if name and name not in tensors.shapes:
                    raise ValueError(f"{node.op_type} takes {quoted(name)}, which is not there")
            if node.op_type == LOOP:
                self._loop(node, tensors)
            elif node.op_type == "Constant":
                add_constant(tensors, node.output[0], constant_of(node))
            else:
                self._operator(node, tensors, times)
        for value in graph.output:
            if value.name not in tensors.shapes:
                raise ValueError(f"the output {quoted(value.name)} is not there")

    def _operator(self, node: "NodeProto", tensors: Tensors, times: int) -> None:
        from onnx.shape_inference import infer_node_outputs

        version = self._model.opset_import[0].version
        names = [name for name in dict.fromkeys(node.input) if name]
        for name in names:
            find_value(tensors, name, self._model)
        data = {name: tensors.constants[name] for name in names if name in tensors.constants}
        _require_harmless(node, tensors)
        try:
            schema = self._schema(node.op_type, version, "")
            types = {name: _type(tensors.types[name], tensors.shapes[name]) for name in names}
            found = infer_node_outputs(
                schema, node, types, data, None, list(self._model.opset_import)
            )
        except Exception as error:  # onnx's own errors share no base class.
            raise ValueError(f"{node.op_type}: {shortened(error, 100)}") from None
        for name in filter(None, node.output):
            kind = found[name].tensor_type if name in found else None
            dims = kind.shape.dim if kind is not None and kind.HasField("shape") else None
            if (
                kind is None
                or dims is None
                or not all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
            ):
                raise ValueError(f"how large {quoted(name)} of {node.op_type} is can't be told")
            self._add(node, name, kind.elem_type, [d.dim_value for d in dims], tensors, times)

    def _add(
        self,
        node: "NodeProto",
        name: str,
        kind: int,
        shape: Sequence[int],
        tensors: Tensors,
        times: int,
    ) -> None:
        tensors.add(name, kind, shape)
        count = prod(shape)
        if count <= SMALL:
            tensors.producers[name] = node
        taken = [prod(tensors.shapes[given]) for given in node.input if given]
        work = max([count, *taken])
        if node.op_type in PRODUCTS:  # At most: each number of the one with each of the other.
            work = max(work, _products(node, shape, tensors))
        self._memory += LARGEST_NUMBER * count
        self._work += times * work
        for what, found, most in (
            ("bytes", self._memory, self._room.memory),
            ("operations", self._work, self._room.work),
        ):
            if found > most:
                raise ValueError(
                    f"{node.op_type} with a result of {quoted(list(shape))}: the graph takes more "
                    f"than the {most} {what} accepted"
                )

    def _loop(self, node: "NodeProto", tensors: Tensors) -> None:
        """Of a `Scan`: states first, then inputs that are cut along an axis."""
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if not {"body", "num_scan_inputs"} <= attributes.keys():
            raise ValueError(f"{LOOP} has no body")
        body, cut = attributes["body"].g, attributes["num_scan_inputs"].i
        kept = len(node.input) - cut
        if not (0 < cut <= len(node.input) == len(body.input) and kept <= len(body.output)):
            raise ValueError(f"{LOOP} takes {len(node.input)} inputs, its body {len(body.input)}")
        axes = _axes(attributes, "scan_input_axes", cut)
        inner, steps = tensors.inner(), set[int]()
        for index, (name, value) in enumerate(zip(node.input, body.input, strict=True)):
            shape = list(tensors.shapes[name])
            if index >= kept:
                axis = axes[index - kept]
                if not -len(shape) <= axis < len(shape):
                    raise ValueError(f"{LOOP} has an axis {axis} of {len(shape)}")
                steps.add(shape.pop(axis))
            inner.add(value.name, tensors.types[name], shape)
        if len(steps) != 1:
            raise ValueError(f"{LOOP} takes inputs of {quoted(sorted(steps))} steps")
        (count,) = steps
        self.graph(body, inner, count)
        results = [value.name for value in body.output]
        out = _axes(attributes, "scan_output_axes", len(results) - kept)
        if len(node.output) != len(results):
            raise ValueError(f"{LOOP} gives {len(node.output)} results, its body {len(results)}")
        for index, (name, result) in enumerate(zip(node.output, results, strict=True)):
            shape = list(inner.shapes[result])
            if index >= kept:
                place = out[index - kept]
                shape.insert(place if place >= 0 else len(shape) + 1 + place, count)
            elif inner.shapes[result] != tensors.shapes[node.input[index]]:
                raise ValueError(f"{LOOP} changes the shape of its state {quoted(result)}")
            self._add(node, name, inner.types[result], shape, tensors, 1)


def _axes(attributes: Mapping[str, object], name: str, count: int) -> list[int]:
    found = list(attributes[name].ints) if name in attributes else [0] * count  # type: ignore[attr-defined]
    if len(found) != count:
        raise ValueError(f"{LOOP} has {len(found)} {name}, not {count}")
    return found


def _require_harmless(node: "NodeProto", tensors: Tensors) -> None:
    """Refuse what ends the process at some states only, so that no trial would find it."""
    from onnx import numpy_helper

    kind, second = node.op_type, (*node.input, "", "")[1]
    known = tensors.constants.get(second)
    divides = kind in ("Div", "Mod") and tensors.types.get(second) in WHOLE
    # By -1 as well: the least number has no opposite.
    if divides and (known is None or (numpy_helper.to_array(known) <= 0).any()):
        raise ValueError(f"{kind} of whole numbers, not by numbers above 0 that are known before")
    if kind == "Trilu" and second and known is None:
        raise ValueError(f"{kind} with a diagonal that isn't known before")


def _products(node: "NodeProto", shape: Sequence[int], tensors: Tensors) -> int:
    """At least the products of two numbers that the operator forms."""
    shapes = [tensors.shapes[name] for name in node.input if name]
    if node.op_type == "Einsum":
        return prod(max(prod(each), 1) for each in shapes)
    first = shapes[0] or (1,)
    transposed = any(a.name == "transA" and a.i for a in node.attribute)
    return max(prod(shape), 1) * (first[0] if transposed else first[-1])


def _type(kind: int, shape: Sequence[int]) -> object:
    from onnx import helper

    return helper.make_tensor_type_proto(kind, shape)
