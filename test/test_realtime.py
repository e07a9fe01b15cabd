import gc
import os
import sys
import threading
from pathlib import Path

import pytest

from hucrl_ros.nodes import realtime


@pytest.fixture
def scheduler(monkeypatch):
    """Calls of the operating system's scheduler, which allows everything."""
    calls = []
    monkeypatch.setattr(
        os,
        "sched_setscheduler",
        lambda pid, policy, param: calls.append((pid, policy, param.sched_priority)),
    )
    return calls


def test_priority_is_asked_for_this_thread_but_not_for_other_python_threads(scheduler):
    end = threading.Event()
    loader = threading.Thread(target=end.wait)
    loader.start()
    try:
        assert realtime.set_realtime_priority(42)
    finally:
        end.set()
        loader.join()
    threads = {thread for thread, _, _ in scheduler}
    assert threading.get_native_id() in threads
    assert loader.native_id not in threads
    assert {call[1:] for call in scheduler} == {(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 42)}


def test_threads_of_libraries_get_the_priority_too(scheduler):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 3
    bundle = write_graph()
    before = len(list(Path("/proc/self/task").iterdir()))
    session = onnxruntime.InferenceSession(bundle, options, ["CPUExecutionProvider"])
    assert len(list(Path("/proc/self/task").iterdir())) == before + 2
    assert realtime.set_realtime_priority(42)
    assert len(scheduler) >= 3
    del session


def write_graph():
    from onnx import TensorProto, helper

    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "graph",
        [value("x", TensorProto.FLOAT, [1])],
        [value("y", TensorProto.FLOAT, [1])],
    )
    opset = helper.make_opsetid("", 18)
    return helper.make_model(graph, opset_imports=[opset], ir_version=8).SerializeToString()


def test_without_a_wish_nothing_is_asked(scheduler):
    assert realtime.set_realtime_priority(0)
    assert scheduler == []


def test_a_refused_priority_is_one_warning_that_says_what_to_do(monkeypatch, caplog):
    def refuse(*unused):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert not realtime.set_realtime_priority(42)
    (record,) = caplog.records
    message = record.getMessage()
    assert "control.realtime_priority = 42: Operation not permitted" in message
    assert "/etc/security/limits.d" in message
    assert "\n" not in message


def test_garbage_is_collected_outside_the_ticks():
    try:
        realtime.pause_garbage_collection()
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
        realtime.resume_garbage_collection()
        assert gc.isenabled()
        assert gc.get_freeze_count() == 0
    finally:
        gc.unfreeze()
        gc.enable()


def test_other_threads_hold_the_interpreter_for_a_millisecond_at_most():
    before = sys.getswitchinterval()
    try:
        realtime.prefer_control_loop()
        assert sys.getswitchinterval() <= 1.01e-3
    finally:
        sys.setswitchinterval(before)
