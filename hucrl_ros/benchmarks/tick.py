"""How long a planning tick takes."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench tick`."""


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    raise NotImplementedError
