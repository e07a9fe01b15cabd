"""The bundle that the controller plays, and how another one takes its place.

Bundles are tried in a process of its own, then loaded in a thread of its own, so that no tick has
to wait for it.
"""

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import String

from hucrl_ros.config.schema import Config
from hucrl_ros.controller.admission import Admission
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop, build_control_loop
from hucrl_ros.controller.engines.engine import warm_up
from hucrl_ros.controller.examiner import Examiner
from hucrl_ros.controller.state_reader import PoseBuffer
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import HucrlError, shortened
from hucrl_ros.nodes import realtime, topics
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

    def __init__(
        self,
        prepare: Callable[[Path], ControlLoop],
        interrupt: Callable[[], None] = lambda: None,
    ) -> None:
        """Load by functions.

        Args:
            prepare: Verifies, loads and warms up; it runs in the loader's thread.
            interrupt: Ends a `prepare` whose outcome nobody waits for any more, where it can.
        """
        self._prepare, self._interrupt = prepare, interrupt
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="bundle")
        # Now, so that it doesn't inherit what the control loop's thread will be given.
        self._pool.submit(int).result()
        self._future: Future[Outcome] | None = None
        self._asked: Path | None = None

    def request(self, path: Path) -> None:
        """Start loading; an older request whose outcome wasn't taken is dropped.

        Who asks again for what is being loaded has to wait no longer for it.
        """
        if self._future is not None and path == self._asked:
            return
        self.cancel()
        self._asked = path
        self._future = self._pool.submit(self.load, path)

    def cancel(self) -> None:
        """Forget the last request."""
        if self._future is not None and not self._future.cancel():
            self._interrupt()
        self._future = None

    def begin(self, task: Callable[[], object]) -> None:
        """Do something before the first request, in the loader's thread."""
        self._pool.submit(task)

    def poll(self) -> Outcome | None:
        """The outcome of the last request, once."""
        if self._future is None or not self._future.done():
            return None
        future, self._future = self._future, None
        return future.result()

    def load_now(self, path: Path) -> Outcome:
        """Load, and wait for it."""
        return self._pool.submit(self.load, path).result()

    def load(self, path: Path) -> Outcome:
        """Load in the calling thread."""
        try:
            return Outcome(path, self._prepare(path), "")
        except HucrlError as error:
            return Outcome(path, None, shortened(error, LINE))
        except MemoryError:
            return Outcome(path, None, f"{shortened(path)}: there is no memory for it")
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
        trust: Trust,
        planning: Executor,
        poses: PoseBuffer,
        liveness: ProcessLiveness,
    ) -> None:
        """Load for a node.

        Args:
            node: The controller.
            config: Its settings.
            admission: Says which bundles may play, and under which guard.
            trust: Says which may be opened.
            planning: Has the one thread in which all bundles plan.
            poses: Where object and goal are heard of.
            liveness: By which the watchdog is told.
        """
        self.name = ""
        """Path of the bundle in use, from the root: the watchdog may work in another folder."""
        self._node = node
        self._config = config
        self._admission = admission
        self._planning, self._poses = planning, poses
        self._examiner = Examiner(
            trust, config.control, config.mode == "lockstep", filters=admission.filters
        )
        self._loader: BundleLoader = BundleLoader(self._prepare, self._examiner.cancel)
        self._loader.begin(partial(realtime.leave_processors, config.control.cpus))
        self._ready: Outcome | None = None
        self._echo = ToldPublisher(node, String, topics.LOADED_BUNDLE, LATCHED, liveness)
        self._subscription: Subscription[String] | None = None

    def listen(self) -> None:
        """Load what is published on the topic `bundle`, also what was published before."""
        if self._subscription is None:
            self._loader.begin(self._examiner.start)
            self._loader.begin(warm_up)
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
        """Load before this returns; False if the bundle was refused."""
        self._ready = self._loader.load_now(Path(path).absolute())
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
                manifest = loaded.player.bundle.manifest
                loaded.obey(self._admission.accept(outcome.path, manifest, loaded.guard))
            except HucrlError as problem:
                loaded, error = None, shortened(problem, LINE)
        if loaded is None:
            self._node.get_logger().error(f"bundle refused: {error}")
            self._echo.publish(String(data=topics.REFUSED + error), told=False)
            return None
        self.name = str(outcome.path)
        self._node.get_logger().info(f"bundle {self.name}")
        self._echo.publish(String(data=self.name))
        return loaded

    def close(self) -> None:
        """End the loader's thread and the examiner's process."""
        self._loader.cancel()
        self._loader.close()
        self._examiner.close()

    def _on_bundle(self, message: String) -> None:
        self._loader.request(Path(message.data).absolute())

    def _prepare(self, path: Path) -> ControlLoop:
        config = self._config
        found = self._examiner.examine(path)
        manifest, guard = self._admission.admit(path, found)
        if self.name:  # another one plays meanwhile
            realtime.prefer_this_thread(config.control)
        bundle = load_bundle(path, threads=config.control.threads, manifest=found)
        return build_control_loop(
            replace(bundle, manifest=manifest),
            guard,
            config.control,
            self._poses,
            self._planning,
            lockstep=config.mode == "lockstep",
        )
