"""Every planning engine computes what torch's modules compute, on any number of threads."""

import itertools
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from bundle_factory import STRATEGIES, learned, shake
from bundle_factory import write_bundle as write
from numba import njit, typeof
from numpy_engine import NumpyEngine
from touching import touching

from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.config.schema import ModelSettings, PlannerSettings, SearchSettings
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.engines import compiled, simd
from hucrl_ros.controller.engines.engine import OnnxEngine, make_engine
from hucrl_ros.controller.engines.networks import GEOMETRY, from_arrays, to_arrays
from hucrl_ros.controller.engines.program import compile_program
from hucrl_ros.controller.timing import PLANNING_THREAD
from hucrl_ros.errors import BundleError
from hucrl_ros.learning.export import Parts
from hucrl_ros.tasks import make_task

ENGINES = ("compiled", "onnx", "numpy")
STATE = np.array([3.0, -0.5])
DISCOUNT = 0.97
TOLERANCE = 2e-4


def engine_of(name, bundle, particles, horizon, threads=1):
    if name == "numpy":
        return NumpyEngine(bundle.networks, bundle.graphs["score"])
    return make_engine(bundle, particles, horizon, name, threads)


def inputs(width, noise_dim, particles, horizon, seed=0):
    rng = np.random.default_rng(seed)
    offsets = rng.standard_normal((particles, horizon, width)).astype(np.float32)
    return offsets, rng.standard_normal((horizon, noise_dim)).astype(np.float32)


def copied(rollouts):
    return {name: array.copy() for name, array in rollouts._asdict().items()}


def assert_equal(found, expected):
    for name, array in copied(found).items():
        reference = np.asarray(expected[name])
        np.testing.assert_allclose(array, reference, TOLERANCE, TOLERANCE, err_msg=name)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return load_bundle(write(tmp_path_factory.mktemp("engine") / "bundle"))


@pytest.fixture(scope="module")
def shaken(tmp_path_factory):
    """Gives the modules of a strategy with other weights, and their bundle, exported once."""
    folder = tmp_path_factory.mktemp("shaken")

    def give(strategy):
        modules = learned(strategy)
        shake(modules, seed=5)
        if not (folder / strategy).is_dir():
            write(folder / strategy, strategy)
        return modules, load_bundle(folder / strategy)

    return give


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("feedback", [0.0, 1.0, 0.5])
def test_engines_compute_algorithm_7_as_torch_does(shaken, name, strategy, feedback):
    modules, bundle = shaken(strategy)
    parts = Parts(modules.task, modules.dynamics, modules.actor_critic)
    offsets, noise = inputs(bundle.manifest.width, 2, particles=37, horizon=5)
    tensors = [torch.tensor(STATE, dtype=torch.float32), *map(torch.from_numpy, (offsets, noise))]
    with torch.no_grad():
        expected = parts.rollout(*tensors, torch.tensor(feedback), DISCOUNT)
    engine = engine_of(name, bundle, 37, 5)
    engine.set_state(STATE)
    assert_equal(engine(offsets, noise, feedback), expected._asdict())


@pytest.mark.parametrize("name", ENGINES)
def test_a_particle_does_not_know_of_the_others(bundle, name):
    offsets, noise = inputs(3, 2, particles=50, horizon=4)
    engine = engine_of(name, bundle, 50, 4)
    engine.set_state(STATE)
    straight = copied(engine(offsets, noise, 1.0))
    backward = copied(engine(offsets[::-1], noise, 1.0))
    for key, array in straight.items():
        np.testing.assert_allclose(backward[key][::-1], array, 1e-5, 1e-5)


@pytest.mark.parametrize("name", ["compiled", "onnx"])
def test_a_second_call_owes_nothing_to_the_first(bundle, name):
    first, noise = inputs(3, 2, particles=20, horizon=3)
    engine = engine_of(name, bundle, 20, 3)
    engine.set_state(STATE)
    expected = copied(engine(first, noise, 1.0))
    engine.set_state(-STATE)
    engine(-first, -noise, 0.0)
    engine.set_state(STATE)
    for key, array in copied(engine(first, noise, 1.0)).items():
        np.testing.assert_array_equal(array, expected[key])


