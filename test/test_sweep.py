import contextlib
import csv
import os
import shlex
import signal
import subprocess
import sys
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import yaml
from matplotlib.colors import to_rgb
from own_robots import ARM, PENDULUM, write
from pretended_training import FAILS, HANGS
from waiting import wait_until

from hucrl_ros.cli import main
from hucrl_ros.cli.parsing import Command, command_line
from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import Config
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.experiments import statistics, sweep, sweep_report
from hucrl_ros.experiments.card_sections import failures
from hucrl_ros.experiments.grid import NOTHING, make_cells, one_setting, read_grid
from hucrl_ros.experiments.presentation import AMBER, BLUE, drawing
from hucrl_ros.experiments.statistics import (
    Group,
    Row,
    best_returns,
    collect,
    first_reaching,
    group_returns,
    mean_interval,
    write_rows,
)
from hucrl_ros.experiments.sweep import PARTIAL, Sweep
from hucrl_ros.experiments.sweep_report import draw_learning_curves, markdown_table, write_report
from hucrl_ros.experiments.workers import LocalWorkers, child_environment
from hucrl_ros.run.asked import RunOptions, asked_config
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import EpisodeSummary, Summary, write_summary
from hucrl_ros.tasks import export_check, known_optimum

PRETENDED = "pretended_training"
BASE = Config(episodes=3)


def read_rows(path):
    """Rows of a CSV file, as dictionaries of texts."""
    with path.open() as file:
        return list(csv.DictReader(file))


def sweep_of(folder, seeds, **settings):
    cells = make_cells(BASE, ["greedy", "optimistic"], [0.2], seeds, **settings)
    return Sweep(folder, cells)


def run(sweep, count, report=lambda cell, exit_: None):
    return sweep.run(LocalWorkers(count, sweep.logs, PRETENDED), report)


def row(strategy="optimistic", penalty=0.2, seed=0, episode=0, total=1.0, **changes):
    values = Row("pendulum", strategy, penalty, "", "", seed, episode, total,
                 None, None, None, None, 2.0, 1.0)  # fmt: skip
    return values._replace(**changes)


def gone(process):
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


# Cells


def test_cells_are_all_combinations_seed_by_seed():
    variation = one_setting("search.policy_noise", (0, 0.1))
    cells = make_cells(BASE, ["greedy", "thompson"], [0.0, 0.2], [3, 4], variation)
    assert len({cell.name for cell in cells}) == len(cells) == 16
    assert [cell.config.seed for cell in cells] == [3] * 8 + [4] * 8
    assert {cell.config.search.policy_noise for cell in cells} == {0.0, 0.1}
    assert {cell.value for cell in cells} == {"0", "0.1"}
    assert all(cell.config.episodes == 3 for cell in cells)


def test_cells_with_a_list_as_value_have_plain_folder_names():
    cells = make_cells(BASE, ["greedy"], [0.2], [0], one_setting("model.layers", ([8, 8], [16])))
    assert [cell.config.model.layers for cell in cells] == [(8, 8), (16,)]
    assert all(set(cell.name).isdisjoint(" /[]") for cell in cells)


@pytest.mark.parametrize(
    ("seeds", "variation", "message"),
    [
        ([1, 1], NOTHING, "seed1: the sweep asks for it more than once"),
        ([0], one_setting("search.policy_nose", (1,)), "policy_noise"),
        ([-1], NOTHING, "seed"),
    ],
)
def test_senseless_cells_are_refused_by_name(seeds, variation, message):
    with pytest.raises(ConfigError, match=message):
        make_cells(BASE, ["greedy"], [0.2], seeds, variation)


# Processes


