"""What the robot's side takes in: the bundle that it waits for, and nothing half-done."""

import dataclasses
import errno
import hashlib
import json
import shutil
import socket
from pathlib import Path

import pytest
from remote_pair import CONFIG, TOKEN, files_in, new_run, pair, play, write_bundle
from test_inspect import CRASHES
from waiting import wait_until

from hucrl_ros.config.constraints import SpeedConstraint
from hucrl_ros.config.files import override
from hucrl_ros.controller import examiner
from hucrl_ros.controller.manifest import MANIFEST, dump_manifest, read_manifest
from hucrl_ros.errors import BundleError, HucrlError
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.remote.contract import CHECKPOINT_BYTES
from hucrl_ros.run.remote.inbox import require_promised

# Of 0.3 kg at 0.5 m under 1 N m; gravity may take all of it, and then a tenth is counted on.
ACCELERATION = 1.0 / (0.3 * 0.5**2)
DECELERATION = 0.1 * ACCELERATION


@pytest.fixture
def robot(tmp_path):
    with pair(new_run(tmp_path / "run")) as both:
        yield both


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("learner") / "bundle_000", 0)


def put(robot, path, content, **headers):
    given = {"X-SHA256": hashlib.sha256(content).hexdigest(), **headers}
    status, _, answer = robot.ask("PUT", f"/files/{path}", content, **given)
    return status, json.loads(answer)


def send(robot, bundle, index=0):
    """All files of a bundle, which doesn't appear by that."""
    for name in [MANIFEST, *read_manifest(bundle).files]:
        path = f"bundles/bundle_{index:03d}/{name}"
        status, answer = put(robot, path, (bundle / name).read_bytes())
        assert status == 200, answer
    return answer


def test_a_bundle_appears_when_it_is_complete_and_checked(robot, bundle):
    assert robot.exchange.wanted == 0
    send(robot, bundle)
    assert not robot.run.bundle(0).exists()
    status, _, answer = robot.ask("POST", "/bundles/0")
    assert status == 200
    assert json.loads(answer)["wanted"] is None
    assert files_in(robot.run.bundle(0)) == files_in(bundle)
    for name in files_in(bundle):
        assert (robot.run.bundle(0) / name).read_bytes() == (bundle / name).read_bytes()
    assert list(robot.run.incoming.iterdir()) == []


