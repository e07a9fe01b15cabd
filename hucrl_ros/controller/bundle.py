"""What a bundle holds; loads one and refuses what isn't what it says."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from hucrl_ros.config.regular_files import read_regular
from hucrl_ros.config.robot import RobotSpec
from hucrl_ros.controller.admission import check_robot
from hucrl_ros.controller.array_file import parse_arrays
from hucrl_ros.controller.engines.networks import NETWORKS, Networks, from_arrays
from hucrl_ros.controller.graph_check import checked_graph, open_graph
from hucrl_ros.controller.manifest import Manifest, manifest_bytes, read_manifest
from hucrl_ros.errors import BundleError, shortened

Shape = tuple[int | str, ...]
"""Dimensions; a name stands for a size that is free, the same wherever it occurs."""
PARTICLES, HORIZON, STATES = "particles", "horizon", "horizon + 1"


class Signature(NamedTuple):
    """Names and shapes of a graph's inputs and outputs, all float32."""

    inputs: dict[str, Shape]
    outputs: dict[str, Shape]


def signatures(manifest: Manifest) -> dict[str, Signature]:
    """The graphs that a bundle must hold."""
    spec, width = manifest.spec, manifest.width
    state, predicted = (PARTICLES, spec.state_dim), (PARTICLES, spec.predicted_dim)
    action, value = (PARTICLES, spec.action_dim), (PARTICLES,)
    states = (PARTICLES, STATES, spec.state_dim)
    actions = (PARTICLES, HORIZON, width)
    graphs = {
        "policy": Signature({"state": state}, {"pi": action}),
        "critic": Signature({"state": state}, {"value": value}),
        "dynamics": Signature(
            {"state": state, "action": action},
            dict.fromkeys(("mean", "epistemic", "aleatoric"), predicted),
        ),
        "step": Signature(
            {
                "state": state,
                "applied": (PARTICLES, width),
                "noise": (spec.predicted_dim,),
            },
            {"next_state": state, "reward": value},
        ),
        "score": Signature({"states": states, "actions": actions}, {"returns": value}),
        "rollout": Signature(
            {
                "state": (spec.state_dim,),
                "offsets": actions,
                "noise": (HORIZON, spec.predicted_dim),
                "feedback": (),
            },
            {"returns": value, "states": states, "actions": actions},
        ),
    }
    if manifest.hallucination_dim:
        eta = (PARTICLES, manifest.hallucination_dim)
        graphs["hallucination"] = Signature({"state": state}, {"eta": eta})
    if manifest.constraints:
        both: dict[str, Shape] = {"state": state, "action": action}
        graphs["constraints"] = Signature(both, {"room": (PARTICLES, len(manifest.constraints))})
        graphs["reward"] = Signature(both, {"reward": value})
    return graphs


def fits(found: Sequence[int], expected: Shape) -> bool:
    """Whether an array of the shape `found` may stand where `expected` is wanted."""
    return len(found) == len(expected) and all(
        size > 0 if isinstance(wanted, str) else size == wanted
        for size, wanted in zip(found, expected, strict=True)
    )


PARITY = "parity.npz"
IMAGINED = "promise.npz"
BUNDLE_BYTES = 2**29
"""Largest sum of the sizes of a bundle's files, and of the arrays in one of them."""


class ImaginedEpisode(NamedTuple):
    """The episode that the strategy imagines, from the start state to the end."""

    states: NDArray[np.float64]
    """`(T + 1, p)`."""
    actions: NDArray[np.float64]
    """`(T, q)` efforts [N m or N]."""
    rewards: NDArray[np.float64]
    """`(T,)`."""


