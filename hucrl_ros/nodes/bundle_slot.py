"""The bundle that the controller plays, and how another one takes its place."""

import math
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

from rclpy.node import Node
from rclpy.subscription import Subscription
from std_msgs.msg import String

from hucrl_ros.config.files import override
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.admission import admit
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.control_loop import ControlLoop
from hucrl_ros.controller.guard import Guard
from hucrl_ros.controller.latency import DelayCompensation
from hucrl_ros.controller.state_reader import StateReader, Surroundings
from hucrl_ros.controller.watch import outage_limit
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.bundle_loader import BundleLoader, Outcome
from hucrl_ros.nodes.parameters import given_settings, origin, robot_of_run
from hucrl_ros.nodes.qos import LATCHED


class BundleSlot:
    """Loads bundles named by a parameter or on the topic `bundle`, and echoes what became of it.

    Settings come from the bundle's manifest; the node's parameters `planner.*` and `safety.*`
    replace them where they are given.
    """

    def __init__(
        self, node: Node, config: Config, planning: Executor, surroundings: Surroundings
    ) -> None:
        """Load for a node.

        Args:
            node: The controller.
            config: Its settings.
            planning: Has the one thread in which all bundles plan.
            surroundings: Where object and goal are heard of.
        """
        self.name = ""
        """Path of the bundle in use."""
        self.safety = config.safety
        """Safety settings in use."""
        self._node = node
        self._config = config
        self._planning, self._surroundings = planning, surroundings
        self._given = given_settings(node, "planner", "safety")
        self._robot = robot_of_run(node, config.task)
        self._guard: Guard | None = None
        self._loader: BundleLoader[ControlLoop] = BundleLoader(self._prepare)
        self._ready: Outcome[ControlLoop] | None = None
        self._echo = node.create_publisher(String, topics.LOADED_BUNDLE, LATCHED)
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
        if outcome.loaded is None:
            self._node.get_logger().error(f"bundle refused: {outcome.error}")
            self._echo.publish(String(data=f"error: {outcome.error}"))
            return None
        self.name = str(outcome.path)
        self._guard = outcome.loaded.guard
        self.safety = self._guard.safety
        self._node.get_logger().info(f"bundle {self.name}")
        self._echo.publish(String(data=self.name))
        return outcome.loaded

    def close(self) -> None:
        """End the loader's thread."""
        self._loader.close()

    def _on_bundle(self, message: String) -> None:
        self._loader.request(Path(message.data))

    def _prepare(self, path: Path) -> ControlLoop:
        config = self._config
        bundle = load_bundle(path, threads=config.control.threads)
        manifest = override(bundle.manifest, self._given, f"{path} with {origin(self._node)}")
        spec, safety = manifest.spec, manifest.safety
        guard = admit(path, manifest, config.task, safety, self._robot, self._guard)
        bundle = replace(bundle, manifest=manifest)
        control, compensation, outage_s = config.control, None, math.inf
        pose_periods = 0.0 if config.mode == "lockstep" else safety.stale_periods
        reader = StateReader(spec, self._surroundings, pose_periods)
        if config.mode == "lockstep":  # physics waits: no hurry, and no delay
            agent = Agent(bundle, None, engine=control.engine, threads=control.threads)
        else:
            budget_s = control.budget * manifest.period
            agent = Agent(
                bundle,
                budget_s,
                executor=self._planning,
                engine=control.engine,
                threads=control.threads,
            )
            compensation = DelayCompensation(manifest.period, spec.action_dim, control)
            outage_s = outage_limit(safety, manifest.period)
        agent.warm_up()
        return ControlLoop(
            spec,
            manifest.steps,
            agent,
            guard,
            compensation=compensation,
            reader=reader,
            outage_s=outage_s,
        )
