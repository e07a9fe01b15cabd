"""The learner's copy of a run: complete, resumed, the same run, whatever the network does."""

import errno
import shutil
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as some
from remote_pair import CONFIG, TOKEN, Pair, files_in, half_of, new_run, pair, play, write_bundle

from hucrl_ros.config.files import override
from hucrl_ros.controller.manifest import MANIFEST
from hucrl_ros.errors import ConfigError, RunError
from hucrl_ros.run.prior import keep_prior
from hucrl_ros.run.remote.client import ATTEMPTS, RobotClient, UnreachableError
from hucrl_ros.run.remote.contract import Listing
from hucrl_ros.run.remote.mirror import Mirror


@pytest.fixture
def robot(tmp_path):
    run = new_run(tmp_path / "run")
    write_bundle(run.bundle(0), 0)
    play(run)
    with pair(run) as both:
        yield both


@pytest.fixture
def mirror(robot, tmp_path):
    return Mirror(robot.client, tmp_path / "mirror")


def assert_same(robot, mirror):
    for path in robot.client.listing().files:
        assert (mirror.run.root / path).read_bytes() == (robot.run.root / path).read_bytes(), path


def gets(robot):
    """Paths and ranges of the files that are asked for from now on."""
    asked = []
    fetch = robot.client._response

    def noted(method, path, content, headers, *patience):
        if path.startswith("/files/"):
            asked.append((method, path.removeprefix("/files/"), headers.get("Range", "")))
        return fetch(method, path, content, headers, *patience)

    robot.client._response = noted
    return asked


def test_all_of_a_run_is_fetched_once(robot, mirror):
    robot.run.checkpoint(0).write_bytes(b"weights")
    mirror.fetch()
    assert_same(robot, mirror)
    assert mirror.run.finished_episodes() == 1
    assert mirror.run.config == CONFIG
    asked = gets(robot)
    mirror.fetch()
    assert asked == []


def test_only_what_is_new_is_fetched(robot, mirror):
    mirror.fetch()
    play(robot.run)
    asked = gets(robot)
    mirror.fetch()
    assert {path for _, path, _ in asked} == {
        "episodes/episode_001/episode_001.mcap",
        "episodes/episode_001/metadata.yaml",
    }
    assert mirror.run.finished_episodes() == 2


def test_a_transfer_that_broke_off_goes_on_where_it_was(robot, mirror):
    bag = "episodes/episode_000/episode_000.mcap"
    had = half_of(robot.run.root / bag, mirror.run.incoming / bag)
    asked = gets(robot)
    mirror.fetch()
    assert ("GET", bag, f"bytes={had}-") in asked
    assert_same(robot, mirror)


def test_an_episode_appears_when_it_is_complete(robot, mirror, monkeypatch):
    fetch = robot.client.fetch

    def break_off(path, entry, part):
        if path.endswith("metadata.yaml"):
            raise UnreachableError("the cable")
        fetch(path, entry, part)

    with monkeypatch.context() as patch:
        patch.setattr(robot.client, "fetch", break_off)
        with pytest.raises(UnreachableError):
            mirror.fetch()
    assert mirror.run.finished_episodes() == 0
    assert list(mirror.run.episodes.iterdir()) == []
    mirror.fetch()
    assert mirror.run.finished_episodes() == 1


def test_no_episode_comes_before_an_earlier_one(robot, mirror, monkeypatch):
    """Or where it breaks off a run is left that nobody goes on with."""
    bags = [f"episodes/episode_{k:03d}/metadata.yaml" for k in (101, 1000, 999)]
    listed = robot.client.listing()
    entry = listed.files["episodes/episode_000/metadata.yaml"]
    listed = listed.model_copy(update={"files": dict.fromkeys(bags, entry)})
    monkeypatch.setattr(robot.client, "listing", lambda: listed)
    fetched = []
    monkeypatch.setattr(mirror, "_fetch_unit", lambda unit, files: fetched.append(unit))
    mirror.fetch()
    assert fetched == [f"episodes/episode_{k:03d}" for k in (101, 999, 1000)]


