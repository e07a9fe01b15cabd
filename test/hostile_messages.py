"""Messages of any type with anything in them that DDS delivers."""

import math
import re
from importlib import import_module

from hypothesis import strategies as some

NAMES = ("pendulum_joint", "world", "", "stamp_sec", "step", "source", "/controller", "progress")
TEXTS = some.sampled_from(
    [*NAMES, "x" * 5000, "a\nb\x1b[2J", "[/red]", "\x00", "\ufffd" * 9, "nan", "error: x", "../.."]
)
FLOATS = some.floats() | some.sampled_from([0.0, math.nan, math.inf, -math.inf, 1e308, 2.0**63])
STAMPS = some.tuples(
    some.sampled_from([-(2**31), -1, 0, 1, 1, 1, 2, 2**31 - 1]),
    some.integers(0, 80).map(lambda k: k * 12_500_000) | some.sampled_from([0, 2**32 - 1]),
)
"""Seconds and nanoseconds: often near each other, at times far away."""
LENGTHS = some.sampled_from([0, 1, 1, 2, 13, 15, 16, 3000])
FEW = some.sampled_from([0, 1, 2, 15, 200])
"""Of what is put together itself, e.g. labels."""
_INTEGER = re.compile(r"(u?)int(\d+)")


@some.composite
def _filled(draw, element, lengths):
    """A list of any length, of few different entries."""
    few = draw(some.lists(element, min_size=1, max_size=3))
    count = draw(lengths)
    return [few[k % len(few)] for k in range(count)]


def of_field(kind):
    """What may be in a field of a type, by the name that ROS gives it."""
    if kind.startswith("sequence<"):
        element = kind.removeprefix("sequence<").removesuffix(">").split(",")[0]
        if element == "octet":
            return some.lists(some.sampled_from([b"\x00", b"\xff"]), max_size=3)
        return _filled(of_field(element), FEW if "/" in element else LENGTHS)
    if whole := _INTEGER.fullmatch(kind):
        unsigned, bits = bool(whole[1]), int(whole[2])
        low, high = (0, 2**bits - 1) if unsigned else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return some.integers(low, high) | some.sampled_from([low, high, 0, 1])
    simple = {
        "double": FLOATS,
        "float": some.floats(width=32),
        "boolean": some.booleans(),
        "octet": some.binary(min_size=1, max_size=1),
    }
    if kind in simple:
        return simple[kind]
    if kind.startswith("string"):
        return TEXTS
    package, name = kind.split("/")
    return of_type(getattr(import_module(f"{package}.msg"), name))


def of_type(kind):
    """Messages of a class."""
    fields = {
        name: of_field(field)
        for name, field in kind.get_fields_and_field_types().items()
        if not re.fullmatch(r".*\[\d+\]", field)  # arrays of fixed length
    }
    return some.fixed_dictionaries(fields).map(lambda values: kind(**values))
