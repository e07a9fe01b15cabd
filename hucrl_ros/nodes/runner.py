"""How every node's process starts, spins and ends.

Two quirks of the executor used here (measured with rclpy 9.1): subscription callbacks take the
message alone (with a second argument for the message info it raises SystemError), and an
exception in a callback is logged with its traceback before it gets here. So a node that wants
to end sets `exit_code` instead of raising.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Protocol

import rclpy
from rclpy.context import Context
from rclpy.exceptions import InvalidParameterException
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.utilities import remove_ros_args

from hucrl_ros.errors import ConfigError, HucrlError, one_line
from hucrl_ros.nodes.middleware_health import EventThread, end_deaf
from hucrl_ros.nodes.transport import avoid_shared_memory

PARENT_VARIABLE = "HUCRL_PARENT_PID"
"""A node whose environment names its parent's PID here stops when that parent is gone."""
WAKE_PERIOD = 0.1
"""[s] Longest time without a look at signals and the parent."""


class RunnableNode(Protocol):
    """What `run_node` needs of a node, which is an `rclpy.node.Node` besides."""

    exit_code: int | None
    """Set by the node when it wants its process to end with this code; None before."""

    def close(self) -> None:
        """Finish before the node is destroyed: send a safe command, close a bag."""

    def destroy_node(self) -> None:
        """Inherited from `rclpy.node.Node`."""


class _StopSignal:
    """Remembers SIGINT or SIGTERM, which `rclpy` must not handle in the middle of a callback."""

    def __init__(self) -> None:
        self.number: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.number = number

    def ignore_further(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


def run_node(factory: Callable[[], RunnableNode], args: Sequence[str] | None = None) -> int:
    """Build a node and run it until a signal, its own wish, or its parent's end.

    Args:
        factory: The node's class.
        args: Command line without the program's name; None: that of this process.

    Returns:
        The process's exit code: 0 after a signal, 2 for bad settings, 1 for any other error
        that a user can cause, and the node's own `exit_code` if it set one.
    """
    arguments = list(sys.argv[1:] if args is None else args)
    parent = os.environ.pop(PARENT_VARIABLE, "")
    stop = _StopSignal()
    logging.basicConfig(format="[%(levelname)s] [%(name)s]: %(message)s")
    logging.getLogger("hucrl_ros").setLevel(logging.INFO)
    try:
        _initialise(arguments)
        node = _build(factory)
    except HucrlError as error:
        _complain(factory, error)
        rclpy.try_shutdown()
        return 2 if isinstance(error, ConfigError) else 1
    executor = make_executor()
    assert isinstance(node, Node)
    executor.add_node(node)
    try:
        return _spin(node, executor, stop, parent)
    except HucrlError as error:
        _complain(factory, error)
        return 1
    finally:
        stop.ignore_further()
        node.close()
        executor.shutdown()
        node.destroy_node()
        rclpy.try_shutdown()


def make_executor(context: Context | None = None) -> Executor:
    """The executor with the shortest round trip that this rclpy has."""
    try:
        from rclpy.experimental import EventsExecutor
    except ImportError:
        return SingleThreadedExecutor(context=context)
    return EventsExecutor(context=context)


def _initialise(arguments: list[str]) -> None:
    avoid_shared_memory(os.environ, rclpy.get_rmw_implementation_identifier())
    try:
        unknown = remove_ros_args(["node", *arguments])[1:]
        rclpy.init(args=arguments, signal_handler_options=SignalHandlerOptions.NO)
    except RuntimeError as error:  # the base of what rcl raises
        raise ConfigError(f"ROS arguments {' '.join(arguments)!r}: {one_line(error)}") from None
    if unknown:
        raise ConfigError(
            f"unknown argument {unknown[0]!r}; settings are passed as "
            "--ros-args -p NAME:=VALUE or --ros-args --params-file FILE"
        )


def _build(factory: Callable[[], RunnableNode]) -> RunnableNode:
    try:
        return factory()
    except InvalidParameterException as error:
        raise ConfigError(one_line(error)) from None
    except RuntimeError as error:  # the base of what rcl raises
        if os.environ.get("ROS_SECURITY_ENABLE") != "true":
            raise
        raise ConfigError(f"ROS_SECURITY_ENABLE=true: {one_line(error)}") from None
    except ValueError as error:
        if "PARAMETER_NOT_SET" not in str(error):
            raise
        raise ConfigError(
            "a parameter is null or an empty list, whose type ROS can't tell; leave it out"
        ) from None


def _spin(node: RunnableNode, executor: Executor, stop: _StopSignal, parent: str) -> int:
    middleware = EventThread()
    try:
        while stop.number is None and node.exit_code is None:
            if middleware.stands_still():
                end_deaf(type(node).__name__.lower(), node.close)
            if parent and os.getppid() != int(parent):
                logging.getLogger(__name__).warning("process %s has ended; so do I", parent)
                return 1
            executor.spin_once(timeout_sec=WAKE_PERIOD)
    except (KeyboardInterrupt, ExternalShutdownException):
        return 0
    return node.exit_code or 0


def _complain(factory: Callable[[], RunnableNode], error: Exception) -> None:
    name = getattr(factory, "__name__", "node").lower()
    sys.stderr.write(f"{name}: {one_line(error)}\n")
