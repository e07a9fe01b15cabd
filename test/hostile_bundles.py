"""Bundles that somebody made to hang, fill, crash or mislead what reads them."""

import hashlib
import io
import os
import socket
import struct
import zipfile
from pathlib import Path

import numpy as np
import yaml
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from hucrl_ros.controller.manifest import read_manifest

INPUT = helper.make_tensor_value_info("state", TensorProto.FLOAT, ["particles", 2])
OUTPUT = helper.make_tensor_value_info("pi", TensorProto.FLOAT, ["particles", 1])


def edit_manifest(folder, **changes):
    """Replace entries of a manifest; dots lead into a group."""
    path = folder / "manifest.yaml"
    document = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        *groups, name = key.split(".")
        target = document
        for group in groups:
            target = target[group]
        target[name] = value
    path.write_text(yaml.safe_dump(document))


def replace_file(folder, name, content):
    """Change a file and have the manifest agree, as somebody who means it would."""
    (folder / name).write_bytes(content)
    files = dict(read_manifest(folder).files)
    edit_manifest(folder, files={**files, name: hashlib.sha256(content).hexdigest()})


def edit_arrays(folder, name, **changes):
    """Replace arrays of a file; None takes one out."""
    with np.load(folder / name) as arrays:
        values = {**arrays, **changes}
    np.savez(folder / name, **{k: v for k, v in values.items() if v is not None})
    replace_file(folder, name, (folder / name).read_bytes())


def archive(*members, **how):
    """A zip of names and contents."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **how) as found:
        for name, content in members:
            found.writestr(name, content)
    return file.getvalue()


def npy(shape, content=b"", kind="<f4", header=None):
    """An array's file that claims a shape."""
    header = header or f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + content


def lying_directory():
    """One stored array, which the directory lists many times."""
    content = archive(("a.npy", npy((250_000,), bytes(1_000_000))))
    start = content.index(b"PK\x01\x02")
    end = content.index(b"PK\x05\x06")
    entry = content[start:end]
    entries = b"".join(entry.replace(b"a.npy", b"%c.npy" % (33 + k)) for k in range(90))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 90, 90, len(entries), start, 0)
    return content[:start] + entries + tail


ARCHIVES = {
    "bomb": (
        lambda: archive(("a.npy", bytes(2**28)), compression=zipfile.ZIP_DEFLATED),
        "compressed or encrypted",
    ),
    "lzma": (lambda: archive(("a.npy", b"x"), compression=zipfile.ZIP_LZMA), "compressed or"),
    "many": (lambda: archive(*((f"{k}.npy", b"") for k in range(2000))), "1000 arrays accepted"),
    "name": (lambda: archive(("x" * 5000 + ".npy", b"")), "no array of at most 100 letters"),
    "dressed name": (lambda: archive(("\x1b[2J[/red]", b"")), r"'\x1b[2J[/red]' is no array"),
    "no array": (lambda: archive(("a.npy", b"x")), "'a'"),
    "path": (lambda: archive(("../../x.txt", b"")), "is no array"),
    "directory": (lying_directory, "claims more bytes than it has"),
    "shape": (lambda: archive(("a.npy", npy((10**12,)))), "has no such data"),
    "negative": (lambda: archive(("a.npy", npy((-1,)))), "has no such data"),
    "digits": (lambda: archive(("a.npy", npy("9" * 5000))), "'a': "),
    "header": (lambda: archive(("a.npy", npy((), header="(" * 9000))), "'a': "),
    "object": (lambda: archive(("a.npy", npy((1,), b"\0" * 8, "|O"))), "has the type"),
    "text": (lambda: archive(("a.npy", npy((1,), b"\0" * 40, "<U10"))), "has the type"),
    "complex": (lambda: archive(("a.npy", npy((1,), b"\0" * 16, "<c16"))), "has the type"),
    "date": (lambda: archive(("a.npy", npy((1,), b"\0" * 8, "<M8[s]"))), "has the type"),
    "records": (
        lambda: archive(("a.npy", npy((), header="{'descr': [('a', '<f4')], 'fortran_order': "
                                      "False, 'shape': (1,)}"))),
        "has the type",
    ),
    "pickle": (lambda: b"\x80\x04K\x01.", "File is not a zip file"),
}  # fmt: skip
"""By name what a `.npz` holds, and a part of the refusal."""