@pytest.mark.parametrize("particles", [2, 15, 16, 17, 33, 64, 70])
def test_threads_change_no_bit(bundle, particles):
    offsets, noise = inputs(3, 2, particles, horizon=4)
    found = []
    for threads in (1, 2, 3, 7):
        engine = engine_of("compiled", bundle, particles, 4, threads)
        engine.set_state(STATE)
        found.append(copied(engine(offsets, noise, 1.0)))
    for key, other in itertools.product(found[0], found[1:]):
        np.testing.assert_array_equal(other[key], found[0][key])


def test_helping_threads_bear_the_name_that_gets_the_controllers_priority(bundle):
    engine = engine_of("compiled", bundle, 64, 4, threads=2)
    offsets, noise = inputs(3, 2, particles=64, horizon=4)
    before = set(threading.enumerate())
    engine(offsets, noise, 1.0)
    (helper,) = set(threading.enumerate()) - before
    assert helper.name.startswith(PLANNING_THREAD)


@pytest.mark.parametrize(
    ("task", "heads", "layers", "policy_layers", "activation"),
    [
        ("pendulum", 1, (9, 16, 7), (33, 2), "tanh"),
        ("reacher", 2, (20, 12), (10,), "relu"),
        ("pusher", 2, (6,), (5,), "silu"),
    ],
)
def test_networks_of_any_size_and_states_with_a_context(
    tmp_path, task, heads, layers, policy_layers, activation
):
    bundle = untrained_bundle(
        tmp_path / "bundle",
        task,
        ModelSettings(
            kind="probabilistic_ensemble", heads=heads, layers=layers, activation=activation
        ),
        PlannerSettings(particles=16, horizon=4),
        SearchSettings(policy_layers=policy_layers, critic_layers=(6,)),
    )
    spec = bundle.manifest.spec
    state = np.random.default_rng(1).uniform(-0.5, 0.5, spec.state_dim)
    if task == "pusher":
        state = touching(make_task(task, 0.0), 1)[0].double().numpy()
    offsets, noise = inputs(bundle.manifest.width, spec.predicted_dim, particles=21, horizon=6)
    expected = None
    for name in ENGINES:
        engine = engine_of(name, bundle, 21, 6, threads=2)
        engine.set_state(state)
        found = engine(offsets, noise, 1.0)
        if expected is None:
            expected = copied(found)
        assert_equal(found, expected)
        context = found.states[:, :, spec.predicted_dim :]
        assert (context == state[spec.predicted_dim :].astype(np.float32)).all()


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (simd.silu, lambda x: x / (1.0 + np.exp(-x))),
        (simd.tanh, np.tanh),
        (simd.softplus, lambda x: np.logaddexp(x, 0.0)),
        (simd.relu, lambda x: np.maximum(x, 0.0)),
    ],
)
def test_activations_are_right_to_float32(function, reference):
    @njit
    def apply(array):
        for i in range(0, len(array), simd.VECTOR):
            function(array[i:].ctypes.data)

    x = np.concatenate([np.linspace(-86, 86, 4096), np.linspace(-1e-3, 1e-3, 4096)])
    found = x.astype(np.float32)
    apply(found)
    np.testing.assert_allclose(found, reference(x.astype(np.float32).astype(float)), 1e-6, 3e-7)


def test_waves_are_right_to_float32_where_floats_are_dense_enough_to_have_any():
    @njit
    def apply(cosine, sine):
        for i in range(0, len(cosine), simd.VECTOR):
            simd.waves(cosine[i:].ctypes.data, sine[i:].ctypes.data)

    near, far = np.linspace(-10.0, 10.0, 8192), np.geomspace(10.0, 1e6, 4096)
    quarters = np.arange(-2048, 2048) * np.pi / 4
    phases = np.concatenate([near, far, -far, quarters]).astype(np.float32)
    beyond = np.array([1e7, -3e38, np.inf, np.nan] * 8, np.float32)
    cosine = np.concatenate([phases, beyond])
    sine = np.zeros_like(cosine)
    apply(cosine, sine)
    exact, count = phases.astype(float), len(phases)
    np.testing.assert_allclose(cosine[:count], np.cos(exact), 0.0, 2e-7)
    np.testing.assert_allclose(sine[:count], np.sin(exact), 0.0, 2e-7)
    for values in (cosine[count:], sine[count:]):
        assert (np.abs(values[np.isfinite(beyond)]) <= 1.0).all()
        assert np.isnan(values[np.isnan(beyond)]).all()


