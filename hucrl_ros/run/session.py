"""One session of a run: its ROS domain, and its processes from start to end."""

import fcntl
import os
import resource
import select
import shlex
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType

import hucrl_ros
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import CONTROLLER, SUPERVISOR, learning_graph
from hucrl_ros.run.processes import GAVE_UP, PERSON_IS_READY, STOPPED, Exit, ProcessGroup
from hucrl_ros.run.remote.contract import LISTEN
from hucrl_ros.run.summary import Summary, read_summary, write_summary

LARGEST_DOMAIN = 101
"""Beyond it, DDS's ports lie where the kernel hands out ports to anybody."""
LARGEST_WISHED_DOMAIN = 232
"""Beyond it, there are no ports."""
_FIRST_PORT, _PORTS_PER_DOMAIN, _FIRST_UNICAST = 7400, 250, 10
_PROBED = 10
"""Participants whose ports are looked at: the first ones may have ended, and others be left."""


class Domain(AbstractContextManager["Domain"]):
    """A domain id that no other `Domain` on this machine has, until it is closed.

    Domain 0, where everybody's tools live, is used only on request. The lock is a file in the
    folder for temporary files; the kernel releases it when this process ends, however it ends.
    """

    def __init__(self, wished: int | None = None, folder: Path | None = None) -> None:
        """Take the wished domain, or another one where that is taken.

        Args:
            wished: Domain id to try first.
            folder: Folder of the lock files; None: the one for temporary files.

        Raises:
            RunError: all domains are taken.
        """
        folder = folder or Path(tempfile.gettempdir())
        others = (i for i in range(1, LARGEST_DOMAIN + 1) if i != wished)
        candidates = [*([] if wished is None else [wished]), *others]
        for number in candidates:
            # Whoever wishes for a domain may have tools of their own there: its ports don't count.
            if number != wished and not _ports_are_free(number):
                continue
            lock = _lock(folder / f"hucrl_ros_domain_{number}.lock")
            if lock is not None:
                self.number = number
                self._lock = lock
                return
        raise RunError(f"all ROS domains up to {LARGEST_DOMAIN} are in use on this machine")

    def close(self) -> None:
        """Let others have the domain."""
        os.close(self._lock)

    def __exit__(self, *error: object) -> None:
        self.close()


def wished_domain(text: str | None) -> int | None:
    """The domain that the environment variable ROS_DOMAIN_ID asks for.

    Raises:
        ConfigError: it is no domain id.
    """
    if not text:
        return None
    if not text.isdecimal() or int(text) > LARGEST_WISHED_DOMAIN:
        raise ConfigError(
            f"environment variable ROS_DOMAIN_ID = {text!r}: expected 0 to {LARGEST_WISHED_DOMAIN}"
        )
    return int(text)


def _lock(path: Path) -> int | None:
    """File descriptor that holds the lock, or None where another process has it."""
    # Kernels may refuse O_CREAT for another user's file in a shared folder.
    for create in (0, os.O_CREAT):
        try:
            how = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | create
            descriptor = os.open(path, how, 0o666)
        except OSError:  # Not there yet, or another user's.
            continue
        found = os.fstat(descriptor)
        plain = stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and not found.st_size
        if plain and found.st_uid == os.geteuid():  # whatever our umask: others lock it, too
            os.fchmod(descriptor, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
    return None


def _ports_are_free(domain: int) -> bool:
    """Whether no DDS participant of somebody else has one of the domain's first ports."""
    first = _FIRST_PORT + _PORTS_PER_DOMAIN * domain + _FIRST_UNICAST
    return all(_is_free(first + 2 * participant) for participant in range(_PROBED))


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


POLL_S = 0.05
"""[s] Between two looks at the processes."""
REPORT_S = 8.0
"""[s] Time for the supervisor to stop the episode and report a lost node."""
DISCOVERY = "ROS_AUTOMATIC_DISCOVERY_RANGE"
"""Variable that says which machines nodes meet."""
PARENT_VARIABLE = "HUCRL_PARENT_PID"
"""Nodes stop when the process whose PID it holds is gone, see `nodes/runner.py`."""
_SHOW_CURSOR = "\x1b[?25h"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP)
"""Ctrl-Z would stop this process alone, and the robot would play on."""


