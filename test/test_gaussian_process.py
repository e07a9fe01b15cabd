"""Gaussian process and Fourier models against closed forms, and against each other."""

import math

import numpy as np
import pytest
import torch
from linear_system import PushedMass, transitions
from scipy.stats import multivariate_normal
from searching import generator

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.errors import ConfigError, LearningError
from hucrl_ros.models import Transitions, fit, make_model
from hucrl_ros.models.kernel import (
    SquaredExponential,
    likely_noise,
    log_evidence,
    quadrature_features,
    random_features,
)
from hucrl_ros.tasks import make_task

RATIO, LENGTH = 0.1, 1.5


def settings(kind="gp", **changes):
    values = {
        "hyperparameters": "fixed",
        "lengthscale": LENGTH,
        "noise_ratio": RATIO,
        "max_points": 50,
        "holdout": 0.0,
    }
    return ModelSettings(kind=kind, **{**values, **changes})


def problem(count, seed=1):
    """Normalised inputs `(n, 3)` and targets `(n, 2)`."""
    inputs = 2.0 * torch.rand(count, 3, generator=generator(seed)) - 1.0
    targets = torch.stack([torch.sin(2.0 * inputs.sum(-1)), inputs[:, 0] * inputs[:, 2]], dim=-1)
    return inputs, targets + 0.05 * torch.randn(count, 2, generator=generator(seed + 1))


def learned(kind, inputs, targets, **changes):
    model = make_model(PushedMass(0.0), settings(kind, **changes), generator())
    model.learn(inputs, targets, generator(), lambda share: None)
    return model


def kernel_matrix(a, b, length=LENGTH):
    """k(a, b), written out."""
    a, b = (x.double().numpy() for x in (a, b))
    return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / length**2)


# Exact Gaussian process


def test_the_posterior_is_the_textbooks():
    inputs, targets = problem(20)
    queries = problem(7, seed=5)[0]
    belief = learned("gp", inputs, targets).predict_normalised(queries)
    inverse = np.linalg.inv(kernel_matrix(inputs, inputs) + RATIO**2 * np.eye(20))
    cross, y = kernel_matrix(queries, inputs), targets.double().numpy()
    variance = 1.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    prior = np.array([y[:, i] @ inverse @ y[:, i] / 20 for i in range(2)])
    np.testing.assert_allclose(belief.mean, cross @ inverse @ y, atol=1e-5)
    np.testing.assert_allclose(belief.epistemic**2, variance[:, None] * prior, rtol=1e-4)
    np.testing.assert_allclose(belief.aleatoric, np.tile(RATIO * np.sqrt(prior), (7, 1)), 1e-5)


def test_without_data_it_is_the_prior():
    model = make_model(PushedMass(0.0), settings(), generator())
    belief = model.predict_normalised(problem(5)[0])
    assert torch.equal(belief.mean, torch.zeros(5, 2))
    assert torch.equal(belief.epistemic, torch.ones(5, 2))
    assert model.information_gain == 0.0


@pytest.mark.parametrize("kind", ["gp", "rff"])
def test_the_information_gain_is_half_a_log_determinant(kind):
    inputs, targets = problem(20)
    model = learned(kind, inputs, targets, features=64)
    if kind == "gp":
        kernel = kernel_matrix(inputs, inputs)
    else:
        phi = model.features(inputs, model.kernel)[0].double().numpy()
        kernel = phi @ phi.T
    _, logarithm = np.linalg.slogdet(np.eye(20) + kernel / RATIO**2)
    assert model.information_gain == pytest.approx(2 * 0.5 * logarithm, rel=1e-4)


def test_information_grows_with_data_and_less_with_each():
    inputs, targets = problem(48)
    gains = [learned("gp", inputs[:n], targets[:n]).information_gain for n in (16, 32, 48)]
    assert 0.0 < gains[2] - gains[1] < gains[1] - gains[0] < gains[0]


