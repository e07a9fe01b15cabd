"""Planners, models, searches and reward terms of other packages, found by their entry points.

A package offers, say, a planner by two lines in its `pyproject.toml`:

    [project.entry-points."hucrl_ros.planners"]
    my_planner = "my_package.my_module:MyPlanner"

Entry points are looked up where a name isn't one of ours, and loaded where it is used.
"""

from collections.abc import Collection
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from pydantic import ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from hucrl_ros.errors import ConfigError, meant

KINDS = {
    "planners": "planner",
    "models": "model",
    "searches": "search",
    "reward_terms": "reward term",
}
"""What a package can provide: end of the entry points' group `hucrl_ros.<kind>`, and a noun."""
Base = TypeVar("Base")


def installed(kind: str, ours: Collection[str]) -> dict[str, EntryPoint]:
    """Plug-ins of one kind by name, not loaded yet.

    Args:
        kind: One of `KINDS`.
        ours: Names that this package provides.

    Raises:
        ConfigError: two packages provide one name, or one provides a name of ours.
    """
    found: dict[str, EntryPoint] = {}
    for point in entry_points(group=f"hucrl_ros.{kind}"):
        if point.name in ours or point.name in found:
            other = "hucrl_ros" if point.name in ours else package_of(found[point.name])
            raise ConfigError(
                f"{KINDS[kind]} {point.name!r} is provided by {other} and by "
                f"{package_of(point)}; rename it in one package, or uninstall one"
            )
        found[point.name] = point
    return found


def load(kind: str, name: str, ours: Collection[str], base: type[Base]) -> type[Base]:
    """The class that an installed package provides under `name`.

    Raises:
        ConfigError: there is none, it can't be loaded, or it doesn't derive from `base`.
    """
    points = installed(kind, ours)
    if name not in points:
        raise ConfigError(_unknown(kind, name, [*ours, *points]))
    point, noun = points[name], KINDS[kind]
    try:
        member = point.load()
    except Exception as error:
        raise ConfigError(
            f"{noun} {name!r} of package {package_of(point)} can't be loaded from {point.value}: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from None
    if not (isinstance(member, type) and issubclass(member, base)):
        raise ConfigError(
            f"{noun} {name!r} of package {package_of(point)}: {point.value} is no class that "
            f"derives from {base.__module__}.{base.__name__}"
        )
    return member


def package_of(point: EntryPoint) -> str:
    """Name of the package that provides an entry point."""
    return point.dist.name if point.dist else point.module


def names_of(kind: str, ours: Collection[str]) -> WrapValidator:
    """A validator that lets the names of installed plug-ins pass besides `ours`."""

    def check(value: object, handler: ValidatorFunctionWrapHandler) -> object:
        try:
            return handler(value)
        except ValidationError:
            if not isinstance(value, str):
                raise
        try:
            points = installed(kind, ours)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        if value not in points:
            raise ValueError(_unknown(kind, value, [*ours, *points]))
        return value

    return WrapValidator(check)


def _unknown(kind: str, name: str, known: Collection[str]) -> str:
    return (
        f"{name!r} is unknown; {meant(name, known)}known: {', '.join(known)}; or a "
        f"{KINDS[kind]} of another package that is installed here (entry points hucrl_ros.{kind})"
    )
