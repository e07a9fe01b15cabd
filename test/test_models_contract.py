"""What every dynamics model promises, whatever its kind."""

import functools
import math

import numpy as np
import pytest
import torch
from bundle_factory import fields, imagined_episode
from linear_system import LIMIT, PushedMass, next_state, transitions
from numpy_engine import NumpyEngine
from safetensors.torch import load_file, save_file
from searching import generator

from hucrl_ros.config.files import load_config, task_config_files
from hucrl_ros.config.schema import (
    KERNEL_MODELS,
    ExplorationSettings,
    ModelSettings,
    SearchSettings,
)
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.engines.engine import make_engine
from hucrl_ros.learning.export import BundleExporter, Parts
from hucrl_ros.models import MODELS, Transitions, fit, kind_of, make_model
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.models.fit import STILL, held_out
from hucrl_ros.search import ActorCritic
from hucrl_ros.tasks import make_task

NOISE = 0.02
SETTINGS = {
    "heads": 4,
    "layers": (16, 16),
    "fit_steps": 300,
    "learning_rate": 5e-3,
    "hyperparameters": "fixed",
    "lengthscale": 3.0,
    "noise_ratio": 0.02,
    "max_points": 60,
    "features": 60,
    "nodes": 4,
}
EACH_KIND = pytest.mark.parametrize("kind", MODELS)
EXPORTED = {
    # The probabilistic ensemble is exported with every strategy in test_engine.
    "deterministic_ensemble": "optimistic",
    "gp": "thompson",
    "rff": "thompson",
}
"""Strategies that between them show every graph; the others would only take longer."""


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def model_of(kind, task=None, seed=0, **changes):
    settings = ModelSettings(kind=kind, **{**SETTINGS, **changes})
    return make_model(task or PushedMass(0.0), settings, generator(seed))


def data(count=200, seed=7):
    return Transitions(*transitions(count, generator(seed), NOISE))


@functools.cache
def fitted(kind):
    """A fitted model; not to be changed."""
    model = model_of(kind)
    fit(model, data(), generator())
    return model


def predictions(model, states, actions):
    with torch.no_grad():
        return model.predict(states, actions), model.sample(states, actions)


@EACH_KIND
@pytest.mark.parametrize("lead", [(), (1,), (2, 3)])
def test_shapes_follow_the_leading_dimensions(kind, lead):
    belief, drawn = predictions(fitted(kind), torch.zeros(*lead, 2), torch.zeros(*lead, 1))
    for tensor in (*belief[:3], *drawn):
        assert tensor.shape == (*lead, 2)
        assert tensor.dtype == torch.float32
    assert belief.deviations.shape[1:] == (*lead, 2)


@EACH_KIND
def test_a_state_is_predicted_alike_alone_and_in_a_batch(kind):
    states, actions, _ = transitions(6, generator(1))
    whole = predictions(fitted(kind), states, actions)
    for row in range(6):
        alone = predictions(fitted(kind), states[row], actions[row])
        for one, batch in zip(alone[0][:3] + alone[1], whole[0][:3] + whole[1], strict=True):
            torch.testing.assert_close(one, batch[row], atol=1e-5, rtol=1e-3)


@EACH_KIND
def test_deviations_sum_to_the_epistemic_variance(kind):
    belief, _ = predictions(fitted(kind), *transitions(6, generator(1))[:2])
    variance = (belief.deviations**2).sum(dim=0)
    torch.testing.assert_close(variance.sqrt(), belief.epistemic, atol=1e-6, rtol=1e-3)


@EACH_KIND
def test_it_learns_a_linear_system_and_knows_where(kind):
    model = fitted(kind)
    states, actions, _ = transitions(100, generator(12), scale=0.9)
    belief, _ = predictions(model, states, actions)
    change = (next_state(states, actions) - states).std()
    assert (belief.mean - next_state(states, actions)).abs().mean() < 0.1 * change
    near = belief.epistemic.mean(dim=0)
    assert (near < 0.1 * change).all()
    far = predictions(model, 6.0 * states.sign() + states, actions)[0].epistemic.mean(dim=0)
    # Quadrature features are periodic: far away is not far from everything.
    assert (far > (2.0 if kind == "qff" else 4.0) * near).all()


