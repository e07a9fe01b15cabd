"""What was heard of a robot's driver, and who hears it."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hucrl_ros.config.robot import RobotSettings
from hucrl_ros.controller.pace import GAPS
from hucrl_ros.errors import RunError
from hucrl_ros.run.node_list import remapped

LISTENER = "hucrl_ros.doctor.nodes.listener"
PATIENCE_S = 3.0
"""[s] For a driver to be found and heard."""
LISTEN_S = 2.0
"""[s] That joint states are listened to, at least."""
STARTUP_S = 20.0
"""[s] For the listener's process to start and end."""

Evidence = Mapping[str, Any]
"""What the listener prints."""
Array = NDArray[np.float64]


def listen(robot: RobotSettings, environment: Mapping[str, str]) -> Evidence:
    """Hear a robot's driver for some seconds.

    Args:
        robot: Says how its topics are called.
        environment: Variables of the process that listens, the ROS domain among them.

    Raises:
        RunError: the listener ended by itself.
    """
    command = [sys.executable, "-m", LISTENER, "--ros-args", "--disable-external-lib-logs"]
    listen_s = max(LISTEN_S, 2.0 * GAPS * robot.period)
    command += ["-p", f"patience:={PATIENCE_S}", "-p", f"listen:={listen_s}"]
    command += remappings(robot)
    try:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=STARTUP_S + PATIENCE_S + listen_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"the listener hangs for {STARTUP_S:g} s; run `hucrl doctor`") from None
    if done.returncode != 0 or not done.stdout.strip():
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RunError(f"the listener ended: {lines[-1]}")
    found: Evidence = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def remappings(robot: RobotSettings) -> list[str]:
    """ROS arguments by which a node finds a robot's topics."""
    pairs = remapped(robot.topics).items()
    return [word for ours, theirs in pairs for word in ("-r", f"{ours}:={theirs}")]


def stamps_of(found: Evidence) -> NDArray[np.int64]:
    """`(n,)` [ns]."""
    return np.array([message["stamp_ns"] for message in found["messages"]], dtype=np.int64)


def received(found: Evidence) -> NDArray[np.int64]:
    """`(n,)` by this machine's clock [ns]."""
    return np.array([message["received_ns"] for message in found["messages"]], dtype=np.int64)


def columns(found: Evidence, what: str, joints: Sequence[str]) -> Array | str:
    """`(n, joints)` of all messages, or why there are none."""
    rows = []
    for message in found["messages"]:
        values, names = message[what], message["names"]
        if len(values) != len(names):
            return f"{len(values)} for {len(names)} joints" if values else "none"
        rows.append([values[names.index(joint)] for joint in joints if joint in names])
        if len(rows[-1]) < len(joints):
            return "a joint is missing"
        for joint, value in zip(joints, rows[-1], strict=True):
            if not math.isfinite(value):
                return f"that of joint {joint!r} is {value}"
    return np.array(rows)


def least_step(column: Array) -> float:
    """The step that a sensor's readings are multiples of; 0: they change in no steps."""
    steps = np.abs(np.diff(np.unique(column)))
    steps = steps[steps > 0]
    if len(steps) < 3:
        return float(steps.min()) if len(steps) else 0.0
    least = float(steps.min())
    multiples = steps / least
    return least if np.abs(multiples - np.round(multiples)).max() < 0.01 else 0.0