def test_what_came_damaged_is_fetched_again(robot, mirror, caplog):
    bag = "episodes/episode_000/episode_000.mcap"
    part = mirror.run.incoming / bag
    part.parent.mkdir(parents=True)
    size = (robot.run.root / bag).stat().st_size
    part.write_bytes(b"\0" * (size // 2))
    mirror.fetch()
    assert_same(robot, mirror)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{bag} came damaged: its SHA-256 is ")


def test_what_comes_damaged_again_and_again_is_an_error(robot, mirror, monkeypatch):
    listing = robot.client.listing()
    files = dict(listing.files)
    files["config.yaml"] = files["config.yaml"].model_copy(update={"sha256": "0" * 64})
    forged = Listing(name=listing.name, files=files)
    monkeypatch.setattr(robot.client, "listing", lambda: forged)
    with pytest.raises(RunError, match=f"{ATTEMPTS} times in a row: config.yaml came damaged"):
        mirror.fetch()
    assert not mirror.run.config_path.exists()
    assert files_in(mirror.run.incoming) == set()


@examples(max_examples=25)
@given(kept=some.floats(0, 1.2), garbage=some.booleans())
def test_whatever_lies_there_of_a_file_the_right_one_comes_of_it(base, kept, garbage):
    robot, folder = base
    path = "config.yaml"
    content = (robot.run.root / path).read_bytes()
    part = folder / "part"
    part.write_bytes(
        (b"\0" * 2 * len(content) if garbage else content * 2)[: int(kept * len(content))]
    )
    entry = robot.client.listing().files[path]
    for _ in range(2):
        try:
            robot.client.fetch(path, entry, part)
        except Exception as error:
            assert "damaged" in str(error)
            assert not part.exists()
    assert part.read_bytes() == content


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    both = Pair(new_run(tmp_path_factory.mktemp("robot") / "run"))
    yield both, tmp_path_factory.mktemp("parts")
    both.close()


@pytest.mark.parametrize(
    "path", ["../x", "/etc/x", "robot/../../x", "logs/x", ".token", "summary.json", "robot/ä"]
)
def test_a_robot_can_not_have_files_written_elsewhere(robot, mirror, monkeypatch, path):
    listing = robot.client.listing()
    files = {**listing.files, path: listing.files["config.yaml"]}
    forged = Listing(name="x", files=files)
    monkeypatch.setattr(robot.client, "_asked", lambda *given: forged)
    with pytest.raises(RunError, match="offers a file of a strange name"):
        mirror.fetch()
    assert files_in(mirror.run.root) == set()


# What the run began with


@pytest.fixture
def begun(robot, tmp_path):
    """The robot's run began with another one, which had begun with a third."""
    first, second = new_run(tmp_path / "first"), new_run(tmp_path / "second")
    for run in (first, second):
        play(run)
        run.checkpoint(0).write_bytes(run.root.name.encode())
    keep_prior(first, second)
    keep_prior(second, robot.run)
    return robot.run.prior


def test_what_the_run_began_with_is_fetched_with_what_that_one_began_with(robot, mirror, begun):
    mirror.fetch()
    assert files_in(mirror.run.prior) == files_in(begun)
    assert "prior/checkpoints/episode_000.safetensors" in files_in(begun)
    assert_same(robot, mirror)
    asked = gets(robot)
    mirror.fetch()
    assert asked == []


def test_what_the_run_began_with_appears_when_all_of_it_is_here(robot, mirror, begun, monkeypatch):
    fetch = robot.client.fetch

    def break_off(path, entry, part):
        if path.startswith("prior/prior/episodes"):
            raise UnreachableError("the cable")
        fetch(path, entry, part)

    with monkeypatch.context() as patch:
        patch.setattr(robot.client, "fetch", break_off)
        with pytest.raises(UnreachableError):
            mirror.fetch()
    assert not mirror.run.prior.exists()
    assert mirror.run.finished_episodes() == 0
    mirror.fetch()
    assert_same(robot, mirror)


def test_a_folder_that_began_with_another_run_is_refused(robot, mirror, begun):
    mirror.fetch()
    (begun / "checkpoints" / "episode_000.safetensors").write_bytes(b"other weights")
    with pytest.raises(RunError, match=r"another run than the robot's \(prior differs\)"):
        mirror.fetch()


def test_the_first_bundle_is_waited_for_on_request_and_comes_with_its_weights(
    robot, mirror, begun, monkeypatch
):
    shutil.rmtree(robot.run.bundle(0))
    shutil.rmtree(robot.run.bag(0))
    own = override(CONFIG, {"exploration.random_episodes": 0})
    for part in (robot.exchange, robot.exchange._inbox):
        monkeypatch.setattr(part, "_config", own)
    assert robot.exchange.wanted is None
    robot.exchange.request(0)
    mirror.fetch()
    write_bundle(mirror.run.bundle(0), 0, random=False)
    mirror.run.checkpoint(-1).write_bytes(b"weights")
    mirror.send(0)
    assert robot.run.checkpoint(-1).read_bytes() == b"weights"
    assert files_in(robot.run.bundle(0)) == files_in(mirror.run.bundle(0))
    assert robot.exchange.wanted is None


def test_random_episodes_of_a_run_that_begins_with_another_are_waited_for(robot, begun):
    shutil.rmtree(robot.run.bundle(0))
    shutil.rmtree(robot.run.bag(0))
    assert robot.run.config.exploration.random_episodes
    assert robot.exchange.wanted == 0


def test_what_was_fetched_is_on_the_disk_before_it_gets_its_name(robot, mirror, monkeypatch):
    held = []
    monkeypatch.setattr(
        "hucrl_ros.run.remote.mirror.to_disk", lambda *paths: held.extend(map(Path.exists, paths))
    )
    mirror.fetch()
    assert len(held) == len(robot.client.listing().files)
    assert all(held)


def test_a_full_disk_here_is_not_told_of_the_robot(robot, mirror, monkeypatch):
    opened = Path.open

    def full(path, mode="r", *words, **more):
        if ".incoming" in path.parts and mode in ("ab", "wb"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, mode, *words, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(RunError, match=r"incoming.*: can't be written: No space left"):
        mirror.fetch()


# Another run's folder


def test_a_folder_with_other_episodes_is_refused(robot, mirror, tmp_path):
    mirror.fetch()
    shutil.rmtree(robot.run.bag(0))
    shutil.copytree(tmp_path / "mirror" / "episodes" / "episode_000", robot.run.bag(0))
    with (robot.run.bag(0) / "metadata.yaml").open("a") as file:
        file.write("# another\n")
    before = files_in(mirror.run.root)
    with pytest.raises(RunError, match=r"another run than the robot's \(episodes/episode_000"):
        mirror.fetch()
    assert files_in(mirror.run.root) == before


def test_a_folder_with_more_episodes_than_the_robot_has_is_refused(robot, mirror):
    play(robot.run)
    mirror.fetch()
    shutil.rmtree(robot.run.bag(1))
    with pytest.raises(RunError, match=r"another run than the robot's \(episodes/episode_001"):
        mirror.fetch()


def test_settings_may_change_as_far_as_a_resumed_runs_may(robot, mirror):
    mirror.fetch()
    robot.run.change(override(CONFIG, {"episodes": 7}))
    mirror.fetch()
    assert mirror.run.config.episodes == 7
    robot.run.change(override(CONFIG, {"seed": 3}))
    with pytest.raises(RunError, match=r"another run than the robot's \(seed differs\)"):
        mirror.fetch()
    assert mirror.run.config.seed == CONFIG.seed


# To the robot


@pytest.fixture
def learned(robot, mirror):
    """A mirror with a bundle that the robot waits for."""
    mirror.fetch()
    robot.exchange.request(1)
    write_bundle(mirror.run.bundle(1), 1)
    mirror.run.checkpoint(0).write_bytes(b"weights")
    return mirror


def assert_arrived(robot, mirror):
    assert files_in(robot.run.bundle(1)) == files_in(mirror.run.bundle(1))
    for name in files_in(mirror.run.bundle(1)):
        here, there = (run.bundle(1) / name for run in (mirror.run, robot.run))
        assert here.read_bytes() == there.read_bytes()
    assert robot.run.checkpoint(0).read_bytes() == b"weights"
    assert list(robot.run.incoming.iterdir()) == []
    assert robot.exchange.wanted is None


def test_a_bundle_and_its_weights_arrive(robot, learned):
    learned.send(1)
    assert_arrived(robot, learned)


def test_what_had_arrived_is_not_sent_again(robot, learned):
    bundle = learned.run.bundle(1)
    for name in (MANIFEST, "policy.onnx"):
        robot.client.send(f"bundles/bundle_001/{name}", bundle / name)
    asked = gets(robot)
    learned.send(1)
    assert "bundles/bundle_001/policy.onnx" not in {path for _, path, _ in asked}
    assert "bundles/bundle_001/critic.onnx" in {path for _, path, _ in asked}
    assert_arrived(robot, learned)


def test_a_bundle_that_came_damaged_is_sent_again(robot, learned, monkeypatch, caplog):
    copy = robot.exchange._inbox._copy
    damages = [True]

    def damaged(read, file, size):
        digest = copy(read, file, size)
        return "0" * 64 if damages and damages.pop() else digest

    monkeypatch.setattr(robot.exchange._inbox, "_copy", damaged)
    learned.send(1)
    assert_arrived(robot, learned)
    assert any("refused: checkpoints/episode_000" in record.message for record in caplog.records)


def test_a_bundle_that_is_refused_again_and_again_is_an_error(robot, learned):
    policy = learned.run.bundle(1) / "policy.onnx"
    policy.write_bytes(policy.read_bytes()[:-1])
    with pytest.raises(RunError, match=f"{ATTEMPTS} times in a row: .*policy.onnx"):
        learned.send(1)
    assert not robot.run.bundle(1).exists()


# Nobody there


def test_a_robot_that_is_away_is_said_to_be(robot, mirror):
    robot.close()
    with pytest.raises(UnreachableError, match=robot.url):
        mirror.fetch()


def test_an_answer_that_breaks_off_is_the_networks_doing():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"name": "r')

        thread = threading.Thread(target=answer)
        thread.start()
        client = RobotClient(f"http://127.0.0.1:{server.getsockname()[1]}", TOKEN)
        with pytest.raises(UnreachableError, match="broke off"):
            client.listing()
        thread.join()


def test_a_wrong_token_is_no_reason_to_wait(robot):
    with pytest.raises(RunError, match="has another token"):
        RobotClient(robot.url, TOKEN[::-1] + "x").listing()


def test_a_token_is_sent_to_no_proxy(robot, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    robot.client.listing()


@pytest.mark.parametrize(
    "url", ["", "robot", "robot:8642", "https://r:1", "http://r", "http://r:1/x", "http://r:x"]
)
def test_an_address_of_another_form_is_refused(url):
    with pytest.raises(ConfigError, match="expected http://HOST:PORT"):
        RobotClient(url, TOKEN)


def test_a_server_of_another_kind_is_no_robot():
    import threading
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/run" else 302)
            self.send_header("Location", "http://127.0.0.1:9/")
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, *given):
            pass

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = RobotClient(f"http://127.0.0.1:{server.server_port}", TOKEN)
        with pytest.raises(RunError, match=r"no robot of this program's version .*<html>hello"):
            client.listing()
        server.shutdown()
