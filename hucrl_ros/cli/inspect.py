"""`hucrl inspect`: what is in a bundle or a bag, after checking it."""

import argparse
from pathlib import Path

from rich.console import Console

from hucrl_ros.bags.metadata import FILE_NAME
from hucrl_ros.errors import ConfigError, HucrlError
from hucrl_ros.runtime.manifest import MANIFEST


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to `hucrl`."""
    parser = subparsers.add_parser(
        "inspect",
        help="check a bundle or a bag and say what is in it",
        description="Check a bundle (hashes, shapes, agreement with torch's outputs) or a bag, "
        "also one that was cut off, and say what is in it.",
    )
    parser.add_argument("path", type=Path, metavar="BUNDLE|BAG", help="a folder, or an MCAP file")
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
    from hucrl_ros.runtime.bundle import load_bundle

    path: Path = args.path
    console = Console(highlight=False)
    if is_bundle(path):
        if args.repair:
            raise ConfigError(f"{path}: --repair is for bags; a bundle can be made anew")
        console.print(describe_bundle(load_bundle(path)), soft_wrap=True)
        return 0
    if not is_bag(path):
        raise HucrlError(
            f"{path}: neither a bundle (a folder with {MANIFEST}) nor a bag "
            f"(a folder with {FILE_NAME} or an .mcap file, or that file)"
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
