"""Interpreter, libraries, rclpy, the tools of a ROS 2 installation, and whether DDS works."""

import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from importlib import metadata
from pathlib import Path

from hucrl_ros.doctor import Check, Finding
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.session import Domain, wished_domain

LIBRARIES = ("torch", "onnxruntime", "mujoco")
MESSAGES = (
    "diagnostic_msgs",
    "geometry_msgs",
    "lifecycle_msgs",
    "sensor_msgs",
    "std_msgs",
    "std_srvs",
    "visualization_msgs",
)
OLDEST, NEWEST = (3, 10), (3, 13)
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
_INSTALL = "run `make env`, or install requirements.txt and requirements-ros.txt"


def check_python() -> Finding:
    """The interpreter's version."""
    version = ".".join(str(part) for part in sys.version_info[:3])
    if OLDEST <= sys.version_info[:2] <= NEWEST:
        return Finding.ok(f"{version} ({sys.executable})")
    return Finding.fault(version, "use Python 3.10 to 3.13: make env PYTHON=/path/to/python3")


def check_library(name: str) -> Finding:
    """A library can be imported, not only found."""
    try:
        importlib.import_module(name)
    except Exception as error:
        return Finding.fault(f"can't be imported: {' '.join(str(error).split())}", _INSTALL)
    return Finding.ok(metadata.version(name))


def check_rclpy() -> Finding:
    """Where rclpy comes from: wheels, or the ROS 2 installation that is sourced."""
    spec = importlib.util.find_spec("rclpy")
    if spec is None or spec.origin is None:
        return Finding.fault("not installed", f"source a ROS 2 installation, or {_INSTALL}")
    version = metadata.version("rclpy")
    origin = Path(spec.origin).resolve()
    if origin.is_relative_to(Path(sys.prefix).resolve()) or not _is_sourced(origin):
        return Finding.ok(f"{version}, from wheels ({_rmw_of_wheels()})")
    found = f"{version}, from ROS 2 {os.environ.get('ROS_DISTRO', '')} ({origin.parents[1]})"
    if _is_in_this_environment("ros-rclpy"):
        return Finding.note(
            f"{found}; wheels of it are in this environment, too",
            "run `make env` in a shell where ROS 2 is sourced, so that only one is there",
        )
    return Finding.ok(found)


def check_messages() -> Finding:
    """The packages of all messages on our topics."""
    missing = [name for name in MESSAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Finding.fault(f"missing: {', '.join(missing)}", _INSTALL)
    return Finding.ok(f"{len(MESSAGES)} packages")


def check_ros2() -> Finding:
    """`ros2 launch` and `ros2 bag`, which exist only in a ROS 2 installation."""
    path = shutil.which("ros2")
    if path:
        return Finding.ok(path)
    return Finding.note(
        "not found", "only launch files, RViz and `ros2 bag` need it; `hucrl up` does not"
    )


def check_colcon() -> Finding:
    """`colcon build`, for people who build a ROS 2 workspace."""
    beside = str(Path(sys.executable).parent)
    path = shutil.which("colcon") or shutil.which("colcon", path=beside)
    if path:
        return Finding.ok(path)
    return Finding.note("not found", "only `colcon build` needs it: `make env` installs it")


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


def _is_sourced(path: Path) -> bool:
    prefixes = os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)
    return any(prefix and path.is_relative_to(Path(prefix).resolve()) for prefix in prefixes)


def _rmw_of_wheels() -> str:
    fast = _is_in_this_environment("ros-rmw-fastrtps-cpp")
    return "Fast DDS" if fast else "no middleware"


def _is_in_this_environment(distribution: str) -> bool:
    try:
        place = metadata.distribution(distribution).locate_file("")
    except metadata.PackageNotFoundError:
        return False
    return Path(str(place)).resolve().is_relative_to(Path(sys.prefix).resolve())


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


SOFTWARE: dict[str, Check] = {
    "Python": check_python,
    **{name: partial(check_library, name) for name in LIBRARIES},
    "rclpy": check_rclpy,
    "ROS messages": check_messages,
    "ros2": check_ros2,
    "colcon": check_colcon,
    "ROS environment": check_environment,
    "DDS": check_dds,
}
