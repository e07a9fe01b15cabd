"""How messages travel: by UDP alone, between processes of one machine, too.

Fast DDS would take shared memory there. Its queues are guarded by locks that lie in that memory
and know nothing of their owner: a process that is stopped or killed while it holds one keeps it,
and whoever sends to, or hears from, the same process then waits for a second (measured: once in
200 stops, the watchdog among those who wait). Through a socket nobody waits for anybody; messages
of this size take as long either way.

And writers ask every 100 ms, not every 3 s, whether all have what they sent: who waits for that
(in lockstep, each end of an episode) waits no longer, and what got lost is sent again as soon.
"""

import logging
from collections.abc import Mapping, MutableMapping

from hucrl_ros.config.files import share_directory

logger = logging.getLogger(__name__)

RANGE = "ROS_AUTOMATIC_DISCOVERY_RANGE"
ONLY_LOCAL = "ROS_LOCALHOST_ONLY"
"""What older releases of ROS have for the range LOCALHOST; it goes before that."""
PEERS = "ROS_STATIC_PEERS"
TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
UDP = "UDPv4"
FILES = ("udp.xml", "udp_network.xml")
"""Profiles for the range LOCALHOST, and for every other one."""
PROFILES = "FASTDDS_DEFAULT_PROFILES_FILE"
OWN = (PROFILES, "FASTRTPS_DEFAULT_PROFILES_FILE", TRANSPORTS)
"""Where somebody has set one of these, transports are theirs."""


def avoid_shared_memory(environment: MutableMapping[str, str], middleware: str) -> None:
    """Have Fast DDS send by UDP; to be called before ROS is initialised.

    Who is heard stays as it was. In the range LOCALHOST, ROS's middleware would bring shared
    memory itself, whatever is set; so Fast DDS is told that range by a profile of ours.

    Args:
        environment: This process's variables, which are changed.
        middleware: Name of the ROS middleware; others than Fast DDS are left alone.
    """
    loopback, network = (str(share_directory() / "config" / name) for name in FILES)
    theirs = {environment.get(name) for name in OWN} - {None, "", loopback, network, UDP}
    if theirs or "fastrtps" not in middleware:
        return
    told = environment.get(PROFILES) == loopback  # by the process that has started this one
    only_local = environment.get(ONLY_LOCAL) == "1"
    if not told and not only_local and environment.get(RANGE, "").upper() != "LOCALHOST":
        environment[TRANSPORTS] = UDP
        environment[PROFILES] = network
    elif environment.get(PEERS) and not only_local:
        logger.warning(
            "%s=LOCALHOST with %s: messages travel through shared memory, where a process that is "
            "stopped can hold up others for a second; %s=SUBNET avoids that",
            *(RANGE, PEERS, RANGE),
        )
    else:
        environment.pop(ONLY_LOCAL, None)
        environment[RANGE] = "SYSTEM_DEFAULT"
        environment[PROFILES] = loopback


def announces_as_usual(environment: Mapping[str, str]) -> bool:
    """Whether Fast DDS announces a process every 3 s: no profile of somebody else's is set."""
    ours = {str(share_directory() / "config" / name) for name in FILES}
    set_ = {environment.get(name) for name in OWN if name != TRANSPORTS}
    return set_ <= {None, "", *ours}
