"""The compiled imagination is torch's, but for rounding."""

import math
import sys

import pytest
import torch
from linear_system import ExactStep
from own_robots import pushing, task_of
from searching import actors_of, generator, settings_of
from touching import touching

from hucrl_ros.config.schema import (
    KERNEL_MODELS,
    ExplorationSettings,
    ModelSettings,
    SearchSettings,
)
from hucrl_ros.models import make_model
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.search import (
    SEARCHES,
    ActorCritic,
    InitialStates,
    ModelRollout,
    make_model_rollout,
    make_search,
)
from hucrl_ros.search.compiled import CompiledModelRollout
from hucrl_ros.tasks import make_task

DISCOUNT = 0.97
STRATEGIES = ("optimistic", "greedy", "thompson", "sombrl", "opax")
KINDS = ("probabilistic_ensemble", "deterministic_ensemble")
FOURIER = ("rff", "qff")
close = torch.testing.assert_close


def modules(
    task="pendulum", strategy="optimistic", kind="probabilistic_ensemble", covariance="diagonal"
):
    """Actors and step of untrained networks, whose every constant matters."""
    draws, task = generator(1), make_task(task, 0.1) if isinstance(task, str) else task
    settings = ModelSettings(kind=kind, heads=3, layers=(20, 12), features=74, nodes=3)
    model = make_model(task, settings, draws)
    step = make_imagined_dynamics(strategy, model, ExplorationSettings(covariance=covariance))
    search = SearchSettings(policy_layers=(18, 10), critic_layers=(16,), eta_lipschitz=2.0)
    actors = ActorCritic(task, step.hallucination_dim, search, draws)
    with torch.no_grad():
        for parameter in (*model.parameters(), *actors.parameters()):
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=draws))
        model.inputs.mean.normal_(0.0, 0.1, generator=draws)
        model.inputs.std.uniform_(0.5, 2.0, generator=draws)
        model.targets.mean.normal_(0.0, 0.01, generator=draws)
        model.targets.std.uniform_(0.05, 0.2, generator=draws)
        model.epistemic_scale.uniform_(0.5, 2.0, generator=draws)
    if kind in KERNEL_MODELS:
        inputs = torch.randn(90, model.input_dim, generator=draws)
        mixture = torch.randn(model.input_dim, model.output_dim, generator=draws)
        model.learn(inputs, torch.sin(inputs @ mixture), draws, lambda share: None)
    step.start_episode(2, draws)
    return actors, step


def states_of(actors, count=41):
    return actors.task.imagined_states(count, generator(2))


def candidates_of(actors, count, tried=5):
    width = actors.task.spec.action_dim + actors.hallucination_dim
    return 2.0 * torch.rand(tried, count, width, generator=generator(4)) - 1.0


