"""A dead man's handle for whoever moves a robot: sends zeros when that process falls silent.

It is for efforts and velocities. The mover (`hucrl check --move`, or the node `homing`) starts it
and writes a byte to its standard input again and again. When none comes, zeros are sent until one
does; when the mover ends, whatever ended it, the kernel closes the pipe, and zeros are the last
thing that is sent. It answers those bytes, so that the mover stops where nobody would stop it.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import rclpy
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from std_msgs.msg import Float64MultiArray

from hucrl_ros.nodes import topics
from hucrl_ros.nodes.topics import ARRIVAL_WAIT, STREAM
from hucrl_ros.nodes.transport import avoid_shared_memory

NAME = "hucrl_stop"
PATIENCE_S = 0.25
"""[s] Without a byte."""
AGAIN_S = 0.02
"""[s] Between two commands of zero effort."""
LAST = 10
"""Commands of zero effort at the end: what the mover sent before may be on its way."""
ANSWER_S = 2.0
"""[s] For it to answer. DDS is known to have hung, and what hangs sends no zeros."""
END_S = 3.0
"""[s] For it to end."""
_MET, _ANSWER = b".", b"+"


class Stopper:
    """The mover's end of the pipe."""

    def __init__(self, efforts: int) -> None:
        """Start the process; it takes a second until it is ready.

        Args:
            efforts: Length q of a command; topics are those of this process.
        """
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hucrl_ros.nodes.stopper", str(efforts), *sys.argv[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C on the terminal is not for it
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._met, self._silence, self._held = 0, 0.0, time.monotonic()

    def meets(self, listeners: int) -> bool:
        """Whether so many would hear it, the robot among them: as many as hear the mover."""
        self._hear()
        return 0 < listeners <= self._met

    def hold(self) -> bool:
        """Keep it from acting for a moment; False: it has ended, or doesn't answer."""
        assert self._process.stdin is not None
        now = time.monotonic()
        # Whatever held this process up may have held up the other as well.
        self._silence += min(now - self._held, PATIENCE_S)
        self._held = now
        self._hear()
        if self._met and self._silence > ANSWER_S:
            return False
        try:
            os.write(self._process.stdin.fileno(), b".")
        except BlockingIOError:  # it starts, and nobody reads yet
            return True
        except OSError:
            return False
        return self._process.poll() is None

    def _hear(self) -> None:
        """Take in whom it has met, and whether it has answered."""
        assert self._process.stdout is not None
        if select.select([self._process.stdout], [], [], 0.0)[0]:
            said = os.read(self._process.stdout.fileno(), 4096)
            met = said.count(_MET)
            if _ANSWER in said or (met and not self._met):  # until then it starts
                self._silence = 0.0
            self._met += met

    def dismiss(self) -> None:
        """Let it end at once and send nothing: somebody else commands the robot now."""
        self._process.kill()
        self._process.wait()

    def release(self) -> None:
        """Let it send zero effort and end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()


def main() -> int:
    """Run the node, for commands of as many efforts as the first argument says."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the pipe's end is what ends it
    avoid_shared_memory(os.environ, rclpy.get_rmw_implementation_identifier())
    rclpy.init(args=sys.argv[2:], signal_handler_options=SignalHandlerOptions.NO)
    node = Node(NAME)
    publisher = node.create_publisher(Float64MultiArray, topics.COMMANDS, STREAM)
    zero = Float64MultiArray(data=[0.0] * int(sys.argv[1]))
    os.set_blocking(sys.stdout.fileno(), False)  # a mover that hangs must not hold it up
    met, limit = 0, AGAIN_S
    while True:
        heard = select.select([sys.stdin], [], [], limit)[0]
        if heard and not os.read(sys.stdin.fileno(), 4096):
            break
        before, met = met, max(met, publisher.get_subscription_count())
        with suppress(OSError):  # The mover may have ended just now, or hear nothing.
            os.write(sys.stdout.fileno(), _MET * (met - before) + _ANSWER * len(heard))
        if before and not heard:
            publisher.publish(zero)
            limit = AGAIN_S
        elif met:
            limit = PATIENCE_S
    for _ in range(LAST):
        publisher.publish(zero)
        time.sleep(AGAIN_S)
    publisher.wait_for_all_acked(ARRIVAL_WAIT)
    node.destroy_node()
    rclpy.try_shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