def test_a_disk_that_was_full_for_a_while_is_no_obstacle_afterwards(robot, bundle, monkeypatch):
    wrote = Path.write_bytes

    def full(path, content):
        if path.name == MANIFEST:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return wrote(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(HucrlError):
            robot.client.send(f"bundles/{bundle.name}/{MANIFEST}", bundle / MANIFEST)
    assert "No space left on device" in robot.exchange.refused
    assert robot.client.send(f"bundles/{bundle.name}/{MANIFEST}", bundle / MANIFEST)


def test_one_that_flies_again_may_be_of_the_strategy_that_was_wished_for(robot, bundle, tmp_path):
    other = "greedy" if CONFIG.strategy != "greedy" else "optimistic"
    written = write_bundle(tmp_path / bundle.name, 0, strategy=other)
    with pytest.raises(HucrlError, match=f"strategy is '?{other}"):
        robot.client.send(f"bundles/{bundle.name}/{MANIFEST}", written / MANIFEST)
    manifest = read_manifest(written).model_copy(update={"repeats": 0})
    (written / MANIFEST).write_text(dump_manifest(manifest))
    assert robot.client.send(f"bundles/{bundle.name}/{MANIFEST}", written / MANIFEST)


def test_what_the_disk_cannot_take_is_remembered_until_it_can(robot, bundle, monkeypatch):
    words = f"bundles/{bundle.name}/{MANIFEST}", bundle / MANIFEST
    with monkeypatch.context() as patch:
        patch.setattr("hucrl_ros.run.remote.inbox.FREE", 2**60)
        with pytest.raises(HucrlError, match="disk is full"):
            robot.client.send(*words)
    assert robot.exchange.refused == "the robot's disk is full"
    robot.client.send(*words)
    assert robot.exchange.refused == ""


def test_a_key_that_is_gone_is_remembered(bundle, tmp_path):
    run = RunFolder.create(
        tmp_path / "run",
        override(CONFIG, {"control.signing_key": str(tmp_path / "gone.key")}),
        describe("pendulum"),
    )
    with pair(run) as robot:
        send(robot, bundle)
        with pytest.raises(HucrlError, match=r"gone\.key: No such file"):
            robot.client.finish(0)
        assert "gone.key: No such file" in robot.exchange.refused


def test_an_incomplete_bundle_does_not_appear(robot, bundle):
    content = (bundle / MANIFEST).read_bytes()
    status, answer = put(robot, "bundles/bundle_000/manifest.yaml", content)
    assert status == 200
    assert set(answer["missing"]) == set(read_manifest(bundle).files)
    status, _, refused = robot.ask("POST", "/bundles/0")
    assert status == 409
    assert b"still missing" in refused
    assert not robot.run.bundle(0).exists()


def test_what_came_before_an_interruption_needs_not_come_again(robot, bundle):
    manifest = (bundle / MANIFEST).read_bytes()
    put(robot, "bundles/bundle_000/manifest.yaml", manifest)
    put(robot, "bundles/bundle_000/policy.onnx", (bundle / "policy.onnx").read_bytes())
    _, answer = put(robot, "bundles/bundle_000/manifest.yaml", manifest)
    assert set(answer["missing"]) == set(read_manifest(bundle).files) - {"policy.onnx"}


NAMES = [
    "bundles/bundle_001/manifest.yaml",
    "bundles/bundle_000/policy.onnx",
    "bundles/bundle_000/../../.token",
    "bundles/../config.yaml",
    "../outside",
    "/tmp/outside",
    "config.yaml",
    "robot/robot.yaml",
    "episodes/episode_000/metadata.yaml",
    "prior/config.yaml",
    "checkpoints/prior.safetensors",
    "checkpoints/episode_000.safetensors",
    ".lock",
    "summary.json",
]


@pytest.mark.parametrize("name", NAMES)
def test_only_the_files_of_the_bundle_that_is_waited_for_are_taken(robot, name):
    before = files_in(robot.run.root.parent)
    status, _ = put(robot, name, b"x")
    assert status == 404
    assert files_in(robot.run.root.parent) == before


def test_nothing_is_taken_while_no_bundle_is_waited_for(robot, bundle):
    send(robot, bundle)
    robot.ask("POST", "/bundles/0")
    before = files_in(robot.run.root)
    status, answer = put(robot, "bundles/bundle_000/manifest.yaml", b"x")
    assert (status, answer["error"]) == (409, "no bundle is waited for")
    assert robot.ask("POST", "/bundles/0")[0] == 409
    assert files_in(robot.run.root) == before


@pytest.mark.parametrize(
    ("content", "headers", "status", "line"),
    [
        (b"x", {"Content__Length": str(2**18)}, 413, "more than the 131072 accepted"),
        (b"x", {"Content__Length": "-1"}, 411, "length"),
        (b"x", {"Content__Length": "ten"}, 411, "length"),
        (b"x", {"X-SHA256": "0" * 64}, 422, "its SHA-256 is"),
        (b"x", {"X-SHA256": ""}, 422, "its SHA-256 is"),
        (b": not yaml [", {}, 422, MANIFEST),
        (b"schema_version: 1\n", {}, 422, "schema_version is 1"),
    ],
)
def test_a_file_that_is_not_what_it_should_be_leaves_nothing(
    robot, content, headers, status, line
):
    path = "/files/bundles/bundle_000/manifest.yaml"
    given = {"X-SHA256": hashlib.sha256(content).hexdigest(), **headers}
    found, _, answer = robot.ask("PUT", path, content, **given)
    assert found == status
    assert line in json.loads(answer)["error"]
    assert files_in(robot.run.incoming) == set()
    assert list(robot.run.incoming.iterdir()) == []


def test_a_bundle_may_not_be_larger_than_one_may_be_altogether(robot, bundle):
    put(robot, "bundles/bundle_000/manifest.yaml", (bundle / MANIFEST).read_bytes())
    path = "/files/bundles/bundle_000/policy.onnx"
    headers = {"X-SHA256": "0" * 64, "Content__Length": str(2**29 + 1)}
    assert robot.ask("PUT", path, b"x", **headers)[0] == 413
    assert files_in(robot.run.incoming) == {"bundle_000/manifest.yaml"}


def test_weights_have_a_limit_as_well(robot, bundle):
    shutil.copytree(bundle, robot.run.bundle(0))
    play(robot.run)
    robot.exchange.request(1)
    path = "/files/checkpoints/episode_000.safetensors"
    headers = {"X-SHA256": "0" * 64, "Content__Length": str(CHECKPOINT_BYTES + 1)}
    assert robot.ask("PUT", path, b"x", **headers)[0] == 413


def test_another_file_than_the_manifest_lists_is_refused(robot, bundle):
    put(robot, "bundles/bundle_000/manifest.yaml", (bundle / MANIFEST).read_bytes())
    status, answer = put(robot, "bundles/bundle_000/policy.onnx", b"something else")
    assert status == 422
    assert "the manifest says" in answer["error"]
    assert put(robot, "bundles/bundle_000/more.onnx", b"x")[0] == 404
    assert files_in(robot.run.incoming) == {"bundle_000/manifest.yaml"}


def test_a_sender_that_dies_in_mid_file_leaves_nothing(robot, bundle):
    put(robot, "bundles/bundle_000/manifest.yaml", (bundle / MANIFEST).read_bytes())
    with socket.create_connection(("127.0.0.1", robot.port)) as connection:
        head = (
            "PUT /files/bundles/bundle_000/policy.onnx HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {TOKEN}\r\nX-SHA256: {'0' * 64}\r\n"
            "Content-Length: 5000\r\n\r\n"
        )
        connection.sendall(head.encode() + b"x" * 2000)
        wait_until(lambda: len(files_in(robot.run.incoming)) == 2)
    wait_until(lambda: files_in(robot.run.incoming) == {"bundle_000/manifest.yaml"})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"safety": CONFIG.safety.model_copy(update={"stale_periods": 9.0})}, "safety is"),
        ({"planner": CONFIG.planner.model_copy(update={"horizon": 3})}, "planner is"),
        ({"driver": CONFIG.driver.model_copy(update={"velocity": "derived"})}, "driver is"),
        ({"random_share": 0.5}, "random_share is 0.5, the run's is 1.0"),
        ({"random": False}, "random is False"),
        ({"seed": 7}, "seed is 7"),
        ({"steps": 10**6}, "steps is 1000000, the run's is "),
        ({"strategy": "greedy"}, "strategy is greedy"),
        ({"episode": 5}, "episode is 5, the run's is 0"),
    ],
)
def test_a_bundle_that_is_not_this_runs_is_refused_in_one_line(
    robot, bundle, tmp_path, changes, line
):
    manifest = read_manifest(bundle).model_copy(update=changes)
    content = dump_manifest(manifest).encode()
    status, answer = put(robot, "bundles/bundle_000/manifest.yaml", content)
    assert status == 422
    assert line in answer["error"]
    assert "\n" not in answer["error"]
    assert list(robot.run.incoming.iterdir()) == []


