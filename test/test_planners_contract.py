"""What every planner does, whatever its sampling distribution."""

import numpy as np
import pytest
from planning_system import (
    HORIZON,
    NO_NOISE,
    OPTIMAL_GAIN,
    START,
    SYSTEM,
    Recorder,
    Walk,
    allow,
    always,
    closed_loop_cost,
    planner,
    plans_of_walks,
)
from pydantic import ValidationError

from hucrl_ros.config.defaults import docstrings
from hucrl_ros.config.schema import PlannerName, PlannerSettings
from hucrl_ros.planners import PLANNERS as ALL_PLANNERS
from hucrl_ros.planners import Rollouts, make_planner

ON_THE_SYSTEM = ("ilqr", "exact")
"""Those that ask for more than rollouts: `test_planners_model.py`."""
PLANNERS = {name: made for name, made in ALL_PLANNERS.items() if name not in ON_THE_SYSTEM}
ROUNDING = 1e-6
NEAR = (0.1, -0.1)
"""From here the best efforts stay within their limits, so that the optimum is Riccati's."""
AROUND_POLICIES = ("dyna_mpc", "poplin_a", "poplin_bias", "policy")
NEVER_WORSE_THAN_THE_POLICY = AROUND_POLICIES
REMEMBERING = ("dyna_mpc", "poplin_bias", "cem", "icem", "mppi")
SENDING_THE_BEST = tuple(name for name in PLANNERS if name != "mppi")
POOR, EXACT = 0.8 * OPTIMAL_GAIN, OPTIMAL_GAIN
TOLERANCES = {
    "dyna_mpc": (None, 0.03),
    "poplin_a": (None, 0.03),
    "poplin_bias": (POOR, 0.01),
    "cem": (None, 0.03),
    "icem": (None, 0.03),
    "mppi": (None, 0.08),
    "random_shooting": (None, 0.12),
    "policy": (EXACT, 1e-4),
}
"""Policy, and how far a plan of 256 particles x 8 iterations may be from the optimum. A constant
bias can't turn no policy into the best one, so that its planner gets a poor one."""

every_planner = pytest.mark.parametrize("name", PLANNERS)


def imagined(offsets, feedback=0.0, start=START, gain=None):
    """Return of one sequence `(H, 1)`."""
    return SYSTEM.imagine(start, gain)(offsets[None], NO_NOISE, feedback).returns[0]


def test_the_settings_know_all_planners_and_no_other():
    assert set(PlannerName.__args__) == set(ALL_PLANNERS)
    assert set(PLANNERS) == set(TOLERANCES)


@every_planner
def test_a_plan_comes_close_to_the_optimum(name):
    gain, tolerance = TOLERANCES[name]
    optimum = -(np.array(NEAR) @ SYSTEM.value @ np.array(NEAR))
    for seed in range(3):
        made = planner(algorithm=name, seed=seed, particles=256, elites=25, iterations=8)
        plan = made.plan(SYSTEM.imagine(NEAR, gain), always)
        achieved = imagined(plan.actions, start=NEAR)
        assert optimum * (1 + tolerance) <= achieved <= optimum * (1 - ROUNDING)


@every_planner
def test_equal_generators_give_equal_plans(name):
    plans = []
    for _ in range(2):
        made = planner(algorithm=name, seed=3)
        plans.append([made.plan(SYSTEM.imagine(START), always) for _ in range(3)])
    for one, other in zip(*plans, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
        assert one.planned_return == other.planned_return


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "policy"])
def test_other_generators_give_other_plans(name):
    plans = [
        planner(algorithm=name, seed=seed).plan(SYSTEM.imagine(START), always) for seed in (3, 4)
    ]
    assert (plans[0].actions != plans[1].actions).any()


@pytest.mark.parametrize("name", SENDING_THE_BEST)
def test_the_predicted_return_is_that_of_the_planned_actions(name):
    plan = planner(algorithm=name).plan(SYSTEM.imagine(START, np.array([[0.5, 0.5]])), always)
    assert plan.planned_return == pytest.approx(imagined(plan.actions), rel=1e-5)