def test_the_evidence_is_a_gaussians_density_at_its_best_scale():
    inputs, targets = problem(12)
    kernel, y = SquaredExponential(3, 1, settings()), targets.double()
    factor = kernel.cholesky(inputs.double())
    covariance = kernel_matrix(inputs, inputs) + RATIO**2 * np.eye(12)
    found = log_evidence(factor, y.T.unsqueeze(-1))
    for i in range(2):
        best = max(
            multivariate_normal(np.zeros(12), scale**2 * covariance).logpdf(y[:, i].numpy())
            for scale in np.exp(np.linspace(-2, 2, 801))
        )
        # The constant that the profile leaves out.
        assert float(found[i]) - 6.0 * (1.0 + math.log(2 * math.pi)) == pytest.approx(best, 1e-4)


def test_fitted_length_scales_tell_which_input_matters():
    inputs = 2.0 * torch.rand(60, 3, generator=generator(2)) - 1.0
    targets = torch.stack([torch.sin(4.0 * inputs[:, 0]), torch.sin(4.0 * inputs[:, 1])], dim=-1)
    model = learned("gp", inputs, targets, hyperparameters="fitted", max_points=60)
    first, second = model.kernel.lengthscales
    assert 3.0 * first[0] < first[1]
    assert 3.0 * first[0] < first[2]
    assert 3.0 * second[1] < second[0]


def test_fitting_raises_the_evidence():
    inputs, targets = problem(40)
    y, kernel = targets.double().T.unsqueeze(-1), SquaredExponential(3, 1, settings())
    before = log_evidence(kernel.cholesky(inputs.double()), y).sum()
    kernel.fit(inputs, targets)
    assert log_evidence(kernel.cholesky(inputs.double()), y).sum() > before + 1.0


@pytest.mark.parametrize("kind", ["gp", "rff"])
def test_a_fit_owes_nothing_to_the_fits_before_it(kind):
    """Smooth data pull the length-scales up as far as the prior lets them, each time anew."""
    inputs, smooth = problem(80)
    smooth = torch.stack([inputs[:, 0] + 0.1 * inputs[:, 1], inputs[:, 2]], dim=-1)
    model = learned(kind, inputs, smooth, hyperparameters="fitted", max_points=40)
    first = {name: value.clone() for name, value in model.state_dict().items()}
    for last in (problem(60, seed=3), (inputs, smooth)):
        model.learn(*last, generator(), lambda share: None)
    for name, value in model.state_dict().items():
        assert torch.equal(value, first[name]), name


# Which points are kept


def test_all_points_are_kept_that_there_is_room_for():
    inputs, targets = problem(30)
    model = learned("gp", inputs, targets, max_points=30)
    torch.testing.assert_close(model.points, inputs.double())


def test_kept_points_are_the_greedy_choice_by_variance():
    inputs = problem(25)[0].double()
    model = make_model(PushedMass(0.0), settings(), generator())
    kernel, chosen = kernel_matrix(inputs, inputs), []
    for _ in range(8):
        known = kernel[np.ix_(chosen, chosen)] + RATIO**2 * np.eye(len(chosen))
        cross = kernel[:, chosen]
        variance = 1.0 - np.einsum("ij,jk,ik->i", cross, np.linalg.inv(known), cross)
        variance[chosen] = -1.0
        chosen.append(int(variance.argmax()))
    assert model.farthest(inputs, 8).tolist() == sorted(chosen)


def test_of_very_many_transitions_some_are_candidates(monkeypatch):
    inputs = problem(61)[0].double()
    weights = torch.linspace(1.0, 2.0, 61).double()
    model = make_model(PushedMass(0.0), settings(), generator())
    expected = 4 * model.farthest(inputs[::4], 8, weights[::4])
    assert not torch.equal(model.farthest(inputs, 8, weights), expected)
    monkeypatch.setattr("hucrl_ros.models.gaussian_process.MOST_CANDIDATES", 20)
    assert torch.equal(model.farthest(inputs, 8, weights), expected)
    assert model.farthest(inputs, 61).tolist() == list(range(61))
    assert len(model.farthest(inputs, 30)) == 30, "no fewer candidates than points"


def test_copies_of_a_transition_are_the_first_to_go():
    distinct = 20.0 * problem(10)[0]
    inputs = torch.cat([distinct, distinct[:1].repeat(30, 1)]).double()
    model = make_model(PushedMass(0.0), settings(), generator())
    kept = inputs[model.farthest(inputs, 10)]
    assert len(torch.unique(kept, dim=0)) == 10


# Functions drawn from it


