"""`hucrl inspect`: what is in a bundle, a bag or a robot's description, after checking it."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from hucrl_ros.errors import ConfigError, HucrlError


def run(
    path: Annotated[
        Path, Argument(metavar="BUNDLE|BAG|YAML", help="a folder, an MCAP file or a YAML")
    ],
    repair: Annotated[
        bool,
        Option(
            "--repair", help="copy what is readable of a cut-off bag into a whole one next to it"
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        Option(
            metavar="FILE.png", help="draw a YAML's robot at a start, and where it must not be"
        ),
    ] = None,
) -> None:
    """Check a bundle, a bag or a robot of your own and say what is in it.

    Of a bundle hashes, shapes and agreement with torch's outputs are checked, first in a process
    with limits of time and memory; a bag may have been cut off. The Python functions that a YAML
    names are run, which is said before: of the robot's, or of the run's that a bag lies in.
    """
    from hucrl_ros.bags.metadata import FILE_NAME
    from hucrl_ros.bags.writer import repair as repaired
    from hucrl_ros.cli.describe import describe_bag, describe_bundle, describe_robot
    from hucrl_ros.cli.functions import say_functions
    from hucrl_ros.config.task_file import is_description
    from hucrl_ros.controller.examiner import load_examined
    from hucrl_ros.controller.manifest import MANIFEST
    from hucrl_ros.run.terminal import Terminal

    if not os.path.exists(path):  # noqa: PTH110  # Path's raises of too long a name
        raise _is_nothing(path)
    if picture is not None and not (is_description(str(path)) and picture.suffix == ".png"):
        raise ConfigError(f"{path}, {picture}: --picture draws the robot of a YAML into a .png")
    if is_description(str(path)):
        say_functions("inspect", str(path))
        described = describe_robot(path)
        if picture is not None:
            from hucrl_ros.experiments.still import render_still

            render_still(picture, path)
    elif (path / MANIFEST).exists() or any(path.glob("*.onnx")):
        if repair:
            raise ConfigError(f"{path}: --repair is for bags; a bundle can be made anew")
        described = describe_bundle(load_examined(path))
    elif path.suffix == ".mcap" or (path / FILE_NAME).exists() or any(path.glob("*.mcap")):
        described = describe_bag(repaired(path) if repair else path)
    else:
        raise _is_nothing(path)
    Terminal().print(described, soft_wrap=True)


def _is_nothing(path: Path) -> HucrlError:
    from hucrl_ros.bags.metadata import FILE_NAME
    from hucrl_ros.controller.manifest import MANIFEST

    if path.suffix in (".urdf", ".xml", ".mjcf", ".xacro") and path.is_file():
        return HucrlError(
            f"{path}: a model of a robot; name the YAML whose robot.model it is, as "
            "docs/your_robot.md says"
        )
    return HucrlError(
        f"{path}: neither a bundle (a folder with {MANIFEST}) nor a bag "
        f"(a folder with {FILE_NAME} or an .mcap file, or that file) nor a robot's YAML; "
        "a run has them in its folders bundles/ and episodes/"
    )