@every_planner
def test_the_planned_states_are_where_the_actions_lead(name):
    plan = planner(algorithm=name).plan(SYSTEM.imagine(START, np.array([[0.5, 0.5]])), always)
    replay = SYSTEM.imagine(START)(plan.actions[None], NO_NOISE, 0.0)
    np.testing.assert_allclose(plan.states, replay.states[0], rtol=1e-4, atol=1e-5)
    assert plan.actions.shape == (HORIZON, 1)
    assert plan.states.shape == (HORIZON + 1, 2)


@pytest.mark.parametrize("name", NEVER_WORSE_THAN_THE_POLICY)
def test_a_plan_is_never_worse_than_the_policy_in_the_model(name):
    for seed in range(5):
        gain = np.random.default_rng(seed).normal(size=(1, 2))
        policy = imagined(np.zeros((HORIZON, 1)), feedback=1.0, gain=gain)
        made = planner(algorithm=name, seed=seed, particles=4, elites=2)
        assert made.plan(SYSTEM.imagine(START, gain), always).planned_return >= policy - ROUNDING


@every_planner
def test_a_tick_costs_iterations_times_particles(name):
    for particles, iterations in [(8, 1), (8, 4), (32, 3)]:
        made = planner(algorithm=name, particles=particles, iterations=iterations)
        recorder = Recorder(SYSTEM.imagine(START))
        for tick in range(1, 4):
            plan = made.plan(recorder, always)
            done = 1 if name == "policy" else iterations
            assert plan.iterations == done
            assert len(recorder.offsets) == tick * done
        shape = (1 if name == "policy" else particles, HORIZON, 1)
        assert {offsets.shape for offsets in recorder.offsets} == {shape}
        assert made.particles == shape[0]


@every_planner
@pytest.mark.parametrize("draws", [0, 2, 4])
def test_an_iteration_imagines_each_particle_in_every_draw(name, draws):
    made, recorder = planner(algorithm=name, noise_draws=draws), Recorder(SYSTEM.imagine(START))
    plan = made.plan(recorder, allow(2))
    assert plan.iterations == (1 if name == "policy" else 2)
    assert len(recorder.offsets) == plan.iterations * max(draws, 1)


SHOOTING = [name for name in PLANNERS if name != "policy"]


@pytest.mark.parametrize("name", SHOOTING)
@pytest.mark.parametrize("draws", [0, 2, 8])
def test_no_planner_counteracts_noise_that_the_robot_does_not_know(name, draws):
    """Whoever counteracts it plans a first effort of the noise's deviation, 0.3."""
    first = [plan.actions[0, 0] for plan in plans_of_walks(name, draws)]
    assert np.sqrt(np.mean(np.square(first))) < 0.1


@pytest.mark.parametrize("name", [name for name in SENDING_THE_BEST if name in SHOOTING])
def test_a_plan_promises_no_more_than_the_best_expected_return(name):
    promised = [plan.planned_return for plan in plans_of_walks(name, draws=2)]
    error = np.std(promised) / np.sqrt(len(promised))
    assert np.mean(promised) == pytest.approx(Walk.best_open_loop, abs=3 * error)
    assert error < 0.2


def test_policies_answer_noise_and_offsets_do_not():
    """The best plan adds nothing to the policy that answers every noise a step later."""
    plans = plans_of_walks("dyna_mpc", draws=8, gain=1.0)
    promised = [plan.planned_return for plan in plans]
    error = np.std(promised) / np.sqrt(len(promised))
    assert np.mean(promised) == pytest.approx(Walk.best, abs=3 * error)
    assert error < 0.05
    assert max(abs(plan.actions[0, 0]) for plan in plans) < 0.1


