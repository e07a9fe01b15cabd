"""The examples run as they are, with settings that make them short."""

import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from bundle_factory import write_bundle
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.config.task_file import known_tasks, read_description, store_description
from hucrl_ros.experiments.environments import Environment
from hucrl_ros.experiments.statistics import Row, read_rows, write_rows
from hucrl_ros.robots.resolve import resolve
from hucrl_ros.tasks import make_task

EXAMPLES = Path(__file__).parents[1] / "examples"
ROBOTS = EXAMPLES.parent / "config" / "examples" / "double_pendulum"
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


def test_a_baseline_takes_no_runs_of_another_task_for_its_own(tmp_path, capsys):
    main = runpy.run_path(str(EXAMPLES / "baseline_sb3.py"))["main"]
    theirs = Row("cartpole", "sac", 0.2, "", "", 0, 0, 7.0, *[None] * 4, 3.0, 2.0)
    write_rows(tmp_path / "returns.csv", [theirs])
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path), "pendulum", "--seeds", "0", "--episodes", "1"])
    assert f"--out {tmp_path}: holds runs of cartpole, not pendulum" in capsys.readouterr().err


@pytest.fixture
def baseline_mbrl(monkeypatch):
    """The example without its library."""
    parts = {
        "mbrl": {"__file__": "mbrl/__init__.py"},
        "mbrl.algorithms": {"mbpo": None, "pets": None},
        "omegaconf": {"DictConfig": dict, "OmegaConf": None},
    }
    for name, content in parts.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(EXAMPLES)
    return runpy.run_path(str(EXAMPLES / "baseline_mbrl.py"))


@pytest.mark.parametrize("name", known_tasks())
def test_rewards_of_other_peoples_models_are_the_tasks(name, baseline_mbrl):
    task = make_task(name, 0.1)
    states = task.imagined_states(32, torch.Generator().manual_seed(0))
    actions = 2.0 * torch.rand(32, task.spec.action_dim) - 1.0
    found = baseline_mbrl["_state"](task, task.features(states))
    expected = task.reward(states, actions)
    assert torch.allclose(task.reward(found, actions), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("short_episodes")
def test_the_returns_of_whole_episodes_are_kept(baseline_mbrl):
    env = baseline_mbrl["Recorded"](Environment("pendulum", 0.2, features=True), 3)
    totals = []
    for _ in range(2):
        env.reset()
        found = [env.step(np.ones(1)) for _ in range(STEPS)]
        assert found[-1][3]
        totals.append(sum(step[1] for step in found))
    env.reset()
    env.step(np.ones(1))  # A new one that isn't over counts for nothing.
    assert env.returns == totals


def test_an_example_fits_on_a_page():
    assert len((EXAMPLES / "learn_without_ros.py").read_text().splitlines()) <= 40


class TheirController:
    """What RealAIGym's base class does, as far as ours needs it."""

    def init(self):
        self.init_()


@pytest.fixture
def realaigym(monkeypatch):
    module = ModuleType("double_pendulum.controller.abstract_controller")
    module.AbstractController = TheirController
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("realaigym")
@pytest.mark.parametrize(("robot", "motor"), [("pendubot", 0), ("acrobot", 1)])
def test_a_bundle_on_the_leaderboard_holds_its_effort_for_a_period(
    tmp_path, monkeypatch, robot, motor
):
    found = resolve(read_description(ROBOTS / f"{robot}.yaml"))
    store_description(found, tmp_path / "robot")
    bundle = write_bundle(
        tmp_path / "bundles" / "bundle_001", task=str(tmp_path / "robot" / "robot.yaml")
    )
    monkeypatch.setenv("HUCRL_BUNDLE", str(bundle))
    controller = runpy.run_path(str(EXAMPLES / "con_hucrl.py"))["controller"]
    times = np.arange(40) * 0.002
    states = np.linspace([0.0] * 4, [1.0] * 4, len(times))
    first = np.array(list(map(controller.get_control_output_, states, times)))
    assert not first[:, 1 - motor].any()
    assert np.abs(first).max() <= 2.5
    held = first[:, motor].reshape(4, 10)
    assert (held == held[:, :1]).all()
    assert len(np.unique(held)) == 4
    controller.init()
    again = np.array(list(map(controller.get_control_output_, states, times)))
    assert np.array_equal(again, first)


@pytest.mark.usefixtures("realaigym")
def test_velocities_that_are_derived_on_the_leaderboard_are_slopes_of_the_positions(
    tmp_path, monkeypatch
):
    found = resolve(read_description(ROBOTS / "pendubot.yaml"))
    store_description(found, tmp_path / "robot")
    task = str(tmp_path / "robot" / "robot.yaml")
    bundle = write_bundle(tmp_path / "bundles" / "bundle_001", task=task)
    monkeypatch.setenv("HUCRL_BUNDLE", str(bundle))
    monkeypatch.setenv("HUCRL_VELOCITY_WINDOW", "0.008")
    controller = runpy.run_path(str(EXAMPLES / "con_hucrl.py"))["controller"]
    seen = []
    act = controller._agent.act
    monkeypatch.setattr(controller._agent, "act", lambda state: seen.append(state) or act(state))
    for time in np.arange(11) * 0.002:
        controller.get_control_output_(np.array([3.0 * time, 0.5 - time, 99.0, -99.0]), time)
    assert np.allclose(seen, [[0.0, 0.5, 0.0, 0.0], [0.06, 0.48, 3.0, -1.0]])


@pytest.mark.usefixtures("realaigym")
@pytest.mark.parametrize(
    ("bundle", "line"),
    [(None, "HUCRL_BUNDLE: not set"), ("/none", "HUCRL_BUNDLE: /none: not a bundle")],
)
def test_without_a_bundle_the_leaderboards_script_ends_in_one_line(monkeypatch, bundle, line):
    monkeypatch.delenv("HUCRL_BUNDLE", raising=False)
    if bundle is not None:
        monkeypatch.setenv("HUCRL_BUNDLE", bundle)
    with pytest.raises(SystemExit, match=line):
        runpy.run_path(str(EXAMPLES / "con_hucrl.py"))


@pytest.mark.usefixtures("realaigym")
@pytest.mark.parametrize("window", ["8 ms", "nan", "-1"])
def test_a_window_that_is_no_time_ends_the_leaderboards_script_in_one_line(monkeypatch, window):
    monkeypatch.setenv("HUCRL_BUNDLE", "/none")
    monkeypatch.setenv("HUCRL_VELOCITY_WINDOW", window)
    with pytest.raises(SystemExit, match=f"{window!r}: expected seconds from 0 to 1"):
        runpy.run_path(str(EXAMPLES / "con_hucrl.py"))
