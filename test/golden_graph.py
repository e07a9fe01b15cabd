"""Topics, services and parameters of the running nodes of `hucrl up pendulum`."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import rclpy
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node, NodeNameNonExistentError
from rclpy.parameter import parameter_value_to_python
from rclpy.parameter_client import AsyncParameterClient
from rclpy.signals import SignalHandlerOptions
from waiting import PATIENCE

NODES = ("simulator", "controller", "recorder", "learner", "supervisor", "watchdog")
OWN = "golden_observer"
COMMON = re.compile(
    r"/rosout|/parameter_events|.*/\w+_(parameters(_atomically)?|parameter_types|type_description)"
)
"""Topics and services that every ROS node has."""


def record() -> dict:
    """Everything that nodes were seen to have from their start to the first learning."""
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        with _up(run) as domain, _observer(domain) as observer:
            seen = _Seen(observer)
            deadline = time.monotonic() + PATIENCE
            # Then learning goes on for much longer than the questions below.
            while not (run / "episodes" / "episode_000" / "metadata.yaml").is_file():
                assert time.monotonic() < deadline, "the first episode did not end"
                seen.look()
                time.sleep(0.1)
            seen.look()
            parameters = {name: _parameters(observer, name, run) for name in NODES}
    shared = {
        key: value
        for key, value in parameters["supervisor"].items()
        if all(key in own and own[key] == value for own in parameters.values())
    }
    own = {
        name: {key: value for key, value in values.items() if key not in shared}
        for name, values in parameters.items()
    }
    return {
        "parameters": {"every node": shared, **own},
        "topics": seen.topics,
        "services": seen.services,
    }


@contextmanager
def _up(run: Path):
    """The whole graph; gives its ROS domain."""
    command = ["-m", "hucrl_ros", "up", "pendulum", "--lockstep", "--no-figures", "--out"]
    process = subprocess.Popen(
        [sys.executable, *command, str(run)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=run.parent,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
    )
    try:
        lines = iter(process.stdout.readline, "")
        yield next(int(found[1]) for x in lines if (found := re.search(r"DOMAIN_ID=(\d+)", x)))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


@contextmanager
def _observer(domain: int):
    context = Context()
    options = SignalHandlerOptions.NO
    rclpy.init(args=[], context=context, domain_id=domain, signal_handler_options=options)
    node = Node(OWN, context=context)
    try:
        yield node
    finally:
        node.destroy_node()
        rclpy.try_shutdown(context=context)


class _Seen:
    """Who publishes, hears, offers and calls what, so far."""

    def __init__(self, observer: Node) -> None:
        self._observer = observer
        self.topics: dict[str, dict[str, dict[str, str]]] = {}
        self.services: dict[str, dict[str, dict[str, str]]] = {}

    def look(self) -> None:
        observer = self._observer
        for topic, _ in observer.get_topic_names_and_types():
            if COMMON.fullmatch(topic):
                continue
            ends = {
                "publishers": observer.get_publishers_info_by_topic(topic),
                "subscribers": observer.get_subscriptions_info_by_topic(topic),
            }
            for role, infos in ends.items():
                for end in (info for info in infos if info.node_name in NODES):
                    qos = end.qos_profile
                    text = f"{end.topic_type} {qos.reliability.name} {qos.durability.name}"
                    _add(self.topics, topic, role, end.node_name, text)
        asks = {
            "servers": observer.get_service_names_and_types_by_node,
            "clients": observer.get_client_names_and_types_by_node,
        }
        for role, ask in asks.items():
            for name in NODES:
                try:
                    found = ask(name, "/")
                except NodeNameNonExistentError:  # not yet
                    continue
                for service, (kind,) in found:
                    if not COMMON.fullmatch(service):
                        _add(self.services, service, role, name, kind)


def _add(record: dict, name: str, role: str, node: str, text: str) -> None:
    record.setdefault(name, {}).setdefault(role, {})[node] = text


def _parameters(observer: Node, name: str, run: Path) -> dict[str, object]:
    """Names and values; the run's folder is called RUN."""
    client = AsyncParameterClient(observer, name)
    assert client.wait_for_services(PATIENCE), name
    names = sorted(_answer(observer, client.list_parameters()).result.names)
    values = map(parameter_value_to_python, _answer(observer, client.get_parameters(names)).values)
    return {
        key: value.replace(str(run), "RUN")
        if isinstance(value, str)
        else value
        if isinstance(value, (bool, int, float))
        else list(value)
        for key, value in zip(names, values, strict=True)
    }


def _answer(observer: Node, future):
    executor = SingleThreadedExecutor(context=observer.context)
    rclpy.spin_until_future_complete(observer, future, executor, PATIENCE)
    executor.shutdown()
    assert future.done(), "no answer"
    return future.result()
