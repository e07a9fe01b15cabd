"""`hucrl bench learning`."""

import pytest
from own_robots import PENDULUM, changed, write
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.benchmarks.learning import measure
from hucrl_ros.cli import main
from hucrl_ros.robots import describe
from hucrl_ros.run.asked import AskedRun

pytestmark = pytest.mark.usefixtures("short_episodes")


def test_it_learns_from_as_many_episodes_as_it_says():
    asked = AskedRun(tiny_config(), describe("pendulum"))
    rows = list(measure(asked, [1, 4], 1))
    assert [row.episodes for row in rows] == [1, 4]
    assert [row.transitions for row in rows] == [STEPS, 4 * STEPS]
    assert all(row.fit_s > 0 and row.search_s > 0 for row in rows)


def sets():
    """Options that make learning short."""
    groups = tiny_config().model_dump(mode="json", include={"model", "search", "planner"})
    return [
        f"--set={group}.{key}={list(value) if isinstance(value, list) else value}"
        for group, values in groups.items()
        for key, value in values.items()
        if key in ("heads", "layers", "fit_steps", "iterations", "pool", "particles", "elites")
    ]


def test_the_command_prints_a_line_for_each_number(capsys):
    assert main(["bench", "learning", "--task", "pendulum", "--episodes", "1", "2", *sets()]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[:2] == ["episodes", "transitions"]
    assert [line.split()[:2] for line in lines] == [["1", str(STEPS)], ["2", str(2 * STEPS)]]
    for line in lines:
        fit, search, together = map(float, line.split()[2:])
        assert together == pytest.approx(fit + search, abs=0.11)


def test_a_robot_of_ones_own_learns_as_well(tmp_path, capsys):
    path = write(tmp_path, changed(PENDULUM, steps=STEPS))
    assert main(["bench", "learning", "--task", str(path), "--episodes", "1", *sets()]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["1", str(STEPS)]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--episodes", "0"], "--episodes = 0: at least 1"),
        (["--set", "exploration.random_episodes=300"], "= 10: at least the 300 random ones"),
        (["--threads", "0"], "--threads = 0: at least 1"),
        (["--task", "juggling"], "'juggling' is unknown"),
    ],
)
def test_what_makes_no_sense_is_one_line(words, problem, capsys):
    assert main(["bench", "learning", *words]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1