@EACH_KIND
def test_noise_is_that_of_the_data_or_what_the_model_says(kind):
    belief, _ = predictions(fitted(kind), *transitions(50, generator(3))[:2])
    if kind == "deterministic_ensemble":
        assert (belief.aleatoric == 0.0).all()
    elif kind in KERNEL_MODELS:
        model = fitted(kind)
        expected = SETTINGS["noise_ratio"] * model.prior_std * model.targets.std
        torch.testing.assert_close(belief.aleatoric, expected.expand(50, 2))
    else:
        assert (belief.aleatoric / NOISE).log().mean(dim=0).abs().max() < math.log(1.5)


@EACH_KIND
def test_gradients_are_those_of_finite_differences(kind):
    model = model_of(kind, layers=(8,), activation="tanh", fit_steps=20)
    fit(model, data(40), generator())
    model.double()
    states, actions, _ = (tensor.double() for tensor in transitions(3, generator(2)))
    inputs = (states.requires_grad_(), actions.requires_grad_())
    assert torch.autograd.gradcheck(lambda *given: model.predict(*given)[:3], inputs)
    assert torch.autograd.gradcheck(lambda *given: model.sample(*given)[0], inputs)


@EACH_KIND
def test_a_fit_depends_on_data_and_generator_alone(kind):
    found = []
    for seed in (3, 3):
        model = model_of(kind, fit_steps=10, hyperparameters="fitted")
        report = fit(model, data(60), generator(seed))
        torch.rand(1)  # somebody else's draw
        model.draw(generator(seed))
        found.append((report, model.state_dict()))
    assert found[0][0] == found[1][0]
    for name, value in found[0][1].items():
        assert torch.equal(value, found[1][1][name]), name


@EACH_KIND
def test_draws_differ_between_generators_and_stay_until_the_next(kind):
    model = model_of(kind, heads=50)
    model.load_state_dict(model_of(kind, heads=50).state_dict())
    fit(model, data(60), generator())
    states, actions, _ = transitions(5, generator(4), scale=3.0)
    drawn = []
    for seed in range(2):
        model.draw(generator(seed))
        first, again = (predictions(model, states, actions)[1] for _ in range(2))
        assert torch.equal(first.mean, again.mean)
        drawn.append(first.mean)
    assert not torch.equal(drawn[0], drawn[1])


@EACH_KIND
def test_draws_scatter_like_the_belief(kind):
    """Mean and deviation over many draws are those of the belief."""
    model = model_of(kind, heads=20, fit_steps=30, features=512)
    fit(model, data(60), generator())
    states, actions, _ = transitions(8, generator(4), scale=2.0)
    belief, _ = predictions(model, states, actions)
    draws, seeds = [], generator(9)
    for _ in range(400):
        model.draw(seeds)
        draws.append(predictions(model, states, actions)[1].mean)
    drawn = torch.stack(draws)
    error = (drawn.mean(dim=0) - belief.mean) / belief.epistemic
    assert error.abs().max() < 0.3  # 0.05 expected, and the prior's features differ from the GP
    ratio = drawn.std(dim=0) / belief.epistemic
    assert ((ratio > 0.6) & (ratio < 1.5)).all()


@EACH_KIND
def test_a_recalibrated_draw_is_as_far_from_the_mean_as_the_scale_says(kind):
    model = model_of(kind, recalibrate=True, holdout=0.3)
    fit(model, data(60), generator())
    model.draw(generator(1))
    states, actions, _ = transitions(8, generator(4), scale=2.0)
    model.epistemic_scale.fill_(1.0)
    belief, plain = predictions(model, states, actions)
    scale = torch.tensor([0.4, 2.5])
    model.epistemic_scale.copy_(scale)
    drawn = predictions(model, states, actions)[1]
    expected = belief.mean + scale * (plain.mean - belief.mean)
    torch.testing.assert_close(drawn.mean, expected, atol=1e-5, rtol=1e-4)
    assert (plain.mean - belief.mean).abs().max() > 1e-3
    assert torch.equal(drawn.aleatoric, plain.aleatoric)


@EACH_KIND
def test_it_survives_a_checkpoint(kind, tmp_path):
    model, fresh = fitted(kind), model_of(kind, seed=5)
    path = tmp_path / "model.safetensors"
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path)
    fresh.load_state_dict(load_file(path))
    states, actions, _ = transitions(6, generator(1))
    for one, other in zip(
        predictions(model, states, actions), predictions(fresh, states, actions), strict=True
    ):
        for before, after in zip(one, other, strict=True):
            assert torch.equal(before, after)
    assert fresh.information_gain == model.information_gain


