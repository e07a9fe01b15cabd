"""A run with a learned bundle, its server on a free port of this machine, and a client."""

import shutil
import socket
from contextlib import contextmanager
from http.client import HTTPConnection

import numpy as np
from bundle_factory import PLANNER, fields, learned
from fabricated_run import play_random, record

from hucrl_ros.config.schema import Config
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.remote.client import RobotClient
from hucrl_ros.run.remote.exchange import Exchange
from hucrl_ros.run.remote.server import RunServer

TOKEN = "t" * 32
CONFIG = Config(episodes=2, planner=PLANNER)


def write_bundle(folder, episode, **changes):
    """A bundle of untrained networks that fits `CONFIG`."""
    random = episode < CONFIG.exploration.random_episodes
    given = {"episode": episode, "random": random, "safety": CONFIG.safety, **changes}
    learned().exporter.write(folder, fields(**given), None)
    return folder


def new_run(root):
    """A run whose first bundle hasn't come yet."""
    return RunFolder.create(root, CONFIG, describe("pendulum"))


def play(run):
    """Record the next episode."""
    rng = np.random.default_rng(run.finished_episodes())
    states, actions = play_random(rng)
    record(run.bag(run.finished_episodes()), states[:41], actions[:40], np.ones(40))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pair:
    """The robot's side of `run`, and who may speak to it."""

    def __init__(self, run, port=None):
        self.run, self.port = run, port or free_port()
        self.exchange = Exchange(run, run.config, describe("pendulum", run.robot))
        self.server = RunServer("127.0.0.1", self.port, self.exchange, TOKEN)
        self.server.start()
        self.url = f"http://127.0.0.1:{self.port}"
        self.client = RobotClient(self.url, TOKEN)

    def ask(self, method, path, body=b"", token=TOKEN, **headers):
        """Status, headers and content of an answer; `__` in a header's name stands for a line."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=90)
        given = {key.replace("__", "-"): value for key, value in headers.items()}
        if token is not None:
            given["Authorization"] = f"Bearer {token}"
        connection.request(method, path, body, given)
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, response.headers, content

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def pair(run, port=None):
    both = Pair(run, port)
    try:
        yield both
    finally:
        both.close()


def half_of(source, target):
    """What a transfer that broke off leaves."""
    target.parent.mkdir(parents=True, exist_ok=True)
    content = source.read_bytes()
    target.write_bytes(content[: len(content) // 2])
    return len(content) // 2


def files_in(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def copy_of(run, root):
    shutil.copytree(run.root, root)
    return RunFolder(root)
