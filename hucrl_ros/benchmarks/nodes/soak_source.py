"""For `hucrl bench soak`: times commands, and has the controller swap bundles meanwhile."""

import sys
import time
from functools import partial

from std_msgs.msg import String

from hucrl_ros.benchmarks.nodes.loop_source import LoopSource
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.parameters import own_parameter
from hucrl_ros.nodes.runner import run_node
from hucrl_ros.nodes.topics import LATCHED, STEADY


class SoakSource(LoopSource):
    """A `LoopSource` that offers two bundles in turn.

    Parameters: those of `LoopSource`; `offered`, the second bundle; `swap_s`, the time between
    two offers [s].
    """

    def __init__(self) -> None:
        super().__init__("soak_source")
        self._first = own_parameter(self, "bundle", "")
        self._second = own_parameter(self, "offered", "")
        self._swap_s = own_parameter(self, "swap_s", 60.0)
        self._offered: list[float] = []
        self._heard: list[tuple[float, str]] = []
        self._offer = self.create_publisher(String, topics.BUNDLE, LATCHED)
        self.create_subscription(String, topics.LOADED_BUNDLE, self._on_loaded, LATCHED)

    def begin(self) -> None:
        """Start the clock."""
        self._heard.clear()
        self.create_timer(self._swap_s, self._swap, clock=STEADY)
        super().begin()

    def result(self) -> dict[str, object]:
        """Also when bundles were offered, and when the controller said what became of them [s]."""
        return {**super().result(), "offered": self._offered, "heard": self._heard}

    def _swap(self) -> None:
        path = self._first if len(self._offered) % 2 else self._second
        self._offered.append(time.monotonic())
        self._offer.publish(String(data=path))

    def _on_loaded(self, message: String) -> None:
        self._heard.append((time.monotonic(), message.data))


main = partial(run_node, SoakSource)

if __name__ == "__main__":
    sys.exit(main())
