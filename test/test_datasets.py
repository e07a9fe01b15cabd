"""Exported runs, read back by the libraries that they are made for, number by number."""

import json
import shutil
import sys

import numpy as np
import pytest
from bag_messages import Recording, boolean
from fabricated_run import fabricate_run, play_random, record

from hucrl_ros.bags.reader import read_episode
from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config
from hucrl_ros.controller.topics import ACTIVE
from hucrl_ros.datasets import rerun, target
from hucrl_ros.datasets.hdf5 import write_hdf5
from hucrl_ros.datasets.lerobot import write_lerobot
from hucrl_ros.datasets.minari import place_of, write_minari
from hucrl_ros.datasets.rerun import write_rerun
from hucrl_ros.datasets.trajectories import actions_of, observations_of, read_trajectories
from hucrl_ros.errors import ConfigError, HucrlError, RunError
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import read_summary
from hucrl_ros.tasks import make_task

STEPS = 40
GAP = 10


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three episodes, of which the last lacks the joint state after step 9, and an attempt."""
    run = fabricate_run(tmp_path_factory.mktemp("exported") / "run", steps=STEPS)
    rng = np.random.default_rng(3)
    states, actions = play_random(rng)
    shutil.rmtree(run.bag(2))
    record(run.bag(2), states[: STEPS + 1], actions[:STEPS], np.ones(STEPS), left_out=(GAP,))
    attempt = Recording(run.next_unfinished_name(1))
    attempt.add(ACTIVE, boolean(True))
    attempt.writer.close()
    return run


@pytest.fixture(scope="module")
def data(run):
    return read_trajectories(run)


def test_what_is_exported_is_what_the_bags_hold_and_the_summary_counts(run, data):
    task = make_task("pendulum", 0.2)
    first, second = (read_episode(run.bag(k), task.spec, task.steps) for k in (0, 1))
    for part, episode in zip(data.parts, (first, second), strict=False):
        assert np.array_equal(part.states, episode.states)
        assert np.array_equal(part.actions, episode.actions)
        assert np.array_equal(part.ticks["step"], episode.ticks["step"])
        assert np.array_equal(part.tick_time, part.time[:-1])
    told = read_summary(run.summary).episodes
    assert [float(part.rewards.sum()) for part in data.parts[:2]] == [e.return_ for e in told[:2]]


def test_an_episode_falls_in_two_at_a_gap_and_nothing_leads_across(data):
    before, after = data.parts[2:]
    assert (before.episode, before.first, before.length) == (2, 0, GAP - 1)
    assert (after.episode, after.first, after.length) == (2, GAP, STEPS - GAP - 1)
    np.testing.assert_allclose(before.time[[0, -1]], [0.0, (GAP - 1) / 80])
    assert after.time[0] == pytest.approx((GAP + 1) / 80)
    assert data.left_out == (
        "episode_001_interrupted_1: interrupted",
        "episode 2: 1 transitions over a gap",
    )


def test_all_that_is_left_out_is_said(run, data, tmp_path):
    also = RunFolder(shutil.copytree(run.root, tmp_path / "run"))
    also.prior.mkdir()
    shutil.copytree(run.interrupted(1)[0], also.next_unfinished_name(3))
    also.bag(3).mkdir()
    first, *others, attempt, last = read_trajectories(also).left_out
    assert first == "prior: episodes of the run that this one began with"
    assert tuple(others) == data.left_out
    assert attempt == "episode_003_interrupted_1: interrupted"
    assert last == "episode_003: not finished"


def test_each_entry_has_its_name_and_unit():
    arm, cart = make_task("pusher", 0.0), make_task("cartpole", 0.0)
    names, units = observations_of(arm)
    told = dict(zip(names, units, strict=True))
    assert len(names) == arm.spec.state_dim
    assert {told[joint] for joint in arm.spec.joint_names} == {"rad"}
    for name in arm.spec.observed:
        assert told[name] == ("m/s" if name.endswith("_velocity") else "m")
    assert actions_of(cart).units == ("N",)
    assert set(observations_of(cart).units) == {"m", "rad", "m/s", "rad/s"}


def test_hdf5_holds_the_transitions_as_d4rl_readers_expect_them(data, tmp_path):
    h5py = pytest.importorskip("h5py")
    write_hdf5(data, tmp_path / "run.hdf5")
    with h5py.File(tmp_path / "run.hdf5") as file:
        arrays = {name: file[name][:] for name in file}
        assert list(file["observations"].attrs["names"]) == list(data.observations.names)
        assert list(file["actions"].attrs["units"]) == ["N m"]
        assert file.attrs["control_period_s"] == 1 / 80
    assert np.array_equal(arrays["observations"], joined(p.states[:-1] for p in data.parts))
    assert np.array_equal(arrays["next_observations"], joined(p.states[1:] for p in data.parts))
    assert np.array_equal(arrays["actions"], joined(p.actions for p in data.parts))
    assert np.array_equal(arrays["rewards"], joined(p.rewards for p in data.parts))
    assert not arrays["terminals"].any()
    ends = np.cumsum([part.length for part in data.parts]) - 1
    assert np.array_equal(np.flatnonzero(arrays["timeouts"]), ends)


def test_minari_loads_what_was_written(data, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    write_minari(data, place_of("pendulum/mine-v0"))
    loaded = minari.load_dataset("pendulum/mine-v0")
    assert list(minari.list_local_datasets()) == ["pendulum/mine-v0"]
    assert loaded.total_steps == data.length
    for episode, part in zip(loaded.iterate_episodes(), data.parts, strict=True):
        assert np.array_equal(episode.observations, part.states)
        assert np.array_equal(episode.actions, part.actions)
        assert np.array_equal(episode.rewards, part.rewards)
        assert not episode.terminations.any()
        assert np.flatnonzero(episode.truncations).tolist() == [part.length - 1]
    numbers = next(iter(loaded.storage.get_episode_metadata([3])))
    assert (numbers["run_episode"], numbers["first_step"]) == (2, GAP)


def test_a_minari_folder_needs_no_variable_to_be_written(data, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari")
    monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
    write_minari(data, place_of(str(tmp_path / "mine-v3")))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert minari.load_dataset("mine-v3").total_episodes == len(data.parts)


@pytest.mark.parametrize("name", ["mine", "/tmp/mine", "../a b-v1", "a//b-v1", ""])
def test_a_name_that_minari_would_not_take_is_refused(name):
    with pytest.raises(ConfigError, match="ends with a version"):
        place_of(name)


def test_lerobot_tables_hold_the_transitions_in_float32(data, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    write_lerobot(data, tmp_path / "set")
    info = json.loads((tmp_path / "set" / "meta" / "info.json").read_text())
    assert (info["codebase_version"], info["fps"]) == ("v3.0", 80)
    assert (info["total_frames"], info["total_episodes"]) == (data.length, len(data.parts))
    path = info["data_path"].format(chunk_index=0, file_index=0)
    table = parquet.read_table(tmp_path / "set" / path)
    assert table.column_names == list(info["features"])
    frames = {name: np.array(table[name].to_pylist()) for name in table.column_names}
    states = joined(part.states[:-1] for part in data.parts).astype(np.float32)
    assert np.array_equal(frames["observation.state"], states)
    actions = joined(part.actions for part in data.parts).astype(np.float32)
    assert np.array_equal(frames["action"], actions[:, 0])
    rewards = joined(part.rewards for part in data.parts).astype(np.float32)
    assert np.array_equal(frames["next.reward"], rewards)
    assert np.array_equal(frames["index"], np.arange(data.length))
    rows = parquet.read_table(tmp_path / "set" / "meta/episodes" / "chunk-000/file-000.parquet")
    for row, part in zip(rows.to_pylist(), data.parts, strict=True):
        own = slice(row["dataset_from_index"], row["dataset_to_index"])
        assert row["length"] == part.length
        assert set(frames["episode_index"][own]) == {row["episode_index"]}
        assert np.flatnonzero(frames["next.done"][own]).tolist() == [part.length - 1]
        np.testing.assert_allclose(frames["timestamp"][own], np.arange(part.length) / 80, 1e-6)
    stats = json.loads((tmp_path / "set" / "meta" / "stats.json").read_text())
    np.testing.assert_allclose(stats["observation.state"]["mean"], states.mean(0), rtol=1e-5)
    assert stats["next.reward"]["count"] == [data.length]


def test_the_task_of_a_lerobot_dataset_is_the_index_of_a_pandas_table(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    write_lerobot(data, tmp_path / "set")
    tasks = pandas.read_parquet(tmp_path / "set" / "meta" / "tasks.parquet")
    assert tasks.iloc[0].name == data.about
    assert tasks.loc[data.about].task_index == 0


def test_datasets_reads_a_lerobot_dataset_by_the_features_in_it(data, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "cache"))
    datasets = pytest.importorskip("datasets")
    write_lerobot(data, tmp_path / "set")
    info = json.loads((tmp_path / "set" / "meta" / "info.json").read_text())
    features = {
        name: datasets.Value(told["dtype"])
        if told["shape"] == [1]
        else datasets.Sequence(datasets.Value(told["dtype"]), length=told["shape"][0])
        for name, told in info["features"].items()
    }
    files = [str(path) for path in (tmp_path / "set" / "data").glob("*/*.parquet")]
    loaded = datasets.Dataset.from_parquet(
        files, features=datasets.Features(features), cache_dir=str(tmp_path / "cache")
    )
    states = joined(part.states[:-1] for part in data.parts).astype(np.float32)
    assert np.array_equal(np.array(loaded["observation.state"][:], np.float32), states)


def test_rerun_reads_the_recording_on_its_time_lines(data, tmp_path):
    chunks = pytest.importorskip("rerun.chunk")
    write_rerun(data, tmp_path / "run.rrd")
    found, lines = {}, set()
    for chunk in chunks.RrdReader(tmp_path / "run.rrd").stream():
        lines |= set(chunk.timeline_names)
        rows = chunk.to_record_batch().to_pylist()
        if not chunk.is_static:
            found.setdefault(str(chunk.entity_path), []).extend(rows)
    assert lines == {"movement", "episode", "episode_000", "episode_001", "episode_002"}
    speeds = sorted(found["/state/pendulum_joint_velocity"], key=lambda row: row["movement"])
    drawn = [row["Scalars:scalars"][0] for row in speeds]
    assert drawn == joined(part.states[:, 1] for part in data.parts).tolist()
    assert len(found["/return"]) == 3
    assert len(found["/tick/tick_ms"]) == sum(len(part.ticks) for part in data.parts)
    turned = sorted(found["/robot/pendulum"], key=lambda row: row["movement"])
    real = [row["Transform3D:quaternion"][0][3] for row in turned]
    angles = joined(part.states[:, 0] for part in data.parts)
    np.testing.assert_allclose(np.abs(real), np.abs(np.cos(angles / 2)), atol=1e-6)


def test_a_recording_that_was_cut_off_gets_no_name(data, tmp_path):
    chunks = pytest.importorskip("rerun.chunk")
    write_rerun(data, tmp_path / "run.rrd")
    rerun.require_whole(chunks, tmp_path / "run.rrd", tmp_path / "run.rrd")
    content = (tmp_path / "run.rrd").read_bytes()
    (tmp_path / "cut.rrd").write_bytes(content[: len(content) // 2])
    with pytest.raises(HucrlError, match="is the disk full"):
        rerun.require_whole(chunks, tmp_path / "cut.rrd", tmp_path / "run.rrd")


def test_one_command_writes_several_and_overwrites_nothing(run, tmp_path, capsys):
    pytest.importorskip("h5py")
    pytest.importorskip("pyarrow")
    arguments = ["export", str(run.root), "--hdf5", str(tmp_path / "a.hdf5")]
    assert main([*arguments, "--lerobot", str(tmp_path / "deep" / "set")]) == 0
    told = capsys.readouterr().out
    assert "a.hdf5: 118 transitions of 4 trajectories" in told
    assert "left out: episode_001_interrupted_1: interrupted" in told
    held = (tmp_path / "a.hdf5").read_bytes()
    assert main([*arguments, "--lerobot", str(tmp_path / "other")]) == 2
    assert "a.hdf5: exists already" in capsys.readouterr().err
    assert (tmp_path / "a.hdf5").read_bytes() == held
    assert not (tmp_path / "other").exists()


def test_without_a_format_a_run_or_an_episode_one_line_says_so(run, tmp_path, capsys):
    assert main(["export", str(run.root)]) == 2
    assert "no format" in capsys.readouterr().err
    assert main(["export", str(tmp_path), "--hdf5", str(tmp_path / "x")]) == 1
    assert "no run lies there" in capsys.readouterr().err
    with pytest.raises(RunError, match="nothing to export"):
        read_trajectories(RunFolder.create(tmp_path / "new", Config()))


@pytest.mark.parametrize(
    ("option", "missing", "extra"),
    [("hdf5", "h5py", "hdf5"), ("lerobot", "pyarrow", "lerobot"), ("rerun", "rerun", "rerun")],
)
def test_a_missing_library_is_told_with_its_extra(
    option, missing, extra, run, tmp_path, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, missing, None)
    assert main(["export", str(run.root), f"--{option}", str(tmp_path / "x")]) == 1
    line = capsys.readouterr().err
    assert missing in line
    assert f"pip install -e '.[{extra}]'" in line
    assert not list(tmp_path.iterdir())


def test_what_was_begun_is_removed_when_it_fails(tmp_path):
    with pytest.raises(HucrlError, match="No space left"), target.whole(tmp_path / "x") as begun:
        begun.mkdir()
        (begun / "part").write_text("half")
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="exists already"):
        target.require_free(tmp_path / "link")


def joined(arrays):
    return np.concatenate(list(arrays))


def test_two_formats_in_one_place_are_refused(run, tmp_path, capsys):
    same = str(tmp_path / "same")
    assert main(["export", str(run.root), "--hdf5", same, "--lerobot", same]) == 2
    assert "can't be written to one place" in capsys.readouterr().err
    assert not (tmp_path / "same").exists()
