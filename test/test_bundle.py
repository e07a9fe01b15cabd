"""A bundle is what it says, or it is refused with one line."""

import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import yaml
from bundle_factory import fields, learned, write_bundle
from hostile_bundles import edit_arrays, edit_manifest, replace_file

from hucrl_ros.controller.bundle import bundle_digest, load_bundle, signatures
from hucrl_ros.controller.manifest import dump_manifest, read_manifest
from hucrl_ros.errors import BundleError
from hucrl_ros.robots import make_robot

SPEC = make_robot("pendulum").spec


@pytest.fixture
def folder(tmp_path):
    return write_bundle(tmp_path / "bundle")


def refusal(folder, spec=SPEC):
    with pytest.raises(BundleError) as info:
        load_bundle(folder, spec)
    message = str(info.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_a_written_bundle_is_accepted(folder):
    bundle = load_bundle(folder, SPEC)
    assert bundle.manifest.spec == SPEC
    assert set(bundle.graphs) == set(signatures(bundle.manifest))


def test_a_manifest_survives_being_written_and_read(folder):
    manifest = read_manifest(folder)
    assert yaml.safe_load(dump_manifest(manifest)) == yaml.safe_load(
        (folder / "manifest.yaml").read_text()
    )


def test_a_manifest_that_is_swapped_after_it_was_read_is_not_what_is_told(folder):
    manifest, digest = read_manifest(folder), bundle_digest(folder)
    swapped = manifest.model_copy(update={"episode": 9})
    (folder / "manifest.yaml").write_text(dump_manifest(swapped))
    assert bundle_digest(folder) != digest
    played = load_bundle(folder, manifest=manifest)
    assert (played.manifest.episode, played.digest) == (manifest.episode, digest)


def test_what_is_not_a_folder_is_refused(tmp_path):
    assert "no such folder" in refusal(tmp_path / "nothing")
    file = tmp_path / "file"
    file.touch()
    assert "not a bundle" in refusal(file)


def test_a_folder_without_manifest_is_refused(tmp_path):
    assert "not a bundle: it has no manifest.yaml" in refusal(tmp_path)


@pytest.mark.parametrize("text", ["a: [", "\tx", "a: b: c", "%", "\x00"])
def test_a_manifest_that_is_not_yaml_is_refused(folder, text):
    (folder / "manifest.yaml").write_text(text)
    assert "not YAML" in refusal(folder)


@pytest.mark.parametrize(
    "text",
    [
        "seed: 2001-13-45",
        "seed: !!bool x",
        "seed: !!timestamp x",
        pytest.param(f"seed: {'9' * 5000}", id="long"),
        "[1]: 2\n{a: 1}: 3",
        pytest.param("[" * 20_000, id="deep"),
        'seed: !<\\ud800> "\\ud800"',
    ],
)
def test_a_manifest_that_breaks_its_parser_is_refused_in_a_short_line(folder, text):
    (folder / "manifest.yaml").write_text(text)
    message = refusal(folder)
    assert "not YAML" in message and len(message) < 500


def test_a_manifest_that_would_grow_without_end_is_refused(folder):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{k}: &a{k} [{', '.join(10 * [f'*a{k - 1}'])}]" for k in range(1, 12)]
    (folder / "manifest.yaml").write_text("\n".join(lines))
    assert "aliases (*name) are not accepted" in refusal(folder)


def test_a_manifest_of_any_size_is_refused(folder):
    os.truncate(folder / "manifest.yaml", 2**40)
    assert "manifest.yaml has 1099511627776 bytes, more than the 131072 accepted" in refusal(
        folder
    )


@pytest.mark.parametrize("key", ["seed", "k" * 10_000, "\ud800"], ids=["value", "key", "half"])
def test_a_value_of_any_length_is_refused_in_a_short_line(folder, key):
    edit_manifest(folder, **{key: "v" * 10_000})
    message = refusal(folder)
    assert len(message) < 700 and message.isprintable()


@pytest.mark.parametrize(
    "path",
    ["/" + "x" * 5000, "/" + "x/" * 2500, "/x\x00y", "\x1b[2J"],
    ids=["name", "path", "null", "escape"],
)
def test_a_path_that_can_not_be_one_is_refused_in_a_short_line(path):
    with pytest.raises(BundleError) as info:
        read_manifest(Path(path))
    assert len(str(info.value)) < 300 and str(info.value).isprintable()


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


def make_folder(path):
    path.unlink()
    path.mkdir()


def make_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


def make_link(path):
    path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(path.parent.parent / "elsewhere")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["manifest.yaml", "policy.onnx", "parity.npz"])
