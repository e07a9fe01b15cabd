"""What the process that stops a robot sends and when, by a clock of the test's, without ROS."""

import os
import signal
import subprocess
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy", reason="the stopper is a node of ROS 2")

from rclpy.signals import SignalHandlerOptions

from hucrl_ros.nodes import stopper as module
from hucrl_ros.nodes.stopper import AGAIN_S, ARRIVAL_WAIT, LAST, PATIENCE_S

EFFORTS = 2
ARGUMENTS = ["--ros-args", "-r", "__ns:=/left"]


@pytest.fixture
def pipe():
    """Makes a pipe's two ends."""
    with ExitStack() as ends:

        def make():
            read, write = os.pipe()
            return [
                ends.enter_context(os.fdopen(end, mode, buffering=0))
                for end, mode in ((read, "rb"), (write, "wb"))
            ]

        yield make


class Scene:
    """The process, who hears it, and the mover at the other ends of its pipes."""

    def __init__(self, monkeypatch, pipe):
        self.now, self.calls, self.sent, self.listeners = 0.0, [], [], {}
        self._due = []
        stdin, self.mover = pipe()
        self.told, stdout = pipe()
        stand_ins = {
            "sys": SimpleNamespace(
                argv=["stopper", str(EFFORTS), *ARGUMENTS], stdin=stdin, stdout=stdout
            ),
            "select": SimpleNamespace(select=self._select),
            "time": SimpleNamespace(sleep=self._sleep),
            "signal": SimpleNamespace(
                SIGINT=signal.SIGINT,
                SIGTERM=signal.SIGTERM,
                SIG_IGN=signal.SIG_IGN,
                signal=lambda *what: self.calls.append(what),
            ),
            "rclpy": SimpleNamespace(
                init=lambda **how: self.calls.append(how),
                try_shutdown=lambda: self.calls.append("shutdown"),
                get_rmw_implementation_identifier=lambda: "rmw",
            ),
            "avoid_shared_memory": lambda *what: self.calls.append(what),
            "Node": self._node,
        }
        for name, stand_in in stand_ins.items():
            monkeypatch.setattr(module, name, stand_in)

    def _node(self, name):
        def publish(message):
            self.sent.append((self.now, list(message.data)))

        def create_publisher(kind, topic, qos):
            self.calls.append((name, topic, qos))
            return SimpleNamespace(
                publish=publish,
                get_subscription_count=lambda: self.listeners[
                    max(since for since in self.listeners if since <= self.now)
                ],
                wait_for_all_acked=lambda wait: self.calls.append((len(self.sent), wait)),
            )

        return SimpleNamespace(
            create_publisher=create_publisher, destroy_node=lambda: self.calls.append("destroy")
        )

    def _select(self, readable, writable, exceptional, limit):
        assert readable == [module.sys.stdin]
        if self._due and self._due[0] <= self.now + limit:
            self.now = max(self.now, self._due.pop(0))
            if self._due:
                self.mover.write(b".")
            else:
                self.mover.close()
            return readable, [], []
        self.now += limit
        return [], [], []

    def _sleep(self, seconds):
        self.now += seconds

    def run(self, *bytes_at, end, listeners=1):
        """The mover writes at those times [s] and ends; listeners may be a count since a time."""
        self._due = [*bytes_at, end]
        self.listeners = listeners if isinstance(listeners, dict) else {0.0: listeners}
        assert module.main() == 0
        assert {tuple(zeros) for _, zeros in self.sent} == {(0.0,) * EFFORTS}
        times = [at for at, _ in self.sent]
        self.stopped = times[:-LAST]
        """[s] When zeros were sent before the end."""
        last = times[-LAST:]
        assert last == pytest.approx([end + k * AGAIN_S for k in range(LAST)])

    def words(self, of=b"."):
        """What the mover was told: of each listener, or in answer to its bytes."""
        os.set_blocking(self.told.fileno(), False)
        return of * self.told.read(4096).count(of)


@pytest.fixture
def scene(monkeypatch, pipe):
    return Scene(monkeypatch, pipe)


def steady(first, last, step):
    """Times at which a mover writes [s]."""
    return [first + k * step for k in range(round((last - first) / step) + 1)]


def every(step, first, end):
    """Times of what is sent until the mover writes or ends [s]."""
    times = []
    while first < end:
        times.append(first)
        first += step
    return times


