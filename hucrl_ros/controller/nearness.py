"""How nearest points of links and objects are found: what torch and the kernel have in common."""

TINY = 1e-6
"""[m] Lengths in contacts are taken to be at least as long where something is divided by them."""
ROUNDS = 4
"""Turns in which nearest points look for each other: of a link and the object's axis, then, in the
second half of the turns, of a link and the object."""
