import shutil

import numpy as np
import pytest
from bundle_factory import PLANNER, write_bundle

from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.cli import evaluate as command
from hucrl_ros.cli import main
from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.controller.safety_filter import SafetyFilter
from hucrl_ros.controller.surprise import WARY, Surprise
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments.evaluation import evaluate, open_bundle, with_settings
from hucrl_ros.tasks import make_task


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    report = LearningReport(predicted_return=123.4)
    return write_bundle(tmp_path_factory.mktemp("bundles") / "bundle_001", report=report)


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundles") / "bundle_000"
    return write_bundle(path, episode=0, random=True)


def run(*words):
    return main(["evaluate", *map(str, words)])


def test_return_of_a_random_bundle_is_that_of_its_torques(random):
    bundle, task = open_bundle(random)
    (played,) = evaluate(bundle, task, episodes=1, seed=7)
    rng = np.random.default_rng((7, 0))  # the seed and the bundle's episode
    robot = task.robot()
    state, total = robot.reset(rng), 0.0
    for _ in range(task.steps):
        torque = rng.uniform(-1.0, 1.0, 1)
        total += task.rewards(state[None], torque[None])[0]
        state = robot.step(torque)
    assert played.total == pytest.approx(total)
    assert played.tick_ms.shape == (400,)
    assert (played.tick_ms > 0).all()


def test_seeds_decide_everything(random):
    bundle, task = open_bundle(random)
    first = [played.total for played in evaluate(bundle, task, episodes=2, seed=3)]
    again = [played.total for played in evaluate(bundle, task, episodes=2, seed=3)]
    shifted = [played.total for played in evaluate(bundle, task, episodes=1, seed=4)]
    assert first == again
    assert first[1] == shifted[0]
    assert first[0] != first[1]


def test_planner_and_policy_play_differently_and_reproducibly(learned):
    bundle, task = open_bundle(learned)
    direct = with_settings(bundle, {"planner.algorithm": "policy"})
    by_policy = [evaluate(direct, task, 1, seed=0)[0].total for _ in range(2)]
    by_planner = evaluate(bundle, task, 1, seed=0)[0].total
    assert by_policy[0] == by_policy[1]
    assert by_policy[0] != by_planner


def test_guard_settings_reach_the_episode(random):
    bundle, task = open_bundle(random)
    limited = with_settings(bundle, {"safety.effort_rate": 0.01})
    (played,) = evaluate(limited, task, episodes=1, seed=0)
    assert played.clamps > 300


def test_the_agent_is_told_what_the_guard_sent_instead(random, monkeypatch):
    told = []
    monkeypatch.setattr(Agent, "sent", lambda self, action: told.append(action))
    bundle, task = open_bundle(random)
    limited = with_settings(bundle, {"safety.effort_rate": 0.01})
    (played,) = evaluate(limited, task, episodes=1, seed=0)
    assert len(told) == played.clamps
    assert {float(action) for (action,) in told} <= set(played.actions.ravel().tolist())
    told.clear()
    evaluate(bundle, task, episodes=1, seed=0)
    assert told == []


def test_settings_of_a_bundle_stay_as_they_were(learned):
    bundle, _ = open_bundle(learned)
    changed = with_settings(bundle, {"planner.particles": 32})
    assert changed.manifest.planner.particles == 32
    assert changed.manifest.planner.iterations == PLANNER.iterations
    assert bundle.manifest.planner == PLANNER


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"planner.horizn": 3}, "horizon"),
        ({"search.discount": 0.5}, r"search\.discount: fixed in a finished bundle"),
        ({"planner": 1}, "planner: fixed"),
        ({"seed": 1}, "seed: fixed"),
        ({"planner.elites": 100}, "elites"),
    ],
)
def test_settings_that_make_no_sense_are_refused_by_name(learned, changes, message):
    bundle, _ = open_bundle(learned)
    with pytest.raises(ConfigError, match=message):
        with_settings(bundle, changes)


def test_command_prints_each_episode_the_mean_and_what_was_predicted(learned, capsys):
    assert run(learned, "--episodes", 2, "--seed", 5, "--planner", "policy") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pendulum, optimistic, action penalty 0.2, bundle of episode 1, policy"
    assert [line.split()[0] for line in lines[2:]] == ["5", "6", "mean", "predicted", "optimum"]
    returns = [float(line.split()[1]) for line in lines[2:5]]
    assert returns[2] == pytest.approx((returns[0] + returns[1]) / 2, abs=0.01)
    assert lines[5] == "predicted 123.4"


