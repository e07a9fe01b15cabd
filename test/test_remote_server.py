"""What the robot's side lets a learner read and write, asked as an attacker would ask."""

import hashlib
import json
import os
import shutil
import socket
import time

import pytest
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as some
from remote_pair import CONFIG, TOKEN, Pair, files_in, new_run, pair, play, write_bundle
from waiting import wait_until

from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.remote import server
from hucrl_ros.run.remote.contract import AWAY_S, Report
from hucrl_ros.run.remote.server import is_loopback, learner_command, parse_address

SECRET = "nobody else's business"


@pytest.fixture
def robot(tmp_path):
    with pair(new_run(tmp_path / "run")) as both:
        yield both


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return write_bundle(tmp_path_factory.mktemp("learner") / "bundle_000", 0)


# The token


REQUESTS = [
    ("GET", "/run"),
    ("GET", "/files/config.yaml"),
    ("GET", "/nowhere"),
    ("PUT", "/files/bundles/bundle_000/manifest.yaml"),
    ("POST", "/learner"),
    ("POST", "/bundles/0"),
    ("DELETE", "/run"),
    ("HEAD", "/files/config.yaml"),
]


@pytest.mark.parametrize("token", [None, "", "x", TOKEN[:-1], TOKEN + "t", "ü" * 16])
@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_whoever_does_not_know_the_token_gets_401_and_nothing_else(robot, method, path, token):
    before = files_in(robot.run.root)
    status, headers, content = robot.ask(method, path, b"{}", None, **authorization(token))
    assert (status, content) == (401, b"")
    assert headers["WWW-Authenticate"] == "Bearer"
    assert "Python" not in headers["Server"]
    assert files_in(robot.run.root) == before
    assert robot.exchange.report is None


def authorization(token):
    return {} if token is None else {"Authorization": f"Bearer {token}".encode()}


def test_the_token_of_another_scheme_does_not_count(robot):
    status, _, content = robot.ask("GET", "/run", b"", None, Authorization=f"Basic {TOKEN}")
    assert (status, content) == (401, b"")


def test_an_unknown_method_is_refused_with_the_token_as_well(robot):
    assert robot.ask("DELETE", "/run")[0] == 501


# What can be read


def test_a_run_is_listed_with_sizes_and_hashes(robot, bundle):
    shutil.copytree(bundle, robot.run.bundle(0))
    play(robot.run)
    robot.run.checkpoint(0).write_bytes(b"weights")
    assert "checkpoints/episode_000.safetensors" not in robot.client.listing().files, "not its own"
    robot.run.bundle(1).mkdir()
    (robot.run.bundle(1) / ".DS_Store").write_bytes(b"what a desktop leaves")
    listed = robot.client.listing()
    assert listed.name == "run"
    files = files_in(robot.run.root)
    assert set(listed.files) == {path for path in files if "/." not in f"/{path}"}
    assert "episodes/episode_000/episode_000.mcap" in listed.files
    for path, entry in listed.files.items():
        content = (robot.run.root / path).read_bytes()
        assert entry.size == len(content)
        assert entry.sha256 == hashlib.sha256(content).hexdigest()
        status, _, served = robot.ask("GET", f"/files/{path}")
        assert (status, served) == (200, content)


def test_an_episode_that_is_still_played_is_not_listed(robot):
    play(robot.run)
    (robot.run.bag(0) / "metadata.yaml").rename(robot.run.root / "elsewhere")
    assert not [path for path in robot.client.listing().files if path.startswith("episodes")]


def outside(robot):
    """Paths of files that exist and aren't to be read."""
    run = robot.run
    (run.root.parent / "secret").write_text(SECRET)
    run.token.write_text(SECRET)
    run.summary.write_text(SECRET)
    (run.logs / "controller.log").write_text(SECRET)
    (run.incoming / "half").write_text(SECRET)
    return [
        "../secret",
        "robot/../../secret",
        "robot/../.token",
        "episodes/../.token",
        "episodes/episode_000/../../.token",
        "..%2fsecret",
        "%2e%2e/secret",
        "robot/%2e%2e/%2e%2e/secret",
        str(run.root.parent / "secret"),
        f"/{run.root.parent / 'secret'}",
        "./config.yaml",
        "config.yaml/",
        "config.yaml%00",
        "robot//robot.yaml",
        "robot\\..\\..\\secret",
        ".token",
        ".lock",
        ".incoming/half",
        "summary.json",
        "logs/controller.log",
        "robot",
        "",
    ]


def test_nothing_else_can_be_read(robot):
    for path in outside(robot):
        status, _, content = robot.ask("GET", f"/files/{path}")
        assert status == 404, path
        assert SECRET.encode() not in content


def test_links_are_neither_listed_nor_followed(robot):
    run = robot.run
    secret = run.root.parent / "secret"
    secret.write_text(SECRET)
    (run.root.parent / "folder").mkdir()
    (run.root.parent / "folder" / "metadata.yaml").write_text(SECRET)
    (run.robot / "link.yaml").symlink_to(secret)
    (run.robot / "folder").symlink_to(run.root.parent / "folder")
    run.bag(0).symlink_to(run.root.parent / "folder")
    os.mkfifo(run.robot / "pipe")
    listed = robot.client.listing().files
    assert not {path for path in listed if "link" in path or "folder" in path or "pipe" in path}
    assert not {path for path in listed if path.startswith("episodes")}
    for path in ("robot/link.yaml", "robot/folder/metadata.yaml", "robot/pipe"):
        assert robot.ask("GET", f"/files/{path}")[0] == 404
    assert robot.ask("GET", "/files/episodes/episode_000/metadata.yaml")[0] == 404


