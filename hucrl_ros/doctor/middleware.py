"""Whether two processes on this machine hear each other through DDS."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping

from hucrl_ros.doctor.finding import Finding
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.session import Domain, wished_domain

PROBE = "hucrl_ros.doctor.nodes.probe"
TIMEOUT_S = 60.0
"""[s] For starting both processes and their exchange; the probe itself gives up after 30 s."""
_SEEN = (
    "ROS_DOMAIN_ID",
    "RMW_IMPLEMENTATION",
    "ROS_AUTOMATIC_DISCOVERY_RANGE",
    "ROS_LOCALHOST_ONLY",
    "ROS_DISCOVERY_SERVER",
    "FASTRTPS_DEFAULT_PROFILES_FILE",
    "FASTDDS_DEFAULT_PROFILES_FILE",
    "CYCLONEDDS_URI",
)


def check_environment() -> Finding:
    """Environment variables that change who hears whom."""
    values = {name: os.environ[name] for name in _SEEN if os.environ.get(name)}
    found = ", ".join(f"{name}={value}" for name, value in values.items()) or "nothing set"
    try:
        wished_domain(values.get("ROS_DOMAIN_ID"))
    except ConfigError as error:
        return Finding.fault(found, str(error))
    return Finding.ok(found)


def check_dds() -> Finding:
    """A message goes to another process and comes back, on loopback, in a domain of its own."""
    try:
        domain = Domain()
    except RunError as error:
        return Finding.fault(str(error), "end runs that nobody needs")
    with domain, tempfile.TemporaryDirectory(prefix="hucrl-doctor-") as logs:
        environment = {
            **{name: value for name, value in os.environ.items() if name != "ROS_LOCALHOST_ONLY"},
            "ROS_DOMAIN_ID": str(domain.number),
            "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST",
            "ROS_LOG_DIR": logs,
            "HUCRL_PARENT_PID": str(os.getpid()),
        }
        return _exchange(environment)


def _exchange(environment: Mapping[str, str]) -> Finding:
    answering = subprocess.Popen(
        [sys.executable, "-m", PROBE, "answer"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        asking = subprocess.run(
            [sys.executable, "-m", PROBE, "ask"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _silent(f"no answer within {TIMEOUT_S:.0f} s")
    finally:
        answering.send_signal(signal.SIGTERM)
        try:
            answering.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            answering.kill()
            answering.wait()
    if asking.returncode != 0:
        lines = asking.stderr.strip().splitlines() or [f"exit code {asking.returncode}"]
        return _silent(lines[-1])
    measured = json.loads(asking.stdout)
    return Finding.ok(
        f"{measured['rmw']}, found in {measured['discovery_s']:.1f} s, round trip "
        f"{measured['p50_ms']:.2f} ms (p50), {measured['max_ms']:.2f} ms (max)"
    )


def _silent(reason: str) -> Finding:
    return Finding.fault(
        reason,
        "check that loopback is up (ip link show lo), that no firewall blocks UDP ports from 7400 "
        "on it, and unset RMW_IMPLEMENTATION and DDS profile files",
    )


MIDDLEWARE: dict[str, Callable[[], Finding]] = {
    "ROS environment": check_environment,
    "DDS": check_dds,
}
