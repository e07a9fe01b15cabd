"""Columns are declared once, for the terminal and for a page; CSV and pages of results."""

from hucrl_ros.experiments.presentation import Column, Table, write_csv, write_page

TABLE = Table(
    (Column("name", lambda row: row[0], "<6"), Column("ms", lambda row: f"{row[1]:.1f}", ">5"))
)
ROWS = [("first", 1.25), ("second", 10.0)]


def test_text_and_markdown_hold_the_same_cells():
    assert TABLE.text(ROWS) == ["name      ms", "first    1.2", "second  10.0"]
    assert TABLE.markdown(ROWS).splitlines() == [
        "| name | ms |",
        "| --- | --- |",
        "| first | 1.2 |",
        "| second | 10.0 |",
    ]


def test_nothing_is_an_empty_entry_of_a_csv_file(tmp_path):
    path = write_csv(tmp_path / "rows.csv", ["a", "b"], [(1, None), ("x,y", 0.5)])
    assert path.read_text() == 'a,b\n1,\n"x,y",0.5\n'


def test_a_page_says_how_it_was_made_and_leaves_out_what_is_empty(tmp_path):
    page = write_page(tmp_path / "README.md", "Ticks", "Made by", "hucrl bench tick", "", "Text.")
    assert page.read_text() == "# Ticks\n\nMade by\n\n    hucrl bench tick\n\nText.\n"
