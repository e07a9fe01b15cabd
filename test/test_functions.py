"""Which Python a stranger's bundle, bag or run has us run is said before it is."""

import pytest
from bag_messages import record_episode
from manifest_factory import write_manifest

from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config
from hucrl_ros.config.task_file import FILE
from hucrl_ros.run.folder import RunFolder

DESCRIBED = """robot: {name: joint, model: joint.xml, period: 0.02, steps: 10}
reward: {function: reward.py:f}
"""


@pytest.fixture
def run(tmp_path):
    """A run whose robot's reward must be told even where running it ends badly."""
    run = RunFolder.create(tmp_path / "run", Config(task="joint"))
    run.robot.mkdir()
    (run.robot / "reward.py").write_text("raise SystemError('run')\n")
    (run.robot / "joint.xml").write_text("<mujoco/>")
    (run.robot / FILE).write_text(DESCRIBED)
    write_manifest(run.bundle(1), 1, task="joint")
    record_episode(run.bag(0), steps=3)
    return run


@pytest.mark.parametrize(
    "words",
    [
        ("card", "bundles/bundle_001"),
        ("evaluate", "bundles/bundle_001"),
        ("export", ".", "--hdf5", "new.hdf5"),
        ("inspect", "episodes/episode_000"),
        ("inspect", f"robot/{FILE}"),
        ("card", "bundles/bundle_001", "--robot", f"robot/{FILE}"),
    ],
)
def test_functions_are_told_before_they_run(run, words, capsys, monkeypatch):
    monkeypatch.chdir(run.root)
    main(words)
    first = capsys.readouterr().err.splitlines()[0]
    assert first.startswith(f"hucrl {words[0]}: runs ") and first.endswith("robot/reward.py")


def test_tasks_of_ours_run_nobody_elses(run, capsys, monkeypatch):
    monkeypatch.chdir(write_manifest(run.root / "bundles" / "bundle_002", 2))
    assert main(["card", "."]) == 1
    assert "runs" not in capsys.readouterr().err
