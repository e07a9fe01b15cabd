"""Latency from joint state to command."""

import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hucrl bench loop`."""


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    raise NotImplementedError