def test_sweep_trains_every_cell_and_skips_what_is_finished(tmp_path):
    ended = []
    sweep = sweep_of(tmp_path, [0, 1])
    assert run(sweep, 2, lambda cell, exit_: ended.append((cell.name, exit_))) == []
    assert sorted(ended) == sorted((cell.name, None) for cell in sweep.cells)
    assert len(sweep.finished) == 4

    again = sweep_of(tmp_path, [0, 1, 2])
    ended.clear()
    run(again, 2, lambda cell, _: ended.append(cell.config.seed))
    assert ended == [2, 2]
    returns = group_returns(again.rows())
    np.testing.assert_allclose(
        returns[Group("greedy", 0.2, "")], [[0, 10, 20], [1, 11, 21], [2, 12, 22]]
    )


def test_failed_training_is_reported_and_the_others_go_on(tmp_path):
    sweep = sweep_of(tmp_path, [FAILS, 0])
    failures = run(sweep, 2)
    assert len(failures) == 2
    assert "the model exploded" in failures[0].description
    assert {cell.config.seed for cell in sweep.finished} == {0}


def test_finished_run_with_other_settings_is_not_taken_for_this_one(tmp_path):
    run(sweep_of(tmp_path, [0]), 1)
    cells = make_cells(Config(episodes=4), ["greedy"], [0.2], [0])
    with pytest.raises(ConfigError, match="other settings"):
        Sweep(tmp_path, cells)


def test_killed_sweep_leaves_no_process_and_the_next_one_finishes_it(tmp_path):
    script = (
        "import sys; from pathlib import Path; from test_sweep import run, sweep_of; "
        f"run(sweep_of(Path(sys.argv[1]), [0, {HANGS}]), 2)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], env=child_environment()
    )
    try:
        hanging = tmp_path / f"optimistic-rho0.2-seed{HANGS}{PARTIAL}"
        wait_until(lambda: (hanging / "started").exists())
        children = psutil.Process(process.pid).children()
        assert children
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    wait_until(lambda: all(gone(child) for child in children))

    sweep = sweep_of(tmp_path, [0])
    assert run(sweep, 1) == []
    assert len(sweep.finished) == 2
    assert len(sweep_of(tmp_path, [HANGS]).finished) == 0


def test_a_begun_training_goes_on_and_is_never_lost_to_one_with_other_settings(tmp_path):
    cells = make_cells(BASE, ["greedy"], [0.2], [0])
    name = cells[0].name
    begun = RunFolder.create(tmp_path / f"{name}{PARTIAL}", cells[0].config)
    (begun.bundles / "begun").touch()
    others = make_cells(Config(episodes=4), ["greedy"], [0.2], [0])
    with pytest.raises(ConfigError, match=f"{name}{PARTIAL}: was made with other settings"):
        run(Sweep(tmp_path, others), 1)
    assert run(Sweep(tmp_path, cells), 1) == []
    assert (tmp_path / name / "bundles" / "begun").exists()


def test_a_training_counts_and_goes_on_wherever_it_was_learned(tmp_path):
    finished, begun = make_cells(BASE, ["greedy", "optimistic"], [0.2], [0])
    elsewhere = {"device": "cuda"}
    run(Sweep(tmp_path, [finished]), 1)
    RunFolder(tmp_path / finished.name).change(finished.config.model_copy(update=elsewhere))
    partial = RunFolder.create(
        tmp_path / f"{begun.name}{PARTIAL}", begun.config.model_copy(update=elsewhere)
    )
    (partial.bundles / "begun").touch()
    sweep = Sweep(tmp_path, [finished, begun])
    assert sweep.finished == (finished,)
    assert run(sweep, 1) == []
    assert sweep.run_of(begun).config == begun.config
    assert (tmp_path / begun.name / "bundles" / "begun").exists()


def test_a_begun_training_that_lost_an_episode_starts_anew(tmp_path):
    sweep = sweep_of(tmp_path, [0])
    begun = RunFolder.create(tmp_path / f"{sweep.cells[0].name}{PARTIAL}", sweep.cells[0].config)
    begun.bundle(1).mkdir()
    assert run(sweep, 1) == []
    assert not sweep.run_of(sweep.cells[0]).bundle(1).exists()


