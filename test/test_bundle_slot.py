import threading
import time
from pathlib import Path

import pytest
from waiting import PATIENCE

from hucrl_ros.errors import BundleError
from hucrl_ros.nodes.bundle_slot import BundleLoader, Outcome

A, B = Path("a"), Path("b")


@pytest.fixture
def gate():
    gate = threading.Event()
    yield gate
    gate.set()


def outcome(loader):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        found = loader.poll()
        if found is not None:
            return found
        time.sleep(0.001)
    raise AssertionError("nothing was loaded")


def test_loading_runs_in_another_thread_and_is_told_once():
    loader = BundleLoader(lambda path: (path, threading.current_thread()))
    loader.request(A)
    path, thread = outcome(loader).loaded
    assert path == A
    assert thread is not threading.current_thread()
    assert loader.poll() is None
    loader.close()


def test_only_the_last_request_counts(gate):
    loader = BundleLoader(lambda path: gate.wait(PATIENCE) and path)
    loader.request(A)
    loader.request(A)
    loader.request(B)
    assert loader.poll() is None
    gate.set()
    assert outcome(loader).loaded == B
    loader.close()


def test_asked_again_it_goes_on_with_what_it_is_loading(gate):
    begun = []

    def load(path):
        begun.append(path)
        return gate.wait(PATIENCE) and path

    loader = BundleLoader(load, interrupt=lambda: begun.append("interrupted"))
    for _ in range(3):
        loader.request(A)
    gate.set()
    assert outcome(loader).loaded == A
    assert begun == [A]
    loader.request(A)  # it may have been written anew
    assert outcome(loader).loaded == A
    assert begun == [A, A]
    loader.close()


def test_a_refusal_is_one_line():
    def refuse(path):
        raise BundleError(f"{path}: two\nlines")

    loader = BundleLoader(refuse)
    assert loader.load(A) == Outcome(A, None, "a: two lines")


def test_a_bug_while_loading_is_reported_as_a_refusal(caplog):
    loader = BundleLoader(lambda path: 1 / 0)
    loader.request(A)
    found = outcome(loader)
    assert found.loaded is None
    assert found.error == "a: ZeroDivisionError: division by zero"
    assert "Traceback" in caplog.text
    loader.close()


def test_too_little_memory_is_no_bug(caplog):
    def fill(path):
        raise MemoryError

    assert BundleLoader(fill).load(A) == Outcome(A, None, "a: there is no memory for it")
    assert not caplog.text


def test_a_cancelled_request_has_no_outcome(gate):
    loader = BundleLoader(lambda path: gate.wait(PATIENCE))
    loader.request(A)
    loader.cancel()
    gate.set()
    over = threading.Event()
    loader.begin(over.set)
    assert over.wait(PATIENCE)
    assert loader.poll() is None
    loader.close()
