"""Bundles are tried in a process with limits; a bad one ends it, and the next one is tried."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import pytest
from bundle_factory import SHORT_RAIL, write_bundle
from onnx import TensorProto, helper, numpy_helper
from test_bundle import replace_file
from waiting import PATIENCE, wait_until

from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller import examiner as module
from hucrl_ros.controller.examiner import Examiner
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import BundleError

PROGRAM = """
import os, signal, time
from pathlib import Path
from hucrl_ros.controller import examiner
examiner.READ_CPU_S = 2
load = examiner.load_bundle
def load_bundle(path, **known):
    name = path.name
    if name == "endless":
        while True:
            pass
    if name == "silent":
        time.sleep(3600)
    if name == "hangs":
        examiner.signal.alarm(1)
        time.sleep(3600)
    if name == "huge":
        bytearray(examiner.MEMORY)
    if name == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "ends":
        os._exit(7)
    if name == "prints":
        os.write(1, b"not an answer" + bytes([10]))
    return load(path, **known)
examiner.load_bundle = load_bundle
examiner.main()
"""
"""The process, but bundles of these names do what a bad one would; the short limit is for one of
them, as is the alarm."""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("examined") / "good")


@pytest.fixture
def named(bundle, tmp_path):
    """The bundle by another name."""

    def copied(name):
        (tmp_path / name).symlink_to(bundle)
        return tmp_path / name

    return copied


@pytest.fixture
def examiner(monkeypatch):
    monkeypatch.setattr(module, "PROGRAM", ("-c", PROGRAM))
    found = Examiner(Trust(None, ()), ControlSettings(), lockstep=True)
    yield found
    found.close()


def refusal(examiner, path):
    with pytest.raises(BundleError) as info:
        examiner.examine(path)
    assert "\n" not in str(info.value) and len(str(info.value)) <= module.LINE
    return str(info.value)


def test_what_a_good_bundle_says_comes_back_unchanged(bundle):
    examiner = Examiner(Trust(None, ()), ControlSettings(), lockstep=True)
    try:
        assert examiner.examine(bundle) == read_manifest(bundle)
    finally:
        examiner.close()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("endless", f"takes more than {module.READ_CPU_S} s of processor time"),
        ("hangs", "takes more than 60 s to be read"),
        ("huge", "takes more than 2048 MiB of memory"),
        ("crash", "ended the process that examined it, by SIGSEGV"),
        ("ends", "ended the process that examined it, with exit code 7"),
    ],
)
def test_a_bad_bundle_is_refused_and_the_next_one_is_examined(examiner, bundle, named, name, why):
    process = examiner.start()
    assert why in refusal(examiner, named(name))
    assert examiner.examine(bundle) == read_manifest(bundle)
    assert examiner.start() is process, "the same one"


def test_what_a_library_prints_is_no_answer(examiner, named, bundle):
    assert examiner.examine(named("prints")) == read_manifest(bundle)


def test_one_that_is_under_way_can_be_cancelled(examiner, named, bundle):
    examiner.start()
    lines = []
    thread = threading.Thread(target=lambda: lines.append(refusal(examiner, named("silent"))))
    thread.start()
    wait_until(lambda: children(examiner.start().pid))
    examiner.cancel()
    thread.join(PATIENCE)
    assert "nobody has examined it to the end" in lines[0]
    examiner.cancel()
    assert examiner.examine(bundle) == read_manifest(bundle)


def test_a_graph_that_never_ends_is_refused(examiner, tmp_path):
    folder = write_bundle(tmp_path / "bundle")
    replace_file(folder, "critic.onnx", with_endless_loop(folder / "critic.onnx"))
    assert str(folder) in refusal(examiner, folder)


def test_no_process_is_left_when_the_one_that_asks_is_killed(named):
    code = (
        "import sys; from hucrl_ros.controller import examiner\n"
        f"examiner.PROGRAM = ('-c', {PROGRAM!r})\n"
        "from hucrl_ros.config.schema import ControlSettings\n"
        "from hucrl_ros.controller.trust import Trust\n"
        "found = examiner.Examiner(Trust(None, ()), ControlSettings(), True)\n"
        "print(found.start().pid, flush=True)\n"
        f"found.examine(examiner.Path({str(named('silent'))!r}))\n"
    )
    asks = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    started = int(asks.stdout.readline())
    wait_until(lambda: children(started))
    (forked,) = children(started)
    os.kill(asks.pid, signal.SIGKILL)
    asks.wait()
    asks.stdout.close()
    wait_until(lambda: not alive(started) and not alive(forked))


def test_it_loads_neither_torch_nor_ros():
    code = (
        "import sys, hucrl_ros.controller.examiner; "
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "onnx", "rclpy", "mujoco"}


@pytest.mark.parametrize("filters", [False, True])
def test_a_bundle_is_tried_with_the_filter_that_the_robot_s_side_has_on(filters, tmp_path):
    """It asks more states of a constraint than planning does; here pairs of them take memory."""
    folder = write_bundle(tmp_path / "bundle", task=SHORT_RAIL)
    assert not read_manifest(folder).safety.filter
    replace_file(folder, "constraints.onnx", with_all_pairs(folder / "constraints.onnx"))
    onnx_alone = ControlSettings(engine="onnx")
    examiner = Examiner(Trust(None, ()), onnx_alone, lockstep=True, filters=filters)
    try:
        if filters:
            assert "while running Mul node" in refusal(examiner, folder)
        else:
            assert examiner.examine(folder) == read_manifest(folder)
    finally:
        examiner.close()


def with_all_pairs(path):
    """A graph's bytes, but it has a hundred thousand numbers for each two of the states."""
    model = onnx.load(path)
    graph = model.graph
    for node in graph.node:
        node.output[:] = ["honest" if name == "room" else name for name in node.output]
    for name, value in (("many", np.zeros(100_000, np.float32)), ("last", np.array([2]))):
        graph.initializer.append(numpy_helper.from_array(value, name))
    for kind, given, result, words in (
        ("Transpose", ["state"], "turned", {"perm": [1, 0]}),
        ("MatMul", ["state", "turned"], "pairs", {}),
        ("Unsqueeze", ["pairs", "last"], "thin", {}),
        ("Mul", ["thin", "many"], "thick", {}),
        ("ReduceMax", ["thick"], "nothing", {"keepdims": 0}),
        ("Add", ["honest", "nothing"], "room", {}),
    ):
        graph.node.append(helper.make_node(kind, given, [result], **words))
    return model.SerializeToString()


