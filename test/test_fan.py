"""Fans: the kernel, the graphs and torch follow an action and a backup to the same places."""

import numpy as np
import pytest
import torch
from bundle_factory import STRATEGIES, learned, shake
from bundle_factory import write_bundle as write

from hucrl_ros.benchmarks.synthetic import untrained_bundle
from hucrl_ros.config.schema import ExplorationSettings, ModelSettings
from hucrl_ros.controller.backup import Backup, Joints, backups
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.controller.engines import kernel
from hucrl_ros.controller.engines.compiled_fan import CompiledFans
from hucrl_ros.controller.engines.engine import make_fans
from hucrl_ros.controller.engines.fan import GraphFans, noise_shares

HORIZON, BETA = 6, 1.5
STATE = np.array([2.0, -0.7])
FIRST = np.array([[0.9], [-0.2]])
PATTERNS = np.array([[1.0, 1.0], [-1.0, -1.0], [0.0, 1.0]])
BACKUP = Backup(
    np.array([[0.4]]), np.array([[0.15]]), np.array([0.3]), np.array([0.1]), np.zeros((1, 1))
)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    shake(learned(), seed=5)
    return load_bundle(write(tmp_path_factory.mktemp("fan") / "bundle"))


def joints_of(bundle):
    return Joints(bundle.manifest.spec, bundle.manifest.angles)


def limits_of(bundle):
    return np.asarray(bundle.manifest.spec.effort_limits)


def shares_of(states):
    """The backup in torch: what networks see of an angle are its cosine and sine."""
    away = torch.sin(states[:, :1] - 0.3)
    return (0.1 - 0.4 * away - 0.15 * states[:, 1:]).clamp(-1.0, 1.0)


def followed(first, following):
    """States `(C, H + 1, 2)` of first actions, then of the backup, by `following(s, u, t)`."""
    states = [torch.tensor(STATE, dtype=torch.float32).expand(len(first), 2)]
    shares = torch.tensor(first, dtype=torch.float32)
    for t in range(HORIZON):
        states.append(following(states[-1], shares, t))
        shares = shares_of(states[-1])
    return torch.stack(states, dim=1).detach().numpy()


def test_each_head_is_followed_along_its_own_trajectory(bundle):
    modules = learned()
    model, limits = modules.model, torch.tensor(modules.task.spec.effort_limits)

    def of_head(head):
        def following(states, shares, t):
            means, _ = model.gaussians(model.network_inputs(states, shares * limits))
            return model.without_change(states) + model.targets.inverse(means[head])

        return following

    fans = CompiledFans(bundle.networks, HORIZON, joints_of(bundle), limits_of(bundle))
    fan = fans(STATE, FIRST, BACKUP, PATTERNS, BETA)
    assert fan.states.shape == (2, 3 + 3, HORIZON + 1, 2)
    for head in range(3):
        expected = followed(FIRST, of_head(head))
        np.testing.assert_allclose(fan.states[:, head], expected, 2e-4, 2e-4)
    believed = fans(STATE, FIRST, BACKUP, PATTERNS, 0.0)
    assert believed.states.shape[1] == 3, "at β = 0 the mean is believed, no head is asked"


@pytest.mark.parametrize("kind", ["compiled", "graph"])
def test_eta_and_noise_push_the_mean_as_torch_says(bundle, kind):
    modules = learned()
    limits = torch.tensor(modules.task.spec.effort_limits)
    noise = noise_shares(HORIZON)
    fans = make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), kind == "compiled")
    assert isinstance(fans, CompiledFans if kind == "compiled" else GraphFans)
    fan = fans(STATE, FIRST, BACKUP, PATTERNS, BETA)
    for number, pattern in enumerate(PATTERNS):
        signs = torch.tensor(pattern, dtype=torch.float32)

        def following(states, shares, t, signs=signs):
            belief = modules.model.predict(states, shares * limits)
            return belief.mean + signs * (
                BETA * belief.epistemic + float(noise[t]) * belief.aleatoric
            )

        lane = number + (3 if kind == "compiled" else 0)
        expected = followed(FIRST, following)
        np.testing.assert_allclose(fan.states[:, lane], expected, 2e-4, 2e-4)


def test_actions_are_what_was_applied(bundle):
    fans = make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), True)
    fan = fans(STATE, np.array([[1.7]]), BACKUP, PATTERNS, BETA)
    assert np.all(fan.actions[:, :, 0] == 1.0)
    expected = shares_of(torch.as_tensor(fan.states[0, 0, 1:-1])).numpy()
    np.testing.assert_allclose(fan.actions[0, 0, 1:], expected, 1e-4, 1e-4)


SMALL = {
    "probabilistic_ensemble": {"layers": (8,), "heads": 2},
    "deterministic_ensemble": {"layers": (8,), "heads": 2},
    "rff": {"features": 32},
    "gp": {},
}


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize("task", ["pendulum", "cartpole", "reacher"])
def test_every_model_has_fans_and_they_agree(tmp_path, kind, task):
    settings = ModelSettings(kind=kind, **SMALL[kind])
    agree(untrained_bundle(tmp_path / "bundle", task, settings))


