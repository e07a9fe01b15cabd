"""`hucrl inspect`: what is in a bundle, a bag or a robot's description, after checking it."""

import argparse
from pathlib import Path

from rich.console import Console

from hucrl_ros.bags.metadata import FILE_NAME
from hucrl_ros.config.task_file import is_description
from hucrl_ros.controller.manifest import MANIFEST
from hucrl_ros.errors import ConfigError, HucrlError


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "inspect",
        help="check a bundle, a bag or a robot of your own and say what is in it",
        description="Check a bundle (hashes, shapes, agreement with torch's outputs), a bag, "
        "also one that was cut off, or the YAML that describes a robot of your own, and say what "
        "is in it.",
    )
    parser.add_argument(
        "path", type=Path, metavar="BUNDLE|BAG|YAML", help="a folder, an MCAP file or a YAML"
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="copy what is readable of a cut-off bag into a whole one next to it",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the description."""
    # `hucrl --help` must not wait for torch and ONNX Runtime.
    from hucrl_ros.bags.repair import repair
    from hucrl_ros.cli.describe_bag import describe_bag
    from hucrl_ros.cli.describe_bundle import describe_bundle
    from hucrl_ros.controller.bundle import load_bundle

    path: Path = args.path
    console = Console(highlight=False)
    if is_description(str(path)):
        from hucrl_ros.cli.describe_robot import describe_robot

        console.print(describe_robot(path), soft_wrap=True)
        return 0
    if is_bundle(path):
        if args.repair:
            raise ConfigError(f"{path}: --repair is for bags; a bundle can be made anew")
        console.print(describe_bundle(load_bundle(path)), soft_wrap=True)
        return 0
    if not is_bag(path):
        raise HucrlError(
            f"{path}: neither a bundle (a folder with {MANIFEST}) nor a bag "
            f"(a folder with {FILE_NAME} or an .mcap file, or that file) nor a robot's YAML"
        )
    if args.repair:
        path = repair(path)
    console.print(describe_bag(path), soft_wrap=True)
    return 0


def is_bundle(path: Path) -> bool:
    """Whether it is meant to be a bundle."""
    return (path / MANIFEST).exists() or any(path.glob("*.onnx"))


def is_bag(path: Path) -> bool:
    """Whether it is meant to be a bag."""
    return path.suffix == ".mcap" or (path / FILE_NAME).exists() or any(path.glob("*.mcap"))
