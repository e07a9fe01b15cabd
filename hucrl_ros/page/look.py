"""Colours of the page: Okabe and Ito's, which colour-blind people tell apart as well."""

Colour = tuple[int, int, int]

ORANGE: Colour = (230, 159, 0)
SKY: Colour = (86, 180, 233)
GREEN: Colour = (0, 158, 115)
BLUE: Colour = (0, 114, 178)
VERMILION: Colour = (213, 94, 0)
PURPLE: Colour = (204, 121, 167)
GREY: Colour = (128, 134, 145)

OPTIMISTIC, EXPECTED, HAPPENED, GOAL = ORANGE, BLUE, GREEN, VERMILION
"""Of trajectories, and of the goal."""
ALLOWED, FORBIDDEN = SKY, VERMILION
"""Of regions to stay inside or outside of."""
BRAND = BLUE
"""Of buttons and tabs."""


def css(colour: Colour) -> str:
    """As a web page writes it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
