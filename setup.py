"""The ament_python package: `colcon build` and `pip install .` both read this file."""

import re
from pathlib import Path

from setuptools import find_packages, setup

PACKAGE = "hucrl_ros"
NODES = (
    "simulator",
    "controller",
    "homing",
    "recorder",
    "learner",
    "remote_learner",
    "supervisor",
    "watchdog",
)
EXPORTS = {
    "lerobot": ["pyarrow"],
    "hdf5": ["h5py"],
    "minari": ["h5py", "minari"],
    "rerun": ["rerun-sdk"],
}
"""What `hucrl export` needs for each format; `export`: for all of them."""
HERE = Path(__file__).resolve().parent


def version() -> str:
    """The version in the package, read without importing what it needs."""
    text = (HERE / PACKAGE / "__init__.py").read_text()
    return re.findall(r'__version__ = "(.+)"', text)[0]


def requirements(name: str) -> list[str]:
    """The requirements in a file, without its comments."""
    lines = (line.split("#")[0].strip() for line in (HERE / name).read_text().splitlines())
    return [line for line in lines if line]


def share(folder: str, pattern: str) -> list[tuple[str, list[str]]]:
    """Files below `folder`, for the same place in `share/hucrl_ros`."""
    files: dict[str, list[str]] = {}
    for path in sorted((HERE / folder).rglob(pattern)):
        if path.is_file():
            relative = path.relative_to(HERE)
            files.setdefault(f"share/{PACKAGE}/{relative.parent}", []).append(str(relative))
    return list(files.items())


setup(
    name=PACKAGE,
    version=version(),
    description="H-UCRL as a real-time ROS 2 controller: a robot learns in tens of episodes",
    license="MIT",
    maintainer="hucrl_ros maintainers",
    maintainer_email="maintainers@example.org",
    python_requires=">=3.10",
    packages=find_packages(include=[PACKAGE, f"{PACKAGE}.*"]),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        (f"share/{PACKAGE}", ["package.xml"]),
        *share("config", "*"),
        *share("launch", "*.launch.py"),
        *share("sim", "*"),
    ],
    install_requires=requirements("requirements.in"),
    extras_require={
        "ros": requirements("requirements-ros.in"),
        "ray": ["ray"],
        **EXPORTS,
        "export": sorted({name for names in EXPORTS.values() for name in names}),
        # By this name `colcon test` looks for pytest; without it, it runs nothing and succeeds.
        "test": ["pytest", "pytest-timeout", "hypothesis"],
    },
    zip_safe=False,
    entry_points={
        "console_scripts": [
            "hucrl = hucrl_ros.cli:main",
            *(f"{node} = hucrl_ros.nodes.{node}:main" for node in NODES),
        ]
    },
)
