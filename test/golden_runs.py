"""Very short runs of `hucrl train`, and hashes of all numbers in what they leave."""

import hashlib
import importlib.metadata
import json
import platform
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from golden_record import EXAMPLES, TASKS, example, hucrl

TINY = {
    "model.heads": 3,
    "model.layers": [8, 6],
    "model.fit_steps": 20,
    "model.max_points": 30,
    "model.features": 16,
    "search.iterations": 3,
    "search.pool": 16,
    "search.batch_size": 32,
    "search.policy_layers": [8],
    "search.critic_layers": [8, 6],
    "search.trial_interval": 2,
    "planner.particles": 8,
    "planner.elites": 3,
    "planner.horizon": 5,
    "planner.iterations": 2,
}
EPISODES = 2


def pendulum(strategy: str, model: str, search: str, planner: str, **others: object) -> dict:
    """Settings of a run of the pendulum; in `others`, `__` stands for a dot."""
    return {
        "strategy": strategy,
        "model.kind": model,
        "search.algorithm": search,
        "planner.algorithm": planner,
        **{key.replace("__", "."): value for key, value in others.items()},
    }


RUNS: dict[str, dict[str, object]] = {
    "pendulum": {},
    "planar_arm": {"seed": 1},
    "furuta": {"planner.algorithm": "icem"},
    "cartpole": {"search.algorithm": "pathwise", "planner.algorithm": "cem"},
    "reacher": {"strategy": "thompson", "action_penalty": 0.1},
    "sparse_reacher": {"strategy": "greedy", "action_penalty": 0.1},
    "pusher": {},
    "half_cheetah": {"planner.algorithm": "mppi", "action_penalty": 0.1},
    "deterministic-bptt-mppi": pendulum(
        "optimistic", "deterministic_ensemble", "bptt", "mppi", exploration__schedule="constant"
    ),
    "gp-mpo-policy": pendulum(
        "optimistic", "gp", "mpo", "policy", exploration__schedule="confidence"
    ),
    "gp-thompson-cem": pendulum("thompson", "gp", "lookahead", "cem"),
    "rff-sac-poplin_a": pendulum("thompson", "rff", "sac", "poplin_a"),
    "rff-fixed-dyna_mpc": pendulum(
        "optimistic", "rff", "lookahead", "dyna_mpc", model__hyperparameters="fixed"
    ),
    "qff-td3-poplin_bias": pendulum("greedy", "qff", "td3", "poplin_bias", model__nodes=2),
    "thompson-ppo-random_shooting": pendulum(
        "thompson", "probabilistic_ensemble", "ppo", "random_shooting", search__warm_start=False
    ),
    "pathwise-ilqr": pendulum("optimistic", "probabilistic_ensemble", "pathwise", "ilqr"),
    "exact": pendulum("optimistic", "probabilistic_ensemble", "lookahead", "exact"),
    "greedy-full-covariance": pendulum(
        "greedy",
        *("probabilistic_ensemble", "lookahead", "dyna_mpc"),
        exploration__covariance="full",
        model__recalibrate=True,
    ),
    "optimistic-full-covariance": pendulum(
        "optimistic",
        *("probabilistic_ensemble", "lookahead", "icem"),
        exploration__covariance="full",
        search__eta_lipschitz=1.0,
    ),
    "sombrl": pendulum("sombrl", "auto", "lookahead", "dyna_mpc"),
    "opax": pendulum("opax", "probabilistic_ensemble", "lookahead", "icem"),
    "onnx-safety": pendulum(
        "optimistic",
        *("probabilistic_ensemble", "lookahead", "dyna_mpc"),
        control__engine="onnx",
        model__activation="tanh",
        safety__effort_rate=0.1,
        safety__velocity_limits=[2.0],
        safety__safe_command="damping",
        safety__damping=0.1,
    ),
}
"""What differs from `TINY` and the task's settings; the others are runs of the pendulum."""
FAST = ("pendulum", "planar_arm")
DESCRIBED = (*FAST, "pusher")
"""Runs whose files are described; the pusher's bags have every topic."""

WEIGHTS = ("policy.onnx", "critic.onnx", "hallucination.onnx", "dynamics.onnx")
"""Graphs without the reward, which may be written in many ways; `parity.npz` has its values."""
EPISODE = ("return", "promised_return", "steps", "fallbacks", "clamps", "complexity")
TIMES = ("fit_s", "search_s")
UNTIMED = ("joint_states", "controller/commands")
TICKS = "controller/ticks"
TICK_TIMES = ("tick_ms", "missed")


def record(names: Sequence[str]) -> dict:
    """What the runs leave, and on which processor."""
    return {"processor": processor(), "runs": {name: play(name) for name in names}}


def processor() -> dict:
    """What numbers depend on besides the program."""
    import torch
    from llvmlite import binding

    torch.set_num_threads(1)
    packages = ("numpy", "torch", "numba", "mujoco", "onnxruntime", "scipy")
    draws = np.random.default_rng(0).normal(size=(64, 48))
    network = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.SiLU(), torch.nn.Linear(64, 1))
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(torch.linspace(-0.1, 0.1, weights.numel()).reshape(weights.shape))
    network(torch.from_numpy(draws).float()).exp().sum().backward()
    gradients = [weights.grad.numpy() for weights in network.parameters()]
    return {
        "name": binding.get_host_cpu_name(),
        "features": _hash(binding.get_host_cpu_features().flatten().encode()),
        "libc": " ".join(platform.libc_ver()),
        "torch": torch.backends.cpu.get_cpu_capability(),
        "versions": {name: importlib.metadata.version(name) for name in packages},
        "computation": _values([draws @ draws.T, np.tanh(draws), *gradients]),
    }


