"""Colours of the page: Okabe and Ito's, which colour-blind people tell apart as well."""

from collections.abc import Sequence

Colour = tuple[int, int, int]

ORANGE: Colour = (230, 159, 0)
GREEN: Colour = (0, 158, 115)
BLUE: Colour = (0, 114, 178)
VERMILION: Colour = (213, 94, 0)
PURPLE: Colour = (204, 121, 167)
GREY: Colour = (128, 134, 145)

OPTIMISTIC, EXPECTED, HAPPENED, GOAL = ORANGE, BLUE, GREEN, VERMILION
"""Of trajectories, and of the goal."""
BRAND = BLUE
"""Of buttons and tabs."""


def colour_of(shares: Sequence[float]) -> Colour:
    """Of shares of red, green, blue and opacity, without the last."""
    red, green, blue, _ = (round(255 * float(share)) for share in shares)
    return red, green, blue


def css(colour: Colour) -> str:
    """As a web page writes it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
