"""The examples run as they are, with settings that make them short."""

import runpy
from pathlib import Path

import pytest
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.experiments.statistics import Row, read_rows, write_rows

EXAMPLES = Path(__file__).parents[1] / "examples"
SETTINGS = {
    f"{group}.{key}": value
    for group in ("model", "search", "planner")
    for key, value in tiny_config().model_dump()[group].items()
}


@pytest.mark.usefixtures("short_episodes")
def test_learning_without_ros_prints_the_return_of_each_episode(tmp_path, capsys):
    learn = runpy.run_path(str(EXAMPLES / "learn_without_ros.py"))["learn"]
    returns = learn(tmp_path / "run", episodes=2, **SETTINGS)
    assert len(returns) == 2
    assert all(-STEPS <= value <= STEPS for value in returns)
    printed = capsys.readouterr().out.splitlines()
    assert printed == [f"episode {k}: return {value:.1f}" for k, value in enumerate(returns)]


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.filterwarnings("ignore:.*You provided an OpenAI Gym")
def test_a_baseline_trains_what_is_not_there_yet_and_stands_beside_ours(tmp_path, capsys):
    main = runpy.run_path(str(EXAMPLES / "baseline_sb3.py"))["main"]
    ours = Row("pendulum", "optimistic", 0.2, "", "", 0, 0, 7.0, *[None] * 4, 3.0, 2.0)
    write_rows(tmp_path / "ours.csv", [ours, ours._replace(action_penalty=0.1)])
    words = ["pendulum", "--seeds", "1", "--episodes", "2", "--out", str(tmp_path / "out")]
    main([*words, "--algorithms", "td3"])
    first = read_rows(tmp_path / "out" / "returns.csv")
    main([*words, "--beside", str(tmp_path / "ours.csv")])
    rows = read_rows(tmp_path / "out" / "returns.csv")
    assert rows[:2] == first
    assert [(row.strategy, row.seed, row.episode) for row in rows] == [
        (name, 1, episode) for name in ("td3", "sac") for episode in (0, 1)
    ]
    assert all(-STEPS <= row.return_ <= STEPS and row.cpu_s > 0.0 for row in rows)
    page = (tmp_path / "out" / "README.md").read_text()
    assert page.count("\n| 0.2 | ") == 3
    assert "| 0.2 | optimistic | 1 | 7.0 | – | 7.0 | 3 | 2 |" in page
    assert capsys.readouterr().out.startswith("td3, ρ = 0.2, seed 1: ")


def test_an_example_fits_on_a_page():
    assert len((EXAMPLES / "learn_without_ros.py").read_text().splitlines()) <= 40
