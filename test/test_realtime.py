import gc
import os
import sys

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


def test_priority_is_asked_for_this_thread_and_not_inherited(scheduler):
    assert realtime.set_realtime_priority(42)
    assert scheduler == [(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 42)]


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
