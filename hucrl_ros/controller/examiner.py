"""Tries offered bundles in a process of its own, so that the control loop never meets a bad one.

A graph may loop for ever, a file may fill the memory or never end, native code may crash. So
`python -m hucrl_ros.controller.examiner` imports what it takes, once, and for each bundle forks a
process with limits. That one does all that the controller will do with the bundle: reads it, runs
its graphs, builds its engine, plans some ticks. None of these processes outlives the controller.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from hucrl_ros.config.schema import ControlSettings
from hucrl_ros.controller.bundle import Bundle, load_bundle
from hucrl_ros.controller.control_loop import build_control_loop
from hucrl_ros.controller.engines.engine import warm_up
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.manifest import Manifest
from hucrl_ros.controller.state_reader import PoseBuffer
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import BundleError, HucrlError, shortened

READ_CPU_S, READ_S = 20, 60
"""[s] Processor time, and time, to read a bundle and run each of its graphs once; one of ours
takes a tenth of a second."""
TRY_CPU_S, TRY_S = 300, 600
"""[s] The same for its first ticks; what engines are made of is compiled once on a machine, which
takes a minute on a slow one."""
MEMORY = 2**31
"""[bytes] Of the process, of which one of our bundles takes a tenth."""
LINE = 800
"""Most letters of the line that says what is wrong."""
PROGRAM = ("-m", "hucrl_ros.controller.examiner")
PLAYS, READS = "plays", "reads"
"""What the process is told to be ready for."""
_PR_SET_PDEATHSIG = 1
_SLOW = "takes more than {} s{} to be read and run once, or {} s for its first ticks"
_ENDS = {
    signal.SIGXCPU: _SLOW.format(READ_CPU_S, " of processor time", TRY_CPU_S),
    signal.SIGALRM: _SLOW.format(READ_S, "", TRY_S),
}


class Examiner:
    """The process that examines bundles; all but `cancel` for one thread, which has to last."""

    def __init__(
        self,
        trust: Trust,
        control: ControlSettings,
        lockstep: bool,
        plays: bool = True,
        filters: bool = False,
    ) -> None:
        """Prepare; nothing is started.

        Args:
            trust: Says which bundles may be opened.
            control: Engine and threads as they will play.
            lockstep: Whether physics waits; otherwise real time.
            plays: Bundles have to play ticks, for which engines may have to be compiled.
            filters: They will play with the safety filter, also one that says it is off.
        """
        self._terms: dict[str, Any] = {
            "root": None if trust.root is None else str(trust.root),
            "keys": trust.keys,
            "control": control.model_dump(mode="json"),
            "lockstep": lockstep,
            PLAYS: plays,
            "filters": filters,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self._busy = False
        self._lock = threading.Lock()

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the process where it doesn't run, so that it is ready when a bundle comes.

        It ends with the calling thread.
        """
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    *PROGRAM,
                    str(os.getpid()),
                    PLAYS if self._terms[PLAYS] else READS,
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
            )
        return self._process

    def examine(self, path: Path) -> Manifest:
        """What a bundle says that can be read, computes what it claims, and plays some ticks.

        Its files may change until they are loaded: then their hashes aren't those in the manifest.

        Args:
            path: Its folder.

        Raises:
            BundleError: it isn't such a bundle, or `cancel` was called.
        """
        line = json.dumps({"path": str(path), **self._terms}) + "\n"
        with self._lock:
            process, self._busy = self.start(), True
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(line.encode())
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        finally:
            with self._lock:
                self._busy = False
        if not answer.endswith(b"\n"):
            raise BundleError(f"{shortened(path)}: nobody has examined it to the end")
        found: dict[str, Any] = json.loads(answer)
        if "error" in found:
            raise BundleError(found["error"])
        return Manifest.model_validate(found["manifest"]).read_from(found["digest"])

    def cancel(self) -> None:
        """Have `examine`, which runs in another thread, end now."""
        with self._lock:
            if self._busy and self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not self._busy:
                pipe.close()
        self._process = None