@pytest.mark.parametrize("make", [make_pipe, make_folder, make_device, make_link])
def test_what_is_no_regular_file_is_refused_unopened(folder, name, make):
    make(folder / name)
    assert f"{name} is no regular file" in refusal(folder)


@pytest.mark.timeout(120)
def test_a_file_without_end_is_refused_unread(folder):
    os.truncate(folder / "policy.onnx", 2**40)
    assert "policy.onnx has 1099511627776 bytes, more than the" in refusal(folder)


@pytest.mark.parametrize("text", ["", "- 1", "text", "3"])
def test_a_manifest_without_keys_is_refused(folder, text):
    (folder / "manifest.yaml").write_text(text)
    assert "expected keys and values" in refusal(folder)


def test_a_manifest_cannot_make_objects(folder):
    text = "!!python/object/apply:os.system ['false']"
    (folder / "manifest.yaml").write_text(text)
    assert "not YAML" in refusal(folder)


@pytest.mark.parametrize("version", [0, 1, "2", None])
def test_an_unknown_schema_version_is_refused(folder, version):
    edit_manifest(folder, schema_version=version)
    assert f"schema_version is {version!r}; this program reads 2 and 3" in refusal(folder)


def test_an_unknown_key_is_refused_by_name(folder):
    edit_manifest(folder, colour="red")
    assert "colour" in refusal(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("period", -1.0),
        ("effort_limits", [1.0, 2.0]),
        ("effort_limits", [-1.0]),
        ("effort_limits", [0.0]),
        ("effort_limits", [float("inf")]),
        ("actuated_joints", ["elbow"]),
        ("period", 11.0),
        ("files", {"x\x00y": "00"}),
        ("files", {"..": "00"}),
        ("target_std", [1.0]),
        ("hallucination_dim", 1),
        ("discount", 1.0),
        ("strategy", "bold"),
        ("beta", float("nan")),
        ("files", {"../policy.onnx": "00"}),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(folder, key, value):
    edit_manifest(folder, **{key: value})
    assert key in refusal(folder)


def test_every_missing_file_is_refused_by_name(folder):
    for name in read_manifest(folder).files:
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        assert f"{name}: No such file" in refusal(folder)
        (folder / name).write_bytes(content)
    load_bundle(folder, SPEC)


def test_every_flipped_byte_is_refused_with_the_file_s_name(folder):
    for name in read_manifest(folder).files:
        content = (folder / name).read_bytes()
        flipped = bytearray(content)
        flipped[len(flipped) // 2] ^= 1
        (folder / name).write_bytes(flipped)
        assert f"{name} was changed: its SHA-256 is" in refusal(folder)
        (folder / name).write_bytes(content)
    load_bundle(folder, SPEC)


@pytest.mark.parametrize("name", ["policy.onnx", "rollout.onnx", "parity.npz"])
def test_a_file_that_the_manifest_does_not_list_is_refused_by_name(folder, name):
    files = dict(read_manifest(folder).files)
    del files[name]
    edit_manifest(folder, files=files)
    assert f"the manifest doesn't list {name}" in refusal(folder)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "acrobot"),
        ("joint_names", ("elbow",)),
        ("actuated_joints", ("elbow",)),
        ("effort_limits", (2.0,)),
        ("period", 0.01),
    ],
)
def test_another_robot_s_bundle_is_refused_with_both_values(folder, field, value):
    message = refusal(folder, replace(SPEC, **{field: value}))
    for part in (f"another robot: {field} is", repr(getattr(SPEC, field)), repr(value)):
        assert part in message
    load_bundle(folder)  # Nothing to compare with.


def test_weights_that_disagree_with_torch_are_refused(folder, tmp_path):
    other = write_bundle(tmp_path / "thompson", "thompson")
    replace_file(folder, "critic.onnx", (other / "critic.onnx").read_bytes())
    message = refusal(folder)
    assert "critic.onnx: output 'value' differs from torch's by" in message
    assert "more than the tolerance of 0.001" in message


def test_a_result_that_is_not_a_number_is_refused(folder):
    reference = np.full((1, 1), np.nan, np.float32)
    state = np.zeros((1, 2), np.float32)
    changes = {"policy.out.pi": reference, "policy.in.state": state}
    edit_arrays(folder, "parity.npz", **changes)
    assert "policy.onnx: output 'pi' differs" in refusal(folder)


def test_a_graph_of_other_shapes_is_refused(folder):
    replace_file(folder, "critic.onnx", (folder / "policy.onnx").read_bytes())
    assert "critic.onnx: outputs are" in refusal(folder)


