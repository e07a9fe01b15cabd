"""Runs of a robot of one's own: learned, played, continued and carried elsewhere."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from own_robots import ARM, changed, pushing, write

from hucrl_ros.cli import main
from hucrl_ros.config.files import load_config
from hucrl_ros.errors import BundleError, ConfigError
from hucrl_ros.experiments.evaluation import evaluate, open_bundle
from hucrl_ros.experiments.grid import read_grid
from hucrl_ros.experiments.statistics import collect
from hucrl_ros.experiments.sweep import Sweep
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.learner import Learner
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.node_list import learning_graph
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.run.recordings import recordings_of
from hucrl_ros.run.summary import read_summary, write_summary
from hucrl_ros.tasks import export_check

TINY = {
    "episodes": 2,
    "model.heads": 2,
    "model.layers": [8],
    "model.fit_steps": 5,
    "search.iterations": 2,
    "search.pool": 8,
    "search.policy_layers": [8],
    "search.critic_layers": [8],
    "planner.particles": 4,
    "planner.elites": 2,
    "planner.horizon": 3,
    "planner.iterations": 1,
}
STEPS = 12
SHORT = changed(ARM, name="short_arm", steps=STEPS, topics={"commands": "/drives/commands"})


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The description of an arm with short episodes."""
    return write(tmp_path_factory.mktemp("source"), SHORT)


@pytest.fixture(scope="module")
def run(source, tmp_path_factory):
    """A run of two episodes, whose description is gone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("original")
    shutil.copytree(source.parent, folder, dirs_exist_ok=True)
    out = tmp_path_factory.mktemp("runs") / "run"
    run = prepare_run(RunOptions(str(folder / source.name), overrides=TINY, out=out))
    shutil.rmtree(folder)
    train(run.config, run)
    torch.set_num_threads(threads)
    return run


def test_it_is_learned_and_summarised_by_its_name(run):
    summary = read_summary(run.summary)
    assert (summary.task, summary.optimum) == ("short_arm", None)
    assert [episode.steps for episode in summary.episodes] == [STEPS, STEPS]
    assert load_config(run.config_path).task == "short_arm"


def test_the_runs_settings_are_ros_parameters_without_the_description(run):
    document = yaml.safe_load(run.config_path.read_text())
    assert set(document) == {"/**"}
    assert "robot" not in document["/**"]["ros__parameters"]


def test_a_bundle_is_evaluated_where_it_lies_and_says_how_near_it_got(run, capsys):
    assert main(["evaluate", str(run.bundle(2)), "--episodes", "2"]) == 0
    printed = capsys.readouterr().out
    assert "short_arm, optimistic" in printed
    assert "of 2 episodes ended within 3 cm of the goal" in printed


def test_a_bundle_that_left_its_run_is_evaluated_with_the_description(run, source, tmp_path):
    moved = tmp_path / "bundle"
    shutil.copytree(run.bundle(2), moved)
    with pytest.raises(BundleError, match=r"'short_arm' is unknown; known tasks: .*--robot"):
        open_bundle(moved)
    here, there = open_bundle(run.bundle(2)), open_bundle(moved, source)
    played = [evaluate(bundle, task, 1, seed=4)[0] for bundle, task in (here, there)]
    assert played[0].total == played[1].total
    assert played[0].distance == played[1].distance


def test_the_bundles_reward_is_that_of_the_users_function(run):
    bundle, task = open_bundle(run.bundle(2))
    rng = np.random.default_rng(0)
    states = rng.normal(size=(4, 6)).astype(np.float32)
    actions = rng.uniform(-1, 1, (4, 2 + bundle.manifest.hallucination_dim)).astype(np.float32)
    expected = task.rewards(states, actions[:, :2] * np.array([2.0, 1.0], np.float32))
    noise = np.zeros(bundle.manifest.spec.predicted_dim, np.float32)
    _, found = bundle.run("step", state=states, applied=actions, noise=noise)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_plays_a_bundle_needs_neither_torch_nor_mujoco_nor_the_description(run, tmp_path):
    moved = tmp_path / "bundle"
    shutil.copytree(run.bundle(2), moved)
    code = f"""