def test_a_drawn_function_passes_near_the_data_when_there_is_no_noise():
    inputs, _ = problem(15)
    targets = torch.sin(inputs[:, :2])
    model = learned("gp", inputs, targets, noise_ratio=1e-3)
    for seed in range(5):
        model.draw(generator(seed))
        assert (model.sample_normalised(inputs).mean - targets).abs().max() < 0.02


# Fourier features


def test_random_features_converge_to_the_kernel():
    inputs = problem(12)[0]
    kernel = SquaredExponential(3, 1, settings())
    errors = []
    for count in (64, 4096):
        phi = random_features(3, count, generator(3))(inputs, kernel)[0]
        errors.append(np.abs((phi @ phi.T).numpy() - kernel_matrix(inputs, inputs)).max())
    assert errors[1] < 0.08 < errors[0]


@pytest.mark.parametrize(("nodes", "error"), [(4, 0.05), (5, 0.02), (10, 1e-5)])
def test_quadrature_features_are_the_kernel_near_by(nodes, error):
    inputs = problem(12)[0]
    kernel = SquaredExponential(3, 1, settings())
    features = quadrature_features(3, settings(nodes=nodes))
    phi = features(inputs, kernel)[0]
    assert features.count == nodes**3 == phi.shape[1]
    assert np.abs((phi @ phi.T).numpy() - kernel_matrix(inputs, inputs)).max() < error
    torch.testing.assert_close((phi**2).sum(-1), torch.ones(12))


def test_the_features_of_the_paper_fit_the_pendulum():
    task = make_task("pendulum", 0.0)
    counts = {
        kind: make_model(task, settings(kind, nodes=5, features=1296), generator()).features.count
        for kind in ("rff", "qff")
    }
    assert counts == {"rff": 1296, "qff": 625}


@pytest.mark.parametrize("kind", ["rff", "qff"])
def test_the_linear_posterior_is_the_textbooks(kind):
    inputs, targets = problem(20)
    model = learned(kind, inputs, targets, features=32, nodes=3)
    queries = problem(7, seed=5)[0]
    belief = model.predict_normalised(queries)
    phi, new = (model.features(x, model.kernel)[0].double().numpy() for x in (inputs, queries))
    y = targets.double().numpy()
    covariance = np.linalg.inv(np.eye(phi.shape[1]) + phi.T @ phi / RATIO**2)
    mean = covariance @ phi.T @ y / RATIO**2
    gram = np.linalg.inv(kernel_matrix(inputs, inputs) + RATIO**2 * np.eye(20))
    prior = np.array([y[:, i] @ gram @ y[:, i] / 20 for i in range(2)])
    np.testing.assert_allclose(belief.mean, new @ mean, atol=1e-4)
    variance = np.einsum("ij,jk,ik->i", new, covariance, new)
    np.testing.assert_allclose(belief.epistemic**2, variance[:, None] * prior, rtol=1e-3)


@pytest.mark.parametrize(("kind", "tolerance"), [("rff", 0.1), ("qff", 1e-3)])
def test_the_linear_posterior_converges_to_the_gaussian_process(kind, tolerance):
    inputs, targets = problem(40)
    queries = problem(20, seed=5)[0]
    exact = learned("gp", inputs, targets).predict_normalised(queries)
    approximate = learned(kind, inputs, targets, features=2048, nodes=8).predict_normalised(
        queries
    )
    for name in ("mean", "epistemic", "aleatoric"):
        found, expected = getattr(approximate, name), getattr(exact, name)
        assert (found - expected).square().mean().sqrt() < tolerance, name


def test_the_likely_noise_has_the_largest_density_of_the_targets():
    generate = torch.Generator().manual_seed(3)
    features = torch.randn(30, 6, generator=generate, dtype=torch.float64)
    targets = features @ torch.randn(6, 2, generator=generate, dtype=torch.float64)
    targets = targets + 0.3 * torch.randn(30, 2, generator=generate, dtype=torch.float64)
    variance = torch.tensor([1.0, 2.0], dtype=torch.float64)

    def surprise(ratio):
        gram = (features @ features.T).numpy() + ratio**2 * np.eye(30)
        return -sum(
            multivariate_normal(cov=s2 * gram).logpdf(targets[:, i].numpy())
            for i, s2 in enumerate(variance.tolist())
        )

    found = likely_noise(features, targets, variance, 1e-4)
    assert 0.1 < found < 0.5
    assert surprise(found) < min(surprise(0.8 * found), surprise(1.25 * found))
    for least in (0.7, 3.0):  # also where the process has more noise than signal
        assert likely_noise(features, targets, variance, least) >= least - 1e-9


