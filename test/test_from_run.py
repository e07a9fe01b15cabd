"""A run that begins with the policies and episodes of another one: `--from RUN`."""

import copy
import errno
import os
import shutil

import pytest
import torch
from own_robots import PENDULUM, write
from safetensors.torch import load_file, save_file
from tiny_learning import STEPS, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.cli import main
from hucrl_ros.controller.manifest import read_manifest
from hucrl_ros.controller.ticks import Source
from hucrl_ros.errors import ConfigError, LearningError, RunError
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.dataset import join_transitions
from hucrl_ros.learning.learner import Learner
from hucrl_ros.learning.prior import prior_episodes, prior_weights
from hucrl_ros.models.ensemble import Ensemble
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run, taught_run
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.usefixtures("short_episodes")


def tiny(**changes):
    """Overrides that make learning quick."""
    values = tiny_config().model_dump(mode="json", exclude_unset=True)
    flat = {"episodes": values.pop("episodes")}
    for group, entries in values.items():
        flat |= {f"{group}.{name}": entry for name, entry in entries.items()}
    flat["exploration.validation_episodes"] = 0
    return flat | changes


def stick(folder, reward=None, **robot):
    """A description of the pendulum as one's own robot, with short episodes."""
    document = copy.deepcopy(PENDULUM)
    document["robot"] |= {"steps": STEPS, **robot}
    document["reward"] |= reward or {}
    return str(write(folder, document, "stick.yaml"))


def begun(source, out, task="pendulum", **changes):
    return prepare_run(RunOptions(task, None, tiny(**changes), out, source=source))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory, short_episodes):  # noqa: F811
    """A finished run of two episodes."""
    run = prepare_run(
        RunOptions("pendulum", None, tiny(), tmp_path_factory.mktemp("runs") / "sim")
    )
    train(run.config, run)
    return run


@pytest.fixture
def source(simulated, tmp_path):
    """A copy, which a test may remove."""
    return RunFolder(shutil.copytree(simulated.root, tmp_path / "sim"))


def weights_of(path):
    from safetensors.torch import load_file

    return load_file(path)


# What a user gets


@pytest.mark.parametrize("kind", ["probabilistic_ensemble", "rff", "gp"])
def test_episode_0_is_played_by_what_the_other_run_gives_even_after_that_is_gone(tmp_path, kind):
    changes = {"model.kind": kind, "model.features": 16, "episodes": 1}
    first = prepare_run(RunOptions("pendulum", None, tiny(**changes), tmp_path / "sim"))
    train(first.config, first)
    run = begun(first.root, tmp_path / "real", **changes)
    shutil.rmtree(first.root)
    summary = train(run.config, run)
    manifest = read_manifest(run.bundle(0))
    assert not manifest.random
    assert manifest.report.model_error is not None
    assert len(summary.episodes) == 1
    assert summary.episodes[0].predicted_return == manifest.report.predicted_return
    # The error of a model from the other run in this one's first episode is known.
    assert read_manifest(run.bundle(1)).report.surprise is not None
    from hucrl_ros.bags.reader import read_episode

    task = make_task("pendulum", 0.2)
    ticks = read_episode(run.bag(0), task.spec, task.steps).ticks
    assert Source.RANDOM not in ticks["source"]


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(source, tmp_path):
    whole = begun(source.root, tmp_path / "whole")
    train(whole.config, whole)
    parts = begun(source.root, tmp_path / "parts", episodes=1)
    shutil.rmtree(source.root)
    learner = Learner(parts.config, parts)

    def stop(phase, share):
        if phase == "exporting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(stop)
    assert parts.checkpoint(-1).is_file()
    assert not parts.bundle(0).is_dir()
    train(parts.config, parts)
    more = prepare_run(RunOptions("pendulum", None, {"episodes": 2}, parts.root, resume=True))
    train(more.config, more)
    for index in (-1, 0, 1):
        one, other = (weights_of(run.checkpoint(index)) for run in (whole, more))
        differing = [key for key in one if not torch.equal(one[key], other[key])]
        assert differing == [], index


def test_the_other_runs_transitions_have_their_weight_and_the_robots_own_have_1(source, tmp_path):
    run = begun(source.root, tmp_path / "real", **{"model.from_weight": 0.25, "episodes": 1})
    train(run.config, run)
    task = make_task("pendulum", 0.2)
    prior = prior_episodes(run, task)
    assert [episode.weight for episode in prior] == [0.25, 0.25]
    learner = Learner(run.config, run)
    learner.learn(lambda phase, share: None)
    joined = join_transitions([*prior, *learner._recorded], run.root)
    assert joined.weights.tolist() == [0.25] * (2 * STEPS) + [1.0] * STEPS


def test_what_went_through_two_runs_counts_least(source, tmp_path):
    second = begun(source.root, tmp_path / "second", **{"model.from_weight": 0.5, "episodes": 1})
    train(second.config, second)
    third = begun(second.root, tmp_path / "third", **{"model.from_weight": 0.5})
    shutil.rmtree(second.root)
    found = prior_episodes(third, make_task("pendulum", 0.2))
    assert [episode.weight for episode in found] == [0.25, 0.25, 0.5]