def test_a_begun_training_with_unreadable_settings_starts_anew(tmp_path):
    sweep = sweep_of(tmp_path, [0])
    name = sweep.cells[0].name
    begun = RunFolder.create(tmp_path / f"{name}{PARTIAL}", BASE)
    begun.config_path.write_text("an older version's")
    assert run(sweep, 1) == []
    assert RunFolder.open(tmp_path / name).config == sweep.cells[0].config


def test_what_another_machine_has_made_is_not_trained_again(tmp_path):
    elsewhere = sweep_of(tmp_path / "elsewhere", [0])
    run(elsewhere, 2)
    table = tmp_path / "returns.csv"
    write_rows(table, elsewhere.rows())

    cells, here = make_cells(BASE, ["greedy", "optimistic"], [0.2], [0, 1]), tmp_path / "here"
    trained = []
    sweep = Sweep(here, cells, [table])
    assert sweep.rows() == elsewhere.rows()
    assert run(sweep, 1, lambda cell, _: trained.append(cell.config.seed)) == []
    assert trained == [1, 1]
    assert sweep.missing == ()
    assert sweep.rows() == elsewhere.rows() + sweep_of(here, [1]).rows()
    assert group_returns(sweep.rows())[Group("greedy", 0.2, "")].shape == (2, 3)
    # A run that lies here counts more than what is told of it.
    write_rows(table, [each._replace(seed=1, return_=-1.0) for each in elsewhere.rows()])
    assert Sweep(here, cells, [table]).rows() == sweep_of(here, [1]).rows()


def test_a_joined_run_that_the_sweep_has_not_is_refused_by_name(tmp_path):
    cells = make_cells(BASE, ["greedy"], [0.2], [0])
    table = tmp_path / "returns.csv"
    write_rows(table, [row("greedy", seed=7)])
    with pytest.raises(ConfigError, match=r"returns.csv: .* ask for: pendulum, greedy, 0\.2, 7$"):
        Sweep(tmp_path, cells, [table])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda rows: rows[:-1], "2 episodes, the last 1; expected 3, from 0 to 2, each once"),
        (lambda rows: [*rows, *rows], "6 episodes, the last 2; expected 3"),
    ],
    ids=["one that isn't whole", "one that is there twice"],
)
def test_a_joined_run_has_each_episode_once(change, told, tmp_path):
    elsewhere = sweep_of(tmp_path / "elsewhere", [0])
    run(elsewhere, 2)
    rows = elsewhere.rows()
    greedy = [each for each in rows if each.strategy == "greedy"]
    write_rows(tmp_path / "returns.csv", change(greedy))
    with pytest.raises(ConfigError, match=f"returns.csv: greedy-rho0.2-seed0: {told}"):
        Sweep(tmp_path / "here", elsewhere.cells, [tmp_path / "returns.csv"])


@pytest.mark.parametrize("text", ["x" * 200_000, "task,strategy"], ids=["long", "others"])
def test_what_is_no_table_is_refused_in_one_line(text, tmp_path):
    (tmp_path / "returns.csv").write_text(text)
    with pytest.raises(ConfigError, match=r"returns\.csv: no table of returns"):
        Sweep(tmp_path, sweep_of(tmp_path, [0]).cells, [tmp_path / "returns.csv"])


def test_a_table_that_is_not_there_is_named_once(tmp_path):
    path = tmp_path / "returns.csv"
    with pytest.raises(ConfigError, match=f"^{path}: no table of returns: No such file or dir"):
        statistics.read_rows(path)