def test_a_file_with_a_name_that_may_not_travel_is_named(robot):
    (robot.run.robot / "a b.stl").write_text("")
    with pytest.raises(RunError, match=r"a b\.stl: only files with plain names travel"):
        robot.client.listing()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    both = Pair(new_run(tmp_path_factory.mktemp("robot") / "run"))
    (both.run.root.parent / "secret").write_text(SECRET)
    yield both
    both.close()


@examples(max_examples=150)
@given(
    some.lists(
        some.sampled_from(
            ["..", ".", "", "robot", "episodes", "config.yaml", "secret", "%2e%2e", ".token", "~"]
        ),
        min_size=1,
        max_size=6,
    )
)
@example(["robot", "..", "..", "secret"])
def test_no_path_that_is_not_listed_is_served(shared, parts):
    path = "/".join(parts)
    status, _, content = shared.ask("GET", f"/files/{path}")
    listed = shared.client.listing().files
    assert (status == 200) == (path in listed)
    assert SECRET.encode() not in content


@examples(max_examples=60)
@given(some.integers(0, 4000))
def test_a_range_is_the_rest_of_the_file(shared, first):
    content = shared.run.config_path.read_bytes()
    status, headers, served = shared.ask("GET", "/files/config.yaml", Range=f"bytes={first}-")
    if first >= len(content):
        assert status == 416
    else:
        assert status == 206
        assert served == content[first:]
        assert headers["Content-Range"] == f"bytes {first}-{len(content) - 1}/{len(content)}"


@pytest.mark.parametrize("text", ["bytes=-5", "bytes=0-5", "bytes=x-", "lines=1-", "bytes=1-,3-"])
def test_another_form_of_range_gets_the_whole_file(shared, text):
    status, _, served = shared.ask("GET", "/files/config.yaml", Range=text)
    assert (status, served) == (200, shared.run.config_path.read_bytes())


# Who learns


ONE, OTHER = "1" * 16, "2" * 16


def test_orders_say_what_is_wanted(robot, bundle):
    order = robot.client.report(Report(learner=ONE, message="preparing"))
    assert (order.wanted, order.finished) == (0, False)
    shutil.copytree(bundle, robot.run.bundle(0))
    assert robot.client.report(Report(learner=ONE, message="idle")).wanted is None
    play(robot.run)
    robot.exchange.request(1)
    assert robot.client.report(Report(learner=ONE, message="idle")).wanted == 1
    robot.run.bundle(CONFIG.episodes).mkdir()
    assert robot.client.report(Report(learner=ONE, message="idle")).finished


def test_a_second_learner_has_to_wait_until_the_first_is_away(robot, monkeypatch):
    robot.client.report(Report(learner=ONE, message="idle"))
    body = Report(learner=OTHER, message="idle").model_dump_json().encode()
    status, _, answer = robot.ask("POST", "/learner", body)
    assert (status, json.loads(answer)["error"]) == (409, "another learner is connected")
    assert robot.exchange.report.learner == ONE
    robot.exchange._heard_at -= AWAY_S
    assert robot.ask("POST", "/learner", body)[0] == 200
    assert robot.exchange.report.learner == OTHER


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"learner": "1", "message": 3}'])
def test_what_is_no_report_is_refused(robot, body):
    assert robot.ask("POST", "/learner", body)[0] == 400
    assert robot.exchange.report is None


def test_a_message_without_end_is_refused(robot):
    assert robot.ask("POST", "/learner", b"x", Content__Length=str(2**20))[0] == 413


def test_more_connections_than_are_served_are_closed(robot, monkeypatch):
    address = ("127.0.0.1", robot.port)
    idle = [socket.create_connection(address) for _ in range(server.CONNECTIONS)]
    try:
        wait_until(
            lambda: not robot.server._free.acquire(blocking=False) or robot.server._free.release()
        )
        with socket.create_connection(address, timeout=10) as one_more:
            assert one_more.recv(1) == b""
    finally:
        for connection in idle:
            connection.close()
    wait_until(lambda: is_served(robot))


def test_who_drips_a_head_is_cut_off(robot, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 0.5)
    with socket.create_connection(("127.0.0.1", robot.port), timeout=0.05) as dripping:

        def cut_off():
            try:
                dripping.send(b"G")  # less than a head, and never silent
                return dripping.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        wait_until(cut_off)
    assert is_served(robot)


def test_a_body_may_take_longer_than_a_head(robot, monkeypatch):
    monkeypatch.setattr(server, "HEAD_S", 2.0)
    body = Report(learner=ONE, message="idle").model_dump_json().encode()
    head = (
        f"POST /learner HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", robot.port), timeout=60) as slow:
        slow.sendall(head.encode())
        time.sleep(2.5)
        slow.sendall(body)
        assert slow.recv(12) == b"HTTP/1.1 200"


def is_served(robot):
    try:
        return robot.ask("GET", "/run")[0] == 200
    except OSError:
        return False


def test_a_port_that_is_taken_is_named(robot):
    with pytest.raises(RunError, match=f"127.0.0.1:{robot.port}: can't listen there: "):
        Pair(robot.run, robot.port)


@pytest.mark.parametrize(
    "text", ["", "8642", "host:", ":8642", "h:0", "h:65536", "[::1]:8642", "a b:1"]
)
def test_an_address_of_another_form_is_refused(text):
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        parse_address(text)


def test_an_address_says_who_reaches_it_and_how():
    assert is_loopback("127.0.0.1:8642")
    assert is_loopback("localhost:1")
    assert not is_loopback("0.0.0.0:8642")
    assert not is_loopback("192.168.0.2:8642")
    assert "http://192.168.0.2:8642 " in learner_command("192.168.0.2:8642")
    assert f"http://{socket.gethostname()}:8642 " in learner_command("0.0.0.0:8642")