def test_a_mover_that_falls_silent_is_replaced_by_zeros(scene):
    scene.run(*steady(0.01, 1.01, 0.1), end=1.755)
    assert scene.stopped == pytest.approx(every(AGAIN_S, 1.01 + PATIENCE_S, 1.755))


def test_while_bytes_come_nothing_is_sent(scene):
    scene.run(*steady(0.01, 3.01, 0.9 * PATIENCE_S), end=3.1)
    assert scene.stopped == []


def test_zeros_end_with_the_first_byte_and_the_next_silence_is_as_long_as_any(scene):
    scene.run(0.01, 0.505, 1.005, end=1.1)
    silences = [(0.01, 0.505), (0.505, 1.005)]
    assert scene.stopped == pytest.approx(
        [at for since, until in silences for at in every(AGAIN_S, since + PATIENCE_S, until)]
    )


def test_before_anybody_listens_nothing_is_sent_and_the_patience_begins_then(scene):
    """It is no silence either while the mover waits for them."""
    scene.run(end=1.5, listeners={0.0: 0, 1.1: 1})
    assert 1.1 + PATIENCE_S <= scene.stopped[0] <= 1.1 + PATIENCE_S + 2 * AGAIN_S
    assert scene.words() == b"."


def test_somebody_new_who_hears_it_holds_up_no_zeros(scene):
    scene.run(0.01, end=1.005, listeners={0.0: 1, 0.605: 2, 0.805: 3})
    assert scene.stopped == pytest.approx(every(AGAIN_S, 0.01 + PATIENCE_S, 1.005))
    assert scene.words() == b"..."


def test_the_mover_is_told_once_of_each_who_hears_it(scene):
    """One who leaves and comes back, as the others do not, isn't another one."""
    counts = {0.0: 0, 0.2: 1, 0.4: 3, 0.6: 2, 0.8: 3}
    scene.run(*steady(0.01, 1.01, 0.05), end=1.1, listeners=counts)
    assert scene.words() == b"..."


def test_each_byte_is_answered_and_silence_is_not(scene):
    scene.run(*steady(0.01, 0.51, 0.1), end=1.2)
    assert scene.words(b"+") == b"+" * 6


def test_a_mover_that_hears_nothing_does_not_hold_up_zeros(scene, pipe):
    full = module.sys.stdout
    os.set_blocking(full.fileno(), False)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(full.fileno(), b"+" * 4096)
    os.set_blocking(full.fileno(), True)
    scene.run(0.01, end=1.005)
    assert scene.stopped == pytest.approx(every(AGAIN_S, 0.01 + PATIENCE_S, 1.005))


def test_a_mover_that_has_gone_hears_nothing_and_zeros_are_sent_all_the_same(scene):
    scene.told.close()
    scene.run(end=0.5)
    assert len(scene.stopped) > 5


def test_only_the_end_of_the_pipe_ends_it_and_the_last_zeros_arrive(scene):
    scene.run(end=0.01)
    begin, end = scene.calls[:-3], scene.calls[-3:]
    assert begin[:2] == [
        (signal.SIGINT, signal.SIG_IGN),
        (signal.SIGTERM, signal.SIG_IGN),
    ]
    assert begin[2:] == [
        (os.environ, "rmw"),
        {"args": ARGUMENTS, "signal_handler_options": SignalHandlerOptions.NO},
        (module.NAME, "controller/commands", module.STREAM),
    ]
    assert end == [(LAST, ARRIVAL_WAIT), "destroy", "shutdown"]


class Child:
    """In the place of the second process: the test holds the other ends of its pipes."""

    def __init__(self, pipe, command, how):
        self.command, self.how = command, how
        self.read, self.stdin = pipe()
        self.stdout, self.write = pipe()
        self.end, self.killed, self.hangs = None, False, False

    def poll(self):
        return self.end

    def kill(self):
        assert not self.stdin.closed or self.hangs, "it would have begun to send zeros"
        self.killed = True

    def wait(self, limit=None):
        if self.killed:
            self.end = -signal.SIGKILL
        elif self.hangs:
            assert limit == module.END_S, "for ever"
            raise subprocess.TimeoutExpired(self.command, limit)
        else:
            assert self.stdin.closed, "nothing ends it"
            self.end = 0
        return self.end