@pytest.mark.parametrize("penalties", [(0.0, 0.0), (0.0, 0.1)])
def test_two_robots_of_one_name_are_not_one(penalties, tmp_path):
    for folder in "ab":
        write(tmp_path / folder, ARM)
    grid_file = tmp_path / "grid.yaml"
    grid_file.write_text(
        "tasks:\n"
        + "".join(
            f"  {f}/mine.yaml: {{action_penalties: [{penalty}]}}\n"
            for f, penalty in zip("ab", penalties, strict=True)
        )
        + "strategies: [greedy]\nseeds: [0]\n"
    )
    with pytest.raises(ConfigError, match="asks for it more than once"):
        read_grid(grid_file).cells()


@pytest.mark.parametrize("where", ["set", "tasks"])
def test_an_experiment_gives_seeds_by_its_own_words(where, tmp_path):
    changes = {"set": {"set": {"seed": 5}}, "tasks": {}}[where]
    of_task = {"action_penalties": [0.2], **({"set": {"seed": 5}} if where == "tasks" else {})}
    whole = {"tasks": {"pendulum": of_task}, "seeds": [0], **changes}
    (tmp_path / "grid.yaml").write_text(yaml.safe_dump(whole))
    with pytest.raises(ConfigError, match="seed: the experiment gives it values itself"):
        read_grid(tmp_path / "grid.yaml")


def test_the_legend_has_lines_that_the_first_panel_lacks(tmp_path, monkeypatch):
    rows = grid(("greedy",), values=("5",)) + grid(("thompson",), values=("5", "50"))
    figures = []

    @contextmanager
    def kept(path, size):
        with drawing(path, size) as figure:
            yield figure
            figures.append([text.get_text() for text in figure.legends[0].get_texts()])

    monkeypatch.setattr(sweep_report, "drawing", kept)
    draw_learning_curves(tmp_path / "curves.png", collect(rows))
    assert {"5", "50"} <= set(figures[0])


def test_a_run_all_of_whose_episodes_were_cut_has_no_best_one():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = best_returns(np.array([[np.nan, np.nan], [1.0, np.nan]]))
    np.testing.assert_equal(found, [np.nan, 1.0])


def test_two_sweeps_do_not_share_a_folder(tmp_path):
    sweep = sweep_of(tmp_path, [0])

    def second(cell, exit_):
        with pytest.raises(RunError, match="another sweep"):
            run(sweep_of(tmp_path, [1]), 1)

    run(sweep, 1, second)


# Statistics


def test_a_file_has_a_column_for_each_number_and_nothing_for_none(tmp_path):
    rows = [row(), row(episode=1, total=-3.25, promised_return=7.5, model_error=0.1, fit_s=2.0,
                       search_s=3.0, setting="search.policy_noise", value="0.1")]  # fmt: skip
    write_rows(tmp_path / "returns.csv", rows)
    header, *lines = (tmp_path / "returns.csv").read_text().splitlines()
    assert header == (
        "task,strategy,action_penalty,setting,value,seed,episode,return,promised_return,"
        "model_error,fit_s,search_s,wall_s,cpu_s"
    )
    assert lines == [
        "pendulum,optimistic,0.2,,,0,0,1.0,,,,,2.0,1.0",
        "pendulum,optimistic,0.2,search.policy_noise,0.1,0,1,-3.25,7.5,0.1,2.0,3.0,2.0,1.0",
    ]


def test_interval_of_equal_values_has_no_width():
    assert mean_interval(np.array([2.0, 2.0, 2.0])) == (2.0, 2.0, 2.0)
    assert mean_interval(np.array([3.0])) == (3.0, 3.0, 3.0)
    assert mean_interval(np.array([274.5, 274.5, 274.5 + 6e-14])) == (274.5, 274.5, 274.5)
    assert np.isnan(mean_interval(np.array([np.nan])).mean)


def test_interval_of_many_normal_values_is_the_known_one():
    values = np.random.default_rng(0).normal(5.0, 2.0, 400)
    mean, low, high = mean_interval(values)
    half = 1.96 * values.std() / np.sqrt(400)
    assert mean == pytest.approx(values.mean())
    assert low == pytest.approx(mean - half, abs=0.03)
    assert high == pytest.approx(mean + half, abs=0.03)
    assert mean_interval(values) == (mean, low, high)


