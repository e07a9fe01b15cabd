"""Transitions that count less than others: in closed form, for each model."""

import numpy as np
import pytest
import torch
from linear_system import PushedMass
from searching import generator
from test_gaussian_process import problem

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models import Transitions, evaluate, fit, make_model
from hucrl_ros.models.base import Normaliser
from hucrl_ros.models.ensemble import Heads

RATIO, LENGTH = 0.1, 1.5
KERNELS = ["gp", "rff", "qff"]
ALL = [*KERNELS, "probabilistic_ensemble", "deterministic_ensemble"]


def model_of(kind, **changes):
    values = {
        "kind": kind,
        "hyperparameters": "fixed",
        "lengthscale": LENGTH,
        "noise_ratio": RATIO,
        "max_points": 60,
        "features": 64,
        "nodes": 4,
        "holdout": 0.0,
        "heads": 2,
        "layers": (8,),
        "fit_steps": 20,
    }
    return make_model(PushedMass(0.0), ModelSettings(**{**values, **changes}), generator())


def learned(kind, inputs, targets, weights=None, **changes):
    model = model_of(kind, **changes)
    model.learn(inputs, targets, generator(), lambda share: None, weights)
    return model


def transitions(count, seed=1, weights=None):
    """Of a pushed mass whose velocity changes by a tenth of the effort."""
    states = torch.randn(count, 2, generator=generator(seed))
    efforts = 2.0 * torch.rand(count, 1, generator=generator(seed + 1)) - 1.0
    change = torch.cat([0.1 * states[:, 1:], 0.1 * efforts], dim=-1)
    return Transitions(states, efforts, states + change, weights)


def same(one, other, **tolerance):
    queries = problem(9, seed=5)[0]
    for found, expected in zip(
        one.predict_normalised(queries)[:3], other.predict_normalised(queries)[:3], strict=True
    ):
        torch.testing.assert_close(found, expected, **tolerance)


# Kernel models


def test_the_weighted_posterior_is_that_of_points_with_more_noise():
    (inputs, targets), queries = problem(20), problem(7, seed=5)[0]
    weights = 0.05 + torch.rand(20, generator=generator(3))
    belief = learned("gp", inputs, targets, weights).predict_normalised(queries)

    def kernel(a, b):
        a, b = a.double().numpy(), b.double().numpy()
        return np.exp(-0.5 * ((a[:, None] - b[None]) ** 2).sum(-1) / LENGTH**2)

    w, y = weights.double().numpy(), targets.double().numpy()
    inverse = np.linalg.inv(kernel(inputs, inputs) + np.diag(RATIO**2 / w))
    cross = kernel(queries, inputs)
    variance = 1.0 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    prior = np.array([y[:, i] @ inverse @ y[:, i] / w.sum() for i in range(2)])
    np.testing.assert_allclose(belief.mean, cross @ inverse @ y, atol=1e-5)
    np.testing.assert_allclose(belief.epistemic**2, variance[:, None] * prior, rtol=1e-4)


def test_a_weighted_linear_model_has_the_textbooks_posterior():
    (inputs, targets), queries = problem(40), problem(7, seed=5)[0]
    weights = 0.05 + torch.rand(40, generator=generator(3))
    model = learned("rff", inputs, targets, weights)
    phi, at = (model.features(x, model.kernel)[0].double().numpy() for x in (inputs, queries))
    w = weights.double().numpy()[:, None]
    covariance = np.linalg.inv(phi.T @ (w * phi) / RATIO**2 + np.eye(phi.shape[1]))
    mean = at @ covariance @ (phi.T @ (w * targets.double().numpy())) / RATIO**2
    belief = model.predict_normalised(queries)
    np.testing.assert_allclose(belief.mean, mean, atol=1e-4)
    deviation = np.sqrt(np.einsum("ij,jk,ik->i", at, covariance, at))
    ratio = belief.epistemic.double().numpy() / deviation[:, None]
    np.testing.assert_allclose(ratio, np.broadcast_to(model.prior_std, ratio.shape), rtol=1e-3)


@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("hyperparameters", ["fixed", "fitted"])
def test_k_points_of_weight_1_over_k_are_one_point(kind, hyperparameters):
    inputs, targets = problem(15)
    once = learned(kind, inputs, targets, hyperparameters=hyperparameters)
    thrice = learned(
        kind,
        inputs.repeat(3, 1),
        targets.repeat(3, 1),
        torch.full((45,), 1.0 / 3.0),
        hyperparameters=hyperparameters,
    )
    same(thrice, once, rtol=1e-2, atol=2e-4)
    assert thrice.information_gain == pytest.approx(once.information_gain, rel=1e-3)


