"""`hucrl inspect` on bundles and bags, good and bad."""

import re
import shlex

import numpy as np
import pytest
from bag_messages import JOINT_STATES, TICKS, Recording, joint_state, record_episode, tick
from bundle_factory import SHORT_RAIL, write_bundle
from own_robots import ARM, DANGLING, changed, modelled, write

from hucrl_ros.cli import main
from hucrl_ros.config.files import share_directory
from hucrl_ros.config.schema import Config
from hucrl_ros.controller import examiner
from hucrl_ros.controller.manifest import LearningReport
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task

CRASHES = """
import os, signal
from hucrl_ros.controller import examiner
examiner.load_bundle = lambda path, **known: os.kill(os.getpid(), signal.SIGSEGV)
examiner.main()
"""


def inspect(capsys, *arguments):
    """Exit code, standard output and standard error of the command."""
    code = main(["inspect", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_bundle_is_verified_and_described(tmp_path, capsys):
    bundle = write_bundle(tmp_path / "bundle_001", model="rff")
    code, out, err = inspect(capsys, bundle)
    assert (code, err) == (0, "")
    assert re.search(r"^model +rff *$", out, re.MULTILINE)
    assert f"Bundle {bundle}" in out and "verified" in out
    for expected in ("pendulum_joint  ±1", "dyna_mpc", "optimistic, beta 1", "policy.onnx"):
        assert expected in out


@pytest.mark.parametrize(("report", "told"), [({}, True), ({"model_error": 0.1}, False)])
def test_a_bundle_that_has_learned_nothing_says_so(report, told, tmp_path, capsys):
    write_bundle(tmp_path / "bundle_000", report=LearningReport(**report))
    code, out, _ = inspect(capsys, tmp_path / "bundle_000")
    assert code == 0
    assert ("nothing learned yet" in out) == told and ("judged_misses" in out) != told


def test_bundle_with_a_flipped_byte_gets_one_line(tmp_path, capsys):
    bundle = write_bundle(tmp_path / "bundle_001")
    data = bytearray((bundle / "policy.onnx").read_bytes())
    data[-1] ^= 1
    (bundle / "policy.onnx").write_bytes(data)
    code, out, err = inspect(capsys, bundle)
    assert (code, out) == (1, "")
    assert err.startswith("hucrl inspect: ") and "policy.onnx was changed" in err
    assert err.count("\n") == 1


def test_bundle_is_first_tried_in_a_process_with_limits(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", CRASHES))
    bundle = write_bundle(tmp_path / "bundle_001")
    code, out, err = inspect(capsys, bundle)
    line = f"{bundle}: ended the process that examined it, by SIGSEGV"
    assert (code, out, err) == (1, "", f"hucrl inspect: {line}\n")


def test_bundle_without_its_manifest_gets_one_line(tmp_path, capsys):
    bundle = write_bundle(tmp_path / "bundle_001")
    (bundle / "manifest.yaml").unlink()
    code, _, err = inspect(capsys, bundle)
    assert code == 1 and "it has no manifest.yaml" in err and err.count("\n") == 1


def test_episode_of_a_run_is_described_with_its_return(tmp_path, capsys):
    run = RunFolder.create(tmp_path / "run", Config(action_penalty=0.1))
    record_episode(run.bag(0), 400).writer.close()
    code, out, err = inspect(capsys, run.bag(0))
    states = np.array([[k, -k] for k in range(400)], dtype=float)
    actions = np.arange(400)[:, None] / 1000
    rewards = make_task("pendulum", 0.1).rewards(states, actions)
    assert (code, err) == (0, "")
    assert f"return       {rewards.sum():.2f} (action penalty 0.1)" in out
    assert "steps        400 of 400" in out and "missed       1 (period 12.5 ms)" in out
    assert "/controller/ticks" in out and "whole" in out and "!" not in out


def test_bag_outside_a_run_is_described_without_a_return(tmp_path, capsys):
    record_episode(tmp_path / "bag", 5).writer.close()
    code, out, _ = inspect(capsys, tmp_path / "bag" / "bag.mcap")
    assert code == 0
    assert "robot        pendulum" in out and "steps        5" in out and "return" not in out


def test_cut_off_bag_is_described_and_repaired(tmp_path, capsys):
    recording = record_episode(tmp_path / "a bag", 5)
    recording.writer.flush()
    code, out, _ = inspect(capsys, tmp_path / "a bag")
    assert code == 0
    typed = shlex.quote(str(tmp_path / "a bag"))
    assert f"cut off: its recorder was killed; `hucrl inspect {typed} --repair`" in out
    assert "! the recording was interrupted" in out

    code, out, _ = inspect(capsys, tmp_path / "a bag", "--repair")
    assert code == 0 and f"Bag {tmp_path / 'a bag_repaired'}" in out
    assert "whole, of an episode that was interrupted" in out
    code, _, err = inspect(capsys, tmp_path / "a bag", "--repair")
    assert code == 1 and "a bag_repaired: can't record there: File exists" in err


def test_a_whole_bag_is_not_repaired(tmp_path, capsys):
    record_episode(tmp_path / "bag", 5).writer.close()
    code, _, err = inspect(capsys, tmp_path / "bag", "--repair")
    assert code == 1 and "is whole, so there is nothing to repair" in err
    assert not (tmp_path / "bag_repaired").exists()


def test_bag_of_an_unknown_robot_is_described_as_far_as_it_goes(tmp_path, capsys):
    recording = Recording(tmp_path / "bag")
    recording.add(JOINT_STATES, joint_state(1, [0.0], [0.0], names=["wheel"]))
    recording.add(TICKS, tick(1, 0, [0.0]))
    recording.writer.close()
    code, out, _ = inspect(capsys, tmp_path / "bag")
    assert code == 0
    assert "joints wheel belong to none of the known robots (cartpole, half_cheetah" in out


def test_bag_without_an_episode_is_described_as_far_as_it_goes(tmp_path, capsys):
    recording = Recording(tmp_path / "bag")
    recording.add(JOINT_STATES, joint_state(1, [0.0], [0.0]))
    recording.writer.close()
    code, out, _ = inspect(capsys, tmp_path / "bag")
    assert code == 0 and "no episode: " in out and "holds no tick" in out


@pytest.mark.parametrize("name", ["nowhere", "text", "folder"])
def test_anything_else_is_refused(tmp_path, capsys, name):
    (tmp_path / "text").write_text("text")
    (tmp_path / "folder").mkdir()
    code, out, err = inspect(capsys, tmp_path / name)
    assert (code, out) == (1, "")
    assert f"{tmp_path / name}: neither a bundle" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "place"), [("evaluate", "bundles/"), ("card", "bundles/"), ("replay", "episodes/")]
)
def test_whoever_names_a_run_is_told_where_it_has_what_was_expected(
    command, place, run_folder, capsys
):
    assert main([command, str(run_folder.root)]) == 1
    told = capsys.readouterr().err
    assert f"of a run are in its folder {place}" in told and told.count("\n") == 1


def test_bundle_cannot_be_repaired(tmp_path, capsys):
    code, _, err = inspect(capsys, write_bundle(tmp_path / "bundle_001"), "--repair")
    assert code == 2 and "--repair is for bags" in err


def test_units_in_brackets_are_shown(capsys):
    path = share_directory() / "config" / "examples" / "furuta" / "furuta.yaml"
    code, shown, _ = inspect(capsys, path)
    assert code == 0
    assert "over the joints [(rad/s)² or (m/s)²]: move" in shown


def test_what_a_gear_makes_of_a_command_is_told(capsys):
    code, shown, _ = inspect(capsys, SHORT_RAIL)
    assert code == 0
    assert re.search(r"efforts +cart_joint ±3 \(gear 100: ±300 at the joint\)", shown)


def test_limits_of_commanded_positions_are_of_their_changes(tmp_path, capsys):
    servos = {"shoulder": {"kp": 400, "kv": 30}, "elbow": {"kp": 200, "kv": 15}}
    robot = {"command": "position", "command_limits": [0.05, 0.04], "servos": servos}
    code, shown, _ = inspect(capsys, write(tmp_path, changed(ARM, **robot)))
    assert code == 0
    assert re.search(r"^changes of position +shoulder ±0\.05, elbow ±0\.04", shown, re.MULTILINE)


def test_what_moves_unseen_is_told(tmp_path, capsys):
    path = write(tmp_path, modelled(tmp_path, DANGLING))
    code, shown, _ = inspect(capsys, path)
    assert code == 0
    assert re.search(r"unseen +a joint of body 'bob', joint number 2, joint 'loose': ", shown)
    assert "unseen" not in inspect(capsys, SHORT_RAIL)[1]


@pytest.mark.parametrize(
    ("terms", "idle"),
    [
        ([{"term": "near", "of": "base", "to": "goal", "length": 0.1}, {"term": "effort"}], True),
        ([{"term": "distance", "of": "hand", "to": "goal", "weight": 0}], True),
        ([{"term": "near", "of": "hand", "to": "goal", "length": 0.1}], False),
    ],
)
def test_a_reward_that_nothing_changes_is_told(tmp_path, capsys, terms, idle):
    task = changed(ARM, sites={"base": {"body": "world"}, "hand": {"body": "forearm"}})
    code, shown, _ = inspect(capsys, write(tmp_path, {**task, "reward": {"terms": terms}}))
    assert code == 0
    told = re.search(r"! reward +\S+ in each of 4096 imagined states, without effort: n", shown)
    assert bool(told) == idle


def test_constraints_are_told_with_the_room_at_the_start(capsys):
    code, shown, _ = inspect(capsys, SHORT_RAIL)
    assert code == 0
    cells = ("position of cart_joint", "-1 … 1", "0.05", "13.3", "the short rail")
    assert re.search(" +".join(map(re.escape, cells)), shown)


def test_a_start_at_a_joint_limit_is_told(tmp_path, capsys):
    """A closed gripper rests at its stop."""
    for elbow, told in ((2.59, True), (2.4, False)):
        start = {"elbow": elbow, "goal_x": 0.3, "goal_y": 0.2}
        code, shown, _ = inspect(capsys, write(tmp_path, changed(ARM, start=start)))
        assert code == 0
        line = r"! start +position of elbow -2\.6 … 2\.6: episodes start 0\.1 margins from the"
        assert bool(re.search(line, shown)) == told


def test_limits_of_a_joint_without_a_motor_are_told(tmp_path, capsys):
    for motors, told in ((["shoulder"], True), (["shoulder", "elbow"], False)):
        code, shown, _ = inspect(capsys, write(tmp_path, changed(ARM, actuated=motors)))
        assert code == 0
        line = r"! loose +position of elbow -2\.6 … 2\.6: no motor moves it, "
        assert bool(re.search(line, shown)) == told


def test_constraints_of_a_bundle_are_told(tmp_path, capsys):
    code, shown, _ = inspect(capsys, write_bundle(tmp_path / "bundle_001", task=SHORT_RAIL))
    assert code == 0
    told = r"^constraints +position of cart_joint -1 … 1 \(the short rail\) *$"
    assert re.search(told, shown, re.MULTILINE)
    assert "constraints.onnx" in shown


def test_it_says_before_which_python_a_description_runs(tmp_path, capsys):
    # 'reward.py' must be told even where running it ends badly.
    (tmp_path / "reward.py").write_text("raise SystemError('run')\n")
    (tmp_path / "joint.xml").write_text("<mujoco/>")
    described = (
        "robot: {model: joint.xml, period: 0.02, steps: 10}\nreward: {function: reward.py:f}\n"
    )
    (tmp_path / "joint.yaml").write_text(described)
    _, _, told = inspect(capsys, tmp_path / "joint.yaml")
    assert told.startswith(f"hucrl inspect: runs {tmp_path / 'reward.py'}\n")


@pytest.mark.parametrize("name", ["x" * 300, "y" * 300 + ".yaml", "nowhere.mcap"])
def test_names_that_no_file_can_have_are_one_line(name, capsys):
    code, _, told = inspect(capsys, name)
    assert code == 1 and told.count("\n") == 1 and "neither a bundle" in told
