"""Where the package's data files (`config/`, `launch/`, `sim/`) lie."""

import sys
from pathlib import Path


def share_directory() -> Path:
    """The folder that holds `config/`, `launch/` and `sim/`.

    In a checkout (or an editable install) it is the repository; in an installed package it is
    `<prefix>/share/hucrl_ros`, where ROS 2 keeps data files.
    """
    package = Path(__file__).resolve().parents[1]
    checkout = package.parent
    if (checkout / "package.xml").is_file():
        return checkout
    # <prefix>/lib/python3.x/site-packages/hucrl_ros, also for a colcon install space.
    for prefix in (*package.parents, Path(sys.prefix)):
        share = prefix / "share" / "hucrl_ros"
        if (share / "package.xml").is_file():
            return share
    raise FileNotFoundError(f"no share/hucrl_ros with config/ and sim/ above {package}")
