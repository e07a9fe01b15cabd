"""What the page of `hucrl watch` costs: ticks with and without it, memory, its own pace."""

import json
import os
import re
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import psutil
import viser
import zstandard
from numpy.typing import NDArray
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from hucrl_ros.benchmarks import Output
from hucrl_ros.benchmarks.loop import NODES, paced, run_trial, untrained
from hucrl_ros.benchmarks.process_samples import Sampler
from hucrl_ros.benchmarks.results import Tail, known
from hucrl_ros.benchmarks.soak_results import Growth
from hucrl_ros.config.files import write_atomically
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.presentation import Column, Table, write_page
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.node_list import NodeSpec, Value
from hucrl_ros.run.prepare import prepare_run

TASK = "pendulum"
SHIFT_S = 5.0
"""[s] For which the page works, and then stands still, in turn."""
SETTLED_S = 0.5
"""[s] After each change that count for neither."""
VISIT_S = 20.0
"""[s] After which a browser comes anew."""
SAMPLES = 300
PACE = re.compile(rb"this page: (\d+) pictures/s, sent (\d+) ms \(99%: (\d+) ms\)")
"""What the page says of itself."""
HEADER = 16
"""Bytes before the compressed part of a message."""
START_S = 20.0
"""[s] For the page to start, which the episode is longer."""
CAMERA = msgspec.msgpack.encode(
    {"type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0)}
    | dict.fromkeys(("position", "look_at", "up_direction"), (0.0, 0.0, 1.0))
    | dict.fromkeys(("fov", "near", "far", "image_height", "image_width"), 1)
)
"""What a browser says first; the page has nothing of its own for one that doesn't."""
PAGE, CLOCK = "page", time.monotonic


class Cost(NamedTuple):
    """What was found."""

    minutes: float
    browsers: int
    """That looked at the page, each coming anew every `VISIT_S`."""
    visits: int
    with_page: Tail
    """From a joint state to its command."""
    without: Tail
    """The same while the page stood still."""
    ratio: float
    """Of their 99% quantiles."""
    late_with: int
    """Commands later than a control period."""
    late_without: int
    cores: float
    """Processor time of the page in a second in which it worked [s]."""
    pictures: float
    """In a second, median of what the page says."""
    sent_p50_ms: float
    """From a joint state's arrival until its picture was sent [ms], median of what it says."""
    sent_p99_ms: float
    rss_mb: float
    """Memory of the page in the end [MB]."""
    grew: str
    """What grew; empty: nothing."""

    def numbers(self) -> dict[str, object]:
        """For JSON."""
        own = self._asdict().items()
        return {k: v.numbers() if isinstance(v, Tail) else known(v) for k, v in own}


COSTS = Table[Cost](
    (
        Column("browsers", lambda cost: f"{cost.browsers}", ">8"),
        Column("visits", lambda cost: f"{cost.visits}", ">6"),
        Column("ms with, p50 / p99 / p99.9 / max", lambda cost: str(cost.with_page), ">34"),
        Column("without", lambda cost: str(cost.without), ">30"),
        Column("p99, ratio", lambda cost: f"{cost.ratio:.2f}", ">10"),
        Column("late", lambda cost: f"{cost.late_with} / {cost.late_without}", ">9"),
        Column("cores", lambda cost: f"{cost.cores:.2f}", ">5"),
        Column("pictures/s", lambda cost: f"{cost.pictures:.0f}", ">10"),
        Column("sent ms", lambda cost: f"{cost.sent_p50_ms:.0f} / {cost.sent_p99_ms:.0f}", ">9"),
        Column("RSS MB", lambda cost: f"{cost.rss_mb:.0f}", ">6"),
        Column("grew", lambda cost: cost.grew or "–", ">6"),
    )
)


class Shifts:
    """Has the page work and stand still in turn, and looks at it."""

    def __init__(self, sampler: Sampler, visitors: Sequence["Browser"]) -> None:
        self._sampler, self._visitors = sampler, visitors
        self._next = 0.0
        self.works = True
        self.changes: list[tuple[float, bool]] = []
        """When, and whether it works from then on."""
        self.used: list[tuple[float, float]] = []
        """When, and its processor time until then [s]; at each change."""

    def look(self, pids: Mapping[str, int]) -> None:
        """From when all browsers are there: change shifts where it is time, and sample."""
        pid = pids[PAGE]
        if not self.changes and not all(visitor.visits for visitor in self._visitors):
            return  # it still starts
        if self.works:
            self._sampler.look({PAGE: pid})
        if CLOCK() < self._next:
            return
        self._next = CLOCK() + SHIFT_S
        with suppress(psutil.Error):
            times = psutil.Process(pid).cpu_times()
            self.used.append((CLOCK(), times.user + times.system))
        self.works = not self.works if self.changes else True
        os.kill(pid, signal.SIGCONT if self.works else signal.SIGSTOP)
        self.changes.append((CLOCK(), self.works))

    def worked(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """1 at `times` at which it worked, 0 where it didn't, NaN just after a change."""
        begun, worked = map(np.array, zip(*self.changes, strict=True))
        shift = np.searchsorted(begun, times, side="right") - 1
        found: NDArray[np.float64] = worked[np.maximum(shift, 0)].astype(np.float64)
        found[(shift < 0) | (times < begun[np.maximum(shift, 0)] + SETTLED_S)] = np.nan
        return found

    def cores(self) -> float:
        """Processor time in a second of its shifts [s]."""
        working = [
            (after - before, end - begin)
            for (begin, before), (end, after), (_, works) in zip(
                self.used, self.used[1:], self.changes, strict=False
            )
            if works
        ]
        return sum(used for used, _ in working) / sum(length for _, length in working)


class Browser(threading.Thread):
    """Hears all that the page sends, and comes anew now and then."""

    def __init__(self, port: int, ended: threading.Event) -> None:
        super().__init__(daemon=True)
        self._address = f"ws://127.0.0.1:{port}"
        self._ended = ended
        self._unpack = zstandard.ZstdDecompressor()
        self.visits = 0
        self.told: list[tuple[int, int, int]] = []
        """Pictures in a second, and how old [ms], median and 99%, as the page says."""

    def run(self) -> None:
        """Until the end."""
        # It stands for one on another machine.
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        version = Subprotocol(f"viser-v{viser.__version__}")
        while not self._ended.is_set():
            try:
                with connect(self._address, subprotocols=[version], max_size=None) as page:
                    page.send(CAMERA)
                    self.visits += 1
                    end = CLOCK() + VISIT_S
                    while CLOCK() < end and not self._ended.is_set():
                        with suppress(TimeoutError):
                            self._hear(page.recv(timeout=1.0))
            except (OSError, WebSocketException):
                time.sleep(0.5)  # it isn't there yet, or stands still

    def _hear(self, message: str | bytes) -> None:
        content = self._unpack.decompress(message[HEADER:]) if isinstance(message, bytes) else b""
        if said := PACE.search(content):
            rate, p50, p99 = map(int, said.groups())
            self.told.append((rate, p50, p99))


@contextmanager
def browsers(count: int, port: int) -> Iterator[list[Browser]]:
    """So many look at the page."""
    ended = threading.Event()
    found = [Browser(port, ended) for _ in range(count)]
    for browser in found:
        browser.start()
    try:
        yield found
    finally:
        ended.set()
        for browser in found:
            browser.join(timeout=5.0)


def in_a_run(bundle: Path, folder: Path, steps: int) -> Path:
    """A copy of a bundle for `steps` control periods, in a new run as the page needs it."""
    manifest = read_manifest(bundle)
    run = prepare_run(RunOptions(manifest.task, overrides={"mode": "real_time"}, out=folder))
    return paced(bundle, run.bundle(0), 1 / manifest.period, steps)


def served(port: int) -> dict[str, list[str]]:
    """Name and command of the page's process."""
    return {PAGE: [sys.executable, "-m", "hucrl_ros", "watch", "--port", str(port)]}


def run(
    minutes: float,
    count: int,
    port: int,
    priority: int,
    settings: Mapping[str, Any],
    output: Output,
) -> None:
    """Print the table; the arguments are the options of `hucrl bench page`."""
    with tempfile.TemporaryDirectory(prefix="hucrl-page-") as scratch:
        original = untrained(TASK, Path(scratch) / "untrained")
        rate = 1 / read_manifest(original).period
        bundle = in_a_run(original, Path(scratch) / "run", round((60 * minutes + START_S) * rate))
        cost = _measured(bundle, rate, minutes, count, port, priority, settings)
    output.say(COSTS.header, COSTS.line(cost))
    text = json.dumps(cost.numbers(), indent=1)
    if output.as_json:
        print(text)
    if output.folder is not None:
        output.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(output.folder / "page.json", f"{text}\n")
        output.say(str(_write(output.folder, cost, output)))


def _measured(
    bundle: Path,
    rate: float,
    minutes: float,
    count: int,
    port: int,
    priority: int,
    settings: Mapping[str, Any],
) -> Cost:
    sampler = Sampler(max(60 * minutes / SAMPLES, 1.0))
    own: dict[str, Value] = {"bundle": str(bundle), "priority": priority}
    controller: dict[str, Value] = {
        "task": TASK,
        "mode": "real_time",
        "bundle": str(bundle),
        "control.realtime_priority": priority,
        "control.lock_memory": priority > 0,
        **settings,
    }
    source = NodeSpec("loop_source", parameters=own, package=NODES)
    with browsers(count, port) as visitors:
        shifts = Shifts(sampler, visitors)
        raw = run_trial(
            [source],
            controller,
            2 * (60 * minutes + START_S),
            beside=served(port),
            look=shifts.look,
        )
    published, answered = (np.array(raw[key], np.float64) for key in ("published", "answered"))
    latencies, worked = answered - published, shifts.worked(published)
    told = np.array([each for visitor in visitors for each in visitor.told], np.float64)
    if not len(told):
        raise RunError("page: no browser has heard of its pictures")
    known = np.isfinite(latencies)
    tails = [Tail.of(latencies[known & (worked == works)]) for works in (1.0, 0.0)]
    late = [int(np.sum(~(latencies[worked == works] <= 1 / rate))) for works in (1.0, 0.0)]
    sampler.keep(float(published[0]), float(published[-1]))
    samples = sampler.samples[PAGE]
    times = np.array(sampler.times[PAGE])
    memory = Growth.of(PAGE, "uss_mb", times, np.array([each.uss_mb for each in samples]))
    return Cost(
        minutes=minutes,
        browsers=count,
        visits=sum(visitor.visits for visitor in visitors),
        with_page=tails[0],
        without=tails[1],
        ratio=round(tails[0].p99 / tails[1].p99, 3),
        late_with=late[0],
        late_without=late[1],
        cores=round(shifts.cores(), 3),
        pictures=float(np.median(told[:, 0])),
        sent_p50_ms=float(np.median(told[:, 1])),
        sent_p99_ms=float(np.median(told[:, 2])),
        rss_mb=round(samples[-1].rss_mb, 1),
        grew=str(memory) if memory.grew else "",
    )


def _write(folder: Path, cost: Cost, output: Output) -> Path:
    return write_page(
        folder / "README.md",
        "What the page costs",
        f"Machine: {output.machine}. Made by",
        output.command,
        f"A controller answers joint states at the pendulum's rate, planning as usual; beside it "
        f"`hucrl watch` works for {SHIFT_S:g} s and stands still for {SHIFT_S:g} s in turn. The "
        f"browsers hear everything and draw nothing, as on other machines; each comes anew every "
        f"{VISIT_S:g} s. *Cores*: processor time of the page in a second in which it worked. "
        "*Pictures*, and how long after a joint state's arrival they were sent (median, 99%): "
        "what the page says of itself.",
        COSTS.markdown([cost]),
    )