SHARED = ExplorationSettings(hallucinate="shared", beta=0.1, beta_floor=0.1)


@pytest.mark.parametrize("kind", SMALL)
@pytest.mark.parametrize(
    ("strategy", "exploration"),
    [
        *((name, ExplorationSettings()) for name in STRATEGIES),
        *((name, SHARED) for name in ("optimistic", "opax")),
        ("optimistic", ExplorationSettings(hallucinate="total")),
    ],
)
def test_fans_doubt_alike_whatever_the_plan_believes(tmp_path, strategy, exploration, kind):
    """What is safe is asked of the whole model, not of what a strategy imagines with it."""
    settings = ModelSettings(kind=kind, **SMALL[kind])
    of_plan, of_model = (
        untrained_bundle(
            tmp_path / name, "pendulum", settings, strategy=name, exploration=exploration
        )
        for name in (strategy, "optimistic")
    )
    assert of_plan.networks is not None
    spread = agree(of_plan)
    assert spread > 0.0
    assert spread == pytest.approx(agree(of_model), rel=1e-2)


def agree(bundle):
    """Check that both engines imagine the same; how far η leads their trajectories apart."""
    spec = bundle.manifest.spec
    rng = np.random.default_rng(0)
    state = 0.1 * rng.standard_normal(spec.state_dim)
    first = rng.uniform(-1.0, 1.0, (2, spec.action_dim))
    patterns = np.sign(rng.standard_normal((3, spec.predicted_dim)))
    joints = joints_of(bundle)
    limits = np.asarray(spec.effort_limits)

    def expect(states, shares):
        inputs = {
            "state": states.astype(np.float32),
            "action": (shares * limits).astype(np.float32),
        }
        return bundle.run("dynamics", **inputs)[0].astype(float)

    spread = 0.0
    for backup in backups(spec, joints, state, state[joints.positions], expect, limits):
        for beta in (BETA, 0.0):
            found, graph = (
                make_fans(bundle, HORIZON, joints, limits, compiled)(
                    state, first, backup, patterns, beta
                )
                for compiled in (True, False)
            )
            lanes = found.states[:, -len(patterns) :]
            np.testing.assert_allclose(lanes, graph.states, 5e-3, 5e-3)
            assert np.isfinite(found.states).all()
            spread = max(spread, float(np.ptp(lanes, axis=1).max()))
    return spread


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "graph"])
def test_actions_change_no_faster_than_their_rate(bundle, compiled):
    rate, first, swift = 0.05, np.array([[0.9], [-0.9]]), BACKUP._replace(bias=np.array([-0.5]))
    found = make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), compiled, rate)
    free, held = (
        make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), compiled, each)
        for each in (np.inf, 2.0)
    )
    fan = found(STATE, first, swift, PATTERNS, BETA)
    steps = np.diff(fan.actions[..., 0], axis=2)
    assert abs(steps).max() <= rate + 1e-6
    np.testing.assert_allclose(
        fan.actions[0, :, :, 0], [0.9 - rate * np.arange(HORIZON)] * len(steps[0]), 1e-5
    )
    expected = free(STATE, first, swift, PATTERNS, BETA)
    assert abs(np.diff(expected.actions[..., 0], axis=2)).max() > 1.0
    same = held(STATE, first, swift, PATTERNS, BETA)
    np.testing.assert_array_equal(same.states, expected.states)
    # What is applied is what moves the robot.
    slow = BACKUP._replace(stiffness=np.zeros((1, 1)), damping=np.zeros((1, 1)))
    ramp = found(STATE, np.array([[0.1]]), slow._replace(bias=np.array([1.0])), PATTERNS, BETA)
    fixed = free(STATE, np.array([[0.1]]), slow, PATTERNS, BETA)
    assert abs(ramp.states[:, :, 2:] - fixed.states[:, :, 2:]).max() > 1e-3


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "graph"])
def test_eta_begins_where_it_has_led_and_the_backup_does_not_see_it(bundle, compiled):
    """As from there, by a backup that takes the robot for being where it was predicted."""
    fans = make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), compiled)
    away, joints, gentle = np.array([[0.02, -0.3]]), joints_of(bundle), 0.1
    backup = BACKUP._replace(stiffness=np.zeros((1, 1)))  # what a sine hides isn't linear
    fan = fans(STATE, gentle * FIRST, backup, PATTERNS[:1], BETA, away)
    np.testing.assert_allclose(fan.states[:, -1, 0], np.tile(STATE + away, (2, 1)), 1e-6)
    missed = joints.shares(backup, STATE) - joints.shares(backup, STATE + away[0])
    blind = backup._replace(bias=backup.bias + missed)
    expected = fans(STATE + away[0], gentle * FIRST, blind, PATTERNS[:1], BETA)
    assert abs(missed) > 0.04
    np.testing.assert_allclose(fan.states[:, -1], expected.states[:, -1], 1e-4, 1e-4)
    np.testing.assert_allclose(fan.actions[:, -1], expected.actions[:, -1], 1e-4, 1e-4)
    nowhere = fans(STATE, FIRST, BACKUP, PATTERNS, BETA, np.zeros((3, 2)))
    usual = fans(STATE, FIRST, BACKUP, PATTERNS, BETA)
    np.testing.assert_array_equal(nowhere.states, usual.states)