@pytest.mark.parametrize("kind", KERNELS)
def test_less_weight_leaves_more_doubt(kind):
    inputs, targets = problem(30)
    gains = [
        learned(kind, inputs, targets, torch.full((30,), weight)).information_gain
        for weight in (1.0, 0.1, 0.01)
    ]
    assert gains[0] > gains[1] > gains[2] > 0.0


def test_functions_drawn_from_a_weighted_process_scatter_as_it_predicts():
    inputs, targets = problem(12)
    weights = torch.tensor([1.0, 0.02]).repeat(6)
    model = learned("gp", inputs, targets, weights, features=512)
    belief, draws = model.predict_normalised(inputs), generator(4)
    drawn = []
    for _ in range(600):
        model.draw(draws)
        drawn.append(model.sample_normalised(inputs).mean)
    torch.testing.assert_close(torch.stack(drawn).std(0), belief.epistemic, rtol=0.2, atol=0.01)


def test_of_two_points_at_one_place_the_weightier_one_is_kept():
    inputs = problem(10)[0].double().repeat(2, 1)
    weights = torch.cat([torch.full((10,), 0.1), torch.ones(10)]).double()
    assert model_of("gp").farthest(inputs, 10, weights).tolist() == list(range(10, 20))


# All models


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("hyperparameters", ["fixed", "fitted"])
def test_weights_of_1_change_no_bit(kind, hyperparameters):
    inputs, targets = problem(80)
    plain = learned(kind, inputs, targets, hyperparameters=hyperparameters)
    ones = learned(kind, inputs, targets, torch.ones(80), hyperparameters=hyperparameters)
    same(ones, plain, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ALL)
def test_weight_0_is_absence(kind):
    weights = torch.ones(60)
    weights[::3] = 0.0
    data = transitions(60, weights=weights)
    present = data.part(weights > 0)._replace(weights=None)
    models = [model_of(kind, holdout=0.2) for _ in range(2)]
    reports = [fit(m, d, generator(2)) for m, d in zip(models, (data, present), strict=True)]
    same(*models, rtol=1e-4, atol=1e-5)
    assert reports[0].quality.model_error == pytest.approx(
        reports[1].quality.model_error, rel=1e-3
    )


def test_the_optimum_of_an_ensembles_loss_is_the_weighted_mean():
    settings = ModelSettings(heads=2, layers=(4,), bootstrap=False, learning_rate=0.05)
    heads = Heads([1, 4, 1], 1, settings, generator())
    targets, weights = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([1.0, 0.25, 0.5])
    inputs = torch.zeros(3, 1)

    def loss(output, target):
        return 0.5 * ((output - target) ** 2).sum(dim=-1)

    heads.learn(inputs, targets, loss, generator(), lambda share: None, weights)
    expected = float((weights[:, None] * targets).sum() / weights.sum())
    found = heads(inputs[:1]).detach().flatten()
    assert found.tolist() == pytest.approx([expected] * 2, abs=0.1)
    assert abs(expected - float(targets.mean())) > 0.3  # so that it tells


def test_a_normaliser_takes_the_weighted_mean_and_deviation():
    normaliser = Normaliser(1)
    normaliser.fit(torch.tensor([[1.0], [3.0], [7.0]]), weights=torch.tensor([0.5, 0.25, 0.25]))
    assert normaliser.mean.tolist() == [3.0]
    assert normaliser.std.tolist() == pytest.approx([6.0**0.5])


@pytest.mark.parametrize("value", [0.0, 3.7, -1e6])
def test_a_weighted_constant_column_is_no_deviation(value):
    normaliser = Normaliser(1)
    normaliser.fit(
        torch.full((360, 1), value), weights=torch.rand(360, generator=generator()) + 0.1
    )
    assert normaliser.std.tolist() == [1.0]


def test_held_out_transitions_of_the_robot_itself_judge_the_model_once_there_are_some():
    weights = torch.full((80,), 0.1)
    other = transitions(80, weights=weights)
    other = other._replace(next_states=other.next_states + torch.tensor([0.0, 0.5]))
    model = model_of("rff", holdout=0.25)
    before = fit(model, other, generator()).quality
    assert before.model_error < 0.5  # of the other's own
    own = transitions(80, seed=7, weights=torch.ones(80))
    both = Transitions(*(torch.cat(pair) for pair in zip(other, own, strict=True)))
    report = fit(model, both, generator()).quality
    held = evaluate(model, own)  # seen ones as well, so only about as good
    assert report.model_error == pytest.approx(held.model_error, rel=0.5)
    assert evaluate(model, other).model_error > 3.0 * report.model_error
