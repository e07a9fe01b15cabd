import gc
import os
import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hucrl_ros.config.schema import ControlSettings
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


@pytest.mark.parametrize(("loop", "given"), [(50, [1]), (3, [1]), (2, []), (0, [])])
def test_a_thread_that_loads_is_behind_the_loop_and_before_ordinary_processes(
    loop, given, scheduler
):
    realtime.prefer_this_thread(ControlSettings(realtime_priority=loop))
    policy = os.SCHED_FIFO | os.SCHED_RESET_ON_FORK
    assert scheduler == [(0, policy, priority) for priority in given]


@pytest.mark.parametrize(
    ("go", "loop", "given"),
    [
        (realtime.go_before_loop, 50, 52),
        (realtime.go_before_loop, 98, 99),
        (realtime.go_before_others, 50, 1),
        (realtime.go_before_loop, 0, None),
        (realtime.go_before_others, 0, None),
    ],
)
def test_hardware_goes_before_the_loop_and_what_records_before_ordinary_processes(
    go, loop, given, scheduler
):
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    try:
        go(ControlSettings(realtime_priority=loop))
    finally:
        end.set()
        other.join()
    threads = {thread for thread, _, _ in scheduler}
    assert {threading.get_native_id(), other.native_id} <= threads or given is None
    # Threads that come later inherit it: nothing is reset.
    assert {call[1:] for call in scheduler} == ({(os.SCHED_FIFO, given)} if given else set())


def test_threads_of_libraries_get_the_priority_too(scheduler):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 3
    bundle = write_graph()
    before = set(Path("/proc/self/task").iterdir())
    session = onnxruntime.InferenceSession(bundle, options, ["CPUExecutionProvider"])
    assert len(set(Path("/proc/self/task").iterdir()) - before) == 2
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


def test_the_thread_that_plans_gets_a_priority_below_the_one_that_ends_the_tick(scheduler):
    with ThreadPoolExecutor(1, realtime.PLANNING_THREAD) as pool:
        planning = pool.submit(threading.get_native_id).result()
        assert realtime.set_realtime_priority(42)
        given = {thread: priority for thread, _, priority in scheduler}
        assert (given[threading.get_native_id()], given[planning]) == (42, 41)
        scheduler.clear()
        realtime.set_realtime_priority(1)
        assert {priority for *_, priority in scheduler} == {1}, "0 would be none at all"


def test_the_control_loop_and_its_planning_stay_on_the_processors_that_are_wished(monkeypatch):
    calls = {}
    monkeypatch.setattr(os, "sched_setaffinity", calls.__setitem__)
    end = threading.Event()
    loader = threading.Thread(target=end.wait)
    loader.start()
    try:
        with ThreadPoolExecutor(1, realtime.PLANNING_THREAD) as pool:
            planning = pool.submit(threading.get_native_id).result()
            assert realtime.set_processors((1,))
    finally:
        end.set()
        loader.join()
    assert calls.keys() >= {threading.get_native_id(), planning}
    assert loader.native_id not in calls
    assert set(calls.values()) == {(1,)}


def test_what_loads_stays_off_the_loops_processors_where_there_are_others(monkeypatch):
    calls = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda thread: {0, 1, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda *words: calls.append(words))
    realtime.leave_processors((1, 2))
    realtime.leave_processors((0, 1, 2))
    assert calls == [(0, {0})]


def test_without_a_wish_all_processors_are_used(monkeypatch):
    monkeypatch.delattr(os, "sched_setaffinity")
    assert realtime.set_processors(())


def test_a_processor_that_is_not_there_is_one_warning_that_names_those_that_are(caplog):
    before = os.sched_getaffinity(0)
    assert not realtime.set_processors((1023,))
    assert os.sched_getaffinity(0) == before
    (record,) = caplog.records
    assert "control.cpus = [1023]: Invalid argument" in record.getMessage()
    assert str(sorted(before)) in record.getMessage()


def run_child(code):
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def may_lock_memory():
    unlimited = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY
    return unlimited or realtime._may_lock_all()


@pytest.mark.skipif(not may_lock_memory(), reason="not allowed to lock memory")
def test_locked_memory_is_locked_and_untouched_memory_is_left_to_others():
    locked, kib, more = run_child(
        """
import mmap
from pathlib import Path
from hucrl_ros.nodes.realtime import lock_memory
def figure(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(name)))
print(lock_memory(), figure("VmLck"))
before = figure("VmRSS")
reserved = mmap.mmap(-1, 200 << 20)
print(figure("VmRSS") - before)
"""
    )
    assert locked == "True"
    assert int(kib) > 0
    assert int(more) < 50 << 10


@pytest.mark.parametrize("limit", [64 << 10, resource.RLIM_INFINITY])
def test_refused_memory_is_one_warning_that_says_what_to_do(monkeypatch, caplog, limit):
    def refuse(name, **unused):
        monkeypatch.setattr(realtime.ctypes, "get_errno", lambda: 1)
        return type("Libc", (), {"mlockall": staticmethod(lambda flags: -1)})

    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    monkeypatch.setattr(realtime, "_may_lock_all", lambda: False)
    monkeypatch.setattr(realtime.ctypes, "CDLL", refuse)
    assert not realtime.lock_memory()
    (record,) = caplog.records
    message = record.getMessage()
    reason = "Operation not permitted" if limit < 0 else "only 64 KiB may be locked"
    assert f"control.lock_memory: {reason}" in message
    assert "memlock unlimited" in message
    assert "\n" not in message


def test_every_refusal_is_told_not_only_the_first(monkeypatch, caplog):
    asked = []
    for name in ("set_realtime_priority", "set_processors", "lock_memory"):
        monkeypatch.setattr(realtime, name, lambda *_, name=name: bool(asked.append(name)))
    assert not realtime.prepare(ControlSettings(lock_memory=True))
    assert asked == ["set_realtime_priority", "set_processors", "lock_memory"]
    asked.clear()
    realtime.prepare(ControlSettings())
    assert asked == ["set_realtime_priority", "set_processors"]
