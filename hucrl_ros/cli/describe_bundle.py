"""A bundle's manifest as tables."""

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from hucrl_ros.controller.bundle import Bundle, Promise
from hucrl_ros.controller.manifest import Manifest

HASH_DIGITS = 12


def describe_bundle(bundle: Bundle) -> RenderableType:
    """Tables that say what a checked bundle is."""
    manifest = bundle.manifest
    title = Text(f"Bundle {bundle.path}", style="bold")
    verified = Text(
        "verified: hashes, shapes, and agreement with torch's outputs within "
        f"{manifest.parity_tolerance:g}",
        style="green",
    )
    tables = [
        pairs(_purpose(manifest)),
        _joints(manifest),
        pairs({k: str(v) for k, v in manifest.planner}, title="Planner"),
        pairs({k: str(v) for k, v in manifest.safety}, title="Safety"),
        pairs(_learning(manifest), title="Learning"),
        *([] if bundle.promise is None else [_promise(bundle.promise)]),
        _files(manifest),
    ]
    return Group(title, verified, *(part for table in tables for part in ("", table)))


def pairs(values: Mapping[str, str], title: str | None = None) -> Table:
    """A table of names and values."""
    table = Table(title=title, show_header=False, box=None, title_justify="left", pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in values.items():
        table.add_row(name, value)
    return table


def _purpose(manifest: Manifest) -> dict[str, str]:
    plays = "uniformly random efforts" if manifest.random else manifest.planner.algorithm
    return {
        "task": f"{manifest.task}, action penalty {manifest.action_penalty:g}",
        "plays": f"episode {manifest.episode} by {plays}",
        "strategy": f"{manifest.strategy}, beta {manifest.beta:g}, seed {manifest.seed}",
        "control": f"{manifest.steps} steps of {1e3 * manifest.period:g} ms",
        "discount": f"{manifest.discount:g}",
        "robot": manifest.robot,
    }


def _joints(manifest: Manifest) -> Table:
    table = Table("joint", "effort limit", "std of a change of (position, velocity)", box=None)
    limits = dict(zip(manifest.actuated_joints, manifest.effort_limits, strict=True))
    joints = len(manifest.joint_names)
    for index, name in enumerate(manifest.joint_names):
        limit = f"±{limits[name]:g}" if name in limits else "no motor"
        std = manifest.target_std[index], manifest.target_std[index + joints]
        table.add_row(name, limit, f"{std[0]:.4g}, {std[1]:.4g}")
    return table


def _learning(manifest: Manifest) -> dict[str, str]:
    known = {k: f"{v:.5g}" for k, v in manifest.report if v is not None}
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    return {
        **(known or {"report": "nothing learned yet"}),
        "data": manifest.data_hash[:HASH_DIGITS] or "none",
        "revision": manifest.revision,
        "versions": versions,
    }


def _promise(promise: Promise) -> Table:
    text = f"return {promise.rewards.sum():.1f} over {len(promise.rewards)} steps"
    return pairs({"imagined episode": text}, title="Promise")


def _files(manifest: Manifest) -> Table:
    hashes = {name: f"{digest[:HASH_DIGITS]}…" for name, digest in manifest.files.items()}
    return pairs(hashes, title="Files")
