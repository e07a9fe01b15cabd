"""What `hucrl doctor` looks at: software, machine and middleware."""

from collections.abc import Callable

from hucrl_ros.doctor.finding import Finding, Level
from hucrl_ros.doctor.machine import MACHINE
from hucrl_ros.doctor.middleware import MIDDLEWARE
from hucrl_ros.doctor.rendering import RENDERING
from hucrl_ros.doctor.software import SOFTWARE

CHECKS: dict[str, Callable[[], Finding]] = {**SOFTWARE, **MIDDLEWARE, **MACHINE, **RENDERING}

__all__ = ["CHECKS", "Finding", "Level", "examine"]


def examine(name: str) -> Finding:
    """Run one of `CHECKS`; a check that fails in an unforeseen way is a finding, too."""
    try:
        return CHECKS[name]()
    except Exception as error:
        return Finding.fault(f"{type(error).__name__}: {error}", "report this as a bug")
