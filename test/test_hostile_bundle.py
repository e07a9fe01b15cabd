"""What somebody made to hang, fill, crash or mislead us is refused: soon, and in one line."""

import contextlib
import io
import re
import shutil
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from bundle_factory import write_bundle
from hostile_bundles import (
    ARCHIVES,
    FILES,
    GRAPHS,
    MANIFESTS,
    TWO,
    WHOLE,
    beside,
    edit_arrays,
    edit_manifest,
    node,
    replace_file,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hucrl_ros.cli.describe import describe_bundle
from hucrl_ros.controller import bundle
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.graph_check import checked_graph
from hucrl_ros.errors import BundleError
from hucrl_ros.robots import make_robot
from hucrl_ros.run.terminal import Terminal

SPEC = make_robot("pendulum").spec
MEMORY = 200 * 2**20
"""[bytes] That a refusal may take."""
SECONDS = 1.0
"""[s] Of the processor, that a refusal may take."""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    folder = write_bundle(tmp_path_factory.mktemp("honest") / "bundle")
    load_bundle(folder, SPEC)  # imports what it needs
    return folder


@pytest.fixture
def folder(honest, tmp_path):
    return Path(shutil.copytree(honest, tmp_path / "bundle"))


def memory(what):
    """[bytes] `VmRSS`, taken now, or `VmHWM`, its highest."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(rf"{what}:\s+(\d+) kB", status)[0])


@contextlib.contextmanager
def little():
    """What takes little memory and processor time."""
    Path("/proc/self/clear_refs").write_text("5")  # the highest begins anew
    before, start = memory("VmRSS"), time.process_time()
    yield
    assert time.process_time() - start < SECONDS
    assert memory("VmHWM") - before < MEMORY


def refusal(folder, spec=SPEC):
    with little(), pytest.raises(BundleError) as info:
        load_bundle(folder, spec)
    message = str(info.value)
    assert message.isprintable()
    assert len(message) < 1200
    assert message.startswith(str(folder))
    return message


def test_the_honest_one_is_accepted(folder, monkeypatch):
    monkeypatch.setattr(bundle, "checked_graph", checked_graph)  # as for the first time
    with little():
        load_bundle(folder, SPEC)


@pytest.mark.parametrize("name", ["manifest.yaml", "policy.onnx", "parity.npz", "networks.npz"])
@pytest.mark.parametrize("attack", FILES)
def test_files(folder, name, attack):
    make, expected = FILES[attack]
    (folder / name).unlink()
    make(folder / name)
    assert expected in refusal(folder)


@pytest.mark.parametrize("name", ["parity.npz", "networks.npz", "promise.npz"])
@pytest.mark.parametrize("attack", ARCHIVES)
def test_archives(folder, name, attack):
    make, expected = ARCHIVES[attack]
    replace_file(folder, name, make())
    message = refusal(folder)
    assert f"{name} can't be read" in message and expected in message


@pytest.mark.parametrize("attack", GRAPHS)
def test_graphs(folder, attack):
    make, expected = GRAPHS[attack]
    replace_file(folder, "policy.onnx", make().SerializeToString())
    message = refusal(folder)
    assert "policy.onnx: " in message and expected in message


def test_whole_numbers_may_be_divided_by_a_known_one(folder):
    graph = beside(WHOLE, node("Div", "whole two", "x"), initializers=[TWO])
    replace_file(folder, "policy.onnx", graph.SerializeToString())
    assert "differs from torch's" in refusal(folder)  # it ran


@pytest.mark.parametrize("key", MANIFESTS)
def test_manifests(folder, key):
    kept = (folder / "manifest.yaml").read_text()
    for value in MANIFESTS[key]:
        edit_manifest(folder, **{key: value})
        assert key.split(".")[0] in refusal(folder, None)  # there is no robot to compare with
        (folder / "manifest.yaml").write_text(kept)


def test_planning_that_fills_the_memory_is_refused(folder):
    edit_manifest(folder, **{"planner.particles": 100_000, "planner.horizon": 10_000})
    assert "more than 2000000 imagined steps" in refusal(folder)


def test_a_name_that_looks_like_markup_is_shown_as_it_is(folder):
    joint = "[/red]"
    edit_manifest(folder, robot="[bold]", joint_names=[joint], actuated_joints=[joint])
    shown = io.StringIO()
    Terminal(shown).print(describe_bundle(load_bundle(folder)))
    assert "[/red]" in shown.getvalue() and "[bold]" in shown.getvalue()


LAYERS = {
    "policy.0.weights": ((0, 8), (3, 0), (8,), (), (10**6, 1)),
    "policy.0.biases": ((0,), (7,), ()),
    "model.0.weights": ((3, 3, 0), (0, 3, 8), ()),
    "choice": ((), (0,), (1000,)),
    "scales": ((), (0,), (2, 2)),
    "links": ((1, 17), (), (1000, 18)),
    "tips": ((1, 3, 3), ()),
    "units": ((), (3,)),
    "whitener": ((3, 3), (10,)),
    "process.points": ((), (0, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_weights_that_the_compiled_engine_would_read_beyond(folder, name):
    for shape in LAYERS[name]:
        edit_arrays(folder, "networks.npz", **{name: np.ones(shape, np.float32)})
        assert "networks.npz: " in refusal(folder)


def test_parity_of_more_particles_than_fit(folder):
    states = np.zeros((10**6, 2), np.float32)
    values = np.zeros((10**6, 1), np.float32)
    edit_arrays(folder, "parity.npz", **{"policy.in.state": states, "policy.out.pi": values})
    assert "policy.onnx: " in refusal(folder)


def test_what_a_graph_has_beside_is_not_loaded(folder):
    """A field of a later ONNX is left out, as nobody here looked at it."""
    content = (folder / "policy.onnx").read_bytes()
    replace_file(folder, "policy.onnx", content + b"\xfa\x7f\x03abc")
    load_bundle(folder, SPEC)


def outcome(folder):
    try:
        with little():
            load_bundle(folder, SPEC)
    except BundleError as error:
        assert str(error).isprintable() and len(str(error)) < 1200


def damaged(draw, content):
    """Some bytes replaced, put in, or taken out; also cut off."""
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 8))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        length = draw(st.integers(0, 4))
        found[place : place + length] = draw(st.binary(max_size=8))
    return bytes(found[: draw(st.integers(0, len(found)))] if draw(st.booleans()) else found)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["[/red]", "\x1b[2J", "x" * 300, 2**70, 1e308, -1]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
short = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=20,
)
"""A few examples in the fast suite."""


@pytest.mark.fuzz
@short
@given(st.data(), st.sampled_from(["parity.npz", "networks.npz", "promise.npz"]))
def test_damaged_archives(folder, honest, data, name):
    content = (honest / name).read_bytes()
    shutil.copy(honest / "manifest.yaml", folder / "manifest.yaml")
    replace_file(folder, name, damaged(data.draw, content))
    outcome(folder)
    shutil.copy(honest / name, folder / name)


@pytest.mark.fuzz
@short
@given(st.data(), st.sampled_from(["policy", "rollout", "score", "dynamics", "step"]))
def test_damaged_graphs(folder, honest, data, name):
    content = (honest / f"{name}.onnx").read_bytes()
    shutil.copy(honest / "manifest.yaml", folder / "manifest.yaml")
    replace_file(folder, f"{name}.onnx", damaged(data.draw, content))
    outcome(folder)
    shutil.copy(honest / f"{name}.onnx", folder / f"{name}.onnx")


@pytest.mark.fuzz
@short
@given(st.data(), st.sampled_from(["policy", "rollout", "score", "dynamics", "step"]))
def test_graphs_with_other_parts(folder, honest, data, name):
    """Still well formed: other operators, inputs, attributes, constants, shapes."""
    model, draw = onnx.load(honest / f"{name}.onnx"), data.draw
    names = [x for node in model.graph.node for x in (*node.input, *node.output)]
    kinds = ["Add", "Concat", "Expand", "Gather", "Loop", "MatMul", "Pad", "Range", "Reshape"]
    kinds += ["Scan", "ScatterND", "Shape", "Slice", "Tile", "TopK", "Transpose", "Where"]
    for _ in range(draw(st.integers(1, 3))):
        node = draw(st.sampled_from(model.graph.node))
        tensor = draw(st.sampled_from(model.graph.initializer))
        match draw(st.integers(0, 5)):
            case 0:
                node.op_type = draw(st.sampled_from(kinds))
            case 1 if node.input:
                node.input[draw(st.integers(0, len(node.input) - 1))] = draw(
                    st.sampled_from(names)
                )
            case 2 if node.attribute:
                attribute = draw(st.sampled_from(node.attribute))
                attribute.i = draw(st.integers(-(2**63), 2**63 - 1))
                attribute.ints.append(attribute.i)
            case 3:
                tensor.dims.append(draw(st.integers(-(2**63), 2**63 - 1)))
            case 4 if tensor.raw_data:
                tensor.raw_data = damaged(draw, tensor.raw_data)
            case _:
                tensor.data_type = draw(st.integers(0, 20))
    shutil.copy(honest / "manifest.yaml", folder / "manifest.yaml")
    replace_file(folder, f"{name}.onnx", model.SerializeToString())
    outcome(folder)
    shutil.copy(honest / f"{name}.onnx", folder / f"{name}.onnx")


@pytest.mark.fuzz
@short
@given(st.data())
def test_manifests_with_other_values(folder, honest, data):
    document = yaml.safe_load((honest / "manifest.yaml").read_text())
    groups = [document, document["planner"], document["safety"]]
    for _ in range(data.draw(st.integers(1, 3))):
        group = groups[data.draw(st.integers(0, 2))]
        group[data.draw(st.sampled_from(sorted(group)))] = data.draw(VALUES)
    (folder / "manifest.yaml").write_text(yaml.safe_dump(document))
    outcome(folder)


@pytest.mark.fuzz
@short
@given(st.data())
def test_damaged_manifests(folder, honest, data):
    content = (honest / "manifest.yaml").read_bytes()
    (folder / "manifest.yaml").write_bytes(damaged(data.draw, content))
    outcome(folder)