def test_a_bundle_without_a_constraint_of_the_run_is_refused_in_one_line(robot, bundle):
    limit = SpeedConstraint(kind="speed", joint="pendulum_joint", largest=7.0)
    inbox = robot.exchange._inbox
    inbox._described = dataclasses.replace(inbox._described, constraints=(limit,))
    path = "bundles/bundle_000/manifest.yaml"
    status, answer = put(robot, path, (bundle / MANIFEST).read_bytes())
    line = "bundle 0: no constraint 'speed of pendulum_joint ≤ 7', which the run has"
    assert (status, answer["error"]) == (422, line)
    assert list(robot.run.incoming.iterdir()) == []
    whole = read_manifest(bundle).model_copy(update={"constraints": (limit.name, "another")})
    assert put(robot, path, dump_manifest(whole).encode())[0] == 200


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({}, ""),
        ({"deceleration": (DECELERATION * (1.0 - 1e-2),)}, ""),
        ({"acceleration": (ACCELERATION * (1.0 + 1e-2),)}, ""),
        ({"deceleration": (DECELERATION * (1.0 + 1e-4),)}, ""),
        ({"deceleration": (DECELERATION * (1.0 + 1e-2),)}, "deceleration"),
        ({"acceleration": (ACCELERATION * (1.0 - 1e-2),)}, "acceleration"),
        ({"deceleration": (), "acceleration": ()}, "deceleration"),
        ({"steady_speed": (1.0,)}, "steady_speed"),
    ],
)
def test_a_bundle_counts_on_no_stronger_brakes_than_the_model_promises(bundle, changes, fault):
    limit = SpeedConstraint(kind="speed", joint="pendulum_joint", largest=7.0)
    described = dataclasses.replace(describe("pendulum"), constraints=(limit,))
    said = {"deceleration": (DECELERATION,), "acceleration": (ACCELERATION,), **changes}
    manifest = read_manifest(bundle).model_copy(update=said)
    if not fault:
        require_promised(manifest, described)
        return
    line = rf"^bundle 0: {fault} is .*, the robot's model promises"
    with pytest.raises(BundleError, match=line):
        require_promised(manifest, described)