def test_best_and_first_reaching_of_each_seed():
    returns = np.array([[0.0, 5.0, 3.0], [1.0, 2.0, np.nan], [9.0, 0.0, 9.0]])
    np.testing.assert_allclose(best_returns(returns), [5, 2, 9])
    np.testing.assert_allclose(first_reaching(returns, 3.0), [1, np.nan, 0])


def test_missing_episode_is_nan():
    rows = [row(total=1.0), row(episode=1, total=2.0), row(seed=5, total=3.0)]
    (returns,) = group_returns(rows).values()
    np.testing.assert_allclose(returns, [[1, 2], [3, np.nan]])


# Report


def grid(strategies=("greedy", "optimistic"), penalties=(0.0, 0.2), values=("",)):
    return [
        row(strategy, penalty, seed, episode, total=100.0 * episode + seed,
            setting="search.policy_noise" if value else "", value=value)
        for strategy in strategies for penalty in penalties for value in values
        for seed in range(3) for episode in range(4)
    ]  # fmt: skip


def test_table_has_one_row_for_each_group_with_counts():
    lines = markdown_table(collect(grid()), goal=301.0).splitlines()
    assert len(lines) == 2 + 4
    assert "seeds ≥ 301" in lines[0]
    assert lines[2].startswith("| 0 | greedy | 301.0 [")
    assert "| 2 of 3 | median 3, worst never |" in lines[2]
    assert lines[2].endswith(f"| {known_optimum('pendulum', 0.0):g} |")


def test_one_seed_has_no_interval():
    one = [each for each in grid() if each.seed == 1]
    lines = markdown_table(collect(one), goal=301.0).splitlines()
    assert lines[2].startswith("| 0 | greedy | 301.0 | 301.0 | 1 of 1 | 3 |")


def test_table_of_a_varied_setting_has_a_column_for_it():
    results = collect(grid(("optimistic",), (0.2,), ("0", "0.1")))
    lines = markdown_table(results, goal=1000.0).splitlines()
    assert "`search.policy_noise`" in lines[0]
    assert lines[2].startswith("| 0.2 | optimistic | 0 |")
    assert lines[3].startswith("| 0.2 | optimistic | 0.1 |")
    assert "| 0 of 3 | never |" in lines[2]


def test_table_of_a_robot_with_constraints_tells_how_well_they_were_kept():
    # Of three seeds of four episodes of 500 periods one left, in two episodes.
    left = {(1, 1): (6, 0.5), (1, 3): (3, 2.25)}
    rows = []
    for each in grid(("optimistic",), (0.2,)):
        outside, deepest = left.get((each.seed, each.episode), (0, 0.0))
        kept = {"steps": 500, "filtered": 2, "outside": outside, "deepest": deepest}
        rows.append(each._replace(**kept))
    head, _, line = markdown_table(collect(rows), goal=None).splitlines()
    assert head.endswith(
        "| seeds outside | states outside, of 1,000 | furthest outside [margins] "
        "| actions changed, of 1,000 |"
    )
    assert line.endswith("| 1 of 3 | 1.5 | 2.2 | 4.0 |")
    both = markdown_table(collect([*rows, *grid(("greedy",), (0.2,))]), goal=None).splitlines()
    assert both[3].endswith("| 0 of 0 | nan | nan | nan |")


def test_episodes_within_constraints_have_more_columns_and_others_have_not(tmp_path):
    plain, kept = row(), row(steps=500, filtered=2, outside=0, deepest=0.0)
    for rows, last in (([plain], "cpu_s"), ([plain, kept], "deepest")):
        write_rows(tmp_path / "returns.csv", rows)
        written = (tmp_path / "returns.csv").read_text()
        again = statistics.read_rows(tmp_path / "returns.csv")
        assert again == rows
        write_rows(tmp_path / "returns.csv", again)  # whole numbers stay whole
        assert (tmp_path / "returns.csv").read_text() == written
        header = written.splitlines()[0]
        assert header.rpartition(",")[2] == last


