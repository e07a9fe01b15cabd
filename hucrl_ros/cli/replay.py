"""`hucrl replay`: recomputes the commands of a recorded episode."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from hucrl_ros.cli.options import Json

if TYPE_CHECKING:
    from hucrl_ros.run.replay import Replay


def run(
    episode: Annotated[
        Path, Argument(metavar="EPISODE", help="its bag: a folder in a run's episodes/, or a file")
    ],
    bundle: Annotated[
        Path | None,
        Option(metavar="BUNDLE", help="compute with this one; default: the one that was played"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compute every command of an episode once more, and compare.

    Each in the state, and after the commands, of the recording; also of one in real time. On the
    same processor, with the same versions, all are equal to the last bit. With --bundle it tells
    what another bundle would have commanded in the same states. Exit code 0: all are equal; 1:
    they aren't, or not all could be computed.
    """
    from hucrl_ros.run.replay import replay

    found = replay(episode, bundle)
    print(_json(found) if as_json else _table(found))
    if found.equal < found.ticks:
        raise typer.Exit(1)


def _json(found: "Replay") -> str:
    first = found.first
    return json.dumps(
        {
            "bundles": found.bundles,
            "ticks": found.ticks,
            "compared": len(found.rows),
            "equal": found.equal,
            "first": None if first is None else first._asdict(),
            "joints": {
                joint: {"mean": float(mean), "largest": float(largest)}
                for joint, mean, largest in _apart(found)
            },
            "notes": found.notes,
        },
        indent=2,
    )


def _apart(found: "Replay") -> list[tuple[str, float, float]]:
    """Each joint, with mean and largest difference of its actions."""
    if not found.rows:
        return []
    apart = found.apart
    return list(zip(found.joints, apart.mean(axis=0), apart.max(axis=0), strict=True))


def _table(found: "Replay") -> str:
    from hucrl_ros.controller.ticks import Source

    lines = [
        f"bundle    {', '.join(found.bundles)}",
        f"ticks     {found.ticks}",
        f"compared  {len(found.rows)}",
        f"equal     {found.equal}",
    ]
    first = found.first
    if first is not None:
        lines += [
            f"differs   first in step {first.step} ({Source(first.source).name.lower()})",
            f"          recorded    {list(first.recorded)}",
            f"          recomputed  {list(first.recomputed)}",
            f"{'joint':<24}{'mean |difference|':>20}{'largest':>20}",
            *(f"{joint:<24}{mean:>20.6g}{most:>20.6g}" for joint, mean, most in _apart(found)),
        ]
        if not found.notes:
            lines.append(
                "note      bundle, processor, versions and engine are the same: the bag was "
                "altered, or this is a bug"
            )
    lines += [f"note      {note}" for note in found.notes]
    return "\n".join(lines)