@dataclass(frozen=True)
class Bundle:
    """A checked bundle, ready to run."""

    path: Path
    manifest: Manifest
    graphs: Mapping[str, onnxruntime.InferenceSession]
    """By file name without `.onnx`, see `signatures`."""
    networks: Networks | None
    """Weights for the compiled engine; None where it can't play this bundle."""
    parity: Mapping[str, NDArray[np.float32]]
    """Inputs and torch's outputs of every graph, keyed `<graph>.in|out.<name>`."""
    imagined: ImaginedEpisode | None
    """The imagined episode; None for a random bundle."""
    digest: str = ""
    """SHA-256 of the `manifest.yaml` that was read, which tells the bundle from all others."""

    def run(self, graph: str, **inputs: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Outputs of a graph, in the order of its signature."""
        outputs: list[NDArray[np.float32]] = self.graphs[graph].run(None, inputs)
        return outputs


def load_bundle(
    path: Path,
    spec: RobotSpec | None = None,
    threads: int = 1,
    manifest: Manifest | None = None,
) -> Bundle:
    """Load a bundle and verify schema, robot, hashes, shapes and parity.

    Args:
        path: Its folder.
        spec: The robot it has to be made for, if that is to be checked.
        threads: Threads of `rollout.onnx`.
        manifest: What the bundle was found to say before; None: its manifest is read.

    Raises:
        BundleError: it isn't what it says, or isn't made for `spec`; names what differs.
    """
    manifest = manifest or read_manifest(path)
    if spec is not None:
        check_robot(path, manifest.spec, spec)
    expected = signatures(manifest)
    contents = _read_files(path, manifest, {f"{name}.onnx" for name in expected} | {PARITY})
    arrays = _read_arrays(path, PARITY, contents[PARITY])
    parity = {key: array.astype(np.float32, copy=False) for key, array in arrays.items()}
    ahead, graphs = manifest.planner.horizon, {}
    planned = {PARTICLES: manifest.planner.particles, HORIZON: ahead, STATES: ahead + 1}
    for name, signature in expected.items():
        shapes = {f"{name}.in.{key}": shape for key, shape in signature.inputs.items()}
        shapes |= {f"{name}.out.{key}": shape for key, shape in signature.outputs.items()}
        _check_arrays(path, PARITY, parity, shapes)
        sizes = _sizes(path, {key: (parity[key].shape, shape) for key, shape in shapes.items()})
        # The others are too small to be worth a second thread.
        count, is_rollout = (threads, True) if name == "rollout" else (1, False)
        try:
            content = contents.pop(f"{name}.onnx")
            content = checked_graph(content, *signature, sizes, planned, loop=is_rollout)
            graphs[name] = open_graph(content, count)
        except ValueError as error:
            raise BundleError(f"{shortened(path)}: {name}.onnx: {error}") from None
    networks = imagined = None
    if NETWORKS in contents:
        networks = _read_networks(path, manifest, contents[NETWORKS])
    if IMAGINED in contents:
        imagined = _read_imagined(path, manifest, contents[IMAGINED])
    bundle = Bundle(path, manifest, graphs, networks, parity, imagined, manifest.digest)
    for name, signature in expected.items():
        _check_graph(bundle, name, signature)
    return bundle


def bundle_digest(path: Path) -> str:
    """SHA-256 of a bundle's manifest, which has those of all other files.

    Raises:
        BundleError: it can't be read.
    """
    return hashlib.sha256(manifest_bytes(path)).hexdigest()


def check_outputs(
    bundle: Bundle, source: str, graph: str, outputs: Mapping[str, NDArray[np.float32]]
) -> None:
    """Compare outputs on a graph's parity inputs with torch's.

    Args:
        bundle: The bundle.
        source: Name of the file that they come from.
        graph: Name of the graph that computes the same.
        outputs: By their names.

    Raises:
        BundleError: they differ by more than the manifest tolerates.
    """
    tolerance = bundle.manifest.parity_tolerance
    for key, output in outputs.items():
        reference = bundle.parity[f"{graph}.out.{key}"]
        difference = np.max(np.abs(output - reference) / (1.0 + np.abs(reference)), initial=0.0)
        if not difference <= tolerance:
            raise BundleError(
                f"{shortened(bundle.path)}: {source}: output {key!r} differs from torch's by "
                f"{difference:.3g} (relative to 1 + |value|), more than the tolerance of "
                f"{tolerance:.3g}"
            )


def _read_files(path: Path, manifest: Manifest, required: set[str]) -> dict[str, bytes]:
    """Contents of the listed files, each equal to its hash."""
    for name in sorted(required - manifest.files.keys()):
        raise BundleError(f"{shortened(path)}: the manifest doesn't list {name}")
    contents, room = {}, BUNDLE_BYTES
    for name, digest in manifest.files.items():
        content = read_regular(
            path / name, room, BundleError, f"{shortened(path)}: {shortened(name)}"
        )
        room -= len(content)
        found = hashlib.sha256(content).hexdigest()
        if found != digest:
            raise BundleError(
                f"{shortened(path)}: {shortened(name)} was changed: its SHA-256 is {found[:12]}…, "
                f"the manifest says {digest[:12]}…"
            )
        contents[name] = content
    return contents


def _sizes(path: Path, arrays: Mapping[str, tuple[Sequence[int], Shape]]) -> dict[str, int]:
    """What the names in shapes stand for, where arrays have those shapes."""
    found: dict[str, int] = {}
    for key, (sizes, shape) in arrays.items():
        for size, name in zip(sizes, shape, strict=True):
            if isinstance(name, str) and found.setdefault(name, size) != size:
                raise BundleError(
                    f"{shortened(path)}: {PARITY}: {key} has {size} {name}, others {found[name]}"
                )
    if found.get(STATES, 1) != found.get(HORIZON, 0) + 1:
        raise BundleError(f"{shortened(path)}: {PARITY}: {key} has {found[STATES]} {STATES}")
    return found


def _read_arrays(
    path: Path, name: str, content: bytes, text: Sequence[str] = ()
) -> dict[str, NDArray[np.generic]]:
    try:
        return parse_arrays(content, text)
    except ValueError as error:
        raise BundleError(f"{shortened(path)}: {name} can't be read: {error}") from None


def _check_graph(bundle: Bundle, name: str, signature: Signature) -> None:
    """Compare a graph with what torch computed on the same inputs."""
    inputs = {key: bundle.parity[f"{name}.in.{key}"] for key in signature.inputs}
    try:
        found = bundle.run(name, **inputs)
    except Exception as error:  # ONNX Runtime's own errors share no base class.
        line = f"{shortened(bundle.path)}: {name}.onnx can't be run: {shortened(error)}"
        raise BundleError(line) from None
    outputs = dict(zip(signature.outputs, found, strict=True))
    check_outputs(bundle, f"{name}.onnx", name, outputs)


def _read_networks(path: Path, manifest: Manifest, content: bytes) -> Networks:
    try:
        return from_arrays(_read_arrays(path, NETWORKS, content, ["activation"]), manifest)
    except (KeyError, ValueError, TypeError, IndexError) as error:  # also of arrays without axes
        line = f"{shortened(path)}: {NETWORKS}: {shortened(error.args[0])}"
        raise BundleError(line) from None


def _read_imagined(path: Path, manifest: Manifest, content: bytes) -> ImaginedEpisode:
    arrays = _read_arrays(path, IMAGINED, content)
    steps = arrays["rewards"].size if "rewards" in arrays else 0
    shapes: dict[str, Shape] = {
        "states": (steps + 1, manifest.spec.state_dim),
        "actions": (steps, manifest.spec.action_dim),
        "rewards": (steps,),
    }
    _check_arrays(path, IMAGINED, arrays, shapes)
    return ImaginedEpisode(
        *(np.asarray(arrays[key], dtype=np.float64) for key in ImaginedEpisode._fields)
    )


def _check_arrays(
    path: Path, name: str, arrays: Mapping[str, NDArray[np.generic]], shapes: Mapping[str, Shape]
) -> None:
    for key, shape in shapes.items():
        if key not in arrays:
            raise BundleError(f"{shortened(path)}: {name} has no array {key!r}")
        if not fits(arrays[key].shape, shape):
            raise BundleError(
                f"{shortened(path)}: {name}: {key} has the shape "
                f"{arrays[key].shape}, expected {shape}"
            )