def test_what_may_not_be_opened_is_not_opened(bundle, tmp_path):
    examiner = Examiner(Trust(tmp_path, ()), ControlSettings(), lockstep=True)
    try:
        assert f"not inside {tmp_path}" in refusal(examiner, bundle)
    finally:
        examiner.close()


def with_endless_loop(path):
    """A graph's bytes, but it counts to 2⁶² before it gives the first of its outputs."""
    model = onnx.load(path)
    graph = model.graph
    flag = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["on"]),
            helper.make_node("Add", ["sum", "sum"], ["more"]),
        ],
        "body",
        [
            flag("i", TensorProto.INT64, []),
            flag("go", TensorProto.BOOL, []),
            flag("sum", TensorProto.FLOAT, []),
        ],
        [flag("on", TensorProto.BOOL, []), flag("more", TensorProto.FLOAT, [])],
    )
    output = graph.output[0].name
    for node in graph.node:
        for k, name in enumerate(node.output):
            if name == output:
                node.output[k] = "before"
    for name, value in (("most", np.int64(2**62)), ("yes", np.bool_(1)), ("zero", np.float32(0))):
        graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    graph.node.append(helper.make_node("Loop", ["most", "yes", "zero"], ["nothing"], body=body))
    graph.node.append(helper.make_node("Add", ["before", "nothing"], [output]))
    return model.SerializeToString()


def children(pid):
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()]


def alive(pid):
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