@pytest.mark.parametrize(
    ("strategies", "values"),
    [
        (("greedy", "optimistic"), ("",)),
        (("optimistic",), ("0", "0.1", "0.2")),
        (("greedy", "optimistic"), ("0", "0.1")),
    ],
)
def test_report_writes_figures_and_a_page_with_its_command(tmp_path, strategies, values):
    rows = grid(strategies, values=values)
    files = write_report(tmp_path / "out", rows, 265.0, "hucrl sweep pendulum --out out")
    assert [path.name for path in files] == [
        "learning_curves.png",
        "best_returns.png",
        "README.md",
    ]
    assert all(path.stat().st_size > 10_000 for path in files[:2])
    page = files[2].read_text()
    assert "\n    hucrl sweep pendulum --out out\n" in page
    runs = len(strategies) * 2 * len(values) * 3
    assert f"Runs: {runs} (seeds 0, 1, 2), with" in page


def test_report_of_a_robot_with_constraints_shows_how_often_it_was_outside(tmp_path, monkeypatch):
    drawn = {}
    curves = sweep_report.draw_learning_curves

    def kept(path, results, *args, **kwargs):
        drawn[path.name] = results.groups
        return curves(path, results, *args, **kwargs)

    monkeypatch.setattr(sweep_report, "draw_learning_curves", kept)
    rows = grid(("optimistic",), (0.2,), ("filter", "guard alone"))
    told = [
        each._replace(
            steps=500, filtered=0, deepest=0.0, outside=each.seed * (each.value != "filter")
        )
        for each in rows
    ]
    files = write_report(tmp_path, told, None, "hucrl sweep")
    assert files[0].name == "outside.png"
    assert "](outside.png)" in files[-1].read_text()
    for value, of_seeds in (("filter", [0, 0, 0]), ("guard alone", [0, 2, 4])):
        found = drawn["outside.png"][Group("optimistic", 0.2, value)]
        np.testing.assert_allclose(found, np.repeat(np.array(of_seeds)[:, None], 4, axis=1))


def test_words_have_colours_of_no_order_and_numbers_have_shades():
    words = collect(grid(("optimistic",), (0.2,), ("filter", "guard alone"))).series
    assert [series.colour for series in words.values()] == [BLUE, AMBER]
    numbers = collect(grid(("optimistic",), (0.2,), ("0", "0.5", "1"))).series
    light = [sum(to_rgb(series.colour)) for series in numbers.values()]
    assert light == sorted(light, reverse=True)


