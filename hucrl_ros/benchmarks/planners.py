"""Return against planning time."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench planners`."""


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    raise NotImplementedError
