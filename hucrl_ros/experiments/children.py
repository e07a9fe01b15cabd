"""What processes that experiments start need to find this package."""

import os
import sys
from pathlib import Path


def child_environment(**changes: str) -> dict[str, str]:
    """This process's environment with `changes`; Python finds the same packages in it."""
    search_path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return {**os.environ, "PYTHONPATH": search_path, **changes}
