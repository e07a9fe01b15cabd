"""Bundles that lie elsewhere, or that nobody trusted has signed, are refused unread."""

import hashlib
import io
import json
import stat
from pathlib import Path

import pytest
from bundle_factory import DISCOUNT, fields, imagined_episode, learned, write_bundle
from manifest_factory import write_manifest

from hucrl_ros.cli import main
from hucrl_ros.config.schema import Config, ControlSettings
from hucrl_ros.controller import signature as module
from hucrl_ros.controller.manifest import MANIFEST, SIGNATURE, read_manifest
from hucrl_ros.controller.signature import check_signing, new_key, sign, sign_for_run
from hucrl_ros.controller.trust import Trust
from hucrl_ros.errors import BundleError, ConfigError
from hucrl_ros.learning.export import BundleExporter
from hucrl_ros.robots import describe
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.remote.inbox import Inbox

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + 43 * "A"


@pytest.fixture
def bundle(tmp_path):
    return write_manifest(tmp_path / "root" / "bundle", 1)


def refusal(trust, path):
    with pytest.raises(BundleError) as info:
        trust.read_manifest(path)
    assert "\n" not in str(info.value)
    return str(info.value)


# The root folder


def test_without_a_root_bundles_may_lie_anywhere(bundle):
    assert Trust(None, ()).read_manifest(bundle) == read_manifest(bundle)


def test_inside_the_root_links_are_followed_and_dots_too(bundle, tmp_path, monkeypatch):
    root = bundle.parent
    (tmp_path / "other_name").symlink_to(root)
    (root / "link").symlink_to(bundle)
    monkeypatch.chdir(root)
    for path in (bundle, tmp_path / "other_name" / "bundle", root / "link", Path("bundle")):
        assert Trust(tmp_path / "other_name", ()).read_manifest(path)
    assert Trust(root, ()).read_manifest(root / "bundle" / ".." / "bundle")


def test_outside_of_the_root_nothing_is_read(bundle, tmp_path, monkeypatch):
    elsewhere = write_manifest(tmp_path / "elsewhere", 1)
    root = bundle.parent
    (root / "link").symlink_to(elsewhere)
    (root / "circle").symlink_to(root / "circle")
    monkeypatch.setattr("hucrl_ros.controller.trust.read_manifest", None)
    paths = [
        elsewhere,
        root / "link",
        root / ".." / "elsewhere",
        "/dev",
        "",
        root / "circle" / "x",
    ]
    for path in map(Path, [*paths, "a\0b"]):
        assert f"not inside {root}, where bundles have to lie" in refusal(Trust(root, ()), path)
    assert len(refusal(Trust(root, ()), Path(300 * "long/"))) < 500


# Signatures


@pytest.fixture
def key(tmp_path):
    path = tmp_path / "key"
    return path, new_key(path)


def test_a_new_key_is_for_its_owner_alone_and_replaces_none(key):
    path, public = key
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Path(f"{path}.pub").read_text() == f"{public}\n"
    assert ControlSettings(trusted_keys=[public]).trusted_keys == (public,)
    before = path.read_bytes()
    with pytest.raises(ConfigError, match="File exists"):
        new_key(path)
    assert path.read_bytes() == before


def test_a_signed_bundle_is_taken_and_is_otherwise_what_it_was(bundle, key):
    before = read_manifest(bundle)
    assert sign(bundle, key[0]) == key[1]
    assert Trust(None, [KEY, f"{key[1]} somebody@lab"]).read_manifest(bundle) == before
    assert sorted(path.name for path in bundle.iterdir()) == [MANIFEST, SIGNATURE]


@pytest.mark.parametrize("name", [SIGNATURE, f".{SIGNATURE}"])
def test_signing_writes_through_no_link_of_a_bundle(bundle, key, tmp_path, name):
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (bundle / name).symlink_to(precious)
    sign(bundle, key[0])
    assert precious.read_text() == "mine"
    assert sorted(path.name for path in bundle.iterdir()) == [MANIFEST, SIGNATURE]
    assert not (bundle / SIGNATURE).is_symlink()


def test_an_unsigned_bundle_is_refused(bundle, key):
    assert "nobody has signed it" in refusal(Trust(None, [key[1]]), bundle)


def test_a_bundle_that_was_changed_after_it_was_signed_is_refused(bundle, key):
    sign(bundle, key[0])
    manifest = bundle / MANIFEST
    manifest.write_text(manifest.read_text().replace("seed: 0", "seed: 1"))
    assert "not of this manifest" in refusal(Trust(None, [key[1]]), bundle)


def test_another_bundle_s_signature_is_refused(bundle, key, tmp_path):
    other = write_manifest(tmp_path / "other", 2)
    sign(other, key[0])
    (bundle / SIGNATURE).write_bytes((other / SIGNATURE).read_bytes())
    assert "not of this manifest" in refusal(Trust(None, [key[1]]), bundle)