@EACH_KIND
def test_what_never_changed_may_change_where_nobody_has_been(kind):
    """As a joint that friction has held: certain that it stays, nobody would try anything more."""
    model, (states, actions, following, _) = model_of(kind), data(60)
    following = following.clone()
    following[:, 1] = states[:, 1]
    fit(model, Transitions(states, actions, following), generator())
    seen, elsewhere = (predictions(model, k * states, k * actions)[0] for k in (1.0, 20.0))
    change = STILL * model.task.units[1]
    assert (seen.mean[:, 1] - states[:, 1]).abs().max() < 0.5 * change
    assert elsewhere.epistemic[:, 1].max() > 1e-3 * change
    assert seen.epistemic[:, 1].max() < elsewhere.epistemic[:, 1].max()


@pytest.mark.parametrize("kind", ["gp", "rff"])
def test_what_never_changed_tells_nothing_of_length_scales(kind):
    """Else all that friction held under small efforts would be sure to resist larger ones, too."""
    model = model_of(kind, make_task("pendulum", 0.2), hyperparameters="fitted")
    states = model.task.start.expand(100, -1)
    actions = 0.3 * (2.0 * torch.rand(100, 1, generator=generator()) - 1.0)
    fit(model, Transitions(states, actions, states), generator())
    assert float(model.kernel.lengthscales.max()) == pytest.approx(model.settings.lengthscale)
    doubt = model.predict(states[:1], torch.ones(1, 1)).epistemic / model.task.units
    assert float(doubt.min()) > 0.01 * STILL


@EACH_KIND
def test_held_out_transitions_do_not_enter(kind):
    clean, spoiled = data(100), data(100)
    away = held_out(100, 0.1)
    spoiled.next_states[away] += 1e3
    models = [model_of(kind, fit_steps=5) for _ in range(2)]
    reports = [fit(m, d, generator()) for m, d in zip(models, (clean, spoiled), strict=True)]
    for (name, one), other in zip(
        models[0].state_dict().items(), models[1].state_dict().values(), strict=True
    ):
        assert torch.equal(one, other), name
    assert reports[1].quality.model_error > 100 * reports[0].quality.model_error


@EACH_KIND
def test_data_that_were_seen_twice_change_no_shape(kind):
    """Bundles swap values into graphs whose shapes were fixed when nothing was learned."""
    model = model_of(kind, fit_steps=2)
    before = {name: value.shape for name, value in model.state_dict().items()}
    for count in (1, 30, 200):
        fit(model, data(count), generator())
        assert {name: value.shape for name, value in model.state_dict().items()} == before
        assert all(value.isfinite().all() for value in model.state_dict().values())


# In the controller


def exported(kind, strategy, tmp_path, recalibrate=False, **exploration):
    """A bundle of a model that learned after the graphs were traced, and its parts."""
    task, draws = make_task("pendulum", 0.2), generator()
    changes = {"layers": (8,), "fit_steps": 5, "features": 20, "nodes": 2, "max_points": 20}
    model = model_of(kind, task, recalibrate=recalibrate, **changes)
    step = make_imagined_dynamics(strategy, model, ExplorationSettings(**exploration))
    networks = SearchSettings(policy_layers=(8,), critic_layers=(8,), eta_lipschitz=0.5)
    actors = ActorCritic(task, step.hallucination_dim, networks, draws)
    exporter = BundleExporter(task, step, actors, discount=0.97)
    exporter.write(tmp_path / "first", fields(strategy), imagined_episode())
    states = task.imagined_states(60, draws)
    actions = 2.0 * torch.rand(60, 1, generator=draws) - 1.0
    following = states + 0.1 * torch.sin(states) + 0.05 * actions
    fit(model, Transitions(states, actions, following), draws)
    model.epistemic_scale.copy_(torch.tensor([0.7, 1.6]))
    step.start_episode(3, draws)  # with another β than the graphs were traced with
    exporter.write(tmp_path / "second", fields(strategy), imagined_episode())
    return load_bundle(tmp_path / "second"), Parts(task, step, actors)