@pytest.mark.parametrize(("values", "titles"), [(8, ["action penalty ρ = 0.2"]), (9, None)])
def test_more_lines_than_can_be_told_apart_get_axes_of_their_own(
    tmp_path, monkeypatch, values, titles
):
    figures = []

    @contextlib.contextmanager
    def kept(path, size):
        with drawing(path, size) as figure:
            yield figure
            figures.append(figure)

    monkeypatch.setattr(sweep_report, "drawing", kept)
    names = [f"{0.1 * k:g}" for k in range(values)]
    rows = grid(("optimistic",), (0.2,), names)
    draw_learning_curves(tmp_path / "curves.png", collect(rows))
    shown = [axes for axes in figures[0].axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == (titles or names)
    assert len(figures[0].legends) == (titles is not None)


def test_report_takes_in_what_people_wrote(tmp_path):
    (tmp_path / "reading.md").write_text("So it is the optimiser.\n")
    *_, page = write_report(tmp_path, grid(), None, "hucrl sweep")
    text = page.read_text()
    assert text.index("| 0.2 |") < text.index("So it is the optimiser.") < text.index("![")


# Command


def sweep_pendulum(*words):
    return main(["sweep", "pendulum", *words])


def test_command_line_in_the_report_parses_to_the_same_sweep(monkeypatch):
    understood = []
    monkeypatch.setattr(Command, "invoke", lambda self, ctx: understood.append(ctx))
    words = ["--strategies", "greedy", "--action-penalties", "0", "0.2", "--seeds", "1", "2",
             "--episodes", "4", "--goal=-6", "--vary", "search.policy_noise=0,0.1",
             "--set", "planner.horizon=7", "--out", "some where"]  # fmt: skip
    assert sweep_pendulum(*words, "--workers", "2") == 0
    line = command_line(understood[0], leave_out=["workers"])
    assert line.startswith("hucrl sweep pendulum --")
    assert main(shlex.split(line)[1:]) == 0
    first, again = (ctx.params for ctx in understood)
    assert again == {**first, "workers": None}
    line = command_line(understood[1], seeds=(7, 8), goal=None)
    assert "--seeds 7 8" in line
    assert "--goal" not in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--workers", "0"], "--workers = 0"),
        (["--vary", "search.policy_noise"], "expected KEY=V1,V2"),
        (["--vary", "search.policy_noise="], "expected KEY=V1,V2"),
        (["--goal", "nan", "--report"], "--goal = nan: expected a finite number"),
        (["--set", "seed=3"], "--set seed"),
        (["--vary", "planner.noise=0", "--set", "planner.noise=1"], "--set planner.noise"),
        (["--set", "planner.horizn=3"], "horizon"),
        (["--set", "episodes=3", "--episodes", "5"], "episodes = 3, but also 5"),
        (["--vary", "episodes=3,5", "--episodes", "4"], "--episodes: the sweep itself gives"),
        (["--vary", "seed=1,2"], "--vary seed: the sweep gives it values"),
        (["--vary", "task=pendulum,cartpole"], "--vary task"),
    ],
)
def test_wrong_arguments_get_one_line(tmp_path, words, message, capsys):
    assert sweep_pendulum("--out", os.fspath(tmp_path / "out"), *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_finished_sweep_is_only_reported_anew(tmp_path, capsys):
    words = ["--strategies", "greedy", "--action-penalties", "0.2", "--seeds", "0", "1"]
    places = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path)]
    base = asked_config(RunOptions("pendulum", overrides={"episodes": 3}))
    run(Sweep(tmp_path, make_cells(base, ["greedy"], [0.2], [0, 1])), 2)
    assert sweep_pendulum(*words, "--episodes", "3", *places) == 0
    assert "2 of 2 runs are finished already" in capsys.readouterr().out
    assert len(read_rows(tmp_path / "out" / "returns.csv")) == 6


def test_a_robot_of_ones_own_has_the_optima_that_its_description_tells(tmp_path, monkeypatch):
    monkeypatch.setattr(export_check, "check_export", lambda task: None)  # It takes seconds.
    robot = write(tmp_path / "robot", {**PENDULUM, "task": {"optima": {0.3: 123.5}}})
    grid_file = tmp_path / "grid.yaml"
    of_task = {str(robot): {"action_penalties": [0.2, 0.3], "episodes": 3}}
    plan = {"tasks": of_task, "strategies": ["greedy"], "seeds": [0]}
    grid_file.write_text(yaml.safe_dump(plan))
    run(Sweep(tmp_path / "runs", read_grid(grid_file).cells()), 2)
    out, runs = tmp_path / "out", tmp_path / "runs"
    assert main(["sweep", *map(str, (grid_file, "--report", "--out", out, "--runs", runs))]) == 0
    lines = (out / "README.md").read_text().splitlines()
    ends = {
        line.split("|")[1].strip(): line.split("|")[-2].strip() for line in lines if "|" in line
    }
    assert ends == {"ρ": "optimum", "---": "---", "0.2": "", "0.3": "123.5"}