@every_planner
def test_only_those_that_use_policies_need_them(name):
    recorder = Recorder(SYSTEM.imagine(START))
    planner(algorithm=name).plan(recorder, always)
    expected = float(name in AROUND_POLICIES)
    assert recorder.feedback[0] == expected
    later = 0.0 if name == "poplin_a" else expected
    assert set(recorder.feedback[1:]) <= {later}


@every_planner
def test_a_setting_says_which_planners_it_means_nothing_to(name):
    def plans(**changes):
        made = planner(algorithm=name, **changes)
        starts = (START, (-0.2, 0.5))
        return [made.plan(SYSTEM.imagine(x, POOR), always).actions for x in starts]

    usual, told = plans(), docstrings(PlannerSettings)
    others = {"elites": 3, "noise": 0.5, "correlation": 0.3, "smoothing": 0.4, "warm_start": False}
    for setting, value in others.items():
        if np.array_equal(usual, plans(**{setting: value})):
            known = name != "policy" and name in PlannerName.__args__  # and no plug-in
            assert not known or f"`{name}`" in told[setting], setting


@every_planner
def test_without_time_there_is_no_plan_and_no_imagination(name):
    def imagine(*_):
        raise AssertionError("there was no time for this")

    assert planner(algorithm=name).plan(imagine, allow(0)) is None


@every_planner
def test_a_planner_stops_when_it_is_told_to_with_the_best_so_far(name):
    recorder = Recorder(SYSTEM.imagine(START))
    plan = planner(algorithm=name).plan(recorder, allow(1))
    assert plan.iterations == len(recorder.offsets) == 1
    assert name == "mppi" or plan.planned_return == np.max(recorder.returns)


@every_planner
@pytest.mark.parametrize("noise", [0.3, 5.0])
def test_actions_stay_in_bounds_and_so_do_efforts_that_are_planned_without_policies(name, noise):
    made = planner(algorithm=name, noise=noise)
    recorder = Recorder(SYSTEM.imagine((30.0, 20.0)))
    for _ in range(3):
        assert np.abs(made.plan(recorder, always).actions).max() <= 1.0
    for offsets, feedback in zip(recorder.offsets, recorder.feedback, strict=True):
        assert np.abs(offsets).max() <= 1.0 + feedback


@every_planner
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_model_that_diverges_gives_no_plan(name, bad):
    def imagine(offsets, noise, feedback):
        rollouts = SYSTEM.imagine(START)(offsets, noise, feedback)
        return rollouts._replace(returns=np.full(len(offsets), bad))

    assert planner(algorithm=name).plan(imagine, always) is None


