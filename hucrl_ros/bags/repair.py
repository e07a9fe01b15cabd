"""Makes a whole bag of one that a killed recorder left behind."""

from pathlib import Path

from hucrl_ros.bags.contents import RawMessage, read_contents
from hucrl_ros.bags.messages import deserialize
from hucrl_ros.bags.metadata import Outcome
from hucrl_ros.bags.writer import EpisodeWriter
from hucrl_ros.controller.topics import RECORDED, RecordedTopic
from hucrl_ros.errors import BagError


def repair(path: Path) -> Path:
    """Copy what is readable of a cut-off bag into a whole one next to it.

    The original stays as it is, and the copy has a name of its own, so that an interrupted
    episode never passes for a finished one.

    Args:
        path: The bag's folder or its MCAP file.

    Returns:
        The new folder, `<name>_repaired`.

    Raises:
        BagError: nothing is readable, or the new folder exists.
    """
    contents = read_contents(path)
    if not contents.messages:
        raise BagError(f"{path}: holds no whole message, so there is nothing to save")
    topics = {
        message.topic: RecordedTopic(
            message.topic, message.type, _is_latched(message), own=message.own
        )
        for message in contents.messages
    }
    name = f"{path.stem if path.is_file() else path.name}_repaired"
    writer = EpisodeWriter(path.with_name(name), tuple(topics.values()))
    for message in contents.messages:
        writer.write(message.topic, deserialize(message.data, message.type), message.received_ns)
    return writer.close(Outcome.INTERRUPTED)


def _is_latched(message: RawMessage) -> bool:
    return any(message.is_of(known.name) and known.latched for known in RECORDED)