def test_what_too_few_features_cant_represent_is_noise_and_no_amplitude():
    inputs, targets = problem(150)
    values = {"hyperparameters": "fitted", "noise_ratio": 0.003}
    exact = learned("gp", inputs, targets, max_points=150, **values)
    few = learned("rff", inputs, targets, features=16, **values)
    many = learned("rff", inputs, targets, features=2048, **values)
    assert few.noise_ratio > 2.0 * many.noise_ratio
    for model in (few, many):  # before, six times as large
        assert (model.prior_std < 3.0 * exact.prior_std).all()


def test_drawn_weights_have_the_posteriors_covariance():
    inputs, targets = problem(20)
    model, draws, seeds = learned("rff", inputs, targets, features=6), [], generator(4)
    for _ in range(4000):
        model.draw(seeds)
        draws.append(model.drawn.clone())
    drawn = torch.stack(draws) - model.weights
    covariance = torch.einsum("nid,nie->ide", drawn, drawn) / len(draws)
    posterior = model.whitener.T @ model.whitener
    for i in range(2):
        expected = model.prior_std[i] ** 2 * posterior
        assert (covariance[i] - expected).abs().max() < 0.1 * expected.diagonal().max()


# What is refused


def test_too_many_quadrature_features_are_refused_by_number():
    reason = r"model\.kind = 'qff': model\.nodes = 4 .* rff$"
    with pytest.raises(ConfigError, match=reason) as said:
        make_model(make_task("half_cheetah", 0.0), settings("qff", nodes=4), generator())
    assert "\n" not in str(said.value)


def test_a_singular_covariance_is_refused_with_the_setting_that_helps():
    kernel = SquaredExponential(1, 1, settings(noise_ratio=1e-4))
    kernel.noise.fill_(math.nan)
    with pytest.raises(LearningError, match=r"model\.noise_ratio"):
        kernel.cholesky(torch.zeros(3, 1, dtype=torch.float64))


@pytest.mark.parametrize("kind", ["gp", "rff"])
def test_an_output_that_never_changed_is_learned_as_such(kind):
    model = make_model(PushedMass(0.0), settings(kind), generator())
    states, actions, following = transitions(100, generator(2))
    still = following.clone()
    still[:, 1] = states[:, 1]
    fit(model, Transitions(states, actions, still), generator())
    predicted = model.predict(states, actions)
    assert (predicted.mean[:, 1] - states[:, 1]).abs().max() < 1e-3
    assert (predicted.mean[:, 0] - still[:, 0]).abs().max() < 0.1


def test_hyper_parameters_that_lead_nowhere_stay_as_set(caplog):
    kernel = SquaredExponential(1, 1, settings(noise_ratio=1e-2))
    kernel.fit(torch.full((5, 1), math.nan), torch.ones(5, 1))
    assert float(kernel.noise[0]) == 1e-2
    assert "hyper-parameters stay as set" in caplog.text


def test_a_fit_takes_more_transitions_than_there_is_room_for():
    values = settings(max_points=40, noise_ratio=1e-3, holdout=0.1)
    model = make_model(PushedMass(0.0), values, generator())
    data = Transitions(*transitions(300, generator(2)))
    assert fit(model, data, generator()).quality.model_error < 0.05
    assert (model.points.abs().sum(dim=-1) > 0).all()


@pytest.mark.parametrize("kind", ["gp", "rff", "qff"])
def test_a_system_without_noise_is_fitted_all_the_same(kind):
    """The likelihood wants no noise at all, which no Cholesky factor would survive."""
    values = settings(kind, hyperparameters="fitted", holdout=0.1, nodes=4, features=64)
    model = make_model(PushedMass(0.0), values, generator())
    report = fit(model, Transitions(*transitions(1500, generator(2))), generator())
    assert report.quality.model_error < 0.01
    assert (model.kernel.noise >= 1e-4).all()
    states, actions, _ = transitions(50, generator(3))
    assert model.predict(states, actions).epistemic.isfinite().all()
