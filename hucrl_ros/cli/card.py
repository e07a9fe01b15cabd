"""`hucrl card`: what a person wants to know of a bundle before it moves a robot."""

from pathlib import Path
from typing import Annotated

from typer import Option

from hucrl_ros.cli.options import LARGEST_SEED, Bundle
from hucrl_ros.errors import ConfigError

FIRST_SEED = 10_000
"""Of fresh starts; far from the seeds that runs usually have."""


def run(
    bundle: Bundle,
    html: Annotated[
        Path | None, Option(metavar="FILE", help="write a page: one file, no outside requests")
    ] = None,
    out: Annotated[
        Path | None, Option(metavar="FILE", help="write Markdown there; default: print it")
    ] = None,
    starts: Annotated[
        int, Option(metavar="N", min=0, help="episodes to play in simulation; 0: none")
    ] = 10,
    seed: Annotated[
        int, Option(min=0, max=LARGEST_SEED, help="of the first of these episodes")
    ] = FIRST_SEED,
    robot: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="YAML of a robot of your own, where the bundle has left the folder of its run",
        ),
    ] = None,
) -> None:
    """Make a card of a bundle.

    Task, data, settings, learning curve, calibration, what it achieves from fresh starts in
    simulation, limits, known failures, hashes, and who signed it. The bundle is first read and its
    graphs run in a process with limits of time and memory. Files are not overwritten. The Python
    functions that the YAML of its robot names are run, which is said before.
    """
    from hucrl_ros.cli.functions import say_functions_of
    from hucrl_ros.datasets.target import require_free, whole
    from hucrl_ros.experiments import card_pages
    from hucrl_ros.experiments.card import card_of

    if html is not None and html == out:
        raise ConfigError(f"--html and --out: both {html}; two files are written")
    for target in (html, out):
        if target is not None:
            require_free(target)
    say_functions_of("card", bundle, robot)
    card = card_of(bundle, starts, seed, robot)
    pages = {html: card_pages.html, out: card_pages.markdown}
    for target, page in pages.items():
        if target is not None:
            with whole(target) as unfinished:
                unfinished.write_text(page(card), encoding="utf-8")
            print(target)
    if html is None and out is None:
        print(card_pages.markdown(card), end="")