def test_what_motors_promise_is_looked_at_before_a_bundle_appears(
    robot, bundle, tmp_path, monkeypatch
):
    limit = SpeedConstraint(kind="speed", joint="pendulum_joint", largest=7.0)
    inbox = robot.exchange._inbox
    inbox._described = dataclasses.replace(inbox._described, constraints=(limit,))
    monkeypatch.setattr(inbox, "_examined", read_manifest)  # it has no graph of constraints
    bad = tmp_path / "bundle_000"
    shutil.copytree(bundle, bad)
    strong = {"deceleration": (99.0,), "acceleration": (99.0,), "constraints": (limit.name,)}
    manifest = read_manifest(bad).model_copy(update=strong)
    (bad / MANIFEST).write_text(dump_manifest(manifest))
    send(robot, bad)
    status, _, answer = robot.ask("POST", "/bundles/0")
    assert status == 422
    assert "deceleration is (99.0,), the robot's model promises" in json.loads(answer)["error"]
    assert not robot.run.bundle(0).exists() and list(robot.run.incoming.iterdir()) == []


def test_where_nothing_is_constrained_nothing_has_to_be_promised(bundle):
    require_promised(read_manifest(bundle), describe("pendulum"))


def test_a_bundle_whose_graphs_are_not_what_they_say_is_deleted(robot, bundle, tmp_path):
    bad = tmp_path / "bundle_000"
    shutil.copytree(bundle, bad)
    shutil.copy(bad / "critic.onnx", bad / "policy.onnx")
    manifest = read_manifest(bad)
    files = {**manifest.files, "policy.onnx": manifest.files["critic.onnx"]}
    (bad / MANIFEST).write_text(dump_manifest(manifest.model_copy(update={"files": files})))
    send(robot, bad)
    status, _, answer = robot.ask("POST", "/bundles/0")
    assert status == 422
    assert "policy.onnx" in json.loads(answer)["error"]
    assert not robot.run.bundle(0).exists()
    assert list(robot.run.incoming.iterdir()) == []


def test_a_bundle_that_ends_the_process_that_loads_it_ends_no_other(robot, bundle, monkeypatch):
    monkeypatch.setattr(examiner, "PROGRAM", ("-c", CRASHES))
    send(robot, bundle)
    status, _, answer = robot.ask("POST", "/bundles/0")
    assert status == 422
    line = json.loads(answer)["error"]
    assert line == "bundle_000: ended the process that examined it, by SIGSEGV"
    assert not robot.run.bundle(0).exists() and list(robot.run.incoming.iterdir()) == []
    monkeypatch.undo()
    send(robot, bundle)
    assert robot.ask("POST", "/bundles/0")[0] == 200, "another one is taken"


def test_a_new_session_begins_with_nothing_half_sent(tmp_path, bundle):
    run = new_run(tmp_path / "run")
    with pair(run) as robot:
        put(robot, "bundles/bundle_000/manifest.yaml", (bundle / MANIFEST).read_bytes())
    with pair(run):
        assert list(run.incoming.iterdir()) == []
