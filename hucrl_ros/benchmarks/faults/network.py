"""Faults of the network between the robot's machine and the learner's."""

import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from hucrl_ros.benchmarks.faults import proxy
from hucrl_ros.benchmarks.faults.fault import BadLine, Place
from hucrl_ros.experiments.workers import child_environment
from hucrl_ros.run.processes import ProcessGroup
from hucrl_ros.run.remote.token import made_token

NETWORK = "network"


class _Network(BadLine):
    """The learner is a process that reaches the robot's side through a proxy only."""

    nodes = (NETWORK,)
    lasts_s = 30.0
    """Longer than either side waits for the other."""

    @contextmanager
    def beside(self, place: Place) -> Iterator[tuple[str, ...]]:
        """The learner, and the network on its way."""
        made_token(place.run.token)
        here, way = _free_port(), _free_port()
        group = ProcessGroup(place.scratch, child_environment(OMP_NUM_THREADS="1"))
        between = [str(way), str(here), self.name, str(self.switch(place))]
        learner = ["learner", "--robot", f"http://{proxy.HOST}:{way}"]
        learner += ["--token-file", str(place.run.token)]
        learner += ["--out", str(place.scratch / f"learner_{place.run.root.parent.name}")]
        try:
            group.start("network", [sys.executable, "-m", proxy.__name__, *between])
            group.start("learner_elsewhere", [sys.executable, "-m", "hucrl_ros", *learner])
            yield ("--remote-learner", "--listen", f"{proxy.HOST}:{here}")
        finally:
            group.stop()


class Cut(_Network):
    """Connections stay open, but nothing passes."""

    name = proxy.CUT


class CorruptedBytes(_Network):
    """A byte of each 4 KiB is another one."""

    name = proxy.CORRUPTED


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((proxy.HOST, 0))
        return int(probe.getsockname()[1])