def test_activations_stay_finite_beyond_the_range_of_exp():
    @njit
    def apply(array):
        simd.silu(array.ctypes.data)

    found = np.full(simd.VECTOR, -1e30, np.float32)
    found[1::2] = 1e30
    apply(found)
    np.testing.assert_allclose(found[1::2], 1e30, rtol=1e-6)
    assert np.isfinite(found).all()


def test_auto_takes_the_compiled_engine_where_it_can(bundle):
    assert isinstance(make_engine(bundle, 8, 3), compiled.CompiledEngine)
    assert isinstance(make_engine(bundle, 8, 3, "onnx"), OnnxEngine)


def without_networks(folder):
    """The bundle as an exporter would write it for a model that the kernel doesn't know."""
    text = (folder / "manifest.yaml").read_text().splitlines()
    kept = [line for line in text if "networks.npz" not in line]
    assert len(kept) == len(text) - 1
    (folder / "manifest.yaml").write_text("\n".join(kept) + "\n")
    return load_bundle(folder)


def test_a_bundle_without_networks_plays_with_onnx_alone(tmp_path):
    bundle = without_networks(write(tmp_path / "bundle"))
    assert isinstance(make_engine(bundle, 8, 3), OnnxEngine)
    with pytest.raises(BundleError, match=r"control\.engine = 'compiled'.*networks\.npz"):
        make_engine(bundle, 8, 3, "compiled")


def test_networks_that_differ_from_torch_are_refused(tmp_path):
    modules = learned()
    shake(modules, seed=2)
    bundle = load_bundle(write(tmp_path / "bundle"))
    constants = {**bundle.networks.constants}
    constants["target_std"] = constants["target_std"] * np.float32(1.5)
    bad = bundle.networks._replace(constants=constants)
    changed = type(bundle)(
        bundle.path, bundle.manifest, bundle.graphs, bad, bundle.parity, bundle.imagined
    )
    with pytest.raises(BundleError, match=r"networks\.npz: output .* differs from torch's"):
        make_engine(changed, 8, 3)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("model.1.weights", r"model\.1\.weights has the shape"),
        ("policy.0.biases", r"policy\.0\.biases has the shape"),
        ("input_std", "input_std has the shape"),
        ("scales", "scales has the shape"),
        ("stops", "stops has the shape"),
        ("unchosen", "unchosen has the shape"),
    ],
)
def test_networks_of_a_wrong_shape_are_refused(bundle, key, message):
    arrays = to_arrays(bundle.networks)
    arrays[key] = np.zeros((2, 3, 5), np.float32)
    with pytest.raises(ValueError, match=message):
        from_arrays(arrays, bundle.manifest)


@pytest.fixture(scope="module")
def arm(tmp_path_factory):
    return untrained_bundle(
        tmp_path_factory.mktemp("arm") / "bundle",
        "pusher",
        ModelSettings(heads=2, layers=(8,)),
        PlannerSettings(particles=8, horizon=2),
        SearchSettings(policy_layers=(4,), critic_layers=(4,)),
    )


@pytest.mark.parametrize(
    ("name", "column", "value", "message"),
    [
        ("stops", 0, 7.0, "stops has 7, of 7 that there are"),
        ("stops", 1, np.nan, "stops isn't finite"),
        ("links", 0, 5.0, "links has 5, of 5 that there are"),
        ("links", 1, -1.0, "links has -1, of 7 that there are"),
        ("vectors", 0, 0.5, "vectors has 0.5, of 5 that there are"),
        ("vectors", 1, 3.0, "vectors has 3, of 3 that there are"),
        ("vectors", 2, 19.0, "vectors has 19, of 19 that there are"),
        ("touches", 0, 5.0, "touches has 5, of 5 that there are"),
        ("touches", 1, -1.0, "touches has -1, of 5 that there are"),
        ("object", 0, 19.0, "object has 19, of 19 that there are"),
        ("object", 5, 0.0, "object is more than one, or has no distance"),
        ("object", 2, 0.5, "object has 0.5, of 19 that there are"),
    ],
)
def test_a_geometry_that_the_state_does_not_have_is_refused(arm, name, column, value, message):
    arrays = {key: array.copy() for key, array in to_arrays(arm.networks).items()}
    from_arrays(arrays, arm.manifest)
    arrays[name][0, column] = value
    with pytest.raises(ValueError, match=message):
        from_arrays(arrays, arm.manifest)