def examined(path: Path) -> Manifest:
    """What a bundle from anybody says, read and run once in a process with limits.

    Raises:
        BundleError: it isn't what it says, or takes too much time or memory.
    """
    examiner = Examiner(Trust(None, ()), ControlSettings(), lockstep=True, plays=False)
    try:
        return examiner.examine(path)
    finally:
        examiner.close()


def load_examined(path: Path, threads: int = 1) -> Bundle:
    """Load a bundle from anybody, after a process with limits has read and run it once.

    Raises:
        BundleError: as of `examined`.
    """
    return load_bundle(path, threads=threads, manifest=examined(path))


# What the process does


def main() -> None:
    """Answer each line on standard input, a request, with one on standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the controller
    _end_with_parent(int(sys.argv[1]))
    if sys.argv[2] == PLAYS:
        warm_up()  # Whoever is forked has it; there is still one thread.
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing else that is printed is an answer
    for line in sys.stdin.buffer:
        _write(answers, _forked(line) + b"\n")


def _forked(line: bytes) -> bytes:
    """The answer of a process of its own."""
    parent = os.getpid()
    answer, said = os.pipe()
    child = os.fork()  # There is one thread here.
    if not child:
        _answer(parent, line, said)
    os.close(said)
    with os.fdopen(answer, "rb") as pipe:
        found = pipe.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == 0:
        return found
    path = shortened(json.loads(line)["path"])
    if code > 0:
        return _error(f"{path}: ended the process that examined it, with exit code {code}")
    end = signal.Signals(-code)
    why = _ENDS.get(end, f"ended the process that examined it, by {end.name}")
    return _error(f"{path}: {why}")


def _answer(parent: int, line: bytes, said: int) -> NoReturn:
    """Examine within limits, and end this process."""
    code = 1
    try:
        _end_with_parent(parent)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):  # what libraries print of a bundle is its author's
            os.dup2(quiet, stream)
        _write(said, _examined(json.loads(line)))
        code = 0
    finally:
        os._exit(code)


def _examined(request: dict[str, Any]) -> bytes:
    path = Path(request["path"])
    try:
        manifest = _examine(path, request)
        found = manifest.model_dump(mode="json", by_alias=True)
    except HucrlError as error:
        return _error(str(error))
    except MemoryError:
        return _error(f"{shortened(path)}: takes more than {MEMORY >> 20} MiB of memory")
    except Exception as error:
        return _error(f"{shortened(path)}: {type(error).__name__}: {error}")
    return json.dumps({"manifest": found, "digest": manifest.digest}).encode()


def _examine(path: Path, request: dict[str, Any]) -> Manifest:
    """All that the controller does with a bundle until it plays.

    Raises:
        HucrlError: what is wrong with it.
    """
    control, root = ControlSettings(**request["control"]), request["root"]
    _limit(READ_CPU_S, READ_S)
    trust = Trust(None if root is None else Path(root), request["keys"])
    manifest = trust.read_manifest(path)
    bundle = load_bundle(path, threads=control.threads, manifest=manifest)
    if not request[PLAYS]:
        return manifest
    _limit(TRY_CPU_S, TRY_S)
    safety = manifest.safety
    if request["filters"]:  # It asks graphs of more states than planning does.
        safety = safety.model_copy(update={"filter": True})
    guard = Guard(manifest.spec, safety)
    build_control_loop(bundle, guard, control, PoseBuffer(), lockstep=request["lockstep"])
    return manifest


def _limit(processor_s: int, s: int) -> None:
    """Let the kernel end this process after so much processor time, or time, from now on."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    for what, most in (
        (resource.RLIMIT_CPU, int(used) + processor_s),
        (resource.RLIMIT_DATA, MEMORY),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (soft, hard))
    signal.alarm(s)
    with contextlib.suppress(OSError):  # Where memory runs out all the same, not the controller.
        Path("/proc/self/oom_score_adj").write_text("1000")


def _end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when the thread that started it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _error(line: str) -> bytes:
    return json.dumps({"error": shortened(line, LINE)}).encode()


def _write(descriptor: int, content: bytes) -> None:
    while content:
        content = content[os.write(descriptor, content) :]


if __name__ == "__main__":
    main()