@pytest.fixture
def child(monkeypatch, pipe):
    """The mover's end, and what it has started."""
    started = []

    def popen(command, **how):
        started.append(Child(pipe, command, how))
        return started[0]

    monkeypatch.setattr(module.subprocess, "Popen", popen)
    monkeypatch.setattr(module.sys, "argv", ["mover", *ARGUMENTS])
    stopper = module.Stopper(EFFORTS)
    return SimpleNamespace(stopper=stopper, process=started[0])


def test_it_is_started_for_those_efforts_and_topics_and_out_of_reach_of_a_terminal(child):
    python, flag, name, *arguments = child.process.command
    assert (python, flag, name) == (module.sys.executable, "-m", module.__name__)
    assert arguments == [str(EFFORTS), *ARGUMENTS]
    pipe = subprocess.PIPE
    assert child.process.how == {"stdin": pipe, "stdout": pipe, "start_new_session": True}


def test_who_holds_it_writes_and_is_never_held_up_by_it(child):
    assert child.stopper.hold()
    assert child.process.read.read(10) == b"."
    assert not os.get_blocking(child.process.stdin.fileno())
    with pytest.raises(BlockingIOError):
        while True:  # Nobody reads, and the pipe is full.
            os.write(child.process.stdin.fileno(), b"." * 4096)
    assert child.stopper.hold()


def test_a_mover_whose_stopper_has_ended_is_told_so(child):
    assert child.stopper.hold()
    child.process.end = 1
    assert not child.stopper.hold()
    child.process.end = None
    child.process.read.close()
    assert not child.stopper.hold(), "nobody has asked yet how it ended"


@pytest.fixture
def clock(monkeypatch):
    """Time that a test sets [s]."""
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now.s))
    return now


def holds(child, clock, seconds, tick=0.01):
    """Whether it was held throughout, ticks of so many seconds apart; the first comes at once."""
    for _ in range(max(round(seconds / tick), 1)):
        if not child.stopper.hold():
            return False
        clock.s += tick
    return True


def test_a_mover_whose_stopper_answers_no_more_is_told_so(child, clock):
    child.process.write.write(b".+")
    for _ in range(5):
        assert holds(child, clock, 0.9 * module.ANSWER_S)
        child.process.write.write(b"+")
    assert holds(child, clock, 0.95 * module.ANSWER_S)
    assert not holds(child, clock, 0.1 * module.ANSWER_S)
    child.process.write.write(b"+")
    assert child.stopper.hold(), "it was only slow"


def test_who_hears_it_is_no_answer(child, clock):
    child.process.write.write(b".")
    assert holds(child, clock, 0.95 * module.ANSWER_S)
    child.process.write.write(b".")
    assert not holds(child, clock, 0.1 * module.ANSWER_S)


def test_a_stopper_may_take_its_time_to_start(child, clock):
    assert holds(child, clock, 10.0 * module.ANSWER_S)
    child.process.write.write(b".")
    assert holds(child, clock, 0.95 * module.ANSWER_S)
    assert not holds(child, clock, 0.1 * module.ANSWER_S)


def test_a_mover_that_was_held_up_does_not_blame_the_stopper_which_may_have_been_as_well(
    child, clock
):
    child.process.write.write(b".")
    assert child.stopper.hold()
    clock.s += 10.0 * module.ANSWER_S
    assert holds(child, clock, 0.95 * module.ANSWER_S - PATIENCE_S)
    child.process.write.write(b"+")
    clock.s += 10.0 * module.ANSWER_S
    assert child.stopper.hold()


def test_it_is_met_when_as_many_hear_it_as_hear_the_mover(child):
    assert not child.stopper.meets(0) and not child.stopper.meets(1)
    child.process.write.write(b"..")
    assert child.stopper.meets(2) and not child.stopper.meets(3)
    child.process.write.write(b".")
    assert child.stopper.meets(3) and child.stopper.meets(1)
    assert not child.stopper.meets(0), "not even the robot hears the mover"


def test_who_dismisses_it_ends_it_before_it_can_send_a_last_zero(child):
    child.stopper.dismiss()
    assert child.process.end == -signal.SIGKILL


@pytest.mark.parametrize("hangs", [False, True])
def test_who_releases_it_lets_it_send_and_end(child, hangs):
    child.process.hangs = hangs
    child.stopper.release()
    assert child.process.stdin.closed
    assert child.process.killed is hangs