def test_weight_0_leaves_the_policies_alone(source, tmp_path):
    run = begun(source.root, tmp_path / "real", **{"model.from_weight": 0.0})
    old = weights_of(source.checkpoint(1))
    learner = Learner(run.config, run)
    for key, value in learner._modules.state_dict().items():
        assert torch.equal(value, old[key])
    learner.learn(lambda phase, share: None)
    assert read_manifest(run.bundle(0)).report.model_error is None
    kept = weights_of(run.checkpoint(-1))
    model = [key for key in kept if "model.heads.weights" in key]
    assert model
    assert all(torch.equal(kept[key], old[key]) for key in model)
    assert prior_episodes(run, make_task("pendulum", 0.2)) == []


@pytest.mark.parametrize(("random", "episodes"), [(0, 1), (1, 1), (2, 2)])
def test_with_weight_0_the_first_fit_is_one_from_nothing(
    source, tmp_path, monkeypatch, random, episodes
):
    changes = {"model.from_weight": 0.0, "exploration.random_episodes": random}
    run = begun(source.root, tmp_path / "real", **changes, episodes=episodes)
    fresh = Learner(source.config, RunFolder(tmp_path / "none"))._weights.untrained
    seen = []

    def note(model, data, *rest):
        seen.append({k: v.clone() for k, v in model.state_dict().items()})
        assert data.weights is None
        assert len(data.states) == episodes * STEPS
        return fit(model, data, *rest)

    from hucrl_ros.learning import learner as module

    fit = module.fit
    monkeypatch.setattr(module, "fit", note)
    train(run.config, run)
    (before,) = seen
    parts = {k: v for k, v in fresh.items() if k.startswith("step.model.heads")}
    assert parts
    assert all(torch.equal(before[k.removeprefix("step.model.")], v) for k, v in parts.items())


def test_a_smaller_effort_limit_is_accepted_and_kept(tmp_path):
    first = prepare_run(
        RunOptions(stick(tmp_path / "a"), None, tiny(episodes=1), tmp_path / "sim")
    )
    train(first.config, first)
    weaker = stick(tmp_path / "b", effort_limits=[0.5])
    run = begun(first.root, tmp_path / "real", weaker, episodes=1)
    train(run.config, run)
    assert read_manifest(run.bundle(0)).effort_limits == (0.5,)
    with pytest.raises(ConfigError, match=r"limit of 0\.5 at 'pendulum_joint', the new run has 1"):
        begun(run.root, tmp_path / "stronger", stick(tmp_path / "c"))


def bootstraps(learner):
    """Of the model's heads and of the judge's."""
    models = learner.model, learner._judge._dynamics.model
    return [model.heads.bootstrap(50).tolist() for model in models]


def test_heads_that_are_taken_over_keep_their_bootstrap(source, tmp_path):
    before = bootstraps(Learner(source.config, source))
    assert bootstraps(Learner(tiny_config(seed=7), RunFolder(tmp_path / "none"))) != before
    run = begun(source.root, tmp_path / "real", seed=7, episodes=1)
    assert bootstraps(Learner(run.config, run)) == before
    train(run.config, run)
    assert bootstraps(Learner(run.config, run)) == before, "of its own checkpoints"
    third = begun(run.root, tmp_path / "third", seed=8)
    assert bootstraps(Learner(third.config, third)) == before
    forgets = begun(source.root, tmp_path / "new", **{"seed": 7, "model.from_weight": 0.0})
    learner = Learner(forgets.config, forgets)
    learner._weights.forget_model()
    own = bootstraps(Learner(tiny_config(seed=7), RunFolder(tmp_path / "none")))
    assert bootstraps(learner) == own
    # By an older version, which drew anew.
    path = run.checkpoint(0)
    save_file({k: v.clone() for k, v in weights_of(path).items()}, path)
    assert bootstraps(Learner(run.config, run)) == own


# What is refused, before anything is made


def refused(error, match, out, **options):
    with pytest.raises(error, match=match) as caught:
        prepare_run(RunOptions(**{"task": "pendulum", "out": out, **options}))
    assert "\n" not in str(caught.value)
    assert not (out / "config.yaml").exists()


def test_another_robot_another_reward_and_another_task_are_refused(simulated, tmp_path):
    new = tmp_path / "new"
    refused(
        ConfigError, "name = pendulum, .* cartpole", new, task="cartpole", source=simulated.root
    )
    own = stick(tmp_path / "a")
    refused(ConfigError, "name = pendulum, .* stick", new, task=own, source=simulated.root)
    first = prepare_run(RunOptions(own, None, tiny(episodes=1), tmp_path / "sim"))
    train(first.config, first)
    slower = stick(tmp_path / "b", period=0.025)
    refused(ConfigError, "period = 0.0125, .* 0.025", new, task=slower, source=first.root)
    other = stick(tmp_path / "c", {"terms": PENDULUM["reward"]["terms"][:1]})
    refused(ConfigError, "learned another reward", new, task=other, source=first.root)


