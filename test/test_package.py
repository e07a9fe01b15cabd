"""The package as colcon and pip install it, what it declares, and its environment's script."""

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from documents import NODES

import hucrl_ros
from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import Config
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import learning_graph

ROOT = share_directory()
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
NOT_COPIED = (".*", "runs", "build", "install", "log", "*.egg-info", "__pycache__")


def run(*command: str, cwd: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in an environment where Python doesn't find the checkout."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def shared_files() -> set[str]:
    """Data files of the checkout that an installed package needs."""
    folders = {"config": "*", "launch": "*.launch.py", "sim": "*"}
    files = (p for folder, glob in folders.items() for p in (ROOT / folder).rglob(glob))
    return {str(p.relative_to(ROOT)) for p in files if p.is_file()} | {"package.xml"}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A colcon workspace with a copy of the checkout, built."""
    folder = tmp_path_factory.mktemp("workspace")
    source = folder / "src" / "hucrl_ros"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(*NOT_COPIED))
    done = colcon(folder, "build")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def colcon(workspace: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run colcon, the one beside this interpreter if there is one."""
    beside = Path(sys.executable).parent / "colcon"
    command = str(beside) if beside.is_file() else "colcon"
    return run(command, *arguments, cwd=workspace, COLCON_HOME=str(workspace / "colcon"))


@pytest.fixture(scope="module")
def prefix(workspace):
    """What colcon installed."""
    return workspace / "install" / "hucrl_ros"


def in_workspace(workspace: Path, command: str) -> "subprocess.CompletedProcess[str]":
    """Run a shell command where the workspace is sourced."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = f"source install/local_setup.bash && {command}"
    return run("bash", "-c", script, cwd=workspace, PATH=path)


def test_colcon_takes_it_for_a_ros_package(workspace):
    hooks = workspace / "install" / "hucrl_ros" / "share" / "hucrl_ros" / "hook"
    assert (hooks / "ament_prefix_path.sh").is_file()


def test_colcon_installs_what_launch_looks_for(prefix):
    marker = prefix / "share" / "ament_index" / "resource_index" / "packages" / "hucrl_ros"
    assert marker.is_file()
    executables = {path.name for path in (prefix / "lib" / "hucrl_ros").iterdir()}
    assert executables == {"hucrl", *NODES}
    assert all(os.access(prefix / "lib" / "hucrl_ros" / name, os.X_OK) for name in executables)


def test_colcon_installs_all_data_files_and_modules(prefix):
    share = prefix / "share" / "hucrl_ros"
    assert {name for name in shared_files() if not (share / name).is_file()} == set()
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "hucrl_ros").rglob("*.py")}
    site = prefix / "lib" / PYTHON / "site-packages"
    assert {name for name in modules if not (site / name).is_file()} == set()


def test_an_installed_executable_runs_and_finds_its_data(workspace, prefix):
    done = in_workspace(workspace, f"{prefix}/lib/hucrl_ros/hucrl list robots")
    assert done.returncode == 0, done.stderr
    assert "pendulum" in done.stdout
    code = (
        "import hucrl_ros.config.files as p; from hucrl_ros.robots import make_robot;"
        "make_robot('pendulum');"
        "from ament_index_python.packages import get_package_share_directory as share;"
        "print(p.share_directory(), share('hucrl_ros'), p.__file__, sep='|')"
    )
    done = in_workspace(workspace, f'python -c "{code}"')
    assert done.returncode == 0, done.stderr
    found, indexed, module = done.stdout.strip().split("|")
    assert found == indexed == str(prefix / "share" / "hucrl_ros")
    assert module.startswith(str(prefix))


def test_colcon_runs_the_tests_and_a_failure_is_one(workspace):
    wrong = workspace / "src" / "hucrl_ros" / "test" / "test_wrong.py"
    for code, failed in (("assert True", 0), ("assert False", 1)):
        wrong.write_text(f"def test_it():\n    {code}\n")
        done = colcon(workspace, "test", "--pytest-args", "test/test_wrong.py")
        assert done.returncode == 0, done.stdout + done.stderr
        result = colcon(workspace, "test-result")
        assert result.returncode == failed, result.stdout
        assert f"1 test, 0 errors, {failed} failure" in result.stdout
    wrong.unlink()


def test_pip_installs_the_same_data_files(workspace, tmp_path):
    # Without the last one pip would remove the package from the environment that runs the tests.
    options = ("--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--quiet")
    options += ("--ignore-installed",)
    source = workspace / "src" / "hucrl_ros"
    prefix = tmp_path / "prefix"
    pip = (sys.executable, "-m", "pip", "install", *options, f"--prefix={prefix}", ".")
    done = run(*pip, cwd=source)
    assert done.returncode == 0, done.stderr
    site = next(prefix.rglob("hucrl_ros/config/files.py")).parents[2]
    code = (
        "from hucrl_ros.config import files;"
        "print(files.share_directory(), files.__file__, sep='|')"
    )
    done = run(sys.executable, "-c", code, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    share, module = done.stdout.strip().split("|")
    assert module.startswith(str(prefix))
    assert {name for name in shared_files() if not (Path(share) / name).is_file()} == set()


def test_every_node_of_the_graph_has_an_executable(run_folder, tmp_path):
    home = Config(mode="real_time", driver={"reset": "home"})
    graphs = (
        learning_graph(run_folder, listen="127.0.0.1:8642"),
        learning_graph(run_folder),
        learning_graph(RunFolder.create(tmp_path / "home", home)),
    )
    assert {node.executable for nodes in graphs for node in nodes} == set(NODES)


def test_package_xml_agrees_with_the_package():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    assert package.get("format") == "3"
    assert package.findtext("name") == "hucrl_ros"
    assert package.findtext("version") == hucrl_ros.__version__
    assert package.findtext("license") == "MIT"
    assert package.findtext("export/build_type") == "ament_python"
    # colcon silently takes a package with an invalid address for plain Python.
    email = package.find("maintainer").get("email")
    assert re.fullmatch(r"[\w.]+@[\w.]+\.\w+", email)
    assert email in (ROOT / "setup.py").read_text()


def test_package_xml_names_every_ros_package_that_is_imported():
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    declared = {element.text for element in package.findall("exec_depend")}
    used: set[str] = set()
    for path in [*(ROOT / "hucrl_ros").rglob("*.py"), *(ROOT / "launch").rglob("*.py")]:
        found = re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
        used |= {name for name in found if name.endswith(("_msgs", "_srvs")) or "launch" in name}
    assert used - {"ros2launch"} <= declared
    assert {name for name in declared if name.endswith(("_msgs", "_srvs"))} <= used


def test_the_changelog_is_about_this_version():
    first = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first[1] == hucrl_ros.__version__
