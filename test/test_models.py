"""Normaliser, ensemble and its fit: closed forms first, then what learning must achieve."""

import math

import pytest
import torch
from linear_system import LIMIT, PushedMass, next_state, transitions
from searching import generator

from hucrl_ros.config.schema import ModelSettings
from hucrl_ros.models import Ensemble, Transitions, evaluate, fit
from hucrl_ros.models.base import Normaliser
from hucrl_ros.models.ensemble import beta_nll
from hucrl_ros.models.fit import evaluate_episode, held_out
from hucrl_ros.tasks import make_task

NOISE = 0.05


def ensemble(task=None, seed=0, **settings):
    settings = {"heads": 3, "layers": (16, 16), **settings}
    return Ensemble(task or PushedMass(0.0), ModelSettings(**settings), generator(seed))


def parameters_equal(one, other, head):
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a[head], b[head]) for a, b in pairs)


def fitted(noise=0.0, seed=0, count=500, **settings):
    model = ensemble(seed=seed, **settings)
    report = fit(model, Transitions(*transitions(count, generator(7), noise)), generator(seed))
    return model, report


@pytest.fixture(scope="module")
def noisy_fit():
    return fitted(NOISE, heads=5, layers=(32, 32), learning_rate=3e-3)


# Normaliser


def test_normalised_data_has_mean_zero_and_deviation_one():
    data = torch.randn(200, 3, generator=generator()) * torch.tensor([0.1, 1.0, 50.0]) + 7.0
    normaliser = Normaliser(3)
    normaliser.fit(data)
    normalised = normaliser(data)
    torch.testing.assert_close(normalised.mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(normalised.std(dim=0, unbiased=False), torch.ones(3))
    torch.testing.assert_close(normaliser.inverse(normalised), data)


def test_mean_and_deviation_have_their_closed_form():
    normaliser = Normaliser(1)
    normaliser.fit(torch.tensor([[1.0], [3.0], [5.0], [7.0]]))
    assert float(normaliser.mean) == 4.0
    assert float(normaliser.std) == pytest.approx(math.sqrt(5.0))


@pytest.mark.parametrize("value", [0.0, 0.1, 3.3, 1000.1])
def test_a_constant_column_is_centred_and_not_scaled(value):
    normaliser = Normaliser(1)
    normaliser.fit(torch.full((360, 1), value))
    assert float(normaliser.std) == 1.0
    assert float(normaliser(torch.tensor([value + 0.5]))) == pytest.approx(0.5, abs=1e-3)


def test_a_constant_column_gets_the_deviation_that_is_given_instead():
    normaliser, data = Normaliser(2), torch.tensor([[1.0, 7.0], [3.0, 7.0]])
    normaliser.fit(data, instead=torch.tensor([0.5, 0.25]))
    assert normaliser.std.tolist() == [1.0, 0.25]


def test_an_unfitted_normaliser_changes_nothing():
    x = torch.randn(4, 2, generator=generator())
    assert torch.equal(Normaliser(2)(x), x)


def test_an_object_that_was_never_touched_stays_almost_where_it_is():
    task = make_task("pusher", 0.0)
    states = task.imagined_states(200, generator(1))
    following = states.clone()
    following[:, :14] += 0.01 * torch.randn(200, 14, generator=generator(2))
    efforts = torch.randn(200, 7, generator=generator(3))
    model = ensemble(task, fit_steps=20)
    fit(model, Transitions(states, efforts, following), generator())
    with torch.no_grad():
        belief = model.predict(states, efforts)
    away = (belief.mean - states)[:, 14:].abs() + belief.epistemic[:, 14:]
    assert float(away.max()) < 0.02  # [m], in a control period, before anything was learned


# Ensemble


@pytest.mark.parametrize("lead", [(), (1,), (7,), (2, 3, 4)])
def test_shapes_follow_the_leading_dimensions(lead):
    model = ensemble()
    belief = model.predict(torch.zeros(*lead, 2), torch.zeros(*lead, 1))
    assert belief.mean.shape == belief.epistemic.shape == belief.aleatoric.shape == (*lead, 2)
    assert belief.deviations.shape == (3, *lead, 2)


def test_a_state_is_predicted_alike_alone_and_in_a_batch():
    model = ensemble(make_task("pendulum", 0.2))
    states = make_task("pendulum", 0.2).imagined_states(12, generator(1))
    actions = 2.0 * torch.rand(12, 1, generator=generator(2)) - 1.0
    batch = model.predict(states, actions)
    grid = model.predict(states.reshape(3, 4, 2), actions.reshape(3, 4, 1))
    for whole, reshaped in zip(batch[:3], grid[:3], strict=True):
        torch.testing.assert_close(reshaped.reshape(12, 2), whole)
    for row in (0, 5, 11):
        alone = model.predict(states[row], actions[row])
        for one, whole in zip(alone[:3], batch[:3], strict=True):
            torch.testing.assert_close(one, whole[row])


def test_initial_weights_depend_on_the_generator_alone():
    one, same, other = ensemble(seed=1), ensemble(seed=1), ensemble(seed=2)
    assert all(parameters_equal(one, same, head) for head in range(3))
    assert not parameters_equal(one, other, 0)
    assert not torch.equal(one.heads.weights[0][0], one.heads.weights[0][1])  # heads differ


def test_deviations_have_their_definition():
    model = ensemble()
    model.targets.fit(torch.randn(50, 2, generator=generator(3)) * torch.tensor([0.2, 3.0]))
    states, actions, _ = transitions(9, generator(4))
    belief = model.predict(states, actions)
    inputs = model.network_inputs(states, actions)
    means, stds = model.gaussians(inputs)
    heads = model.without_change(states) + model.targets.inverse(means)
    torch.testing.assert_close(belief.mean + math.sqrt(3) * belief.deviations, heads)
    torch.testing.assert_close(belief.mean, (heads[0] + heads[1] + heads[2]) / 3)
    torch.testing.assert_close(belief.epistemic, heads.std(dim=0, unbiased=False))
    mean_square = (stds[0] ** 2 + stds[1] ** 2 + stds[2] ** 2) / 3
    torch.testing.assert_close(belief.aleatoric, mean_square.sqrt() * model.targets.std)


def test_noise_never_falls_below_its_least_value():
    model = ensemble(min_aleatoric_std=0.25)
    with torch.no_grad():
        model.heads.biases[-1].fill_(-100.0)
    belief = model.predict(*transitions(5, generator())[:2])
    torch.testing.assert_close(belief.aleatoric, torch.full((5, 2), 0.25))


def test_a_head_answers_by_its_own_weights_alone():
    model, changed = ensemble(), ensemble()
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter[1] += 0.3
    states, actions, _ = transitions(8, generator())
    before, after = (m.gaussians(m.network_inputs(states, actions))[0] for m in (model, changed))
    assert torch.equal(before[[0, 2]], after[[0, 2]])
    assert (before[1] - after[1]).abs().min() > 1e-4


def test_gradients_are_those_of_finite_differences():
    model = ensemble(make_task("pendulum", 0.2), layers=(8,)).double()
    states = make_task("pendulum", 0.2).imagined_states(4, generator(1)).double()
    actions = torch.rand(4, 1, generator=generator(2)).double()
    inputs = (states.requires_grad_(), actions.requires_grad_())
    assert torch.autograd.gradcheck(lambda *given: model.predict(*given)[:3], inputs)


def test_one_head_is_certain_and_still_has_finite_gradients():
    model = ensemble(heads=1)
    states = torch.zeros(3, 2, requires_grad=True)
    belief = model.predict(states, torch.zeros(3, 1))
    assert torch.equal(belief.epistemic, torch.zeros(3, 2))
    (belief.mean + belief.epistemic).sum().backward()
    assert states.grad.isfinite().all()


# Loss and judgement


def test_the_loss_is_the_likelihood_times_the_deviation():
    mean, std, target = torch.tensor([[1.0]]), torch.tensor([[0.5]]), torch.tensor([[2.0]])
    expected = 0.5 * (0.5 * (1.0 / 0.5) ** 2 + math.log(0.5))
    assert float(beta_nll(mean, std, target)) == pytest.approx(expected)


def test_a_known_prediction_is_judged_by_closed_forms():
    model = ensemble(heads=2, layers=(4,), min_aleatoric_std=1e-9)
    softplus_is_one = math.log(math.e - 1.0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        # Changes of 1 and 3 of normalised deviation 1: mean 2, epistemic 1.
        model.heads.biases[-1][0, 0] = torch.tensor([1.0, 1.0, softplus_is_one, softplus_is_one])
        model.heads.biases[-1][1, 0] = torch.tensor([3.0, 3.0, softplus_is_one, softplus_is_one])
        model.targets.std.fill_(0.5)
    states = torch.zeros(4, 2)
    errors = torch.tensor([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0], [2.0, 2.0]])
    following = 1.0 + errors  # the predicted mean is 2 · 0.5
    report = evaluate(model, Transitions(states, torch.zeros(4, 1), following))
    squares = [0.0, 1.0, 4.0, 16.0]  # errors of 0, 1, 2, 4 target deviations
    variance = 1.0 + 1.0
    nll = [0.5 * s / variance + 0.5 * math.log(2 * math.pi * variance) for s in squares]
    assert report.model_error == pytest.approx(math.sqrt(sum(squares) / 4))
    assert report.nll == pytest.approx(sum(nll) / 4)
    assert report.coverage == pytest.approx(3 / 4)  # two deviations are 2 √2


# Fit


def test_a_linear_system_is_learned_to_a_few_percent():
    model, report = fitted(layers=(32, 32), learning_rate=3e-3)
    assert report.quality.model_error < 0.05  # [standard deviations of the targets]
    states, actions, following = transitions(200, generator(11), scale=0.9)
    mean = model.predict(states, 0.9 * actions).mean
    expected = next_state(states, 0.9 * actions)
    assert (mean - expected).abs().max() < 0.2 * (following - states).std()


def test_joints_go_on_at_their_velocities_where_nothing_was_seen():
    """That a position follows from its velocity is no network's to learn, or to doubt."""
    states, actions, _ = transitions(200, generator(1), scale=0.2)
    actions, period = 0.02 * actions, PushedMass(0.0).spec.period
    velocities = states[:, 1:] + period * actions
    following = torch.cat([states[:, :1] + period * velocities, velocities], dim=1)
    fast = torch.tensor([[0.0, 5.0]])
    found = {}
    for coasts in (True, False):
        model = ensemble(layers=(32, 32), learning_rate=3e-3)
        if not coasts:
            model.coast.zero_()
        fit(model, Transitions(states, actions, following), generator())
        with torch.no_grad():
            found[coasts] = model.predict(fast, torch.zeros(1, 1))
    error = {k: (belief.mean[0, 0] - 5.0 * period).abs() for k, belief in found.items()}
    assert error[True] < 0.2 * error[False]
    assert found[True].epistemic[0, 0] < 0.2 * found[False].epistemic[0, 0]


def test_where_velocities_tell_nothing_of_positions_whole_changes_are_predicted():
    """As of legs that turn round within a period: nothing else is learned than without them."""
    states, actions, following = transitions(200, generator(1))
    states[:, 1] = -states[:, 1]
    means = []
    for period in (PushedMass(0.0).spec.period, 0.0):
        model = ensemble()
        model.coast.fill_(period)
        fit(model, Transitions(states, actions, following), generator())
        assert model.coast == 0
        means.append(model.predict(states, actions).mean)
    assert torch.equal(*means)
    states[:, 1] = -states[:, 1]  # Weights that go on know whole changes.
    fit(model, Transitions(states, actions, following), generator())
    assert model.coast == 0


def test_rounding_is_nothing_to_learn_where_joints_do_what_their_velocities_say():
    states, actions, _ = transitions(200, generator(1))
    states[:, 0] += 3.0
    period = PushedMass(0.0).spec.period
    positions = states[:, 0] + period * states[:, 1]
    positions[::2] = torch.nextafter(positions[::2], torch.tensor(9.0))
    following = torch.stack([positions, states[:, 1] + period * actions[:, 0]], dim=1)
    model = ensemble()
    fit(model, Transitions(states, actions, following), generator())
    mean = model.predict(states, actions).mean[:, 0]
    assert 1e-7 < model.targets.std[0] < 1e-5
    assert ((positions - mean) / model.targets.std[0]).square().mean().sqrt() < 0.3


def test_noise_is_recovered(noisy_fit):
    model, report = noisy_fit
    states, actions, _ = transitions(300, generator(12), scale=0.9)
    aleatoric = model.predict(states, actions).aleatoric.mean(dim=0)
    assert (aleatoric > NOISE / 1.4).all()
    assert (aleatoric < NOISE * 1.4).all()
    assert 0.85 < report.quality.coverage <= 1.0


def test_heads_agree_at_the_data_and_disagree_far_from_it(noisy_fit):
    model, _ = noisy_fit
    states, actions, _ = transitions(300, generator(13))
    near = model.predict(states, actions).epistemic.mean(dim=0)
    far = model.predict(8.0 * states.sign() + states, actions).epistemic.mean(dim=0)
    assert (near < NOISE).all()
    assert (far > 5.0 * near).all()


def test_a_fit_depends_on_data_and_generator_alone():
    reports, weights = [], []
    for seed in (3, 3, 4):
        model = ensemble(fit_steps=10)
        reports.append(fit(model, Transitions(*transitions(60, generator(1))), generator(seed)))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    assert reports[0] == reports[1]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_fit_trains_each_head_by_itself():
    data = Transitions(*transitions(60, generator(1)))
    model, changed = ensemble(fit_steps=10), ensemble(fit_steps=10)
    with torch.no_grad():
        for parameter in changed.parameters():
            parameter[1] += 0.3
    for each in (model, changed):
        fit(each, data, generator(2))
    assert parameters_equal(model, changed, 0)
    assert parameters_equal(model, changed, 2)
    assert not parameters_equal(model, ensemble(), 0)


@pytest.mark.parametrize("bootstrap", [True, False])
def test_a_head_learns_nothing_from_what_its_bootstrap_left_out(bootstrap):
    settings = {"heads": 8, "bootstrap": bootstrap, "holdout": 0.0, "fit_steps": 3}
    model, before = ensemble(**settings), ensemble(**settings)
    weights = model.heads.bootstrap(1).flatten()
    assert bool((weights == 0).any()) == bootstrap
    assert (weights > 0).any()
    fit(model, Transitions(*transitions(1, generator(1))), generator(5))
    unmoved = [parameters_equal(model, before, head) for head in range(8)]
    assert unmoved == [bool(weight == 0) for weight in weights]


def test_a_transition_keeps_its_weights_when_more_come():
    heads = ensemble(heads=4).heads
    weights = heads.bootstrap(4000)
    assert torch.equal(heads.bootstrap(300), weights[:, :300])
    assert not torch.equal(ensemble(heads=4, seed=1).heads.bootstrap(300), weights[:, :300])
    # Poisson(1): mean and variance are 1, and heads are independent.
    assert weights.mean() == pytest.approx(1.0, abs=0.03)
    assert weights.var() == pytest.approx(1.0, abs=0.05)
    assert torch.corrcoef(weights).triu(1).abs().max() < 0.06


def test_a_transition_that_a_head_was_denied_stays_unknown_to_it():
    """One point far away, in many fits: heads without it don't learn of it (fault D1)."""
    states, actions, following = transitions(60, generator(1), scale=0.2)
    states[30, 0], following[30] = 2.0, torch.tensor([2.0, 3.0])
    data = Transitions(states, actions, following)
    settings = {"heads": 8, "holdout": 0.0, "fit_steps": 100, "learning_rate": 3e-3}
    model = ensemble(prior_scale=0.0, **settings)
    for seed in range(6):
        fit(model, data, generator(seed))
    inputs = model.network_inputs(states[30:31], actions[30:31])
    target = model.targets(following[30:31] - model.without_change(states[30:31]))
    errors = (model.gaussians(inputs)[0] - target).abs().amax(dim=(1, 2))
    denied = model.heads.bootstrap(60)[:, 30] == 0
    assert 0 < denied.sum() < 8
    assert errors[denied].min() > 2.0 * errors[~denied].max()


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_prior_has_its_deviation_and_no_fit_changes_it(decay):
    units = {"layers": (16, 16), "prior_units": 8, "prior_scale": 0.3}
    model = ensemble(heads=4, fit_steps=50, weight_decay=decay, **units)
    data = Transitions(*transitions(100, generator(1)))
    inputs = torch.randn(4000, 3, generator=generator(2))

    def prior():
        with torch.no_grad():
            hidden = inputs
            for weight, bias in zip(
                model.heads.weights[:-1], model.heads.biases[:-1], strict=True
            ):
                fan_in = hidden.shape[-1]
                hidden = torch.nn.functional.silu(
                    hidden @ weight[:, -fan_in:, -8:] + bias[..., -8:]
                )
            return hidden @ model.heads.weights[-1][:, -8:]

    before = prior()
    fit(model, data, generator(3))
    assert torch.equal(prior(), before)
    means, stds = before.chunk(2, dim=-1)
    torch.testing.assert_close(means.std(dim=1), torch.full((4, 2), 0.3), rtol=0.15, atol=0.0)
    assert not stds.any()
    # Its part of the network neither sees nor feeds hidden units that learn.
    middle = model.heads.weights[1]
    assert not middle[:, :16, 16:].any()
    assert not middle[:, 16:, :16].any()


@pytest.mark.parametrize("units", [1, 2])
def test_a_prior_of_few_rectified_units_is_a_function_too(units):
    inputs, layers = torch.randn(2000, 3, generator=generator(1)), (8, 8)
    for seed in range(20):
        settings = {"activation": "relu", "layers": layers, "heads": 5, "seed": seed}
        plain, other = (
            ensemble(prior_units=units, prior_scale=scale, **settings) for scale in (0.0, 0.3)
        )
        with torch.no_grad():
            prior = other.heads(inputs) - plain.heads(inputs)
        assert prior.isfinite().all()
        assert prior[..., :2].std(dim=1).min() > 0.0


def test_heads_with_a_prior_stay_apart_where_there_are_no_data():
    data = Transitions(*transitions(300, generator(1)))
    states = 6.0 + transitions(200, generator(2))[0]
    actions = torch.zeros(200, 1)
    settings = {"heads": 5, "layers": (32, 32), "fit_steps": 300, "learning_rate": 3e-3}
    spread = {}
    for scale in (0.0, 0.5):
        model = ensemble(prior_scale=scale, **settings)
        for seed in range(3):
            report = fit(model, data, generator(seed))
        with torch.no_grad():
            far = (model.predict(states, actions).epistemic / model.targets.std).mean()
        assert report.quality.model_error < 0.05
        spread[scale] = float(far)
    assert spread[0.5] > 1.5 * spread[0.0]


def test_a_hundred_heads_are_trained_in_one_pass_a_step(monkeypatch):
    model, calls = ensemble(heads=100, layers=(8,), fit_steps=40, learning_rate=1e-2), []
    data = Transitions(*transitions(100, generator(1)))
    inputs = model.network_inputs(data.states, data.actions)
    before = model.gaussians(inputs)[0].detach()
    forward = type(model.heads).forward
    monkeypatch.setattr(
        type(model.heads), "forward", lambda self, x: calls.append(x.shape) or forward(self, x)
    )
    model.learn(inputs, data.next_states - data.states, generator(), lambda share: None)
    assert calls == [(100, 100, 3)] * 40
    target = data.next_states - data.states
    errors = [
        ((means - target) ** 2).mean(dim=(1, 2)) for means in (before, model.gaussians(inputs)[0])
    ]
    assert (errors[1] < errors[0]).sum() >= 95  # Each by itself.


def test_equal_heads_stay_equal_without_a_bootstrap_on_one_transition():
    model = ensemble(bootstrap=False, holdout=0.0, fit_steps=5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter[1:] = parameter[:1]
    states, actions, following = transitions(1, generator(1))
    fit(model, Transitions(states, actions, following), generator())
    heads = model.gaussians(model.network_inputs(states, actions))[0]
    assert torch.equal(heads[0], heads[1])
    assert torch.equal(heads[0], heads[2])


def test_held_out_transitions_do_not_enter_the_normalisation():
    states, actions, following = transitions(20, generator(1))
    away = held_out(20, 0.25)
    assert int(away.sum()) in (4, 5)
    following[away] += 1e3
    model = ensemble(holdout=0.25, fit_steps=1)
    report = fit(model, Transitions(states, actions, following), generator(6))
    assert (model.targets.std < 10.0 * LIMIT).all()
    assert report.quality.model_error > 10.0


def test_progress_of_a_fit_goes_from_the_first_step_to_all():
    shares = []
    fit(
        ensemble(fit_steps=4),
        Transitions(*transitions(20, generator(1))),
        generator(),
        shares.append,
    )
    assert shares == [0.25, 0.5, 0.75, 1.0]


# What an episode tells


def test_an_episode_is_accounted_for_under_the_model_from_before_it():
    model = ensemble()
    model.targets.std.copy_(torch.tensor([0.5, 2.0]))
    states, actions, following = transitions(9, generator(4))
    belief = model.predict(states, actions)
    found = evaluate_episode(model, Transitions(states, actions, following))
    error = (following - belief.mean) / torch.tensor([0.5, 2.0])
    assert found.surprise == pytest.approx(float((error**2).mean().sqrt()), rel=1e-5)
    assert found.complexity == pytest.approx(float((belief.epistemic**2).sum()), rel=1e-5)


def test_a_new_episode_surprises_more_than_held_out_neighbours():
    """Why both are reported: the fit has seen what surrounds a held-out transition."""
    model = ensemble(layers=(32, 32), learning_rate=3e-3)
    report = fit(model, Transitions(*transitions(500, generator(7), scale=0.5)), generator())
    elsewhere = Transitions(*transitions(200, generator(8), scale=2.0))
    assert evaluate_episode(model, elsewhere).surprise > 2.0 * report.quality.model_error
