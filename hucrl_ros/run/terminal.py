"""How anything gets on a terminal: names that others chose can't dress it up."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from hucrl_ros.run.progress import Phase


class Terminal(Console):
    """Shows texts as they are: brackets are units and names, and control characters are told."""

    def __init__(self, file: TextIO | None = None) -> None:
        super().__init__(file=file, markup=False, emoji=False, highlight=False)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Segments of what is to be shown."""
        for segment in super().render(renderable, options):
            text, style, control = segment
            if control or text.replace("\n", "").isprintable():
                yield segment
            else:
                shown = (c if c == "\n" or c.isprintable() else ascii(c)[1:-1] for c in text)
                yield Segment("".join(shown), style)


@contextmanager
def learning_shown() -> Iterator[Callable[[str, float], None]]:
    """Shows how far a learner is, in one line that goes; what it gives is the learner's progress.

    Where no terminal is, each phase is told once.
    """
    terminal, told = Terminal(), ""
    with terminal.status("learning") as status:

        def show(phase: str, share: float) -> None:
            nonlocal told
            name = Phase[phase.upper()].value
            if terminal.is_terminal:
                status.update(f"{name} ({share:.0%})")
            elif name != told:
                terminal.print(name)
            told = name

        yield show
