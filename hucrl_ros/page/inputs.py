"""Inputs of viser's that the page itself changes, and lines below them."""

from html import escape
from typing import TypeVar

from viser import GuiHtmlHandle, GuiInputHandle

T = TypeVar("T")


def put(handle: GuiInputHandle[T], value: T) -> None:
    """Show a value, as if it had been entered."""
    if handle.value != value:
        # Its setter doesn't follow its getter at once, so the type checker overlooks it.
        handle.value = value  # type: ignore[misc]


def say(place: GuiHtmlHandle, line: str) -> None:
    """Show one line of anybody's text."""
    write(place, f"<div style='font-size:0.8em;padding:0 0.75em 0.3em'>{escape(line)}</div>")


def write(place: GuiHtmlHandle, content: str) -> None:
    """Show HTML of ours; where it is there already nothing is sent."""
    if place.content != content:
        place.content = content