@pytest.fixture(scope="module")
def fourier(tmp_path_factory):
    return untrained_bundle(
        tmp_path_factory.mktemp("fourier") / "bundle",
        "pendulum",
        ModelSettings(kind="rff", features=10),
        PlannerSettings(particles=8, horizon=2),
        SearchSettings(policy_layers=(4,), critic_layers=(4,)),
    )


@pytest.mark.parametrize(
    ("key", "shape", "message"),
    [
        ("whitener", (12, 12), r"whitener has the shape \(12, 12\)"),
        ("whitener", (10, 8), r"whitener has the shape \(10, 8\)"),
        ("whitener", (10,), r"whitener has the shape \(10,\)"),
        ("choice", (3,), r"choice has 3"),
        ("model.0.weights", (1, 4, 10), r"model\.0\.biases has the shape"),
        ("model.1.weights", (1, 5, 4), r"model\.1\.weights has the shape \(1, 5, 4\)"),
        ("model.1.weights", (2, 10, 4), r"model\.1\.weights has the shape \(2, 10, 4\)"),
    ],
)
def test_waves_and_whiteners_that_do_not_fit_are_refused(fourier, key, shape, message):
    arrays = to_arrays(fourier.networks)
    from_arrays(arrays, fourier.manifest)
    with pytest.raises(ValueError, match=message):
        from_arrays({**arrays, key: np.zeros(shape, np.float32)}, fourier.manifest)


@pytest.fixture(scope="module")
def process(tmp_path_factory):
    return untrained_bundle(
        tmp_path_factory.mktemp("process") / "bundle",
        "pendulum",
        ModelSettings(kind="gp"),
        PlannerSettings(particles=8, horizon=2),
        SearchSettings(policy_layers=(4,), critic_layers=(4,)),
    )


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "process.points",
            np.zeros((1, 3)),
            r"process\.points has the shape \(1, 3\), not \(1, 4\)",
        ),
        (
            "process.points",
            np.zeros((0, 4)),
            r"process\.weights has the shape \(2, 1\), not \(2, 0\)",
        ),
        ("process.weights", np.zeros((2, 2)), r"process\.weights has the shape \(2, 2\)"),
        (
            "process.whitener",
            np.full((2, 1, 1), np.nan),
            r"whitener .*, or isn't finite",
        ),
        ("process.lengthscales", np.zeros((2, 4)), "process.lengthscales aren't above 0"),
        ("choice", np.ones(3), "choice has 3, not one"),
        ("choice", np.ones(1), r"whitener has the shape \(2, 1, 1\), not \(2, 0, 0\)"),
    ],
)
def test_a_process_that_does_not_fit_is_refused(process, key, value, message):
    arrays = to_arrays(process.networks)
    from_arrays(arrays, process.manifest)
    with pytest.raises(ValueError, match=message):
        from_arrays({**arrays, key: value}, process.manifest)


@pytest.mark.parametrize("which", ["arm", "process"])
def test_for_weights_in_another_order_nothing_is_compiled(which, request):
    """To compile takes a minute, of which a tick may have to wait for a part."""
    found = request.getfixturevalue(which)
    given = {key: np.array(array, order="F") for key, array in to_arrays(found.networks).items()}
    programs = [
        compile_program(each) for each in (found.networks, from_arrays(given, found.manifest))
    ]
    assert len({typeof(program) for program in programs}) == 1


def test_an_unknown_activation_and_a_whitener_of_an_ensemble_are_refused(bundle, fourier):
    arrays = to_arrays(bundle.networks)
    with pytest.raises(ValueError, match="activation is 'sin'"):
        from_arrays({**arrays, "activation": np.array("sin")}, bundle.manifest)
    with pytest.raises(ValueError, match="has the shape"):
        from_arrays({**arrays, "whitener": np.eye(8, dtype=np.float32)}, bundle.manifest)
    # Without waves, the last layer is given half as many numbers as it takes.
    with pytest.raises(ValueError, match=r"model\.1\.weights has the shape"):
        from_arrays(
            {**to_arrays(fourier.networks), "activation": np.array("silu")}, fourier.manifest
        )


