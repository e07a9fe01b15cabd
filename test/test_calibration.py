"""Calibration against closed forms: claimed and observed coverage, and the scale between them."""

import math

import pytest
import torch
from linear_system import PushedMass, transitions
from searching import generator

from hucrl_ros.config.files import parse_config
from hucrl_ros.config.schema import Config, ModelSettings
from hucrl_ros.errors import ConfigError
from hucrl_ros.models import Transitions, evaluate, fit, make_model
from hucrl_ros.models.fit import (
    FEWEST,
    LEVELS,
    Residuals,
    calibration_error,
    epistemic_scale,
    held_out,
)


def gaussian(count, truth, claimed, aleatoric=0.0):
    """Errors of deviation `truth` where the model claims an epistemic one of `claimed`."""
    error = truth * torch.randn(count, 2, generator=generator(3))
    return Residuals(error, torch.full_like(error, claimed), torch.full_like(error, aleatoric))


def test_a_calibrated_model_has_no_error_and_keeps_its_scale():
    found = gaussian(4000, 0.3, 0.3)
    assert (calibration_error(found, torch.ones(2)) < 0.02).all()
    assert (epistemic_scale(found).log().abs() < 0.07).all()


def test_certainty_that_is_wrong_has_the_mean_level_as_error():
    found = gaussian(100, 1.0, 1e-5)
    torch.testing.assert_close(
        calibration_error(found, torch.ones(2)), LEVELS.mean().expand(2), atol=1e-3, rtol=0
    )


@pytest.mark.parametrize("factor", [0.3, 2.0, 6.0])
def test_the_scale_is_truth_over_claim(factor):
    found = gaussian(4000, 0.2 * factor, 0.2)
    scale = epistemic_scale(found)
    assert ((scale / factor).log().abs() < 0.1).all()
    assert (calibration_error(found, scale) < 0.03).all()


def test_entries_are_scaled_by_themselves():
    one, other = gaussian(2000, 0.5, 0.1), gaussian(2000, 0.1, 0.1)
    pairs = zip(one, other, strict=True)
    mixed = Residuals(*(torch.stack([a[:, 0], b[:, 1]], dim=-1) for a, b in pairs))
    scale = epistemic_scale(mixed)
    assert float(scale[0]) == pytest.approx(5.0, rel=0.15)
    assert float(scale[1]) == pytest.approx(1.0, rel=0.15)


def test_noise_that_explains_the_errors_leaves_the_scale_alone():
    found = gaussian(2000, 1.0, 1e-4, aleatoric=1.0)
    assert (epistemic_scale(found) == 1.0).all()


def test_recalibration_brings_coverage_to_its_claim():
    data = Transitions(*transitions(600, generator(1), noise=0.05))
    reports = []
    for recalibrate in (False, True):
        settings = ModelSettings(
            kind="deterministic_ensemble", layers=(16,), holdout=0.3, recalibrate=recalibrate
        )
        model = make_model(PushedMass(0.0), settings, generator())
        reports.append(fit(model, data, generator()))
    plain, better = reports
    assert plain.uncalibrated is None
    assert plain.epistemic_scale == 1.0
    assert better.uncalibrated == plain.quality  # The weights are the same.
    assert better.quality.calibration_error < 0.6 * plain.quality.calibration_error
    assert better.quality.model_error == pytest.approx(plain.quality.model_error, rel=0.02)
    assert better.epistemic_scale > 1.0
    away = held_out(600, 0.3)
    judges = data.part(away)
    # The model is used with the scale from all held-out transitions.
    assert evaluate(model, judges).calibration_error < plain.quality.calibration_error


def test_of_few_held_out_transitions_nothing_is_recalibrated():
    """Of one any scale comes out, and β with it."""
    all_of = {int(held_out(count, 0.25).sum()): count for count in range(60)}
    found = []
    for few in (FEWEST - 1, FEWEST):
        data = Transitions(*transitions(all_of[few], generator(1), noise=0.05))
        settings = ModelSettings(
            kind="deterministic_ensemble", layers=(16,), holdout=0.25, recalibrate=True
        )
        found.append(fit(make_model(PushedMass(0.0), settings, generator()), data, generator()))
    assert found[0].epistemic_scale == 1.0
    assert found[0].uncalibrated is None
    assert found[1].uncalibrated is not None


def test_the_scale_changes_what_is_doubted_and_nothing_else():
    model = make_model(PushedMass(0.0), ModelSettings(layers=(8,)), generator())
    states, actions, _ = transitions(5, generator())
    before = model.predict(states, actions)
    model.epistemic_scale.copy_(torch.tensor([2.0, 0.5]))
    after = model.predict(states, actions)
    assert torch.equal(after.mean, before.mean)
    assert torch.equal(after.aleatoric, before.aleatoric)
    torch.testing.assert_close(after.epistemic, before.epistemic * torch.tensor([2.0, 0.5]))
    torch.testing.assert_close(after.deviations, before.deviations * torch.tensor([2.0, 0.5]))


# Which transitions are held out


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 0.9])
def test_the_share_is_held_out_and_spread_evenly(share):
    away = held_out(1000, share)
    for part in away.split(100):
        assert abs(int(part.sum()) - 100 * share) <= 2
    assert not held_out(1, share)[0]


def test_what_was_held_out_once_is_held_out_for_ever():
    whole = held_out(1000, 0.1)
    for count in (1, 37, 400):
        assert torch.equal(held_out(count, 0.1), whole[:count])


# Combinations that make no sense


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"model": {"recalibrate": True, "holdout": 0.0}}, "model: recalibrate = true needs"),
        ({"exploration": {"schedule": "confidence"}}, "needs the information gain of a prior"),
        (
            {"model": {"kind": "gp"}, "exploration": {"covariance": "full"}},
            "needs outputs that may depend on each other, which model.kind = 'gp' doesn't promise",
        ),
        (
            {"model": {"kind": "auto"}, "exploration": {"covariance": "full"}},
            "which model.kind = 'auto' doesn't promise",
        ),
        (
            {"strategy": "thompson", "exploration": {"covariance": "full"}},
            "'thompson' draws from no",
        ),
        (
            {"exploration": {"covariance": "full"}, "control": {"engine": "compiled"}},
            "'compiled' doesn't know a full covariance",
        ),
        ({"model": {"features": 33}}, "model.features = 33"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(values, reason):
    with pytest.raises(ConfigError) as said:
        parse_config(values, "my.yaml")
    assert reason in str(said.value)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize("kind", ["gp", "rff", "qff"])
def test_a_confidence_schedule_suits_models_with_a_prior(kind):
    values = {"model": {"kind": kind}, "exploration": {"schedule": "confidence"}}
    assert parse_config(values, "my.yaml") != Config()
    assert math.isfinite(parse_config(values, "my.yaml").exploration.norm_bound)