def test_a_finished_run_whose_settings_nobody_can_read_does_not_count(tmp_path):
    sweep = sweep_of(tmp_path, [0])
    run(sweep, 2)
    sweep.run_of(sweep.cells[0]).config_path.unlink()
    with pytest.raises(ConfigError):
        sweep_of(tmp_path, [0])


def test_a_report_of_nothing_says_so(tmp_path, capsys):
    out, nowhere = tmp_path / "out", tmp_path / "nowhere"
    assert sweep_pendulum("--out", str(out), "--runs", str(nowhere), "--report") == 1
    assert f"{nowhere}: no finished run of the sweep lies there" in capsys.readouterr().err


def test_the_pendulum_by_its_yaml_is_the_pendulum(monkeypatch):
    plans = []
    monkeypatch.setattr(
        "hucrl_ros.cli.sweep._write", lambda out, sweep, plan, report: plans.append(plan)
    )
    files = [str(share_directory() / folder / "pendulum.yaml") for folder in ("sim", "config")]
    for task in ("pendulum", *files):
        assert main(["sweep", task, "--out", "out", "--report"]) == 0
    one, *others = plans
    for other in others:
        assert one.goals == other.goals
        assert [cell.name for cell in one.cells] == [cell.name for cell in other.cells]


@pytest.mark.slow
def test_command_trains_really(tmp_path, capsys):
    words = ["--strategies", "optimistic", "--action-penalties", "0.2", "--seeds", "0"]
    for setting in ("model.fit_steps=2", "search.iterations=1", "planner.particles=8"):
        words += ["--set", setting]
    places = ["--out", str(tmp_path / "out"), "--runs", str(tmp_path / "runs")]
    assert sweep_pendulum(*words, "--episodes", "2", *places) == 0
    rows = read_rows(tmp_path / "out" / "returns.csv")
    assert [row["episode"] for row in rows] == ["0", "1"]
    assert rows[0]["promised_return"] == "" != rows[1]["promised_return"]
    assert float(rows[1]["model_error"]) > 0
    assert float(rows[0]["fit_s"]) > 0


def test_the_interquartile_mean_leaves_out_what_is_missing():
    scores = np.array([0.0, 1.0, 2.0, 3.0, np.nan])
    found = statistics.interquartile_interval(scores)
    assert found == statistics.interquartile_interval(scores[:4]) and found.mean == 1.5
    assert np.isnan(statistics.interquartile_interval(scores[4:]).mean)


def test_episodes_that_a_surprise_ended_count_as_missing(tmp_path):
    def episode(index, return_, cut=False):
        return EpisodeSummary(
            index=index, return_=return_, predicted_return=-20.0, steps=3 if cut else 150,
            cut=cut, tick_ms=None, misses=0, fallbacks=0, clamps=0, filtered=None, outside=None,
            deepest=None, fit_s=1.0, search_s=1.0, complexity=None, bag=None,
            bundle=f"bundles/bundle_{index:03d}",
        )  # fmt: skip

    episodes = [episode(0, -60.0), episode(1, -35.0), episode(2, -0.4, cut=True)]
    episodes += [episode(3, -33.0)]
    times = {"optimum": None, "wall_s": 1.0, "cpu_s": 1.0, "in_process": True}
    summary = Summary.of(Config(task="reacher"), episodes=episodes, **times)
    write_summary(tmp_path / "summary.json", summary)
    run = SimpleNamespace(summary=tmp_path / "summary.json", bundle=lambda k: tmp_path / str(k))
    rows = sweep._rows_of(SimpleNamespace(setting="", value=""), run)
    (returns,) = group_returns(rows).values()
    assert best_returns(returns)[0] == summary.best_return == -33.0
    assert np.isnan(first_reaching(returns, -5.0)[0])
    (section,) = [failures(SimpleNamespace(report=SimpleNamespace(refused=0)), summary)]
    assert [where for where, what in section.rows if "badly" in what] == ["episode 0"]
