"""The foreign driver as a process in the test's ROS domain."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

DRIVER = Path(__file__).with_name("foreign_driver.py")


@contextmanager
def driver(**how):
    """The driver's process; `how` replaces some of its `DEFAULTS`."""
    process = subprocess.Popen(
        [sys.executable, str(DRIVER), json.dumps(how)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.communicate()
