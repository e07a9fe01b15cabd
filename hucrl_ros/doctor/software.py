"""Interpreter, libraries, rclpy, and the tools of a ROS 2 installation."""

import importlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from hucrl_ros.doctor.finding import Finding

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


def _library(name: str) -> Callable[[], Finding]:
    return lambda: check_library(name)


SOFTWARE: dict[str, Callable[[], Finding]] = {
    "Python": check_python,
    **{name: _library(name) for name in LIBRARIES},
    "rclpy": check_rclpy,
    "ROS messages": check_messages,
    "ros2": check_ros2,
    "colcon": check_colcon,
}
