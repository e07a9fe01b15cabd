"""What commands are computed with, as a bag has to tell it: `controller/setup`."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from hucrl_ros.config.schema import DriverSettings, PlannerSettings, SafetySettings, Settings
from hucrl_ros.controller.control_loop import ControlLoop

LIBRARIES = ("numpy", "onnxruntime", "numba")
"""They compute what a robot is sent."""


class Setup(Settings):
    """From one tick on, until another one is told; settings are those in force."""

    model_config = ConfigDict(extra="ignore")  # what only older or newer bags tell
    step: int = Field(ge=0)
    """First tick of which it is true; 0: an episode begins."""
    since: int = Field(ge=0)
    """Tick at which the bundle took over; an earlier one: only limits have changed."""
    bundle: str
    """Name of the bundle's folder."""
    sha256: str
    """Of its manifest, which has the hashes of its files."""
    seed: int = Field(ge=0)
    """Of everything random."""
    timed: bool
    """Time decides how much a tick plans; False: physics waits."""
    engine: Literal["compiled", "onnx"]
    """What rolled out."""
    threads: int = Field(ge=1)
    """Those of the engine."""
    planner: PlannerSettings
    safety: SafetySettings
    """What guard, safety filter and braking rule go by."""
    driver: DriverSettings
    processor: str
    versions: Mapping[str, str]
    """Of what computed, by name."""


def setup_of(loop: ControlLoop, seed: int) -> Setup:
    """What the next tick of an episode is computed with.

    Args:
        loop: Plays it.
        seed: What it was started with.
    """
    agent = loop.player
    manifest = agent.bundle.manifest
    return Setup(
        step=loop.step,
        since=loop.since,
        bundle=agent.bundle.path.name,
        sha256=agent.bundle.digest,
        seed=seed,
        timed=agent.timed,
        engine="compiled" if agent.compiled else "onnx",
        threads=agent.threads,
        planner=manifest.planner,
        safety=loop.guard.safety,
        driver=manifest.driver,
        processor=processor(),
        versions=versions(),
    )


@cache
def processor() -> str:
    """What the processor calls itself: another one may round otherwise."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


@cache
def versions() -> Mapping[str, str]:
    """Versions of Python and of the libraries that compute commands, as far as they are here."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