def test_somebody_else_s_signature_is_refused_whatever_key_it_names(bundle, key, tmp_path):
    other = new_key(tmp_path / "other")
    sign(bundle, tmp_path / "other")
    assert "isn't in control.trusted_keys" in refusal(Trust(None, [key[1]]), bundle)
    file = bundle / SIGNATURE
    file.write_text(file.read_text().replace(other, key[1]))
    assert "not of this manifest" in refusal(Trust(None, [key[1]]), bundle)


def test_what_the_key_signed_for_another_purpose_is_no_signature(bundle, key, monkeypatch):
    monkeypatch.setattr(module, "PURPOSE", b"")
    sign(bundle, key[0])
    monkeypatch.undo()
    assert "not of this manifest" in refusal(Trust(None, [key[1]]), bundle)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        "1",
        '{"key": 1}',
        '{"key": "k", "signature": 1}',
        2000 * "[",
        "\xff",
        "null",
    ],
)
def test_what_is_no_signature_is_refused_in_one_line(bundle, key, content):
    (bundle / SIGNATURE).write_text(content, encoding="latin-1")
    assert "isn't a signature of `hucrl sign`" in refusal(Trust(None, [key[1]]), bundle)


def test_a_signature_that_is_no_plain_file_is_not_opened(bundle, key, tmp_path):
    sign(bundle, key[0])
    (bundle / SIGNATURE).rename(tmp_path / "kept")
    (bundle / SIGNATURE).symlink_to(tmp_path / "kept")
    assert "no regular file" in refusal(Trust(None, [key[1]]), bundle)


def test_the_command_makes_keys_and_signs(bundle, key, tmp_path, capsys):
    assert main(["sign", "--new-key", str(tmp_path / "mine")]) == 0
    public = capsys.readouterr().out.strip()
    assert main(["sign", str(bundle), "--key", str(tmp_path / "mine")]) == 0
    assert capsys.readouterr().out == f"{bundle}: signed by {public}\n"
    assert Trust(None, [public]).read_manifest(bundle)
    for words in (["sign"], ["sign", str(bundle)], ["sign", str(bundle), "--new-key", "x"]):
        assert main(words) == 2
        assert "--new-key" in capsys.readouterr().err
    assert main(["sign", str(tmp_path), "--key", str(tmp_path / "mine")]) == 1


def test_a_run_signs_what_it_makes_where_it_has_a_key(bundle, key):
    sign_for_run(bundle, "")
    assert not (bundle / SIGNATURE).exists()
    sign_for_run(bundle, str(key[0]))
    assert json.loads((bundle / SIGNATURE).read_text())["key"] == key[1]


def test_bundles_are_signed_when_they_appear(key, tmp_path):
    modules = learned()
    exporter = BundleExporter(
        modules.task, modules.dynamics, modules.actor_critic, DISCOUNT, str(key[0])
    )
    exporter.write(tmp_path / "bundle", fields(), imagined_episode())
    assert Trust(None, [key[1]]).read_manifest(tmp_path / "bundle").episode == 1


def test_what_another_machine_hands_in_is_signed_here(key, tmp_path):
    config = Config(control={"signing_key": str(key[0])})
    made = write_bundle(tmp_path / "made", episode=0, random=True, planner=config.planner)
    run = RunFolder.create(tmp_path / "run", config, describe("pendulum"))
    inbox = Inbox(run, config, describe("pendulum"), lambda: None)
    for name in (MANIFEST, *read_manifest(made).files):
        content = (made / name).read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        path = f"bundles/bundle_000/{name}"
        inbox.take(0, path, len(content), digest, io.BytesIO(content).read)
    inbox.finish(0)
    assert Trust(run.root, [key[1]]).read_manifest(run.bundle(0)) == read_manifest(made)


def test_a_run_that_would_refuse_its_own_bundles_is_not_begun(key, tmp_path):
    check_signing(ControlSettings())
    check_signing(ControlSettings(signing_key=str(key[0])))
    check_signing(ControlSettings(signing_key=str(key[0]), trusted_keys=[KEY, key[1]]))
    for settings, line in (
        ({"trusted_keys": [key[1]]}, "control.signing_key is empty"),
        ({"trusted_keys": [KEY], "signing_key": str(key[0])}, "isn't among them"),
        ({"signing_key": str(tmp_path / "nowhere")}, "nowhere: No such file"),
        ({"signing_key": f"{key[0]}.pub"}, "no private key"),
    ):
        with pytest.raises(ConfigError, match=line) as info:
            check_signing(ControlSettings(**settings))
        assert "\n" not in str(info.value)


@pytest.mark.parametrize("text", ["", "key", "ssh-rsa AAAA", KEY[:-1], f"{KEY}A", f"{KEY}\nx"])
def test_what_is_no_public_key_is_no_setting(text):
    with pytest.raises(ValueError, match="trusted_keys"):
        Config(control={"trusted_keys": [text]})