def assert_alike(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        close(one, other, atol=2e-4, rtol=2e-4)


EACH = pytest.mark.parametrize(
    ("task", "strategy", "kind"),
    [
        *(("pendulum", strategy, kind) for strategy in STRATEGIES for kind in (*KINDS, *FOURIER)),
        *((task, "optimistic", KINDS[0]) for task in ("reacher", "pusher", "half_cheetah")),
        *(("cartpole", strategy, KINDS[0]) for strategy in STRATEGIES),
        ("cartpole", "optimistic", "rff"),
        ("pusher", "optimistic", "rff"),
        *(("cartpole", strategy, "gp") for strategy in STRATEGIES),
    ],
)


@EACH
def test_trajectories_are_those_of_torch(task, strategy, kind):
    actors, step = modules(task, strategy, kind)
    compiled, states = make_model_rollout(actors, step), states_of(actors)
    assert isinstance(compiled, CompiledModelRollout)
    torchs = ModelRollout(actors, step)
    assert_alike(compiled.imagine(states, 4), torchs.imagine(states, 4))
    noisy = [each.imagine(states, 4, generator(3), 0.3) for each in (compiled, torchs)]
    assert_alike(*noisy)
    assert not torch.equal(noisy[0].states[1], compiled.imagine(states, 4).states[1])


CRANE = """<mujoco><compiler angle="radian"/><worldbody><body pos="0.1 0 1" quat="0.9 0.1 0.3 0.2">
  <joint name="rail" type="slide" axis="1 0 1" ref="0.2" pos="0 0.1 0"/><geom size="0.1"/>
  <body pos="0.2 0 0.1" euler="0.3 0.1 0.2">
    <joint name="swing" axis="0 1 1" ref="0.5" range="-0.5 1.0" pos="0.1 0 0"/><geom size="0.1"/>
    <body pos="0 0.1 0.3"><joint name="wrist" axis="1 0 0"/><geom size="0.1"/>
      <site name="hook" pos="0.2 0.1 0"/></body></body>
</body><body name="load"><joint name="load_x" type="slide" axis="1 0 0"/><geom size="0.1"/></body>
</worldbody><actuator><motor joint="rail" ctrlrange="-2 2"/>
<motor joint="swing" ctrlrange="-1 1"/></actuator></mujoco>"""


@pytest.mark.parametrize(("target", "modelled"), [("goal", 2), ("load", 3)])
def test_a_crane_that_slides_and_turns_is_seen_as_torch_sees_it(tmp_path, target, modelled):
    (tmp_path / "crane.xml").write_text(CRANE)
    robot = {
        "model": str(tmp_path / "crane.xml"),
        "period": 0.02,
        "steps": 50,
        "observed": ["load_x"],
        "context": ["goal_x", "goal_z"],
        "start": {"goal_x": {"std": 0.3}, "goal_z": {"std": 0.3}},
    }
    success = {"of": "hook", "to": target, "within": 0.05}
    reward = {"terms": [{"term": "distance", "of": "hook", "to": "goal"}], "success": success}
    task = task_of(tmp_path, {"robot": robot, "reward": reward})
    assert (task.geometry.seen_dim, task.geometry.modelled_dim) == (4 - modelled, modelled)
    actors, step = modules(task)
    compiled, states = make_model_rollout(actors, step), states_of(actors)
    assert isinstance(compiled, CompiledModelRollout)
    assert_alike(compiled.imagine(states, 4), ModelRollout(actors, step).imagine(states, 4))


@pytest.mark.parametrize(
    "geom",
    [
        '<geom size="0.05"/>',
        '<geom type="cylinder" size="0.05 0.03"/>',
        '<geom type="capsule" size="0.03 0.02"/>',
    ],
)
def test_contacts_are_seen_as_torch_sees_them(tmp_path, geom):
    for task in (task_of(tmp_path, pushing(tmp_path, geom)), make_task("pusher", 0.0)):
        actors, step = modules(task)
        states = touching(task, 100)
        seen = task.geometry.modelled(states)[:, -3:]
        assert (seen[:, :2].norm(dim=-1) > 0.5).sum() > 10
        compiled = make_model_rollout(actors, step)
        assert isinstance(compiled, CompiledModelRollout)
        found, expected = (
            each.imagine(states, 3) for each in (compiled, ModelRollout(actors, step))
        )
        assert_alike(found, expected)


@pytest.mark.parametrize(("draws", "steps"), [(0, 1), (2, 3)])
@EACH
def test_values_of_candidates_are_those_of_torch(task, strategy, kind, draws, steps):
    actors, step = modules(task, strategy, kind)
    states = states_of(actors)
    candidates = candidates_of(actors, len(states))
    values = [
        each.values_of(states, candidates, DISCOUNT, generator(5), draws, steps)
        for each in (make_model_rollout(actors, step), ModelRollout(actors, step))
    ]
    assert values[0].shape == (5, len(states))
    assert_alike(values[:1], values[1:])
    assert float(values[0].std(dim=0).median()) > 1e-3


def test_the_policies_are_always_the_present_ones():
    actors, step = modules()
    compiled, states = make_model_rollout(actors, step), states_of(actors)
    before = compiled.imagine(states, 3)
    with torch.no_grad():
        for parameter in actors.policy_parameters():
            parameter.neg_()
    after = compiled.imagine(states, 3)
    assert not torch.equal(after.states, before.states)
    assert_alike(after, ModelRollout(actors, step).imagine(states, 3))


def test_a_trajectory_does_not_know_of_the_others():
    actors, step = modules()
    compiled, states = make_model_rollout(actors, step), states_of(actors, 70)
    together = compiled.imagine(states, 3).states
    for first, last in ((0, 1), (3, 20), (37, 70)):
        assert torch.equal(compiled.imagine(states[first:last], 3).states, together[:, first:last])


def test_threads_change_no_bit():
    actors, step = modules()
    states, threads, found = states_of(actors, 70), torch.get_num_threads(), []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        try:
            compiled = make_model_rollout(actors, step)
            found.append(compiled.imagine(states, 4, generator(3), 0.3).states)
        finally:
            torch.set_num_threads(threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("kind", [KINDS[0], "rff", "gp"])
def test_what_is_not_finite_stays_so(kind):
    actors, step = modules(kind=kind)
    compiled, states = make_model_rollout(actors, step), states_of(actors)
    states[7, 1] = math.nan
    imagined = compiled.imagine(states, 3)
    assert imagined.rewards[:, 7].isnan().all()
    others = torch.arange(len(states)) != 7
    assert imagined.rewards[:, others].isfinite().all()


def test_what_the_kernel_does_not_know_is_left_to_torch():
    assert type(make_model_rollout(*modules(covariance="full"))) is ModelRollout


def test_a_system_that_is_not_learned_is_left_to_torch():
    assert type(make_model_rollout(actors_of(settings_of()), ExactStep())) is ModelRollout


def test_a_machine_without_a_compiler_searches_with_torch(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "hucrl_ros.search.compiled", None)
    with caplog.at_level("INFO"):
        assert type(make_model_rollout(*modules())) is ModelRollout
    assert "numba can't be used" in caplog.text


@pytest.mark.parametrize("algorithm", sorted(SEARCHES))
def test_searches_find_the_same_with_either(algorithm):
    """One round: what is learned from the same numbers differs by rounding only."""
    results = []
    for make in (make_model_rollout, ModelRollout):
        actors, step = modules()
        settings = SearchSettings(
            algorithm=algorithm, iterations=1, pool=32, batch_size=32, critic_steps=2
        )
        actors = ActorCritic(actors.task, step.hallucination_dim, settings, generator(1))
        starts = InitialStates(actors.task, torch.zeros(0, 2), 0.0)
        first = states_of(actors, 3)
        found = make_search(settings).improve(
            make(actors, step), starts, first, generator(6), lambda share: None
        )
        results.append(found.episode.states[:20])
    close(*results, atol=5e-3, rtol=5e-3)


def test_goals_stay_where_they_are():
    actors, step = modules("reacher")
    states = states_of(actors)
    imagined = make_model_rollout(actors, step).imagine(states, 3)
    predicted = actors.task.spec.predicted_dim
    assert states.shape[1] > predicted
    for later in imagined.states:
        assert torch.equal(later[:, predicted:], states[:, predicted:])
