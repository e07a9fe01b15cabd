"""The page: a server, the live scene, panels, and what each browser has of its own."""

import socket
from contextlib import redirect_stdout
from io import StringIO

import viser

from hucrl_ros.config.task_file import Description
from hucrl_ros.errors import RunError
from hucrl_ros.page.heard import Heard
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.live import Live
from hucrl_ros.page.look import BRAND
from hucrl_ros.page.panel import Panel
from hucrl_ros.page.past import Past
from hucrl_ros.page.stage import set_stage
from hucrl_ros.page.visitors import Visitors
from hucrl_ros.page.wishes import Wishes
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class LocalServer(viser.ViserServer):
    """A server that no browser can have published by viser's relay on the internet."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Any browser may ask for it; nothing leaves this machine."""
        return None


class Page:
    """Serves until it is closed; ROS fills `heard` and obeys `wishes`."""

    def __init__(self, run: RunFolder, host: str, port: int, token: str) -> None:
        """Begin to serve.

        Args:
            run: What is watched.
            host: Address.
            port: 0: any.
            token: Whoever enters it may control the run.

        Raises:
            RunError: the port is taken.
            ConfigError: the run's robot can't be drawn.
        """
        config = run.config
        self.run = run
        self.described: Description = describe(config.task, run.robot)
        lockstep = config.mode == "lockstep"
        self.heard = Heard(
            self.described.robot.spec,
            None if lockstep else config.driver,
            config.planner.algorithm != "policy",
            None if lockstep else self.described.robot.period,
        )
        self.wishes = Wishes()
        self._host, self._token = host, token
        _check_port(host, port)
        with redirect_stdout(StringIO()):  # it would print a table of its own
            self._server = LocalServer(host=host, port=port, label="hucrl", verbose=False)
        self._server.gui.configure_theme(
            show_logo=False, show_share_button=False, brand_color=BRAND
        )
        set_stage(self._server, Kinematics(self.described))
        past = Past(run, self.described)
        self._live = Live(self._server, self.described, self.heard, run.bundles)
        self.panel = Panel(self._server, self.described, past, self.heard, self._live)
        self._visitors = Visitors(
            self._server, self.described, past, self.heard, self.wishes, token
        )

    @property
    def greeting(self) -> list[str]:
        """Lines for the terminal, the token last."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        address = f"http://{host}:{self._server.get_port()}/"
        lines = [f"page     {address}"]
        if self._host not in LOOPBACK:
            lines.append(
                f"warning: whoever reaches {self._host} sees this run, and nothing is encrypted, "
                "the token neither"
            )
        return [*lines, f"token    {self._token}"]

    def close(self) -> None:
        """Serve no longer."""
        self._visitors.close()
        self.panel.close()
        self._live.close()
        with redirect_stdout(StringIO()):
            self._server.stop()


def _check_port(host: str, port: int) -> None:
    """Look first: where a port is taken, viser would take another one and not say so."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise RunError(f"--host {host} --port {port}: {error.strerror}") from None
