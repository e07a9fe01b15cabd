"""Writes an episode so that a killed process loses only the last moment, and repairs one."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import yaml
from mcap.writer import CompressionType, Writer

from hucrl_ros.bags import messages
from hucrl_ros.bags.contents import about, read_contents
from hucrl_ros.bags.messages import Message, RawMessage, deserialize
from hucrl_ros.bags.metadata import (
    FILE_NAME,
    Contents,
    Outcome,
    dump_information,
    dump_metadata,
    qos_profiles,
)
from hucrl_ros.config.files import write_atomically
from hucrl_ros.controller.topics import OWN_NAME, RECORDED, RecordedTopic, is_named
from hucrl_ros.errors import BagError

CHUNK_SIZE = 16 * 1024
"""[bytes] A chunk goes to the file when it is this large ..."""
FLUSH_PERIOD = 0.1
"""[s] ... or when the file is this far behind."""


class EpisodeWriter:
    """A rosbag2 folder with one MCAP file, which `ros2 bag` and Foxglove open.

    `metadata.yaml` appears only when `close` has written everything else, so a folder without
    it is an interrupted recording.
    """

    def __init__(
        self,
        folder: Path,
        topics: Sequence[RecordedTopic] = RECORDED,
        stepped: bool | None = None,
    ) -> None:
        """Create the folder and its file.

        Args:
            folder: A folder that does not exist yet.
            topics: Every topic that can occur, by its resolved name.
            stepped: Whether each joint state is a step; None: not known.

        Raises:
            BagError: the folder exists or can't be written.
        """
        self.folder, self._stepped = folder, stepped
        try:
            folder.mkdir(parents=True)
            self._file = (folder / f"{folder.name}.mcap").open("xb")
        except OSError as error:
            raise BagError(f"{folder}: can't record there: {error.strerror}") from None
        self._writer = Writer(self._file, CHUNK_SIZE, CompressionType.NONE)
        self._writer.start(profile="ros2", library="hucrl_ros")
        self._schemas: dict[str, int] = {}
        self._topics = {topic.name: topic for topic in topics}
        self._counts = dict.fromkeys((topic for topic in topics if not topic.optional), 0)
        self._channels = {topic.name: self._register(topic) for topic in self._counts}
        self._start_ns, self._end_ns = 0, 0
        self.flush()

    @property
    def message_count(self) -> int:
        """Messages written so far."""
        return sum(self._counts.values())

    def write(self, topic: str, message: Message, received_ns: int) -> None:
        """Append a message.

        Args:
            topic: Resolved name of one of the topics.
            message: One of rosbags' messages, of the topic's type.
            received_ns: When it arrived [ns since the epoch].

        Raises:
            BagError: the file can't be written.
        """
        recorded = self._topics[topic]
        data = messages.serialize(message, recorded.type)
        first = self.message_count == 0
        self._start_ns = received_ns if first else min(self._start_ns, received_ns)
        self._end_ns = received_ns if first else max(self._end_ns, received_ns)
        self._counts[recorded] = self._counts.get(recorded, 0) + 1
        if topic not in self._channels:
            self._channels[topic] = self._register(recorded)
        try:
            self._writer.add_message(self._channels[topic], received_ns, data, received_ns)
        except OSError as error:
            raise BagError(f"{self.folder}: {error.strerror}") from None
        if time.monotonic() - self._flushed > FLUSH_PERIOD:
            self.flush()

    def flush(self) -> None:
        """Hand everything so far to the operating system, which outlives this process.

        Raises:
            BagError: the file can't be written.
        """
        try:
            self._writer.flush()
        except OSError as error:
            raise BagError(f"{self.folder}: {error.strerror}") from None
        self._flushed = time.monotonic()

    def close(self, outcome: Outcome = Outcome.FINISHED, name: str | None = None) -> Path:
        """Write the index and `metadata.yaml`; nothing can be written afterwards.

        Args:
            outcome: What `metadata.yaml` says of the recording.
            name: The folder's name from now on; None: as it is. It is renamed before
                `metadata.yaml` appears, so the old name never holds a whole bag.

        Returns:
            The folder.

        Raises:
            BagError: the file can't be written.
        """
        contents = Contents(
            file_name=Path(self._file.name).name,
            counts=self._counts,
            start_ns=self._start_ns,
            end_ns=self._end_ns,
            outcome=outcome,
            stepped=self._stepped,
        )
        try:
            with self._file:
                information = {"serialized_metadata": dump_information(contents)}
                self._writer.add_metadata("rosbag2", information)
                self._writer.finish()
                self._file.flush()
                os.fsync(self._file.fileno())
            if name is not None:
                self.folder = self.folder.rename(self.folder.with_name(name))
            write_atomically(self.folder / FILE_NAME, dump_metadata(contents))
        except OSError as error:
            raise BagError(f"{self.folder}: {error.strerror}") from None
        return self.folder

    def abandon(self) -> None:
        """Close the file as it is, without index and `metadata.yaml`."""
        with suppress(OSError):  # a full disk, which is why it is abandoned
            self._file.close()

    def _register(self, topic: RecordedTopic) -> int:
        if topic.type not in self._schemas:
            definition = messages.definition(topic.type).encode()
            schema = self._writer.register_schema(topic.type, "ros2msg", definition)
            self._schemas[topic.type] = schema
        profiles = yaml.safe_dump(qos_profiles(topic.latched), sort_keys=False)
        metadata = {
            "offered_qos_profiles": profiles,
            "topic_type_hash": messages.type_hash(topic.type),
        }
        if topic.own and not is_named(topic.name, topic.own):
            metadata[OWN_NAME] = topic.own
        return int(
            self._writer.register_channel(topic.name, "cdr", self._schemas[topic.type], metadata)
        )


def repair(path: Path) -> Path:
    """Copy what is readable of a cut-off bag into a whole one next to it.

    The original stays as it is, and the copy has a name of its own, so that an interrupted
    episode never passes for a finished one.

    Args:
        path: The bag's folder or its MCAP file.

    Returns:
        The new folder, `<name>_repaired`.

    Raises:
        BagError: nothing is readable, nothing is missing, a message is of a type that nobody
            here knows, or the new folder exists.
    """
    contents = read_contents(path)
    if contents.whole and (path / FILE_NAME).exists():
        raise BagError(f"{path}: is whole, so there is nothing to repair")
    if not contents.messages:
        raise BagError(f"{path}: holds no whole message, so there is nothing to save")
    topics = {
        message.topic: RecordedTopic(
            message.topic, message.type, _is_latched(message), own=message.own
        )
        for message in contents.messages
    }
    with about(path):  # Before there is a folder, as one that is half-made bars the next attempt.
        read = [deserialize(message.data, message.type) for message in contents.messages]
    name = f"{path.stem if path.is_file() else path.name}_repaired"
    writer = EpisodeWriter(path.with_name(name), tuple(topics.values()))
    for message, content in zip(contents.messages, read, strict=True):
        writer.write(message.topic, content, message.received_ns)
    return writer.close(Outcome.INTERRUPTED)


def _is_latched(message: RawMessage) -> bool:
    return any(message.is_of(known.name) and known.latched for known in RECORDED)