def model(*nodes, initializers=(), opset=18, domain="", outputs=(OUTPUT,)):
    """A policy of these operators."""
    graph = helper.make_graph(list(nodes), "graph", [INPUT], list(outputs), list(initializers))
    imports = [helper.make_opsetid(domain, opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def constant(name, value, kind=np.int64):
    return numpy_helper.from_array(np.array(value, kind), name)


def node(kind, given, result, **attributes):
    return helper.make_node(kind, given.split(), result.split(), **attributes)


MEAN = node("ReduceMean", "state one", "pi")
ONE = constant("one", [1])


def beside(*nodes, initializers=()):
    """An honest policy with something beside it."""
    return model(*nodes, MEAN, initializers=[ONE, *initializers])


def external(name="w"):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[1])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../weights")
    return tensor


def branch():
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 1])
    return helper.make_graph([node("Identity", "state", "out")], "branch", [], [out])


def with_function():
    found = model(node("Own", "state", "pi"))
    body = [node("Identity", "x", "y")]
    imports = [helper.make_opsetid("", 18)]
    found.functions.append(helper.make_function("own", "Own", ["x"], ["y"], body, imports))
    return found


def with_sparse():
    found = beside()
    values, indices = constant("w", [1.0], np.float32), constant("i", [0])
    found.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [10**12]))
    return found


def with_sparse_attribute():
    values, indices = constant("w", [1.0], np.float32), constant("i", [0])
    sparse = helper.make_sparse_tensor(values, indices, [10**12])
    return beside(node("Constant", "", "w", sparse_value=sparse))


def with_hidden_branch():
    """An attribute that says it is a number and has a graph as well."""
    hidden = node("Constant", "", "w", value_int=1)
    hidden.attribute[0].g.CopyFrom(branch())
    return beside(hidden)


def with_many(count):
    return beside(*(node("Neg", "state", f"n{k}") for k in range(count)))


def loop(kind="Loop"):
    """Without end."""
    yes = helper.make_tensor_value_info("yes", TensorProto.BOOL, [])
    state, more = constant("count", 2**62), constant("go", True, np.bool_)
    i = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    out = helper.make_tensor_value_info("still", TensorProto.BOOL, [])
    body = helper.make_graph([node("Identity", "yes", "still")], "body", [i, yes], [out])
    return beside(node(kind, "count go", "", body=body), initializers=[state, more])


def scan_in_policy():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    body = helper.make_graph([node("Identity", "x", "y")], "body", [x], [y])
    return beside(node("Scan", "state", "again", body=body, num_scan_inputs=1))


def nested(depth):
    graph = branch()
    for _ in range(depth):
        graph = helper.make_graph([node("If", "state", "out", then_branch=graph)], "b", [], [])
    return model(node("If", "state", "pi", then_branch=graph))


class Raw(bytes):
    """A model that the package itself won't write."""

    def SerializeToString(self):  # noqa: N802
        return bytes(self)


def too_deep():
    """Graphs in attributes in graphs, by hand."""
    content = b""
    for _ in range(2000):
        for tag in (b"\x32", b"\x2a", b"\x0a"):  # g of an attribute of a node
            content = tag + encoded(len(content)) + content
    return Raw(b"\x3a" + encoded(len(content)) + content)