@pytest.mark.parametrize("kept", [True, False], ids=["filter", "no_filter"])
def test_states_beyond_a_constraint_are_counted_and_surprises_make_the_filter_wary(
    kept, tmp_path, monkeypatch
):
    bundle = untrained_bundle(tmp_path / "bundle", "cartpole", ModelSettings(kind="gp"))
    bundle = with_settings(bundle, {"safety.filter": kept, "planner.algorithm": "policy"})
    asked = []
    check = SafetyFilter.check

    def full_effort(self, state, action, wary, *how):
        asked.append(wary)
        return check(self, state, np.ones_like(action), wary, *how)

    def surprised(self, *_):
        self._means[:] = 10.0 * WARY**2

    monkeypatch.setattr(SafetyFilter, "check", full_effort)
    monkeypatch.setattr(Surprise, "see", surprised)
    task = make_task("cartpole", 0.0)
    (played,) = evaluate(bundle, task, 1, seed=0)
    rooms = task.rooms(played.states[:-1], played.actions)
    assert played.outside == (rooms < 0.0).any(axis=1).sum()
    assert (len(asked) >= task.steps) == kept
    assert any(asked) == kept
    head, row = command._table(bundle.manifest, None, [played], 0)[1:3]
    assert head.split()[-2:] == ["filtered", "outside"]
    assert row.split()[-2:] == [str(played.filtered), str(played.outside)]


def test_bundles_are_compared_in_tables_and_in_one_animation(learned, random, tmp_path, capsys):
    folder = tmp_path / "videos"
    words = ["--planner", "policy", "--set", "planner.horizon=3", "--videos", folder]
    assert run(random, learned, *words) == 0
    out = capsys.readouterr().out
    assert out.index("bundle of episode 0, random efforts") < out.index("bundle of episode 1")
    if "no videos" in out:
        pytest.skip("MuJoCo can't render here")
    made = sorted(path.name for path in folder.iterdir())
    assert made == sorted([f"{random.name}.mp4", f"{learned.name}.mp4", "side_by_side.gif"])
    assert all(path.stat().st_size > 10_000 for path in folder.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--episodes", "0"], "--episodes = 0"),
        (["--seed", "-1"], "--seed = -1"),
        (["--set", "planner.horizon"], "KEY=VALUE"),
        (["--planner", "cme"], "planner.algorithm"),
        (["--planner", "cem", "--set", "planner.algorithm=mppi"], "= 'mppi', but also 'cem'"),
        (["--videos", "v", "--robot", "r.yaml"], "--videos: only for bundles"),
    ],
)
def test_wrong_arguments_get_one_line(learned, words, message, capsys):
    assert run(learned, *words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_bundle_with_a_flipped_byte_is_refused(learned, tmp_path, capsys):
    broken = tmp_path / "bundle"
    broken.mkdir()
    for file in learned.iterdir():
        content = bytearray(file.read_bytes())
        if file.name == "policy.onnx":
            content[100] ^= 1
        (broken / file.name).write_bytes(content)
    assert run(broken) == 1
    assert "policy.onnx was changed" in capsys.readouterr().err


def test_bundle_of_an_unknown_task_is_refused(learned, tmp_path, capsys):
    other = shutil.copytree(learned, tmp_path / "bundle")
    text = (learned / "manifest.yaml").read_text()
    (other / "manifest.yaml").write_text(text.replace("task: pendulum", "task: juggling"))
    assert run(other) == 1
    assert "juggling" in capsys.readouterr().err


def test_folder_that_is_no_bundle_is_refused(tmp_path, capsys):
    assert run(tmp_path / "nothing") == 1
    assert "not a bundle" in capsys.readouterr().err


def test_arrivals_at_the_goal_are_counted():
    line = command._arrivals(np.array([0.01, 0.05, 0.3]), 0.05)
    assert line.startswith("2 of 3 episodes ended within 5 cm of the goal, on average 12.0 cm")


def test_a_task_without_a_goal_counts_no_arrivals(random):
    bundle, task = open_bundle(random)
    (played,) = evaluate(bundle, task, 1, seed=0)
    assert np.isnan(played.distance)
    _, header, row, *_ = command._table(bundle.manifest, task.optimum, [played], 0)
    assert "goal" not in header
    near = played._replace(distance=0.0134)
    _, header, told, *_ = command._table(bundle.manifest, task.optimum, [near], 0)
    assert header.endswith("from goal [cm]")
    assert told.removeprefix(row).split() == ["1.3"]


def test_a_worse_return_has_no_larger_share():
    def share(total, optimum):
        return command._row("mean", total, optimum, np.ones(3)).split()[2]

    assert share(9.0, 10.0) == "90.0%"
    assert share(-20.0, -10.0) == share(-11.0, -10.0) == "-"
