"""The locked versions, and the script behind `make env` where it must refuse."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import NODES

from hucrl_ros.cli import main
from hucrl_ros.cli.parsing import Command
from hucrl_ros.config.files import share_directory

ROOT = share_directory()
LOCKS = ("requirements", "requirements-ros", "requirements-dev")
MESSAGE = re.compile(r"make env: [^\n]+\n")


def names(path) -> dict[str, str]:
    """Normalised package name to the rest of its line."""
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    split = (re.match(r"([\w.-]+)(?:\[[\w,]+\])?(.*)", line) for line in lines if line)
    return {re.sub(r"[-_.]+", "-", match[1]).lower(): match[2].strip() for match in split}


@pytest.mark.parametrize("name", LOCKS)
def test_everything_required_is_locked(name):
    required, locked = names(ROOT / f"{name}.in"), names(ROOT / f"{name}.txt")
    assert set(required) <= set(locked), "run `make lock`"
    assert all(re.match(r"==[\w.]+( ; .+)?$", version) for version in locked.values())


def test_the_lock_holds_the_versions_that_are_known_to_work_together():
    locked = {**names(ROOT / "requirements.txt"), **names(ROOT / "requirements-ros.txt")}
    assert locked["torch"] == "==2.13.0"
    assert locked["ros-rclpy"] == "==9.1.2"
    pytest_version = names(ROOT / "requirements-dev.txt")["pytest"]
    assert tuple(map(int, pytest_version[2:].split(".")[:2])) < (8, 4)


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_brings_no_cuda_and_names_no_place(name):
    text = (ROOT / f"{name}.txt").read_text()
    assert "nvidia" not in text
    assert "+" not in text
    assert "://" not in text
    assert "--" not in text


@pytest.fixture
def checkout(tmp_path):
    """A fresh checkout, as far as `make env` looks at it."""
    for path in [*ROOT.glob("requirements*"), ROOT / "setup.py", ROOT / "setup.cfg"]:
        shutil.copy(path, tmp_path)
    shutil.copytree(ROOT / ".ci", tmp_path / ".ci")
    return tmp_path


def make_env(checkout, python: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run `make env` with an interpreter that answers as the shell script `python` does."""
    fake = checkout / "fake-python"
    fake.write_text(f"#!/bin/sh\n{python}\n")
    fake.chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(fake), **variables}
    command = [checkout / ".ci" / "environment"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_an_old_python_is_refused_in_one_line(checkout):
    done = make_env(checkout, 'case "$1" in --version) echo Python 3.9.1;; *) exit 1;; esac')
    assert done.returncode == 1
    assert MESSAGE.fullmatch(done.stderr), done.stderr
    assert "fake-python is Python 3.9.1; Python 3.10 to 3.13 is needed" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_that_is_not_there_is_named_in_one_line(checkout):
    done = make_env(checkout, "", PYTHON="/no/such/python")
    assert done.returncode == 1
    assert MESSAGE.fullmatch(done.stderr), done.stderr
    assert "/no/such/python" in done.stderr


def test_a_python_without_venv_is_told_what_to_install(checkout):
    done = make_env(checkout, 'case "$*" in *ensurepip*) exit 1;; esac')
    assert done.returncode == 1
    assert MESSAGE.fullmatch(done.stderr), done.stderr
    assert "sudo apt install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_sourced_ros_2_needs_the_python_that_it_was_built_for(checkout):
    fake = 'case "$*" in *rclpy*) exit 1;; *--version*) echo Python 3.11.2;; esac'
    done = make_env(checkout, fake, ROS_DISTRO="kilted")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("make env: ROS 2 kilted is sourced, but ")
    assert "can't import its rclpy: set PYTHON" in last


FIND = """
from ament_index_python.packages import get_package_prefix, get_package_share_directory
print(get_package_share_directory("hucrl_ros"), get_package_prefix("hucrl_ros"), sep="\\n")
"""


@pytest.mark.parametrize(("ros", "found"), [("kilted", True), ("wheels", False)])
def test_an_activated_environment_is_where_launch_looks(checkout, ros, found):
    pytest.importorskip("ament_index_python", reason="comes with rclpy")
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "activate").write_text(f"VIRTUAL_ENV={checkout}/.venv\n")
    for name in ("package.xml", "config", "launch", "sim"):
        (checkout / name).symlink_to(ROOT / name)
    script = (
        f"ros={ros}; source <(sed -n '/^link_executables/,/^}}/p' .ci/environment)\n"
        "link_executables; link_executables; . .venv/bin/activate\n"
        f"{sys.executable} -c {shlex.quote(FIND)}"
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "AMENT_PREFIX_PATH": "/opt/ros/kilted"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == found, done.stderr
    if found:
        share, prefix = map(Path, done.stdout.split())
        assert (share / "launch" / "learn.launch.py").is_file()
        linked = {path.name for path in (prefix / "lib" / "hucrl_ros").iterdir()}
        assert linked == {"hucrl", *NODES}
        assert (checkout / ".venv" / "bin" / "activate").read_text().count("export") == 1


def recipe(target: str) -> list[str]:
    """The commands of a make target, after those of what it needs."""
    done = subprocess.run(
        ["make", "--dry-run", target],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"]},  # nothing of the make that may have started the tests
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_make_demo_is_a_command_that_hucrl_understands(monkeypatch):
    understood = []
    monkeypatch.setattr(Command, "invoke", lambda self, ctx: understood.append(ctx.params))
    environment, demo = recipe("demo")
    assert environment == ".ci/environment"
    program, *arguments = shlex.split(demo)
    assert program == ".venv/bin/hucrl"
    assert main(arguments) == 0
    assert understood[0]["task"] == "pendulum"
    assert understood[0]["action_penalty"] == 0.2
    assert re.fullmatch(r"runs/demo-\d{8}-\d{6}-\d{3}", str(understood[0]["out"]))


def test_make_test_makes_all_checks_before_the_fast_tests():
    commands = recipe("test")
    assert commands[0] == ".ci/environment"
    programs = [command.split()[0].removeprefix(".venv/bin/") for command in commands[1:]]
    assert programs == ["ruff", "ruff", "mypy", "codespell", "python"]
    assert '-m "not long and not slow and not gpu"' in commands[-1]
    assert '-m "long and not slow and not gpu"' in recipe("test-long")[-1]
