"""Interquartile means and their intervals; other people's algorithms beside ours on a page."""

import numpy as np
import pytest
from scipy.stats import norm
from test_sweep import grid, row

from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.comparison import write_comparison
from hucrl_ros.experiments.statistics import interquartile_interval, read_rows, write_rows


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [*grid(), row("sac", model_error=0.25, value="0.1")]
    write_rows(tmp_path / "returns.csv", rows)
    assert read_rows(tmp_path / "returns.csv") == rows


@pytest.mark.parametrize("text", ["", "a,b\n1,2\n"])
def test_what_is_no_table_of_returns_is_refused_by_name(tmp_path, text):
    (tmp_path / "other.csv").write_text(text)
    with pytest.raises(ConfigError, match=r"other\.csv: no table of returns"):
        read_rows(tmp_path / "other.csv")
    with pytest.raises(ConfigError, match=r"none\.csv: no table of returns"):
        read_rows(tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("scores", "mean"),
    [
        ([5.0], 5.0),
        ([0.0, 1.0, 5.0], 2.0),  # a quarter of three is less than one
        ([-1000.0, 1.0, 3.0, 1000.0], 2.0),
        ([1.0, 2.0, 3.0, 4.0, 90.0], 3.0),
    ],
)
def test_an_interquartile_mean_leaves_out_a_quarter_at_each_end(scores, mean):
    interval = interquartile_interval(np.array(scores))
    assert interval.mean == mean
    assert interval.low <= mean <= interval.high


def test_the_interval_of_two_runs_holds_what_four_draws_can_give():
    # (0, 0), (0, 1), (1, 0), (1, 1): a quarter of the resamples is 0, a quarter is 1.
    assert tuple(interquartile_interval(np.array([0.0, 1.0]))) == (0.5, 0.0, 1.0)


def test_the_interval_is_as_wide_as_the_theory_of_normal_scores_says():
    # n times the variance of a mean trimmed at the quartiles ±q is that of the draws clipped to
    # them, over the square of the half that is kept: 1.195 for standard normals.
    q = norm.ppf(0.75)
    variance = (0.5 - 2 * q * norm.pdf(q) + 0.5 * q**2) / 0.5**2
    draws = np.random.default_rng(0).standard_normal(2000)
    _, low, high = interquartile_interval(draws)
    assert high - low == pytest.approx(2 * norm.ppf(0.975) * np.sqrt(variance / 2000), rel=0.08)


@pytest.fixture
def compared():
    """Two runs of ours for 4 episodes, three of another algorithm for 8, at two penalties."""
    return [
        row(name, penalty, seed, episode, total=10.0 * episode + seed, wall_s=100.0 * (seed + 1))
        for name, seeds, episodes in (("optimistic", 2, 4), ("sac", 3, 8))
        for penalty in (0.0, 0.2)
        for seed in range(seeds)
        for episode in range(episodes)
    ]


def test_the_table_compares_at_equal_movement(tmp_path, compared):
    figure, page = write_comparison(tmp_path / "out", compared, 5.0, 40.5, "python baseline.py")
    header, _, ours, theirs = page.read_text().split("\n\n")[4].splitlines()[:4]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in (header, ours, theirs)]
    of = {title: values for title, *values in zip(*cells, strict=True)}
    assert of["algorithm"] == ["optimistic", "sac"]
    assert of["seeds"] == ["2", "3"]
    assert of["best return within 20 s of movement"] == ["30.5 [30.0, 31.0]", "31.0 [30.0, 32.0]"]
    assert of["best return within 40 s of movement"] == ["–", "71.0 [70.0, 72.0]"]
    assert of["return of the last episode"] == ["30.5 [30.0, 31.0]", "71.0 [70.0, 72.0]"]
    assert of["movement until ≥ 40.5 [s]"] == ["never, never", "30, 25, 25"]
    assert of["wall time [s]"] == ["150", "200"]
    assert of["processor time [s]"] == ["1", "1"]
    assert figure.stat().st_size > 10_000


def test_no_mean_is_of_longer_and_shorter_runs(tmp_path):
    rows = [
        row(
            "sac", seed=seed, episode=episode, total=10.0 * episode + seed, wall_s=100.0 * episodes
        )
        for seed, episodes in enumerate((8, 8, 2))
        for episode in range(episodes)
    ]
    _, page = write_comparison(tmp_path, rows, 5.0, None, "python baseline.py")
    header, _, line = page.read_text().split("\n\n")[4].splitlines()
    cells = [[cell.strip() for cell in each.split("|")[1:-1]] for each in (header, line)]
    of = dict(zip(*cells, strict=True))
    assert of["seeds"] == "3"
    assert of["best return within 10 s of movement"] == "11.0 [10.0, 12.0]"
    assert of["best return within 40 s of movement"] == "–"
    assert of["return of the last episode"] == "–"
    assert of["wall time [s]"] == of["processor time [s]"] == "–"


def test_runs_of_a_varied_setting_have_names_that_differ(tmp_path):
    rows = [row("greedy", value="10"), row("greedy", value="20"), row("sac")]
    _, page = write_comparison(tmp_path, rows, 5.0, None, "python baseline.py")
    lines = page.read_text().splitlines()
    names = [line.split("|")[2].strip() for line in lines if line.startswith("| 0.2 ")]
    assert sorted(names) == ["greedy 10", "greedy 20", "sac"]


def test_the_page_has_its_command_and_takes_in_what_people_wrote(tmp_path, compared):
    (tmp_path / "reading.md").write_text("Three seeds.\n")
    _, page = write_comparison(tmp_path, compared, 5.0, None, "python baseline.py")
    text = page.read_text()
    assert "\n    python baseline.py\n" in text
    assert "Three seeds." in text
    assert "until" not in text
