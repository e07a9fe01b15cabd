"""Imports go one way: nodes → runtime → planners; learner → search → exploration → models.

Search imagines with the runtime's kernel.
"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hucrl_ros

ROOT = Path(hucrl_ros.__file__).parent
MODULES = {
    ".".join(("hucrl_ros", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in ROOT.rglob("*.py")
}
ROS = {"rclpy", "launch", "launch_ros", "rosidl_runtime_py", "ament_index_python"}

FORBIDDEN = {
    "planners": {"runtime", "nodes", "export", "search", "exploration", "models", "tasks", "envs"},
    "runtime": {"nodes", "export", "search", "exploration", "models", "tasks", "envs", "learner"},
    "envs": {"tasks", "models", "exploration", "search", "export", "runtime", "nodes", "planners"},
    "tasks": {"models", "exploration", "search", "export", "runtime", "nodes", "planners"},
    "models": {"exploration", "search", "export", "runtime", "nodes", "planners", "learner"},
    "exploration": {"search", "export", "runtime", "nodes", "planners", "learner"},
    "search": {"export", "nodes", "planners", "learner"},
    "export": {"nodes", "learner", "experiments", "cli"},
    "learner": {"nodes", "experiments", "cli"},
    "bags": {"nodes", "models", "search", "tasks", "envs", "export", "learner"},
    "experiments": {"nodes", "cli"},
}
"""What a part of the package must not import of the others."""


def imported(path):
    """Absolute names that a file imports, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part(module):
    """`models` of `hucrl_ros.models.ensemble`."""
    return module.split(".")[1] if module.count(".") else ""


@pytest.mark.parametrize("package", ["runtime", "planners", "bags"])
def test_no_module_of_the_runtime_loads_torch_ros_or_mujoco(package):
    names = [name for name in MODULES if part(name) == package]
    if not names:
        pytest.skip(f"there is no {package}")
    code = (
        f"import sys, importlib\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"loaded = {{name.partition('.')[0] for name in sys.modules}}\n"
        f"bad = loaded & {{'torch', 'rclpy', 'mujoco', 'onnx', 'onnxscript'}}\n"
        f"sys.exit(f'loaded: {{bad}}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_ros_is_only_imported_in_nodes():
    for name, path in MODULES.items():
        found = {module.partition(".")[0] for module in imported(path)} & ROS
        found |= {m for m in imported(path) if m.partition(".")[0].endswith(("_msgs", "_srvs"))}
        assert not found or "nodes" in name.split("."), f"{name} imports {found}"


@pytest.mark.parametrize("layer", FORBIDDEN)
def test_layers_import_one_way(layer):
    for name, path in MODULES.items():
        if part(name) == layer:
            found = {part(m) for m in imported(path) if m.startswith("hucrl_ros.")}
            assert not found & FORBIDDEN[layer], f"{name} imports {found & FORBIDDEN[layer]}"


def test_nothing_is_unpickled():
    for name, path in MODULES.items():
        found = {m.partition(".")[0] for m in imported(path)} & {"pickle", "dill", "joblib"}
        assert not found, f"{name} imports {found}"
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called != "torch.load", f"{name} calls torch.load"
                if called == "np.load":
                    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                    assert given.get("allow_pickle") == "False", f"{name}: np.load"