@pytest.mark.parametrize("features", [6, 16, 30])
def test_an_untrained_fourier_model_deviates_by_its_prior_everywhere(tmp_path, features):
    """‖φ‖ = 1 for features of any number: η moves the step by βη prior deviations."""
    bundle = untrained_bundle(
        tmp_path / "bundle",
        "pendulum",
        ModelSettings(kind="rff", features=features),
        PlannerSettings(particles=16, horizon=1),
        SearchSettings(policy_layers=(4,), critic_layers=(4,)),
    )
    engine = make_engine(bundle, 2, 1, "compiled")
    engine.set_state(STATE)
    offsets = np.zeros((2, 1, 3), np.float32)
    offsets[1, :, 1:] = (1.0, -0.5)
    found = engine(offsets, np.zeros((1, 2), np.float32), 0.0).states[:, 1]
    np.testing.assert_allclose(found[1] - found[0], (3.0, -1.5), rtol=1e-5)


def test_a_hallucination_that_the_manifest_does_not_know_is_refused(bundle):
    manifest = bundle.manifest.model_copy(update={"hallucination_dim": 0})
    with pytest.raises(ValueError, match="hallucination has layers"):
        from_arrays(to_arrays(bundle.networks), manifest)


def test_networks_of_before_there_was_a_geometry_can_be_read(bundle):
    arrays = to_arrays(bundle.networks)
    for name in GEOMETRY:
        del arrays[name]
    geometry = from_arrays(arrays, bundle.manifest).geometry
    assert {name: array.shape for name, array in geometry.items()} == GEOMETRY


@pytest.mark.parametrize(("strategy", "share"), [("greedy", 1.0), ("optimistic", 0.0)])
def test_noise_of_before_it_could_be_shared_is_read_as_it_was_meant(shaken, strategy, share):
    bundle = shaken(strategy)[1]
    arrays = to_arrays(bundle.networks)
    assert arrays["unchosen"] == share
    del arrays["unchosen"]
    old = {**arrays, "total": np.array(share, np.float32)}
    assert from_arrays(old, bundle.manifest).constants["unchosen"] == share


def test_joints_of_before_they_went_on_by_themselves_stand_still_without_a_change(bundle):
    arrays = to_arrays(bundle.networks)
    assert arrays["coast"] == np.float32(bundle.manifest.spec.period)
    del arrays["coast"]
    with pytest.raises(KeyError, match="coast"):
        from_arrays(arrays, bundle.manifest)
    old = bundle.manifest.model_copy(update={"schema_version": 2})
    assert from_arrays(arrays, old).constants["coast"] == 0.0


def test_networks_survive_their_file(bundle):
    again = from_arrays(to_arrays(bundle.networks), bundle.manifest)
    for key, array in to_arrays(bundle.networks).items():
        np.testing.assert_array_equal(to_arrays(again)[key], array)


NARROW = """
import sys
import threading
import numpy as np
from numpy_engine import NumpyEngine
from hucrl_ros.controller.engines import simd
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.engines.engine import make_engine

assert simd.VECTOR == 8, simd.VECTOR
bundle = load_bundle(__import__("pathlib").Path(sys.argv[1]))
rng = np.random.default_rng(0)
offsets = rng.standard_normal((37, 5, 3)).astype(np.float32)
noise = rng.standard_normal((5, 2)).astype(np.float32)
engines = [make_engine(bundle, 37, 5, "compiled", 2),
           NumpyEngine(bundle.networks, bundle.graphs["score"])]
for engine in engines:
    engine.set_state(np.array([3.0, -0.5]))
found, expected = (engine(offsets, noise, 1.0) for engine in engines)
for a, b in zip(found, expected):
    np.testing.assert_allclose(a, b, 2e-4, 2e-4)
"""


@pytest.mark.skipif(not simd.WIDE, reason="this processor has no wide vectors: tested above")
def test_processors_without_avx512_compute_the_same(bundle, tmp_path):
    environment = {
        **os.environ,
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse4.2",
        "NUMBA_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-c", NARROW, str(bundle.path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
