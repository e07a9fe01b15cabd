"""The bundle that the controller plays, and how another one takes its place.

Bundles are loaded in a thread of its own, so that no tick has to wait for it.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import String

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.admission import Admission
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop, build_control_loop
from hucrl_ros.controller.state_reader import PoseBuffer
from hucrl_ros.errors import HucrlError, shortened
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.process_liveness import ProcessLiveness
from hucrl_ros.nodes.told_publisher import ToldPublisher
from hucrl_ros.nodes.topics import LATCHED

logger = logging.getLogger(__name__)

LINE = 1000
"""Most letters of a line that says why a bundle was refused."""


class Outcome(NamedTuple):
    """How loading ended."""

    path: Path
    loaded: ControlLoop | None
    """What was loaded; None if it was refused."""
    error: str
    """Why it was refused, in one line."""


class BundleLoader:
    """Loads the bundle asked for last; ONNX Runtime and hashing release the interpreter."""

    def __init__(self, prepare: Callable[[Path], ControlLoop]) -> None:
        """`prepare` loads, verifies and warms up; it runs in the loader's thread."""
        self._prepare = prepare
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bundle")
        # Now, so that it doesn't inherit what the control loop's thread will be given.
        self._pool.submit(int).result()
        self._future: Future[Outcome] | None = None

    def request(self, path: Path) -> None:
        """Start loading; an older request whose outcome wasn't taken is dropped."""
        self.cancel()
        self._future = self._pool.submit(self.load, path)

    def cancel(self) -> None:
        """Forget the last request."""
        if self._future is not None:
            self._future.cancel()
        self._future = None

    def poll(self) -> Outcome | None:
        """The outcome of the last request, once."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def load(self, path: Path) -> Outcome:
        """Load now, in the calling thread."""
        try:
            return Outcome(path, self._prepare(path), "")
        except HucrlError as error:
            return Outcome(path, None, shortened(error, LINE))
        except Exception as error:
            logger.exception("%s can't be loaded", shortened(path))
            reason = f"{shortened(path)}: {type(error).__name__}: {error}"
            return Outcome(path, None, shortened(reason, LINE))

    def close(self) -> None:
        """Drop what is waiting; a load under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class BundleSlot:
    """Loads bundles named by a parameter or on the topic `bundle`, and echoes what became of it.

    Settings come from the bundle's manifest; the node's parameters `planner.*`, `safety.*` and
    `driver.*` replace them where they are given, or tightened while it runs.
    """

    def __init__(
        self,
        node: Node,
        config: Config,
        admission: Admission,
        planning: Executor,
        poses: PoseBuffer,
        liveness: ProcessLiveness,
    ) -> None:
        """Load for a node.

        Args:
            node: The controller.
            config: Its settings.
            admission: Says which bundles may play, and under which guard.
            planning: Has the one thread in which all bundles plan.
            poses: Where object and goal are heard of.
            liveness: By which the watchdog is told.
        """
        self.name = ""
        """Path of the bundle in use."""
        self._node = node
        self._config = config
        self._admission = admission
        self._planning, self._poses = planning, poses
        self._loader: BundleLoader = BundleLoader(self._prepare)
        self._ready: Outcome | None = None
        self._echo = ToldPublisher(node, String, topics.LOADED_BUNDLE, LATCHED, liveness)
        self._subscription: Subscription[String] | None = None

    def listen(self) -> None:
        """Load what is published on the topic `bundle`, also what was published before."""
        if self._subscription is None:
            self._subscription = self._node.create_subscription(
                String, topics.BUNDLE, self._on_bundle, LATCHED
            )

    def forget(self) -> None:
        """Have no bundle and wait for none; what the last one's guard holds back stays so."""
        if self._subscription is not None:
            self._node.destroy_subscription(self._subscription)
        self._subscription = self._ready = None
        self._loader.cancel()
        self.name = ""

    def load_now(self, path: str) -> bool:
        """Load in this thread; False if the bundle was refused."""
        self._ready = self._loader.load(Path(path))
        if self._ready.loaded is None:
            self.take()
            return False
        return True

    def take(self) -> ControlLoop | None:
        """A bundle that has become ready since the last call, echoing how that went."""
        outcome, self._ready = self._ready, None
        outcome = outcome or self._loader.poll()
        if outcome is None:
            return None
        loaded, error = outcome.loaded, outcome.error
        if loaded is not None:
            try:
                # Limits may have been tightened while it was loaded.
                loaded.obey(self._admission.accept(outcome.path, loaded.guard))
            except HucrlError as problem:
                loaded, error = None, shortened(problem, LINE)
        if loaded is None:
            self._node.get_logger().error(f"bundle refused: {error}")
            self._echo.publish(String(data=f"error: {error}"), told=False)
            return None
        self.name = str(outcome.path)
        self._node.get_logger().info(f"bundle {self.name}")
        self._echo.publish(String(data=self.name))
        return loaded

    def close(self) -> None:
        """End the loader's thread."""
        self._loader.close()

    def _on_bundle(self, message: String) -> None:
        self._loader.request(Path(message.data))

    def _prepare(self, path: Path) -> ControlLoop:
        config = self._config
        bundle = load_bundle(path, threads=config.control.threads)
        manifest, guard = self._admission.admit(path, bundle.manifest)
        return build_control_loop(
            replace(bundle, manifest=manifest),
            guard,
            config.control,
            self._poses,
            self._planning,
            lockstep=config.mode == "lockstep",
        )
