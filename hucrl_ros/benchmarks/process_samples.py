"""What processes hold, looked at now and then: memory, threads, descriptors, shared memory."""

import time
from collections.abc import Mapping
from itertools import compress
from pathlib import Path
from typing import NamedTuple

import psutil

SHARED_MEMORY = "/dev/shm/"  # where DDS keeps its segments


class Sample(NamedTuple):
    """What a process and its children hold together."""

    rss_mb: float
    """Memory in use, with what it shares with others [MB]."""
    uss_mb: float
    """Memory of its own [MB]."""
    threads: int
    descriptors: int
    segments: int
    """Files of `/dev/shm` in its memory; DDS's transport has them."""

    @classmethod
    def of(cls, pid: int) -> "Sample":
        """Of the process `pid`.

        Raises:
            psutil.Error: it has ended.
        """
        process = psutil.Process(pid)
        each = [cls._alone(process)]
        for child in process.children(recursive=True):
            try:
                each.append(cls._alone(child))
            except (psutil.Error, OSError):
                continue  # it has ended meanwhile
        return cls(*(sum(values) for values in zip(*each, strict=True)))

    @classmethod
    def _alone(cls, process: psutil.Process) -> "Sample":
        memory = process.memory_full_info()
        maps = Path(f"/proc/{process.pid}/maps").read_text().splitlines()
        segments = {line[line.index(SHARED_MEMORY) :] for line in maps if SHARED_MEMORY in line}
        return cls(
            memory.rss / 1e6,
            memory.uss / 1e6,
            process.num_threads(),
            process.num_fds(),
            len(segments),
        )


class Sampler:
    """Takes samples of processes at most once in `every` [s]."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._next = 0.0
        self.times: dict[str, list[float]] = {}
        """When, by process [s], by the clock of `time.monotonic`."""
        self.samples: dict[str, list[Sample]] = {}
        """What, by process."""

    def look(self, pids: Mapping[str, int]) -> None:
        """Take a sample of each, where it is time for one."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every
        for name, pid in pids.items():
            try:
                sample = Sample.of(pid)
            except (psutil.Error, OSError):
                continue  # it has ended, which others tell
            self.times.setdefault(name, []).append(now)
            self.samples.setdefault(name, []).append(sample)

    def keep(self, begin: float, end: float) -> None:
        """Forget what was sampled before `begin` or after `end` [s]."""
        for name, times in self.times.items():
            inside = [begin <= time <= end for time in times]
            self.times[name] = list(compress(times, inside))
            self.samples[name] = list(compress(self.samples[name], inside))
