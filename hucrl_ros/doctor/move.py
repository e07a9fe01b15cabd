"""Has a robot moved by tiny efforts, by a process that ends with zero effort whatever happens."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping

import mujoco

from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import Description
from hucrl_ros.doctor.evidence import remappings
from hucrl_ros.doctor.inertia import inertia
from hucrl_ros.doctor.pulses import PRISMATIC, REVOLUTE, Bounds
from hucrl_ros.doctor.record import Record, Trial
from hucrl_ros.errors import RunError
from hucrl_ros.robots.mujoco_robot import MujocoRobot

MOVER = "hucrl_ros.doctor.nodes.mover"
STARTUP_S, EACH_S = 60.0, 120.0
"""[s] For the mover's process to start and end, and for each joint."""
END_S = 5.0
"""[s] For it to send zero effort, once it was interrupted."""


def bounds_of(described: Description) -> dict[str, Bounds]:
    """Where the motion of each joint ends, by its name."""
    robot = MujocoRobot(described)
    slides = mujoco.mjtJoint.mjJNT_SLIDE
    return {
        name: PRISMATIC if robot.model.joint(name).type[0] == slides else REVOLUTE
        for name in robot.spec.joint_names
    }


def move(
    described: Description,
    config: Config,
    bounds: Mapping[str, Bounds],
    share: float,
    cap: float,
    environment: Mapping[str, str],
) -> Record:
    """Move each actuated joint a little.

    Args:
        described: The robot, with nothing left to derive.
        config: Its safety and driver settings hold.
        bounds: Of each joint.
        share: First effort, as a share of the limit.
        cap: Largest effort, likewise.
        environment: Variables of the process that moves, the ROS domain among them.

    Raises:
        RunError: the process that moves ended by itself, or hangs.
    """
    robot, model = described.robot, inertia(described)
    asked = {
        "spec": dataclasses.asdict(robot.spec),
        "safety": config.safety.model_dump(),
        "driver": config.driver.model_dump(),
        "bounds": bounds,
        "share": share,
        "cap": cap,
        "model": [model.free.tolist(), model.coupling.tolist()],
    }
    # A shell that starts this in the background has the signal ignored; a motion must end by it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    arguments = ["--ros-args", "--disable-external-lib-logs", *remappings(robot)]
    process = subprocess.Popen(
        [sys.executable, "-m", MOVER, *arguments],
        env={**os.environ, **environment, "HUCRL_PARENT_PID": str(os.getpid())},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        limit = STARTUP_S + EACH_S * len(robot.actuated)
        output, errors = process.communicate(json.dumps(asked), timeout=limit)
    except subprocess.TimeoutExpired:
        raise RunError("the mover hangs; it was ended, with zero effort") from None
    finally:
        _end(process)
    if process.returncode != 0 or not output.strip():
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise RunError(f"the mover ended, with zero effort: {lines[-1]}")
    record = Record(**json.loads(output.strip().splitlines()[-1]))
    record.trials = [Trial(*trial) for trial in record.trials]
    return record


def _end(process: "subprocess.Popen[str]") -> None:
    """Have it send zero effort, also where a Ctrl-C has interrupted this process only."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()  # its stopper sends zero effort then
            process.wait()