def encoded(number):
    """As protobuf writes a length."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def doubled():
    """Twice as long forty times."""
    nodes = [node("Concat", "state state", "n0", axis=0)]
    nodes += [node("Concat", f"n{k} n{k}", f"n{k + 1}", axis=0) for k in range(40)]
    return beside(*nodes)


def products():
    """Little memory and much work."""
    square = np.zeros((1000, 1000), np.float32)
    nodes = [node("MatMul", "w w", "n0")]
    nodes += [node("MatMul", f"n{k} w", f"n{k + 1}") for k in range(7)]
    return beside(*nodes, initializers=[constant("w", square, np.float32)])


LARGE = constant("large", [10**6, 10**6])
TWO = constant("two", 2)
WHOLE = node("Cast", "state", "whole", to=TensorProto.INT64)
ABOVE = "of whole numbers, not by numbers above 0 that are known before"
GRAPHS = {
    "function": (with_function, "the model has functions"),
    "sparse": (with_sparse, "the graph has sparse_initializer"),
    "sparse attribute": (with_sparse_attribute, "has sparse_tensor"),
    "external": (
        lambda: beside(initializers=[external()]),
        "weights are in another file, which no hash covers",
    ),
    "external attribute": (
        lambda: beside(node("Constant", "", "w", value=external())),
        "weights are in another file, which no hash covers",
    ),
    "if": (
        lambda: model(node("If", "state", "pi", then_branch=branch(), else_branch=branch())),
        "operator 'If' is not accepted",
    ),
    "loop": (loop, "operator 'Loop' is not accepted"),
    "scan": (scan_in_policy, "operator 'Scan' is not accepted"),
    "nested": (lambda: nested(20), "operator 'If' is not accepted"),
    "too deep": (too_deep, "can't be loaded"),
    "hidden": (with_hidden_branch, "attribute 'value_int' of Constant has g"),
    "random": (
        lambda: beside(node("RandomNormal", "", "r", shape=[10**6, 10**6])),
        "operator 'RandomNormal' is not accepted",
    ),
    "domain": (
        lambda: beside(helper.make_node("Inverse", ["state"], ["r"], domain="com.microsoft")),
        "operator 'Inverse' is not accepted",
    ),
    "opset": (lambda: model(MEAN, initializers=[ONE], opset=99), "operator sets are"),
    "no opset": (lambda: model(MEAN, initializers=[ONE], domain="x"), "operator sets are"),
    "unknown operator": (
        lambda: beside(node("\x1b[2J[/red]" * 1000, "state", "r")),
        "is not accepted",
    ),
    "many": (lambda: with_many(6000), "operators, more than the 5000"),
    "text": (
        lambda: beside(initializers=[numpy_helper.from_array(np.array(["x"], object), "s")]),
        "constant 's' has the type 8",
    ),
    "empty": (
        lambda: beside(initializers=[TensorProto(name="w", data_type=1, dims=[10**6, 10**6])]),
        "has no such data",
    ),
    "negative": (
        lambda: beside(initializers=[TensorProto(name="w", data_type=1, dims=[-1])]),
        "has no such data",
    ),
    "wrapped": (
        lambda: beside(initializers=[TensorProto(name="w", data_type=1, dims=[2**32, 2**32])]),
        "has no such data",
    ),
    "more than it says": (  # which ONNX Runtime wrote over memory that wasn't its own
        lambda: beside(
            node("Range", "a b c", "x"),
            initializers=[
                *(constant("a", 0), constant("b", 5)),
                TensorProto(name="c", data_type=7, raw_data=bytes(range(32))),
            ],
        ),
        "has no such data",
    ),
    "numbers twice": (
        lambda: beside(
            initializers=[TensorProto(name="w", data_type=1, raw_data=bytes(4), float_data=[1.0])]
        ),
        "has no such data",
    ),
    "of another type": (
        lambda: beside(initializers=[TensorProto(name="w", data_type=7, float_data=[1.0])]),
        "has no such data",
    ),
    "many dimensions": (
        lambda: beside(
            initializers=[TensorProto(name="w", data_type=1, dims=[2**62] * 10**6 + [0])]
        ),
        "has no such data",
    ),
    "constant of shape": (
        lambda: beside(node("ConstantOfShape", "large", "x"), initializers=[LARGE]),
        "more than the",
    ),
    "expand": (
        lambda: beside(
            node("ReduceMean", "state", "mean", keepdims=0),
            node("Expand", "mean large", "x"),
            initializers=[LARGE],
        ),
        "more than the",
    ),
    "tile": (
        lambda: beside(node("Tile", "state large", "x"), initializers=[LARGE]),
        "more than the",
    ),
    "range": (
        lambda: beside(
            node("Range", "a b c", "x"),
            initializers=[constant("a", 0), constant("b", 10**12), constant("c", 1)],
        ),
        "more than the",
    ),
    "computed": (
        lambda: beside(
            node("Shape", "state", "sizes"),
            node("Mul", "sizes large", "more"),
            node("ConstantOfShape", "more", "x"),
            initializers=[LARGE],
        ),
        "more than the",
    ),
    "unknown": (
        lambda: beside(
            node("Cast", "state", "whole", to=TensorProto.INT64),
            node("Reshape", "whole flat", "sizes"),
            node("ConstantOfShape", "sizes", "x"),
            initializers=[constant("flat", [-1])],
        ),
        "can't be told",
    ),
    "outer": (
        lambda: beside(
            node("Add", "a b", "x"),
            initializers=[
                constant("a", np.zeros((100_000, 1)), np.float32),
                constant("b", np.zeros((1, 100_000)), np.float32),
            ],
        ),
        "more than the",
    ),
    "pad": (
        lambda: beside(
            node("Pad", "state much", "x"), initializers=[constant("much", [10**9, 0, 0, 0])]
        ),
        "more than the",
    ),
    "doubled": (doubled, "more than the"),
    "work": (products, "operations accepted"),
    "divided": (lambda: beside(WHOLE, node("Div", "two whole", "x"), initializers=[TWO]), ABOVE),
    "divided by -1": (
        lambda: beside(
            WHOLE, node("Div", "whole minus", "x"), initializers=[constant("minus", -1)]
        ),
        ABOVE,
    ),
    "remainder": (lambda: beside(WHOLE, node("Mod", "two whole", "x"), initializers=[TWO]), ABOVE),
    "short remainder": (
        lambda: beside(
            node("Cast", "state", "short", to=TensorProto.UINT8), node("Mod", "short short", "x")
        ),
        ABOVE,
    ),
    "diagonal": (
        lambda: beside(
            WHOLE,
            node("ReduceMax", "whole", "k", keepdims=0),
            node("Trilu", "state k", "x"),
        ),
        "Trilu with a diagonal that isn't known before",
    ),
    "missing": (lambda: beside(node("Neg", "ghost", "x")), "'ghost', which is not there"),
    "twice": (lambda: beside(node("Neg", "state", "state")), "two tensors are called 'state'"),
    "shape": (
        lambda: model(node("Identity", "state", "pi")),
        "gives pi as (8, 2), expected (8, 1)",
    ),
    "no output": (
        lambda: model(node("Identity", "state", "x")),
        "the output 'pi' is not there",
    ),
    "attribute": (
        lambda: beside(node("Concat", "state state", "x")),
        "Concat: ",
    ),
    "reference": (lambda: with_reference(), "has ref_attr_name"),
}
"""By name a `policy.onnx`, and a part of the refusal."""


def with_reference():
    """An attribute that is taken from elsewhere."""
    found = node("Concat", "state state", "x")
    found.attribute.append(AttributeProto(name="axis", ref_attr_name="x", type=AttributeProto.INT))
    return beside(found)


MANIFESTS = {
    "effort_limits": ([-1.0], [0.0], [1e6], [float("inf")], [float("nan")], [], [1.0] * 300),
    "safety.stale_periods": (1e300, 101, 0, -1, float("nan")),
    "safety.effort_limits": ([-1.0], [1e6]),
    "safety.effort_rate": (-1.0, 1e300),
    "period": (0.0, -1.0, 1e-9, 1e9, float("nan")),
    "planner.particles": (0, -1, 10**9, 10**90),
    "planner.horizon": (0, -1, 10**9),
    "planner.iterations": (0, 10**9),
    "planner.noise_draws": (-2, 10**9),
    "planner.algorithm": ("x" * 5000, "[/red]", "__import__"),
    "beta": (1e308, -1.0, float("inf")),
    "steps": (0, -1, 10**12),
    "discount": (0.0, 1.0, 1e308),
    "random_bandwidth": (1e308,),
    "action_penalty": (1e308, -1.0, float("nan")),
    "parity_tolerance": (1e300, 0.0, float("inf")),
    "seed": (10**90, -1),
    "episode": (10**90, -1),
    "task": ("x" * 5000, ["[/red]"]),
    "robot": ("x" * 5000, "a\x1b[2J", "a\nb"),
    "joint_names": ([], [""] * 1000, ["x" * 5000], ["a", "a"], "x", [["a"]]),
    "actuated_joints": (["elbow"], ["pendulum_joint"] * 2, []),
    "observed": (["x" * 5000], ["x"] * 500),
    "context": (["x" * 5000], ["x"] * 500),
    "angles": ([10**90], [-1], [0, 0]),
    "reach": ([1e308, 1.0], [None], ["x", 1.0]),
    "target_std": ([1e308, 1.0], [float("nan"), 1.0]),
    "hallucination_dim": (10**9, -1),
    "constraints": (["x" * 5000], ["x"] * 500),
    "files": (
        *({name: "0"} for name in ("../x", "x\0y", "x" * 5000, "manifest.yaml", "signature.json")),
        {str(k): "0" for k in range(99)},
    ),
    "versions": ({"x" * 5000: "x"}, {str(k): "0" for k in range(500)}),
    "report.refused": (10**90, -1),
    "report.complexity": (float("inf"), "x" * 5000, [[]]),
}  # fmt: skip
"""By entry the values that are refused by its name."""


def make_pipe(path):
    os.mkfifo(path)


def make_socket(path):
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's name is short
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)


def make_sparse(path):
    path.touch()
    os.truncate(path, 20 * 2**30)


FILES = {
    "pipe": (make_pipe, "is no regular file"),
    "socket": (make_socket, "is no regular file"),
    "folder": (lambda path: path.mkdir(), "is no regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "is no regular file"),
    "link": (lambda path: path.symlink_to("/etc/hostname"), "is no regular file"),
    "dangling": (lambda path: path.symlink_to("nowhere"), "is no regular file"),
    "sparse": (make_sparse, "has 21474836480 bytes, more than the"),
}
"""By name what makes something at a path, and a part of the refusal."""
