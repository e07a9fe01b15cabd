"""The process of `hucrl watch`: joins the run's ROS domain, and serves the page."""

import gc
import os
import secrets
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from types import FrameType

import rclpy
from rclpy.context import Context
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import String

from hucrl_ros.config.task_file import beside
from hucrl_ros.errors import RunError, shortened
from hucrl_ros.nodes import realtime, topics
from hucrl_ros.nodes.middleware_health import EventThread, end_deaf
from hucrl_ros.nodes.runner import make_executor
from hucrl_ros.nodes.topics import LATCHED
from hucrl_ros.page.nodes.listener import NAME, Joined
from hucrl_ros.page.page import Page
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import OWN_TOPICS, enclave_of
from hucrl_ros.run.remote.token import made_token
from hucrl_ros.run.session import DISCOVERY, PARENT_VARIABLE, wished_domain

SPIN_S = 0.05
"""[s] Longest time until what is wished is done."""
LOOK_S = 0.5
"""[s] Between two looks at who plays the run."""
MOST_TOLD = 10
"""Folders that are looked at at a time, and that are said not to be followed."""
NOT_PLAYED = "no process of this user plays it in this ROS domain; hucrl watch RUN shows any run"


class Ended:
    """Whether somebody wants this process to end."""

    def __init__(self) -> None:
        self._signalled = False
        self._parent = os.environ.pop(PARENT_VARIABLE, "")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._note)

    def __bool__(self) -> bool:
        return self._signalled or bool(self._parent and os.getppid() != int(self._parent))

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True


def watch(
    root: Path | None, host: str, port: int, token: Path | None, say: Callable[[str], None]
) -> int:
    """Serve the page until a signal comes; returns the exit code.

    Args:
        root: The run's folder; None: the one that is played in the ROS domain that the
            environment names, or the newest one here.
        host: Address to serve on.
        port: 0: any.
        token: File of the token; None: a new one.
        say: Takes lines for the person.

    Raises:
        RunError: there is no such run, or the port is taken.
        ConfigError: the token's file holds none.
    """
    ended = Ended()
    realtime.take_no_processor()  # which the controller needs
    secret = made_token(token) if token else secrets.token_urlsafe(24)
    here = wished_domain(os.environ.get("ROS_DOMAIN_ID"))
    if root is None and here is not None:
        say(f"waiting for a controller in ROS_DOMAIN_ID={here}")
    run = _run(root, here, ended, say)
    if run is None:
        return 0
    if root is None:
        say(f"run      {shortened(run.root)}")
    page = Page(run, host, port, secret)
    for line in page.greeting:
        say(line)
    # What was loaded stays: else collecting what browsers leave behind would look at all of it.
    gc.collect()
    gc.freeze()
    # viser prints a line for each browser of another version: whoever reads our lines may have
    # stopped after the token, and in a full pipe that line would wait with the page, for good.
    with Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        try:
            while not ended:
                _listen(page, here if root is None else None, ended)
        finally:
            page.close()
    return 0


def _listen(page: Page, domain: int | None, ended: Ended) -> None:
    """Join the domain in which the run is played now, and stay as long as it is."""
    found = page.run.player
    if domain is not None and not page.run.played_in(domain):
        domain = None  # Another run may be there by now.
    elif domain is None and found is not None:
        domain = found.domain
        os.environ.setdefault(DISCOVERY, "LOCALHOST")
    if domain is None:
        page.panel.playing = False
        time.sleep(LOOK_S)
        return
    names = {OWN_TOPICS[topic]: other for topic, other in page.described.robot.topics.items()}
    joined = Joined(page.heard, page.wishes, domain, names)
    middleware = EventThread()
    page.panel.playing = True
    try:
        look = time.monotonic()
        while not ended:
            joined.spin(SPIN_S)
            if middleware.stands_still():
                end_deaf("hucrl watch", page.close)
            if time.monotonic() > look:
                look = time.monotonic() + LOOK_S
                if page.run.player != found:
                    return
    finally:
        joined.close()


def _run(
    root: Path | None, domain: int | None, ended: Ended, say: Callable[[str], None]
) -> RunFolder | None:
    """The run to watch; None: a signal came first."""
    if root is not None:
        return RunFolder.open(root)
    if domain is not None:
        return _played_in(domain, ended, say)
    found = sorted(Path("runs").glob("*/config.yaml"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RunError("runs: no run lies there; name one: hucrl watch RUN")
    return RunFolder.open(found[-1].parent)


def _played_in(domain: int, ended: Ended, say: Callable[[str], None]) -> RunFolder | None:
    """The run whose bundle a controller in the domain uses, and that this user plays here.

    Anybody may publish a path, and what lies there would be read, its graphs run.
    """
    told: deque[str] = deque(maxlen=MOST_TOLD)
    refused: set[Path] = set()
    context = Context()
    rclpy.init(
        args=["--ros-args", *enclave_of(NAME)],
        context=context,
        domain_id=domain,
        signal_handler_options=SignalHandlerOptions.NO,
    )
    node = Node(NAME, context=context)
    node.create_subscription(
        String, topics.LOADED_BUNDLE, lambda message: told.append(message.data), LATCHED
    )
    executor = make_executor(context)
    executor.add_node(node)
    try:
        while not ended:
            executor.spin_once(timeout_sec=SPIN_S)
            while told:
                said = told.popleft()
                if said.startswith(topics.REFUSED):
                    continue
                run = RunFolder(beside(Path(said)).parent)
                if run.played_in(domain):
                    return RunFolder.open(run.root)
                if run.root not in refused and len(refused) < MOST_TOLD:
                    refused.add(run.root)
                    say(f"not followed: {shortened(run.root)}: {NOT_PLAYED}")
        return None
    finally:
        executor.shutdown()
        node.destroy_node()
        context.try_shutdown()
