"""The house: which rooms there are, on which floor each stands, and what it may import."""

import ast
import importlib
import importlib.util
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import long_tests
import pytest

import hucrl_ros

ROOT = Path(hucrl_ros.__file__).parent
FLOORS = (
    {"cli"},
    {"doctor", "benchmarks", "page"},
    {"nodes", "experiments"},
    {"learning", "datasets"},
    {"run"},
    {"bags"},
    {"search"},
    {"models"},
    {"tasks"},
    {"controller"},
    {"planners", "robots"},
    {"config"},
    {"errors"},
)
"""From the top of the house to its ground. A room imports from the floors below its own, never
from above and never from its neighbour."""
LOOSE = {"hucrl_ros", "hucrl_ros.__main__", "hucrl_ros.errors"}
"""Modules that stand in no room."""
ROS = {"rclpy", "launch", "launch_ros", "rosidl_runtime_py", "ament_index_python"}
AT_THE_ROBOT = ("controller", "planners", "bags", "robots")
"""Rooms that load neither torch nor ROS."""
NODES_AT_THE_ROBOT = (
    "controller",
    "homing",
    "recorder",
    "remote_learner",
    "simulator",
    "supervisor",
    "watchdog",
)
MODULES = {
    ".".join(("hucrl_ros", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}


@cache
def nodes(path):
    """All of a file's syntax tree."""
    return list(ast.walk(ast.parse(path.read_text())))


@cache
def imported(path):
    """Absolute names that a file imports, those inside functions included."""
    names = []
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def room(module):
    """`models` of `hucrl_ros.models.ensemble`."""
    return module.split(".")[1] if module.count(".") else ""


def floor(name):
    """Number of a room's floor, counted from the top."""
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def uses(module):
    """Modules of the package that a module imports."""
    names = {name for name in imported(MODULES[module]) if name.startswith("hucrl_ros.")}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names} - {module}


def loaded_by(*modules):
    """Top-level packages that are loaded in a fresh process that imports `modules`."""
    code = f"import sys, {', '.join(modules)}; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_module_stands_in_a_room():
    rooms = {name for rooms in FLOORS for name in rooms}
    folders = {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    assert folders | {"errors"} == rooms
    assert {m for m, p in MODULES.items() if p.parent == ROOT} == LOOSE


@pytest.mark.parametrize("name", [n for rooms in FLOORS for n in sorted(rooms)])
def test_no_import_runs_upward(name):
    for module in (m for m in MODULES if room(m) == name and m not in LOOSE):
        above = {m for m in uses(module) if room(m) != name and floor(room(m)) <= floor(name)}
        assert not above, f"{module} imports {sorted(above)}"


def test_no_long_test_has_been_renamed():
    for node in long_tests.known():
        path, _, name = node.partition("::")
        function = name.partition("[")[0].rpartition("::")[2]
        assert f"def {function}(" in (ROOT.parent / path).read_text(), node


def test_no_imports_run_in_a_circle():
    waiting = {module: uses(module) for module in MODULES}
    while ready := {module for module, used in waiting.items() if not used & waiting.keys()}:
        waiting = {module: used for module, used in waiting.items() if module not in ready}
    assert not waiting, f"these import each other: {sorted(waiting)}"


def test_ros_is_imported_in_folders_named_nodes_only():
    for module, path in MODULES.items():
        packages = {name.partition(".")[0] for name in imported(path)}
        found = {p for p in packages if p in ROS or p.endswith(("_msgs", "_srvs"))}
        assert not found or path.parent.name == "nodes", f"{module} imports {found}"


def test_what_runs_at_a_robot_loads_neither_torch_nor_ros():
    rooms = defaultdict(list)
    for module in MODULES:
        rooms[room(module)].append(module)
    loaded = loaded_by(*(module for name in AT_THE_ROBOT for module in rooms[name]))
    assert not loaded & {"torch", "onnx", *ROS}
    assert "mujoco" not in loaded_by(*(m for n in ("controller", "planners") for m in rooms[n]))


def test_no_node_at_the_robot_loads_torch_or_scipy():
    """One after the other in one process: whose name comes first is who loaded it."""
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(f'hucrl_ros.nodes.{name}')\n"
        "    print(name, *({'rclpy', 'scipy', 'torch'} & {*sys.modules}))\n"
    )
    command = [sys.executable, "-c", code, *NODES_AT_THE_ROBOT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{node} rclpy" for node in NODES_AT_THE_ROBOT]


@pytest.mark.parametrize("module", [m for m in MODULES if not m.endswith("__main__")])
def test_every_public_name_exists(module):
    public = getattr(importlib.import_module(module), "__all__", [])
    assert len(set(public)) == len(public)
    assert [n for n in public if not hasattr(importlib.import_module(module), n)] == []


def test_nothing_is_unpickled():
    for module, path in MODULES.items():
        found = {name.partition(".")[0] for name in imported(path)} & {"pickle", "dill"}
        assert not found, f"{module} imports {found}"
        for node in nodes(path):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                called = ast.unparse(node.func)
                assert called != "torch.load", f"{module} calls torch.load"
                if called == "np.load":
                    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                    assert given.get("allow_pickle") == "False", f"{module}: np.load"


def assigned(cls):
    """Names of the attributes that a class's methods give to `self`."""
    for node in ast.walk(cls):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in (t for part in targets for t in getattr(part, "elts", [part])):
            if isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
                yield target.attr


def test_no_node_hides_what_rclpy_keeps_in_its_own():
    theirs = set()
    for module in ("rclpy.node", "rclpy.lifecycle.node"):
        source = Path(importlib.util.find_spec(module).origin).read_text()
        theirs |= {name for cls in ast.walk(ast.parse(source)) for name in assigned(cls)}
    assert "_clients" in theirs
    for path in ROOT.rglob("nodes/*.py"):
        for cls in nodes(path):
            if isinstance(cls, ast.ClassDef) and "Node" in "".join(map(ast.unparse, cls.bases)):
                assert not theirs & set(assigned(cls)), f"{path.name}: {cls.name}"