@pytest.mark.parametrize("name", [name for name in PLANNERS if name != "policy"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_particles_that_diverge_neither_win_nor_shape_the_next_ones(name, bad):
    made = planner(algorithm=name, elites=60)

    def imagine(offsets, noise, feedback):
        assert np.isfinite(offsets).all()
        rollouts = SYSTEM.imagine(START)(offsets, noise, feedback)
        rollouts.returns[::2] = bad
        rollouts.states[::2], rollouts.actions[::2] = np.nan, np.nan
        return rollouts

    for _ in range(2):
        plan = made.plan(imagine, always)
        assert np.isfinite(plan.planned_return)
        assert np.isfinite(plan.actions).all()
        assert np.isfinite(plan.states).all()
        assert plan.planned_return == pytest.approx(imagined(plan.actions), rel=0.3)


@every_planner
def test_reset_forgets_the_last_plan(name):
    made = planner(algorithm=name, seed=1)
    first = made.plan(SYSTEM.imagine(START), always)
    made.plan(SYSTEM.imagine((-5.0, 2.0)), always)
    made.reset(np.random.default_rng(1))
    np.testing.assert_array_equal(made.plan(SYSTEM.imagine(START), always).actions, first.actions)


@pytest.mark.parametrize("name", REMEMBERING)
def test_a_warm_start_never_hurts(name):
    """Cost in closed loop, mean over three seeds; 0.1% is chance."""

    def cost(warm_start, seed):
        made = planner(algorithm=name, seed=seed, iterations=2, warm_start=warm_start)
        return closed_loop_cost(
            lambda x: made.plan(SYSTEM.imagine(x, POOR / 4), always).actions[0], steps=30
        )

    warm, cold = (np.mean([cost(start, seed) for seed in range(3)]) for start in (True, False))
    assert warm <= cold * 1.001


@pytest.mark.parametrize("name", REMEMBERING)
def test_a_cold_start_is_around_zero_in_every_tick(name):
    made = planner(algorithm=name, iterations=1, warm_start=False)
    recorder = Recorder(SYSTEM.imagine(START))
    for _ in range(3):
        made.plan(recorder, always)
    for offsets in recorder.offsets:
        np.testing.assert_array_equal(offsets[0], 0.0)


@pytest.mark.parametrize("name", [n for n in SENDING_THE_BEST if n != "policy"])
def test_a_later_iteration_that_is_worse_doesn_t_count(name):
    recorder = Recorder(SYSTEM.imagine(START))

    def imagine(offsets, noise, feedback):
        rollouts = recorder(offsets, noise, feedback)
        return rollouts._replace(returns=rollouts.returns - 10.0 * len(recorder.returns))

    plan = planner(algorithm=name).plan(imagine, always)
    assert plan.planned_return == pytest.approx(np.max(recorder.returns[0]) - 10.0)
    assert plan.iterations == 3


@pytest.mark.parametrize("name", sorted(set(PLANNERS) - set(REMEMBERING)))
def test_the_others_keep_nothing_from_tick_to_tick(name):
    plans = []
    for warm_start in (True, False):
        made = planner(algorithm=name, seed=2, warm_start=warm_start)
        made.plan(SYSTEM.imagine((-5.0, 2.0)), always)
        plans.append(made.plan(SYSTEM.imagine(START), always))
    np.testing.assert_array_equal(plans[0].actions, plans[1].actions)


@pytest.mark.parametrize("name", [n for n in REMEMBERING if n not in ("mppi", "poplin_bias")])
def test_a_plan_is_never_worse_than_the_previous_one_shifted(name):
    gain = POOR if name == "dyna_mpc" else None
    feedback = float(name == "dyna_mpc")
    made = planner(algorithm=name, particles=8, elites=4, iterations=1, noise=0.5)
    for seed in range(10):
        made.reset(np.random.default_rng(seed))
        first = Recorder(SYSTEM.imagine(START, gain))
        made.plan(first, always)
        best = first.offsets[0][np.argmax(first.returns[0])]
        previous = np.concatenate([best[1:], np.zeros((1, 1))])
        value = imagined(previous, feedback, start=(0.25, -0.15), gain=gain)
        plan = made.plan(SYSTEM.imagine((0.25, -0.15), gain), always)
        assert plan.planned_return >= value - ROUNDING


@pytest.mark.parametrize("name", ["cem", "icem", "mppi", "random_shooting"])
def test_a_planner_without_policies_refuses_to_try_nothing(name):
    with pytest.raises(ValidationError, match=f"noise = 0 leaves {name} nothing"):
        PlannerSettings(algorithm=name, noise=0.0)
    PlannerSettings(algorithm="dyna_mpc", noise=0.0)


def test_a_bias_is_remembered_whatever_the_horizon():
    settings = PlannerSettings(
        algorithm="poplin_bias", horizon=1, particles=16, iterations=1, noise_draws=0
    )
    planner, seen = make_planner(settings, 1, 1), []

    class Imagine:
        state = np.zeros(1, np.float32)

        def __call__(self, offsets, noise, feedback):
            seen.append(offsets.copy())
            return Rollouts(-((offsets[:, 0, 0] - 1.0) ** 2), np.zeros((16, 2, 1)), offsets)

    planner.plan(Imagine(), lambda: True)
    kept = planner._memory[0, 0, 0]
    planner.plan(Imagine(), lambda: True, periods=3)
    assert kept != 0.0 and seen[1][0, 0, 0] == kept
