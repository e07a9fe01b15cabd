"""`hucrl bench planners`: what is played, what is counted, what is written."""

import csv
import json
import shlex

import numpy as np
import pytest
from bundle_factory import PLANNER, write_bundle

from hucrl_ros.benchmarks import figures, report
from hucrl_ros.benchmarks.planners import COMPARED, make_comparison, parse_size
from hucrl_ros.benchmarks.results import PlannerRow, Size, numbers, planner_scores
from hucrl_ros.cli import main
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.evaluation import evaluate, open_bundle, with_settings
from hucrl_ros.planners import PLANNERS


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("run") / "bundles" / "bundle_001")


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "bundles" / "bundle_000"
    return write_bundle(path, episode=0, random=True)


def comparison_of(*bundles, planners=None, sizes=("8x2",), budgets_ms=None, episodes=1, seed=0):
    return make_comparison(bundles, planners, sizes, budgets_ms, episodes, seed, {})


def bench(*words):
    return main(["bench", "planners", *map(str, words)])


def row(planner, return_, bundle="a", seed=0, size=(64, 3), **changes):
    values = {"budget_ms": 0.0, "tick_p50_ms": 2.0, "tick_p99_ms": 3.0, "done": 3.0}
    values |= {"unplanned": 0.0, **changes}
    return PlannerRow(bundle, planner, *size, seed=seed, return_=return_, **values)


def test_every_planner_is_compared_and_drawn():
    assert {c["planner.algorithm"] for c in COMPARED.values()} == set(PLANNERS) - {"exact"}
    assert set(figures.PLANNERS) == set(COMPARED)
    assert len(set(figures.PLANNERS.values())) == len(COMPARED)


def test_a_comparison_plays_what_evaluate_plays(learned):
    comparison = comparison_of(learned, planners=["cem cold"], episodes=2, seed=4)
    policy, cem = comparison.play()
    assert [r.planner for r in policy + cem] == ["policy"] * 2 + ["cem cold"] * 2
    assert [r.seed for r in cem] == [4, 5]
    bundle, task = open_bundle(learned)
    changes = {"particles": 8, "iterations": 2, "elites": 2, "algorithm": "cem"}
    assert PLANNER.elites / PLANNER.particles == 2 / 8
    same = with_settings(
        bundle, {f"planner.{k}": v for k, v in {**changes, "warm_start": False}.items()}
    )
    assert [r.return_ for r in cem] == [played.total for played in evaluate(same, task, 2, 4)]
    assert {(r.done, r.unplanned) for r in cem} == {(2.0, 0.0)}


def test_a_budget_cuts_iterations(learned):
    comparison = comparison_of(learned, planners=["mppi"], sizes=["64x10000"], budgets_ms=[0.5])
    *_, ((played,)) = comparison.play()
    assert played.budget_ms == 0.5
    assert 0 < played.done < 1e4


def test_the_policy_is_always_among_the_planners_and_none_twice(learned):
    assert comparison_of(learned, planners=["icem"]).planners == ["policy", "icem"]
    assert comparison_of(learned).planners == list(COMPARED)


def test_gain_is_over_the_policy_with_the_same_bundle_and_seed():
    rows = [
        row("policy", 10.0, size=(1, 1)),
        row("policy", 12.0, seed=1, size=(1, 1)),
        row("cem warm", 13.0),
        row("cem warm", 15.0, seed=1),
        row("policy", 100.0, bundle="b", size=(1, 1)),
        row("cem warm", 90.0, bundle="b", tick_p50_ms=9.0, tick_p99_ms=9.0),
    ]
    policy, cem = planner_scores(rows)
    assert policy.gain.mean == 0.0
    assert cem.gain.mean == pytest.approx((3.0 + 3.0 - 10.0) / 3)
    assert cem.return_.mean == pytest.approx(118.0 / 3)
    assert cem.tick_p50_ms == 2.0
    assert cem.size == Size(64, 3)


def test_sizes_and_budgets_are_not_mixed():
    rows = [row("mppi", 1.0), row("mppi", 2.0, size=(192, 1)), row("mppi", 3.0, budget_ms=2.0)]
    assert [score.return_.mean for score in planner_scores(rows)] == [1.0, 2.0, 3.0]
    assert all(np.isnan(score.gain.mean) for score in planner_scores(rows))


def test_table_and_json_say_the_same():
    (score,) = planner_scores([row("mppi", 1.5, budget_ms=2.0, unplanned=0.25)])
    line = report.PLANNERS.text([score])[1].split()
    assert line[:6] == ["mppi", "64x3", "2", "1.50", "[1.50,", "1.50]"]
    assert line[-4:] == ["2.00", "3.00", "3.0", "25.0%"]
    values = numbers(score)
    assert values["return"] == 1.5
    assert values["gain"] is None
    assert values["budget_ms"] == 2.0
    assert json.loads(json.dumps(values)) == values


def test_command_prints_a_line_each_and_writes_what_it_played(learned, tmp_path, capsys):
    words = [learned, f"again={learned}", "--planners", "poplin_bias", "--sizes", "4x1"]
    assert bench(*words, "--episodes", 1, "--out", tmp_path, "--machine", "an abacus") == 0
    out = capsys.readouterr().out.splitlines()
    played = [line.split()[0] for line in out if "[" in line]
    assert played == ["policy", "poplin_bias"] * 3
    with (tmp_path / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    run = learned.parents[1].name
    assert [r["bundle"] for r in rows] == [f"{run}/bundle_001"] * 2 + ["again"] * 2
    assert rows[0]["return"] == rows[2]["return"]
    assert (tmp_path / "return_against_time.png").stat().st_size > 10_000
    page = (tmp_path / "README.md").read_text()
    assert "an abacus" in page
    assert shlex.join(["--sizes", "4x1", "--episodes", "1", "--seed", "0"]) in page
    assert page.count("| poplin_bias | 4x1 |") == 3


def test_json_is_all_that_is_printed(learned, capsys):
    assert bench(learned, "--planners", "policy", "--episodes", 1, "--json") == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert only["planner"] == "policy"


@pytest.mark.parametrize("text", ["64", "64x", "x3", "64*3", "-1x2", "64x3x2"])
def test_a_size_has_one_form(text):
    with pytest.raises(ConfigError, match="expected PARTICLESxITERATIONS"):
        parse_size(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episodes", "0"], "--episodes = 0"),
        (["--seed", "-1"], "--seed = -1"),
        (["--budget-ms", "0"], "--budget-ms = 0"),
        (["--planners", "ilqg"], "--planners ilqg: unknown; known: policy, dyna_mpc"),
        (["--sizes", "1x3"], "particles"),
        (["--set", "search.discount=0.5"], "search.discount: fixed"),
        (["--set", "planner.noise=0"], "nothing but zero effort"),
        (["--set", "planner.particles=64"], "--set planner.particles: the comparison gives it"),
        (["--set", "planner={algorithm: cem}"], "--set planner.algorithm: the comparison"),
    ],
)
def test_nonsense_is_refused_before_anything_is_played(learned, words, message, capsys):
    assert bench(learned, *words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err


def test_bundles_have_to_differ_and_to_plan(learned, random):
    with pytest.raises(ConfigError, match="another bundle is called"):
        comparison_of(learned, learned)
    with pytest.raises(ConfigError, match="plays random efforts"):
        comparison_of(random)
