"""Imports go one way: ROS stays in the nodes, torch out of what runs beside a robot."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import hucrl_ros

PACKAGE = Path(hucrl_ros.__file__).parent
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages([str(PACKAGE)], "hucrl_ros.")
    if not module.name.endswith("__main__")
)
ROS = ("rclpy", "launch", "launch_ros", "ament_index_python")
TORCH_FREE = ("hucrl_ros.controller", "hucrl_ros.planners", "hucrl_ros.bags", "hucrl_ros.robots")
NODES_AT_THE_ROBOT = ("controller", "recorder", "simulator", "watchdog")


def imported_by(module: str) -> set[str]:
    """Top-level packages that a module's source imports, anywhere in it."""
    path = PACKAGE.parent / module.replace(".", "/")
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def loaded_by(*modules: str) -> set[str]:
    """Top-level packages that are loaded in a fresh process that imports `modules`."""
    code = (
        f"import sys, {', '.join(modules)}; print(*{{m.partition('.')[0] for m in sys.modules}})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize("module", [m for m in MODULES if ".nodes" not in m])
def test_ros_is_imported_in_the_nodes_only(module):
    ros = {
        name for name in imported_by(module) if name in ROS or name.endswith(("_msgs", "_srvs"))
    }
    assert ros == set()


def test_the_runtime_loads_neither_torch_nor_ros():
    loaded = loaded_by(*(m for m in MODULES if m.startswith(TORCH_FREE)))
    assert loaded & {"torch", *ROS} == set()
    assert "numpy" in loaded


@pytest.mark.parametrize("node", NODES_AT_THE_ROBOT)
def test_a_node_at_the_robot_loads_no_torch(node):
    loaded = loaded_by(f"hucrl_ros.nodes.{node}")
    assert "rclpy" in loaded
    assert "torch" not in loaded


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_exists(module):
    loaded = importlib.import_module(module)
    public = getattr(loaded, "__all__", [])
    assert len(set(public)) == len(public)
    assert [name for name in public if name not in vars(loaded)] == []


def test_no_module_depends_on_the_command_line():
    users = {m for m in MODULES if not m.startswith("hucrl_ros.cli")}
    for module in users:
        path = PACKAGE.parent / module.replace(".", "/")
        source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        assert "hucrl_ros.cli" not in source.read_text(), module
