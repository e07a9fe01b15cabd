"""What the watchdog hears of the controller, and whom it believes."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rclpy.node import Node
from rclpy.qos import QoSProfile
from rclpy.serialization import deserialize_message, serialize_message
from std_msgs.msg import Float64MultiArray

from hucrl_ros.controller.watch import LABEL
from hucrl_ros.nodes import topics
from hucrl_ros.nodes.process_liveness import ProcessWatcher, liveness_name
from hucrl_ros.nodes.topics import STREAM

Take = Callable[[Any], None]
ON_THE_WAY = 100
"""Commands that the controller has told and DDS hasn't brought yet; as deep as `STREAM`."""


class ControllerWords:
    """Hears the controller by DDS, and by its process where that is on this machine.

    Anybody who reaches DDS can publish what a controller publishes. So, from the moment at which
    a controller's process was met on this machine, only what that one tells counts, and a message
    by DDS is no more than a reason to listen. A command counts as sent when the process has told
    it *and* DDS has brought it. A controller on another machine is believed by DDS.
    """

    ended = False
    """The controller's process has ended; whoever listens may forget it."""
    local = False
    """A controller's process was met on this machine."""

    def __init__(
        self,
        node: Node,
        words: Sequence[tuple[Any, str, Take, QoSProfile]],
        sent: Callable[[NDArray[np.float64]], None],
        arrived: Callable[[bool], None],
        met: Callable[[], None],
    ) -> None:
        """Listen for a node.

        Args:
            node: The watchdog.
            words: Message type, topic, callback and delivery of what the controller says.
            sent: Takes a command `(q,)` that the controller has sent.
            arrived: Is told of a command that came by DDS, and whether the controller sent it.
            met: Called before the first word of a process: what was believed before is nothing.
        """
        self._words = {topic: (kind, take) for kind, topic, take, _ in words}
        self._words[topics.COMMANDS] = (Float64MultiArray, self._on_told)
        self._sent, self._arrived, self._met = sent, arrived, met
        self._told: deque[bytes] = deque(maxlen=ON_THE_WAY)
        for kind, topic, take, qos in words:
            node.create_subscription(kind, topic, self._by_dds(take), qos)
        node.create_subscription(Float64MultiArray, topics.COMMANDS, self._on_command, STREAM)
        active = node.resolve_topic_name(topics.ACTIVE)
        self._heard: deque[tuple[str, bytes]] = deque()
        self._process = ProcessWatcher(liveness_name(node.context.get_domain_id(), active))

    @property
    def connected(self) -> bool:
        """Whether the controller's process is being watched."""
        return self._process.connected

    @property
    def stopped(self) -> bool:
        """Whether the controller's process was stopped when `listen` was called last."""
        return self._process.stopped

    def listen(self) -> None:
        """Hear what the controller's process has told since; to be called often."""
        if not self.connected and self._process.connect() and not self.local:
            self.local = True
            self._met()
        ended = self._process.ended()
        self._heard.extend(self._process.heard())
        try:  # Whatever becomes of one word, the end and, at the next call, the others count.
            while self._heard:
                topic, raw = self._heard.popleft()
                if topic in self._words:
                    kind, take = self._words[topic]
                    take(deserialize_message(raw, kind))
        finally:
            self.ended = self.ended or ended

    def tell(self, command: Float64MultiArray) -> None:
        """Tell the controller's process what will be sent in its place."""
        self._process.tell(topics.COMMANDS, serialize_message(command))

    def close(self) -> None:
        """Listen no longer."""
        self._process.close()

    def _by_dds(self, take: Take) -> Take:
        def hear(message: object) -> None:
            self.listen()
            if not self.local:
                take(message)

        return hear

    def _on_told(self, message: Float64MultiArray) -> None:
        self._told.append(message.data.tobytes())
        self._sent(np.array(message.data))

    def _on_command(self, message: Float64MultiArray) -> None:
        if message.layout.dim and message.layout.dim[0].label == LABEL:
            return
        self.listen()
        if not self.local:
            command = np.array(message.data)
            known = bool(np.isfinite(command).all())
            if known:
                self._sent(command)
            self._arrived(known)
            return
        data = message.data.tobytes()
        known = data in self._told
        while known and self._told.popleft() != data:
            pass  # DDS keeps their order, so it has lost this one
        self._arrived(known)