class Session:
    """Starts the nodes of a run as processes, watches them, and ends them."""

    def __init__(
        self, run: RunFolder, domain: int, simulated: bool = True, listen: str | None = None
    ) -> None:
        """Prepare; nothing is started.

        Args:
            run: The run.
            domain: ROS domain of its nodes.
            simulated: With our simulator; otherwise a robot stands in its place.
            listen: HOST:PORT where a learner on another machine is waited for; None: it runs here.
        """
        self._run, self._domain, self._listen = run, domain, listen
        self._simulated = simulated
        config = run.config
        self._asks = config.mode == "real_time" and config.driver.reset in ("home", "person")
        self._group = ProcessGroup(run.logs, node_environment(run, domain))
        self._stop: int | None = None

    def play(self) -> int | None:
        """Run the nodes until the supervisor has finished, a node is lost, or a signal comes.

        No process is left when it returns, however it does.

        Returns:
            The signal, one of `_SIGNALS`, that ended it; None where the run is finished.

        Raises:
            RunError: a node was lost or reported an error, or another process plays this run.
        """
        locked = self._run.locked(not self._simulated, self._domain)
        with locked, self._signals_noted():
            begin, before = time.monotonic(), _stored_summary(self._run)
            try:
                nodes = learning_graph(
                    self._run,
                    parent_reports=True,
                    simulated=self._simulated,
                    listen=self._listen,
                )
                for node in nodes:
                    self._group.start(node.name, node.command, foreground=node.name == SUPERVISOR)
                ended = self._watch()
            finally:
                self._group.stop(first=[CONTROLLER])
                _restore_cursor()
            failure = None if self._stop and not ended else self._failure(ended, before)
            try:
                self._settle(before, time.monotonic() - begin, failure)
            except RunError as error:  # a full disk
                failure = failure or str(error)
        if failure is not None:
            command = resume_command(self._run, listen=self._listen)
            raise RunError(f"{failure}; continue with: {command}")
        return self._stop

    def _watch(self) -> list[Exit]:
        """Wait for the end; returns the processes that ended by themselves, supervisor last."""
        lost: list[Exit] = []
        deadline = float("inf")
        while self._stop is None and time.monotonic() < deadline:
            for exit_ in sorted(self._group.ended(), key=lambda exit_: exit_.name == SUPERVISOR):
                lost.append(exit_)
                if exit_.name == SUPERVISOR:
                    return lost
                self._group.tell(SUPERVISOR, exit_.description)
                deadline = min(deadline, time.monotonic() + REPORT_S)
            if self._asks and _pressed_enter():
                self._group.tell(SUPERVISOR, PERSON_IS_READY)
            time.sleep(POLL_S)
        return lost

    def _failure(self, ended: list[Exit], before: Summary | None) -> str | None:
        """One line on why the run can't go on: the supervisor's last event, if it is that."""
        known = len(before.events) if before else 0
        now = _stored_summary(self._run)
        told = now.events[-1] if now and len(now.events) > known else ""
        # By a signal that this process didn't send, the supervisor ends without an error too.
        done = [(exit_.name, exit_.code) for exit_ in ended] == [(SUPERVISOR, 0)]
        if done and not told.endswith(STOPPED):
            return None
        # The last event of one that was killed, or hangs, is about something else.
        spoke = any((exit_.name, exit_.code) == (SUPERVISOR, GAVE_UP) for exit_ in ended)
        if told and (done or spoke):
            return told
        return "; ".join(exit_.description for exit_ in ended)

    def _settle(self, before: Summary | None, wall_s: float, failure: str | None) -> None:
        """Put into the summary what only this process knows: the times, and a lost supervisor."""
        summary = _stored_summary(self._run)
        if summary is None:
            return
        events = summary.events
        if failure is not None and failure not in events:
            events = (*events, failure)
        times = {
            "wall_s": round(wall_s + (before.wall_s if before else 0.0), 3),
            "cpu_s": round(_cpu_s() + (before.cpu_s if before else 0.0), 3),
        }
        write_summary(self._run.summary, summary.model_copy(update={"events": events, **times}))

    @contextmanager
    def _signals_noted(self) -> Iterator[None]:
        def note(number: int, frame: FrameType | None) -> None:
            self._stop = number

        earlier = {number: signal.signal(number, note) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in earlier.items():
                signal.signal(number, handler)


def _pressed_enter() -> bool:
    """Whether somebody has pressed Enter on the terminal that this process has, if it has one."""
    try:
        if not sys.stdin.isatty() or os.tcgetpgrp(sys.stdin.fileno()) != os.getpgrp():
            return False
    except (OSError, ValueError, AttributeError):  # closed, or another session's terminal
        return False
    return bool(select.select([sys.stdin], [], [], 0.0)[0] and sys.stdin.readline())


def node_environment(run: RunFolder, domain: int) -> dict[str, str]:
    """Environment variables of the nodes of `run` in the ROS domain `domain`."""
    package_parent = str(Path(hucrl_ros.__file__).resolve().parent.parent)
    search_path = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    if package_parent not in search_path:
        search_path.append(package_parent)
    return {
        DISCOVERY: "LOCALHOST",
        **os.environ,
        "ROS_DOMAIN_ID": str(domain),
        "ROS_LOG_DIR": str(run.logs),
        PARENT_VARIABLE: str(os.getpid()),
        "PYTHONPATH": os.pathsep.join(search_path),
        # A queue.py in the working directory must not replace the library's.
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
    }


def resume_command(run: RunFolder, command: str = "up", listen: str | None = None) -> str:
    """What a person types to continue the run; `listen` as for `Session`."""
    robot = " --no-simulator" if run.on_robot.exists() else ""
    remote = "" if listen is None else " --remote-learner"
    if listen not in (None, LISTEN):
        remote += f" --listen {listen}"
    words = ["hucrl", command, run.config.task, "--out", shown_path(run.root)]
    return f"{shlex.join(words)} --resume{robot}{remote}"


def shown_path(path: Path) -> str:
    """The path as a person would type it here."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _stored_summary(run: RunFolder) -> Summary | None:
    return read_summary(run.summary) if run.summary.is_file() else None


def _cpu_s() -> float:
    """Processor time of this process and of all its children that have ended [s]."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _restore_cursor() -> None:
    """A supervisor that was killed can't show the cursor again, which its live view hid."""
    if sys.stdout.isatty():
        sys.stdout.write(_SHOW_CURSOR)
        sys.stdout.flush()