def assert_planned_alike(bundle, parts, engine):
    draws = np.random.default_rng(0)
    width = bundle.manifest.width
    offsets = draws.standard_normal((11, 5, width)).astype(np.float32)
    noise = draws.standard_normal((5, 2)).astype(np.float32)
    planning = make_engine(bundle, 11, 5, engine) if isinstance(engine, str) else engine
    planning.set_state(np.array([3.0, -0.5]))
    found = planning(offsets, noise, 1.0)
    with torch.no_grad():
        tensors = [torch.tensor([3.0, -0.5]), *map(torch.from_numpy, (offsets, noise))]
        expected = parts.rollout(*tensors, torch.ones(()), 0.97)
    for name, reference in expected._asdict().items():
        np.testing.assert_allclose(getattr(found, name), reference, 1e-3, 1e-3, err_msg=name)


SHARED = {"hallucinate": "shared", "beta": 1.0, "beta_decay": 0.7, "beta_floor": 0.0}


@pytest.mark.parametrize(
    ("kind", "strategy", "changes"),
    [
        *((kind, strategy, {}) for kind, strategy in EXPORTED.items()),
        ("probabilistic_ensemble", "optimistic", {"hallucinate": "total"}),
        ("probabilistic_ensemble", "optimistic", SHARED),
        ("probabilistic_ensemble", "sombrl", SHARED),
        ("probabilistic_ensemble", "thompson", {"recalibrate": True}),
        ("gp", "greedy", {}),
        ("gp", "thompson", {"recalibrate": True}),
        ("gp", "optimistic", {}),
        ("gp", "optimistic", {"hallucinate": "total"}),
        ("gp", "optimistic", SHARED),
        ("rff", "optimistic", {}),
        ("rff", "thompson", {"recalibrate": True}),
        pytest.param("qff", "optimistic", {}, marks=pytest.mark.slow),
    ],
)
def test_the_controller_imagines_what_torch_imagines(kind, strategy, changes, tmp_path):
    bundle, parts = exported(kind, strategy, tmp_path, **changes)
    assert_planned_alike(bundle, parts, "onnx")
    assert_planned_alike(bundle, parts, "compiled")
    if "ensemble" in kind or (kind == "gp" and strategy != "thompson"):
        engine = NumpyEngine(bundle.networks, bundle.graphs["score"])
        assert_planned_alike(bundle, parts, engine)


def test_a_full_covariance_is_imagined_in_the_controller_too(tmp_path):
    bundle, parts = exported("deterministic_ensemble", "greedy", tmp_path, covariance="full")
    assert bundle.networks is None
    assert_planned_alike(bundle, parts, "onnx")


@pytest.mark.parametrize(
    ("task", "kind"),
    [("pendulum", "rff"), ("cartpole", "gp"), ("reacher", "probabilistic_ensemble")],
)
def test_auto_takes_a_kernel_model_for_few_entries_and_says_so(task, kind, caplog):
    task, settings = make_task(task, 0.1), ModelSettings(kind="auto")
    with caplog.at_level("INFO"):
        model = make_model(task, settings, generator())
    assert type(model) is type(make_model(task, ModelSettings(kind=kind), generator()))
    assert kind_of(settings, task) == kind
    assert f"model.kind = auto: {kind}, for {task.spec.predicted_dim} entries" in caplog.text
    assert "ignored" not in caplog.text


@pytest.mark.parametrize("task", ["pendulum", "cartpole", "reacher"])
def test_what_is_for_ensembles_is_said_to_be_ignored_where_auto_takes_another(task, caplog):
    settings, task = ModelSettings(heads=2, layers=(8,), max_points=9), make_task(task, 0.1)
    kind = kind_of(settings, task)
    with caplog.at_level("INFO"):
        make_model(task, settings, generator())
    line = f"model.heads, model.layers: for ensembles, ignored by {kind}"
    assert caplog.messages.count(line) == ("ensemble" not in kind)
    assert caplog.text.count("ignored") == ("ensemble" not in kind)


def test_what_tasks_say_of_their_models_is_not_ignored(caplog):
    for name, file in task_config_files().items():
        with caplog.at_level("INFO"):
            make_model(make_task(name, 0.1), load_config(file).model, generator())
    assert "model.kind = auto: rff" in caplog.text
    assert "ignored" not in caplog.text


def test_efforts_are_shares_of_their_limit_for_models_with_a_prior():
    model = model_of("gp")
    inputs = model.network_inputs(torch.tensor([[0.3, -0.2]]), torch.tensor([[LIMIT]]))
    torch.testing.assert_close(inputs, torch.tensor([[0.3, -0.2, 1.0]]))