def test_a_graph_plans_as_far_ahead_as_it_is_asked_to(folder):
    """The steps that two horizons share are the same ones."""
    bundle = load_bundle(folder)
    rng = np.random.default_rng(0)
    offsets = rng.standard_normal((5, 40, bundle.manifest.width)).astype(np.float32)
    noise = rng.standard_normal((40, 2)).astype(np.float32)
    state, feedback = np.array([3.0, -0.5], np.float32), np.array(1.0, np.float32)
    _, far, _ = bundle.run("rollout", state=state, offsets=offsets, noise=noise, feedback=feedback)
    _, near, _ = bundle.run(
        "rollout", state=state, offsets=offsets[:, :3], noise=noise[:3], feedback=feedback
    )
    np.testing.assert_allclose(near, far[:, :4], 1e-5, 1e-5)


@pytest.mark.parametrize("content", [b"", b"not onnx"])
def test_a_graph_that_is_none_is_refused(folder, content):
    replace_file(folder, "policy.onnx", content)
    assert "policy.onnx" in refusal(folder)


def with_external_weights(content, location):
    """The same graph with its weights in a file."""
    model = onnx.load_from_string(content)
    for tensor in model.graph.initializer:
        if tensor.raw_data:
            tensor.ClearField("raw_data")
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=location)
    return model.SerializeToString()


@pytest.mark.parametrize("location", ["{folder}/weights", "weights", "../weights"])
def test_weights_outside_of_a_graph_are_refused(folder, location):
    content = (folder / "policy.onnx").read_bytes()
    content = with_external_weights(content, location.format(folder=folder))
    replace_file(folder, "policy.onnx", content)
    assert "policy.onnx: weights are in another file, which no hash covers" in refusal(folder)


def test_weights_in_another_file_hide_in_no_part_of_a_graph(folder, monkeypatch):
    """ONNX Runtime itself reads them from the working directory."""
    (folder / "weights").write_bytes(np.full((1, 1), 0.5, np.float32).tobytes())
    monkeypatch.chdir(folder)
    content = (folder / "policy.onnx").read_bytes()
    model = onnx.load_from_string(content)
    tensor = onnx.TensorProto(name="w", data_type=onnx.TensorProto.FLOAT, dims=[1, 1])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    model.graph.node.append(onnx.helper.make_node("Constant", [], ["w"], value=tensor))
    replace_file(folder, "policy.onnx", model.SerializeToString())
    assert "policy.onnx: weights are in another file, which no hash covers" in refusal(folder)


@pytest.mark.timeout(120)
def test_arrays_that_would_fill_the_memory_are_refused(folder):
    with (
        zipfile.ZipFile(folder / "promise.npz", "w", zipfile.ZIP_DEFLATED) as members,
        members.open("states.npy", "w", force_zip64=True) as member,
    ):
        for _ in range(65):
            member.write(bytes(2**23))
    replace_file(folder, "promise.npz", (folder / "promise.npz").read_bytes())
    assert "promise.npz can't be read: 'states.npy' is compressed or encrypted" in refusal(folder)


@pytest.mark.parametrize("content", [b"", b"not npz", b"PK\x03\x04", pickle.dumps([1])])
def test_a_parity_file_that_is_none_is_refused(folder, content):
    replace_file(folder, "parity.npz", content)
    assert "parity.npz can't be read" in refusal(folder)


def test_a_pickle_inside_an_array_file_is_refused(folder):
    np.savez(folder / "promise.npz", states=np.array([{}], dtype=object))
    replace_file(folder, "promise.npz", (folder / "promise.npz").read_bytes())
    assert "promise.npz can't be read" in refusal(folder)


@pytest.mark.parametrize("name", ["parity.npz", "promise.npz"])
def test_a_missing_array_is_refused_by_name(folder, name):
    np.savez(folder / name, other=np.zeros(1))
    replace_file(folder, name, (folder / name).read_bytes())
    assert f"{name} has no array" in refusal(folder)


@pytest.mark.parametrize("shape", [(3, 5), (3,), (0, 2)])
def test_a_parity_input_of_another_shape_is_refused(folder, shape):
    edit_arrays(folder, "parity.npz", **{"policy.in.state": np.zeros(shape, np.float32)})
    assert "parity.npz: policy.in.state has the shape" in refusal(folder)


def test_an_imagined_episode_of_another_shape_is_refused(folder):
    edit_arrays(folder, "promise.npz", actions=np.zeros((2, 1)))
    assert "promise.npz: actions has the shape (2, 1), expected (3, 1)" in refusal(folder)


def test_a_random_bundle_predicts_nothing(tmp_path):
    exporter = learned("optimistic").exporter
    exporter.write(tmp_path / "bundle", fields(random=True, episode=0), None)
    bundle = load_bundle(tmp_path / "bundle", SPEC)
    assert bundle.imagined is None
    assert bundle.manifest.random