def play(name: str) -> dict:
    """Run it; its numbers, and for some what is in its files."""
    task = name if name in TASKS else str(example(name)) if name in EXAMPLES else "pendulum"
    settings = {**TINY, "episodes": EPISODES, **RUNS[name]}
    changes = [f"--set={key}={json.dumps(value)}" for key, value in settings.items()]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        hucrl("train", task, *changes, "--no-figures", "--out", str(run))
        result = {"numbers": numbers(run)}
        if name in DESCRIBED:
            result["files"] = files(run)
    return result


def numbers(run: Path) -> dict:
    """Returns, and hashes of states, commands, weights and what graphs compute."""
    episodes = json.loads((run / "summary.json").read_text())["episodes"]
    hashes: dict[str, dict[str, str]] = {}
    reports = {}
    for episode in sorted((run / "episodes").iterdir()):
        bag = messages(episode)
        hashes[episode.name] = {name: _hash(*bag[name][1]) for name in UNTIMED}
        hashes[episode.name][TICKS] = _hash(*untimed_ticks(bag[TICKS][1]))
    for bundle in sorted((run / "bundles").iterdir()):
        report = yaml.safe_load((bundle / "manifest.yaml").read_text())["report"]
        reports[bundle.name] = {k: v for k, v in report.items() if k not in TIMES}
        hashes[bundle.name] = bundle_hashes(bundle)
    hashes["checkpoints"] = {
        path.stem: checkpoint_hash(path) for path in sorted((run / "checkpoints").iterdir())
    }
    kept = [{key: episode[key] for key in EPISODE} for episode in episodes]
    return {"episodes": kept, "reports": reports, "hashes": hashes}


def messages(episode: Path) -> dict[str, tuple[str, list[bytes]]]:
    """Type and encoded messages of each topic in a bag."""
    from mcap.reader import make_reader

    topics: dict[str, tuple[str, list[bytes]]] = {}
    for path in sorted(episode.glob("*.mcap")):
        with path.open("rb") as stream:
            for schema, channel, message in make_reader(stream).iter_messages():
                topics.setdefault(channel.topic, (schema.name, []))[1].append(message.data)
    return topics


def untimed_ticks(ticks: Sequence[bytes]) -> list[bytes]:
    """What the controller says of each tick, but how long it took."""
    from rosbags.typesys import Stores, get_typestore

    decode = get_typestore(Stores.ROS2_JAZZY).deserialize_cdr
    kept = []
    for tick in ticks:
        message = decode(tick, "std_msgs/msg/Float64MultiArray")
        labels = [entry.label for entry in message.layout.dim]
        values = dict(zip(labels, map(float, message.data), strict=True))
        kept.append(repr({k: v for k, v in values.items() if k not in TICK_TIMES}).encode())
    return kept


def bundle_hashes(bundle: Path) -> dict[str, str]:
    """One for each graph's weights and for each group of arrays, whatever they are called."""
    import onnx

    hashes = {}
    for path in (bundle / name for name in WEIGHTS):
        if path.is_file():
            arrays = map(onnx.numpy_helper.to_array, onnx.load(path).graph.initializer)
            hashes[path.name] = _values([array for array in arrays if array.dtype.kind == "f"])
    for path in sorted(bundle.glob("*.npz")):
        groups: dict[str, list[np.ndarray]] = {}
        with np.load(path) as archive:
            for name, array in archive.items():
                groups.setdefault(name.partition(".")[0] if "." in name else "", []).append(array)
        hashes |= {f"{path.name} {name}".strip(): _values(part) for name, part in groups.items()}
    return hashes


def checkpoint_hash(path: Path) -> str:
    """Of all values in it."""
    from safetensors.numpy import load_file

    return _values(list(load_file(path).values()))


def files(run: Path) -> dict:
    """Names of files, of fields in them, and of topics."""
    manifests = {
        path.parent.name: fields(yaml.safe_load(path.read_text()))
        for path in sorted(run.glob("bundles/*/manifest.yaml"))
    }
    return {
        "files": sorted(str(p.relative_to(run)) for p in run.rglob("*") if p.is_file()),
        "summary": fields(json.loads((run / "summary.json").read_text())),
        "manifests": manifests,
        "bags": {
            episode.name: {topic: kind for topic, (kind, _) in sorted(messages(episode).items())}
            for episode in sorted((run / "episodes").iterdir())
        },
    }


def fields(document: object, prefix: str = "") -> list[str]:
    """Dotted names of all fields; `[]` stands for the entries of a list."""
    if isinstance(document, dict):
        parts = [fields(value, f"{prefix}.{key}") for key, value in document.items()]
    elif isinstance(document, list) and any(isinstance(entry, dict) for entry in document):
        parts = [fields(entry, f"{prefix}[]") for entry in document]
    else:
        parts = [[prefix.removeprefix(".")]]
    return sorted({name for part in parts for name in part})


def _values(arrays: Sequence[np.ndarray]) -> str:
    """Hash of arrays in any order, under any names."""
    parts = [f"{a.dtype} {a.shape} ".encode() + a.tobytes() for a in map(np.asarray, arrays)]
    return _hash(*sorted(parts))


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]