def test_heads_begin_where_each_believes_that_commands_lead(bundle):
    """By what each says of a period of its own, as torch does, and unseen by the backup."""
    modules = learned()
    model, limits = modules.model, torch.tensor(modules.task.spec.effort_limits)
    fans = CompiledFans(bundle.networks, HORIZON, joints_of(bundle), limits_of(bundle))
    starts, shares = STATE + 0.1 * np.arange(3)[:, None], np.array([[0.9], [-0.4], [0.2]])
    after = fans.follow_heads(starts, shares)
    states = torch.tensor(starts, dtype=torch.float32)
    inputs = model.network_inputs(states, torch.tensor(shares, dtype=torch.float32) * limits)
    means, _ = model.gaussians(inputs)
    for head in range(3):
        expected = model.without_change(states[head]) + model.targets.inverse(means[head, head])
        np.testing.assert_allclose(after[head], expected.detach(), 2e-4, 2e-4)
    joints, gentle = joints_of(bundle), 0.1 * FIRST
    backup = BACKUP._replace(stiffness=np.zeros((1, 1)))  # what a sine hides isn't linear
    fan = fans(STATE, gentle, backup, PATTERNS, BETA, 0.0, starts)
    for head, start in enumerate(starts):
        missed = joints.shares(backup, STATE) - joints.shares(backup, start)
        blind = backup._replace(bias=backup.bias + missed)
        expected = fans(start, gentle, blind, PATTERNS, BETA)
        np.testing.assert_allclose(fan.states[:, head], expected.states[:, head], 1e-4, 1e-4)
    usual = fans(STATE, gentle, backup, PATTERNS, BETA)
    np.testing.assert_array_equal(fan.states[:, 3:], usual.states[:, 3:])
    here = fans(STATE, gentle, backup, PATTERNS, BETA, 0.0, np.tile(STATE, (3, 1)))
    np.testing.assert_array_equal(here.states, usual.states)


@pytest.mark.parametrize("away", [0.0, np.full((3, 2), 0.1)], ids=["here", "away"])
@pytest.mark.parametrize("beta", [0.0, BETA])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_kernel_is_compiled_once_for_all_fans(bundle, monkeypatch, count, beta, away):
    """Numba takes seconds for another layout of an array, with a robot under way."""
    fans, laid_out = make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), True), set()

    def roll_out(*given):
        arrays = [each for each in given if isinstance(each, np.ndarray)]
        laid_out.update((each.flags.c_contiguous, each.dtype.name) for each in arrays)

    monkeypatch.setattr(kernel, "roll_out", roll_out)
    fans(STATE, np.full((count, 1), 0.5), BACKUP, PATTERNS, beta, away)
    if np.ndim(away):
        begins = np.tile(STATE, (3, 1))
        fans.follow_heads(begins, np.full((3, 1), 0.5))
        fans(STATE, np.full((count, 1), 0.5), BACKUP, PATTERNS, beta, away, begins)
    assert laid_out == {(True, "float32")}


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "graph"])
def test_nothing_ends_at_the_bounds_of_what_plans_imagine(bundle, compiled):
    """A robot that is faster is so, and a constraint beyond them has to be seen broken."""
    fastest = float(bundle.manifest.bounds[1][1])
    state = np.array([2.0, 3.0 * fastest])
    fans = make_fans(bundle, HORIZON, joints_of(bundle), limits_of(bundle), compiled)
    fan = fans(state, FIRST, BACKUP, PATTERNS, BETA)
    assert fan.states[:, :, 1, 1].min() > 2.0 * fastest


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "graph"])
def test_smaller_limits_are_what_a_share_is_of(bundle, compiled):
    """Half of the limits with all of the share lead where half of the share did."""
    joints, limits = joints_of(bundle), limits_of(bundle)
    halved = BACKUP._replace(
        stiffness=0.5 * BACKUP.stiffness, damping=0.5 * BACKUP.damping, bias=0.5 * BACKUP.bias
    )
    small = make_fans(bundle, HORIZON, joints, 0.5 * limits, compiled)
    large = make_fans(bundle, HORIZON, joints, limits, compiled)
    np.testing.assert_allclose(
        small(STATE, 0.5 * FIRST, BACKUP, PATTERNS, BETA).states,
        large(STATE, 0.25 * FIRST, halved, PATTERNS, BETA).states,
        1e-4,
        1e-4,
    )


def test_the_noise_adds_up_to_two_deviations_of_the_sum():
    shares = noise_shares(25)
    for steps in (1, 4, 9, 25):
        assert shares[:steps].sum() == pytest.approx(2.0 * np.sqrt(steps))
