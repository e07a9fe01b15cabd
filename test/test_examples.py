"""The examples run as they are, with settings that make them short."""

import runpy
from pathlib import Path

import pytest
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

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


def test_an_example_fits_on_a_page():
    assert len((EXAMPLES / "learn_without_ros.py").read_text().splitlines()) <= 40