import sys, json
from pathlib import Path
import numpy as np
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
bundle = load_bundle(Path({str(moved)!r}))
agent = Agent(bundle, None)
agent.start_episode(0)
action = agent.act(np.array([0.1, 0.2, 0.0, 0.0, 0.2, 0.3])).action
bad = sorted({{"torch", "mujoco", "rclpy"}} & set(sys.modules))
print(json.dumps([bad, action.tolist(), type(agent).__name__]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded, action, _ = json.loads(done.stdout.splitlines()[-1])
    assert loaded == []
    assert (np.abs(action) <= (2.0, 1.0)).all()


def test_the_nodes_get_the_run_and_the_names_of_its_topics(run):
    for node in learning_graph(run):
        assert node.parameters["run"] == str(run.root)
        assert node.remappings == {"controller/commands": "/drives/commands"}


def test_a_run_goes_on_with_its_own_copy(run, source, tmp_path):
    resume = {"overrides": {"episodes": 2}, "out": run.root, "resume": True}
    for task in ("short_arm", str(source), str(tmp_path / "gone.yaml")):
        again = prepare_run(RunOptions(task, **resume))
        assert Learner(again.config, again).task.steps == STEPS
    other = write(tmp_path, changed(SHORT, name="other_arm"))
    with pytest.raises(ConfigError, match="task = 'other_arm', but the run"):
        prepare_run(RunOptions(str(other), **resume))


def test_a_run_does_not_go_on_past_what_its_file_says_by_now(tmp_path):
    settings = {"episodes": 2, "safety": {"effort_limits": [2.0, 0.8]}}
    before = {**SHORT, "/**": {"ros__parameters": settings}}
    path = write(tmp_path / "source", before)
    run = prepare_run(RunOptions(str(path), overrides=TINY, out=tmp_path / "run"))

    def again(task=path, **overrides):
        return prepare_run(RunOptions(str(task), overrides=overrides, out=run.root, resume=True))

    again()
    settings["safety"] = {"effort_limits": [1.0, 0.8], "effort_rate": 0.5}
    write(path.parent, before)
    line = r"mine\.yaml: safety\.effort_rate = 0\.5, but the run .* 0\.0; .* hucrl up short_arm"
    with pytest.raises(ConfigError, match=line):
        again(**{"safety.effort_limits": [2.0, 0.8]})
    again("short_arm")
    again(**{"safety.effort_limits": [2.0, 0.8], "safety.effort_rate": 0.0})
    limit = {"kind": "speed", "joint": "elbow", "largest": 3.0}
    write(path.parent, {**SHORT, "constraints": [limit]})
    line = r"mine\.yaml: its robot, .* or constraints differ from .*robot\.yaml; .* new run"
    with pytest.raises(ConfigError, match=line):
        again()
    again(run.robot / "robot.yaml")
    again("short_arm")
    path.unlink()
    again()


def test_a_run_that_lost_its_copy_says_so(run, tmp_path):
    moved = tmp_path / "run"
    shutil.copytree(run.root, moved)
    shutil.rmtree(moved / "robot")
    with pytest.raises(ConfigError, match=r"'short_arm' is unknown; .*robot describes no robot"):
        Learner(run.config, RunFolder(moved))


def test_recordings_of_a_bundle_keep_its_robot_where_it_is_at_hand(run, tmp_path):
    beside = recordings_of(run.bundle(2), "short_arm", tmp_path / "beside")
    assert (beside.robot / "robot.yaml").is_file()
    assert recordings_of(run.bundle(2), "short_arm", tmp_path / "beside").root == beside.root
    moved = tmp_path / "bundle"
    shutil.copytree(run.bundle(2), moved)
    alone = recordings_of(moved, "short_arm", tmp_path / "alone")
    assert alone.config.task == "short_arm"
    assert not alone.robot.exists()


def test_an_experiment_names_a_description_relative_to_its_file(
    run, source, tmp_path, monkeypatch
):
    monkeypatch.setattr(export_check, "check_export", lambda task: None)  # It takes seconds.
    tasks = {f"../{source.parent.name}/{source.name}": {"action_penalties": [0.0], "set": TINY}}
    file = source.parent / "grid.yaml"
    file.write_text(yaml.safe_dump({"tasks": tasks, "strategies": ["greedy"], "seeds": [0]}))
    cells = read_grid(file).cells()
    (cell,) = cells
    made = RunFolder.create(tmp_path / cell.name, cell.config, cell.described)
    write_summary(made.summary, read_summary(run.summary))
    sweep = Sweep(tmp_path, cells)
    assert sweep.finished == (cell,)
    assert collect(sweep.rows()).task == "short_arm"
    other = write(tmp_path / "changed", changed(SHORT, period=0.08))
    moved = {str(other): tasks.popitem()[1]}
    file.write_text(yaml.safe_dump({"tasks": moved, "strategies": ["greedy"], "seeds": [0]}))
    with pytest.raises(ConfigError, match="was made with other settings"):
        Sweep(tmp_path, read_grid(file).cells())


def test_its_description_is_checked_and_explained_by_inspect(source, capsys):
    assert main(["inspect", str(source)]) == 0
    printed = capsys.readouterr().out
    for said in (
        "Robot short_arm",
        "shoulder ±2, elbow ±1",
        "cosine, sine",
        "-0.4 … 0.4",
        "stays",
    ):
        assert said in printed


def test_inspect_tells_of_contacts(tmp_path, capsys):
    path = write(tmp_path, pushing(tmp_path, '<geom size="0.05"/>'))
    assert main(["inspect", str(path)]) == 0
    assert "of 2 links with puck" in capsys.readouterr().out
