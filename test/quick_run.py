"""Whole runs of real processes, with settings that make them quick, and what they left behind."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import yaml
from waiting import PATIENCE

from hucrl_ros.cli.watch import page_command
from hucrl_ros.config.files import share_directory
from hucrl_ros.run.folder import RunFolder

SETTINGS = {
    "planner.algorithm": "policy",
    "planner.horizon": 4,
    "model.heads": 2,
    "model.layers": [8, 8],
    "model.fit_steps": 20,
    "search.iterations": 2,
    "search.pool": 8,
    "search.policy_layers": [8],
    "search.critic_layers": [8],
}


def quick_arguments(**changes) -> list[str]:
    """`--set` arguments; in `changes`, `__` stands for a dot."""
    settings = SETTINGS | {key.replace("__", "."): value for key, value in changes.items()}
    texts = {
        key: yaml.safe_dump(value, default_flow_style=True) for key, value in settings.items()
    }
    return [x for key, text in texts.items() for x in ("--set", f"{key}={text.splitlines()[0]}")]


def quick_file(path: Path) -> Path:
    """The settings as a file in ROS parameter form."""
    values: dict[str, dict[str, object]] = {}
    for key, value in SETTINGS.items():
        group, name = key.split(".")
        values.setdefault(group, {})[name] = value
    path.write_text(yaml.safe_dump({"/**": {"ros__parameters": values}}))
    return path


class Up:
    """A `hucrl up` under test; use it as a context manager."""

    def __init__(self, *arguments: str, out: Path, environment=None) -> None:
        self.run = RunFolder(out)
        variables = {k: v for k, v in os.environ.items() if k != "ROS_DOMAIN_ID"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "hucrl_ros", "up", *arguments, "--out", str(out)],
            env={**variables, "PYTHONPATH": str(share_directory()), **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=out.parent,
        )
        self.pid = self._process.pid
        self.stdout = ""
        self.stderr = ""

    def __enter__(self) -> "Up":
        return self

    def __exit__(self, *unused) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()

    def wait_for_line(self, text: str) -> None:
        """Read the output up to a line that holds `text`."""
        for line in self._process.stdout:
            self.stdout += line
            if text in line:
                return
        raise AssertionError(f"no {text!r} in {self.stdout!r}; {self._process.stderr.read()!r}")

    def node(self, name: str) -> psutil.Process:
        """The process of a node."""
        children = psutil.Process(self.pid).children()
        (found,) = [c for c in children if f"hucrl_ros.nodes.{name}" in c.cmdline()]
        return found

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> int:
        """Wait for the end; returns the exit code."""
        stdout, self.stderr = self._process.communicate(timeout=PATIENCE)
        self.stdout += stdout
        return self._process.returncode

    def remaining(self) -> list[str]:
        """Command lines of processes that still work on the run."""
        return [
            " ".join(process.info["cmdline"])
            for process in psutil.process_iter(["cmdline", "status"])
            if any(str(self.run.root) in text for text in process.info["cmdline"] or ())
            and process.info["status"] != psutil.STATUS_ZOMBIE
            and process.pid != os.getpid()
        ]

    @property
    def logs(self) -> str:
        return "".join(path.read_text() for path in sorted(self.run.logs.glob("*.log")))


class Watch:
    """A `hucrl watch` under test; use it as a context manager."""

    def __init__(self, run) -> None:
        variables = {k: v for k, v in os.environ.items() if k != "ROS_DOMAIN_ID"}
        self._process = subprocess.Popen(
            page_command(run, port=0),
            env={**variables, "PYTHONPATH": str(share_directory())},
            stdout=subprocess.PIPE,
            text=True,
        )
        found = {}
        for line in self._process.stdout:
            name, _, value = line.strip().partition(" ")
            found[name] = value.strip()
            if name == "token":
                break
        self.address, self.token = found["page"], found["token"]

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self._process.terminate()
        assert self._process.wait(PATIENCE) == 0
