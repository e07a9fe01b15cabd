"""Names that others chose are shown as they are, and do nothing to the terminal."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as some
from rich.console import Group
from rich.table import Table
from rich.text import Text

from hucrl_ros.cli.doctor import print_findings
from hucrl_ros.config.schema import Config
from hucrl_ros.doctor import Finding
from hucrl_ros.errors import LONGEST, RunError
from hucrl_ros.run.live_view import LineView
from hucrl_ros.run.progress import Progress
from hucrl_ros.run.terminal import Terminal, learning_shown

NAMES = ("[/red]", "[bold]x", ":smile:", "\x1b[2J", "\x1b]0;title", "a\x00b", "[N m]")


def shown(*parts):
    stream = io.StringIO()
    Terminal(stream).print(Group(*parts))
    return stream.getvalue()


@pytest.mark.parametrize("name", NAMES)
def test_names_in_texts_and_tables_are_shown_as_they_are(name):
    table = Table(name, title=name)
    table.add_row(name)
    for text in (shown(name), shown(Text(name)), shown(table)):
        assert ascii(name)[1:-1] in text
        assert text.replace("\n", "").isprintable()


@given(name=some.text(max_size=50))
def test_nothing_in_a_name_breaks_the_markup(name):
    assert shown(name).replace("\n", "").isprintable()


def test_findings_are_shown_as_they_are(capsys):
    finding = Finding.fault("[/red] found", "do [/bold]")
    assert print_findings([("[/red]", finding)], "looking") == ["[/red]"]
    out = capsys.readouterr().out
    assert "[/red] found" in out and "do [/bold]" in out


def test_an_error_is_one_line_that_can_be_printed(capsys):
    line = str(RunError("a\nb\x1b[2J" + "x" * 10_000))
    assert line.startswith("a b\\x1b[2J") and line.isprintable() and len(line) <= 1.1 * LONGEST
    assert str(RunError("as  it is")) == "as  it is"


def test_notes_that_came_by_the_network_are_lines():
    stream = io.StringIO()
    LineView(stream).update(Progress(Config(), notes=["a\nb\x1b[2J"]))
    assert stream.getvalue().startswith("! a b\\x1b[2J\n")


def test_how_far_learning_is_is_told_once_a_phase_where_no_terminal_is(capsys):
    with learning_shown() as progress:
        for phase in ("fitting", "searching", "exporting"):
            for share in (0.0, 0.5, 1.0):
                progress(phase, share)
    lines = ["fitting the model", "searching policies", "writing the bundle"]
    assert capsys.readouterr().out.splitlines() == lines


def test_advice_is_one_line_that_can_be_copied_where_no_terminal_is(capsys):
    advice = "have them derived: --set driver.velocity=derived, " * 8
    print_findings([("velocities", Finding.fault("none " * 30, advice))], "listening")
    assert advice.strip() in capsys.readouterr().out