def test_what_is_no_run_or_has_no_episode_is_refused(tmp_path):
    new = tmp_path / "new"
    refused(RunError, "no run lies there.*hucrl learn", new, source=tmp_path / "bag")
    empty = prepare_run(RunOptions("pendulum", out=tmp_path / "empty"))
    refused(RunError, "no finished episode", new, source=empty.root)


def test_without_another_run_somebody_has_to_move_the_robot(tmp_path):
    none = {"exploration.random_episodes": 0}
    refused(ConfigError, "random_episodes = 0.*--from RUN", tmp_path / "new", overrides=none)
    run = RunFolder.create(tmp_path / "run", tiny_config(exploration={"random_episodes": 0}))
    with pytest.raises(ConfigError, match="random_episodes = 0"):
        Learner(run.config, run)


@pytest.mark.parametrize("begin", ["from", "teach"])
def test_a_beginning_that_a_full_disk_interrupts_can_be_made_again(
    begin, source, tmp_path, monkeypatch
):
    def make():
        if begin == "from":
            return begun(source.root, tmp_path / "new")
        return taught_run(source, RunOptions("pendulum", None, tiny(), tmp_path / "new"))

    copied = []

    def copy(*names, **how):
        if copied:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(names[1]))
        copied.append(copytree(*names, **how))

    copytree = shutil.copytree
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copytree", copy)
        with pytest.raises(RunError, match="No space left"):
            make()
    assert copied, "it had begun"
    assert not (tmp_path / "new" / "config.yaml").exists(), "it isn't a run"
    run = make()
    kept = RunFolder(run.prior) if begin == "from" else run
    assert kept.finished_episodes() == 2


def test_a_resumed_run_begins_with_no_other(source, tmp_path):
    run = begun(source.root, tmp_path / "real")
    with pytest.raises(ConfigError, match="only a new run begins with another one"):
        prepare_run(RunOptions("pendulum", out=run.root, resume=True, source=source.root))


def test_policies_of_other_settings_are_refused_in_one_line(source, tmp_path):
    run = begun(source.root, tmp_path / "real", **{"search.policy_layers": (4,)})
    with pytest.raises(LearningError, match="model or layers aren't those") as caught:
        Learner(run.config, run)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("strategy", ["greedy", "thompson", "optimistic"])
def test_a_run_explores_by_another_strategy_from_what_was_taught(strategy, source, tmp_path):
    """Policies and critic are the taught ones; only η is new."""
    taught = taught_run(
        source, RunOptions("pendulum", None, tiny(strategy="greedy"), tmp_path / "t")
    )
    Learner(taught.config, taught).learn(lambda phase, share: None)
    run = begun(taught.root, tmp_path / "real", strategy=strategy)
    learner = Learner(run.config, run)
    known = load_file(prior_weights(run))
    own = learner._modules.state_dict()
    policy = [name for name in known if name.startswith(("actors.policy.", "step.model."))]
    assert policy
    assert all(own[name].equal(known[name]) for name in policy)
    learner.learn(lambda phase, share: None)
    assert read_manifest(run.bundle(0)).strategy == strategy


def test_what_was_taught_is_begun_from_not_resumed(source, tmp_path):
    taught = taught_run(source, RunOptions("pendulum", None, tiny(), tmp_path / "t"))
    Learner(taught.config, taught).learn(lambda phase, share: None)
    with pytest.raises(ConfigError, match=f"--from {taught.root} begins"):
        prepare_run(RunOptions("pendulum", out=taught.root, resume=True))


def test_a_model_that_knows_no_weights_is_refused_unless_they_are_0_or_1(
    source, tmp_path, monkeypatch
):
    monkeypatch.setattr(Ensemble, "weighs", False)
    run = begun(source.root, tmp_path / "real")
    with pytest.raises(ConfigError, match=r"can't weigh transitions.*take 0 or 1"):
        Learner(run.config, run)
    same = begun(source.root, tmp_path / "same", **{"model.from_weight": 1.0})
    Learner(same.config, same)


def test_policies_that_were_never_learned_are_not_used_alone(source, tmp_path):
    shutil.rmtree(source.checkpoints)
    run = begun(source.root, tmp_path / "real", **{"model.from_weight": 0.0})
    with pytest.raises(LearningError, match="it has learned none"):
        Learner(run.config, run)
    data = begun(source.root, tmp_path / "data")
    Learner(data.config, data).learn(lambda phase, share: None)
    assert not read_manifest(data.bundle(0)).random


def test_the_command_line_says_what_from_takes(tmp_path, capsys):
    out = str(tmp_path / "new")
    for command in ("train", "up"):
        arguments = [command, "pendulum", "--from", str(tmp_path / "x.mcap"), "--out", out]
        assert main(arguments) == 1
        assert "hucrl learn TASK --from BAG" in capsys.readouterr().err
