"""An episode being recorded into a run: where it goes and what it is called in the end."""

from collections.abc import Mapping
from pathlib import Path

from hucrl_ros.bags.messages import Message, deserialize, stamp_ns, to_tick
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.bags.writer import EpisodeWriter
from hucrl_ros.controller.topics import ACTIVE, JOINT_STATES, OBJECT_POSE, RECORDED, TICKS
from hucrl_ros.errors import BagError
from hucrl_ros.run.folder import RunFolder


class Recording:
    """The bag of a run's next episode.

    Only `finish` leaves it under the episode's name with its `metadata.yaml`, which is what
    `RunFolder.finished_episodes` counts. Anything else leaves it under a name of its own.
    """

    def __init__(self, run: RunFolder, names: Mapping[str, str], stepped: bool) -> None:
        """Open the bag; what a killed recorder left in its place is kept under another name.

        Args:
            run: The run.
            names: Relative names of the recorded topics to the names they resolved to.
            stepped: Whether each joint state is a step, as in lockstep.

        Raises:
            BagError: the folder can't be written.
        """
        self.episode = run.finished_episodes()
        self._run = run
        folder = run.bag(self.episode)
        try:
            if folder.exists():
                folder.rename(run.next_unfinished_name(self.episode))
        except OSError as error:
            raise BagError(f"{folder}: can't be moved away: {error.strerror}") from None
        self._topics = {
            t.name: t._replace(name=names.get(t.name, t.name), own=t.name) for t in RECORDED
        }
        self._writer = EpisodeWriter(folder, tuple(self._topics.values()), stepped)
        self._newest_tick_ns = -1
        self._newest_ns = {JOINT_STATES: -1}
        """Newest stamp of each topic that tells states."""
        self.controller_active = False
        """The controller said that it is active, and never that it ended."""

    @property
    def folder(self) -> Path:
        """Where it is recorded."""
        return self._writer.folder

    @property
    def message_count(self) -> int:
        """Messages recorded so far."""
        return self._writer.message_count

    @property
    def complete(self) -> bool:
        """The controller has ended, and the state that its last command led to is recorded."""
        return not self.controller_active and (
            self._newest_tick_ns < 0 or min(self._newest_ns.values()) > self._newest_tick_ns
        )

    def add(self, name: str, data: bytes, received_ns: int) -> None:
        """Record a message in CDR, as received; see `write`, and `deserialize`."""
        self.write(name, deserialize(data, self._topics[name].type), received_ns)

    def write(self, name: str, message: Message, received_ns: int) -> None:
        """Record a message.

        Args:
            name: Relative name of the topic.
            message: One of rosbags' messages.
            received_ns: When it arrived [ns since the epoch].

        Raises:
            MessageError: it is a tick that no controller sends, and would spoil the bag.
            BagError: the file can't be written.
        """
        if name in (JOINT_STATES, OBJECT_POSE):
            newest = self._newest_ns.get(name, -1)
            self._newest_ns[name] = max(newest, stamp_ns(message.header))
        elif name == TICKS:
            self._newest_tick_ns = max(self._newest_tick_ns, to_tick(message).stamp_ns)
        elif name == ACTIVE:
            self.controller_active = bool(message.data)
            if message.data:  # The clock may have started again with the reset before it.
                self._newest_ns = dict.fromkeys(self._newest_ns, -1)
        self._writer.write(self._topics[name].name, message, received_ns)

    def flush(self) -> None:
        """Let the file catch up; to be called now and then while nothing arrives.

        Raises:
            BagError: the file can't be written.
        """
        self._writer.flush()

    def finish(self) -> Path:
        """Close the bag of an episode that is over; returns its folder.

        Raises:
            BagError: the file can't be written.
        """
        return self._writer.close(Outcome.FINISHED)

    def interrupt(self) -> Path:
        """Close the bag of an episode that was not played to its end; returns its folder.

        Raises:
            BagError: the file can't be written.
        """
        name = self._run.next_unfinished_name(self.episode).name
        return self._writer.close(Outcome.INTERRUPTED, name)

    def abandon(self) -> None:
        """Leave the bag as a killed recorder would: cut off, under the episode's name."""
        self._writer.abandon()
