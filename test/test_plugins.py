"""Plug-ins of another package are found, used, checked like ours, and refused with one line."""

import inspect
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import test_models_contract as models_contract
import test_planners_contract as planners_contract
import test_search_contract as search_contract
import torch
from bundle_factory import fields, imagined_episode, learned
from own_robots import ARM, changed, task_of
from plugin_package import install
from tiny_learning import random_episode, short_episodes, tiny_config  # noqa: F401

from hucrl_ros.cli import main
from hucrl_ros.config import plugins
from hucrl_ros.config.files import parse_config
from hucrl_ros.config.reward import RewardSettings
from hucrl_ros.config.schema import PlannerSettings
from hucrl_ros.config.task_file import dump_description
from hucrl_ros.controller.agent import Agent
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.errors import BundleError, ConfigError
from hucrl_ros.learning.learner import Learner
from hucrl_ros.planners import PLANNERS, Planner, planner_class
from hucrl_ros.run.combination import check_combination
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.tasks import make_task

pytestmark = pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler")
THEIRS = {"model": {"kind": "their_model"}, "search": {"algorithm": "their_search"}}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """A folder of `sys.path` in which the plug-ins are installed."""
    folder = tmp_path_factory.mktemp("site")
    install(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@pytest.fixture
def another(packages, tmp_path, monkeypatch):
    """Installs a second package with these entry points."""

    def install_it(**points):
        install(tmp_path, points, package="others")
        monkeypatch.syspath_prepend(str(tmp_path))

    return install_it


def contract(suite, every_member):
    """Tests of a contract suite that take nothing but the name of a member, and hold for all."""
    (parameter, _), mark = every_member.args, every_member.mark
    tests = [f for f in vars(suite).values() if mark in getattr(f, "pytestmark", ())]
    return [f for f in tests if list(inspect.signature(f).parameters) == [parameter]]


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("check", contract(planners_contract, planners_contract.every_planner))
def test_a_planner_fulfils_the_contract(check, monkeypatch):
    monkeypatch.setitem(planners_contract.TOLERANCES, "their_planner", (None, 0.03))
    check("their_planner")


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("check", contract(models_contract, models_contract.EACH_KIND))
def test_a_model_fulfils_the_contract(check):
    check("their_model")


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("check", contract(search_contract, search_contract.EACH_SEARCH))
def test_a_search_fulfils_the_contract(check):
    check("their_search")


@pytest.mark.usefixtures("packages", "short_episodes")
def test_a_run_learns_and_plays_with_plugins(tmp_path):
    planner = {**tiny_config().planner.model_dump(), "algorithm": "their_planner"}
    values = tiny_config().model_dump()
    for group, changes in THEIRS.items():
        values[group].update(changes)
    config = parse_config({**values, "planner": planner}, "test")
    learner = Learner(config, RunFolder.create(tmp_path / "run", config))
    assert type(learner.model).__module__ == "their_learning"
    path = learner.learn_from([random_episode(0)], lambda phase, share: None)
    bundle = load_bundle(path)
    assert bundle.networks is None  # The kernel can't know what a plug-in computes.
    agent = Agent(bundle, None)
    assert type(agent._planner).__module__ == "their_robot_side"
    assert abs(agent.act(learner.first[0].double().numpy()).action[0]) <= 1.0


@pytest.mark.usefixtures("packages")
def test_a_reward_term_is_summed_with_ours_and_dumped(tmp_path):
    still = {"term": "still", "joint": "elbow", "weight": 2.0, "bias": 0.5}
    terms = [{"term": "product", "factors": [still, still]}, still, {"term": "effort"}]
    described = changed(ARM, "reward", function=None, success=None, terms=terms)
    task = task_of(tmp_path, described, 0.0)
    state = torch.zeros(1, task.spec.state_dim)
    state[0, 1] = -0.25
    assert float(task.reward(state, torch.zeros(1, 2))) == pytest.approx(1.5**2 - 1.5)
    reward = RewardSettings.model_validate({"terms": terms})
    assert RewardSettings.model_validate(reward.model_dump(mode="json")) == reward
    assert "bias: 0.5" in dump_description(replace(task.described, reward=reward))


@pytest.mark.usefixtures("packages")
def test_a_wrong_key_of_a_term_is_named():
    with pytest.raises(ValueError, match=r"terms\.0.*\n?.*jiont|jiont"):
        RewardSettings.model_validate({"terms": [{"term": "still", "jiont": "elbow"}]})


@pytest.mark.usefixtures("packages")
@pytest.mark.parametrize("kind", ["planners", "models", "searches", "rewards"])
def test_plugins_are_listed(kind, capsys):
    assert main(["list", kind]) == 0
    printed = capsys.readouterr().out
    assert "of package theirs" in printed
    assert ("A " in printed and " of another package." in printed) or "-bias" in printed


def test_a_planner_loads_no_torch(packages):
    code = (
        "import sys; from hucrl_ros.config.schema import PlannerSettings as S; "
        "from hucrl_ros.planners import make_planner; "
        "from hucrl_ros.config.reward import RewardSettings as R; "
        "R.model_validate({'terms': [{'term': 'still', 'joint': 'elbow'}]}); "
        "print(make_planner(S(algorithm='their_planner'), 2, 1).particles, 'torch' in sys.modules)"
    )
    path = os.pathsep.join([str(packages), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout.split() == ["32", "False"], done.stderr


def test_an_unknown_name_is_refused_with_those_that_are_known(packages):
    with pytest.raises(ConfigError) as error:
        parse_config({"planner": {"algorithm": "their_plannr"}}, "f.yaml")
    hint = "'their_plannr' is unknown; did you mean 'their_planner'? known: "
    assert str(error.value).startswith(f"f.yaml: planner.algorithm: {hint}")
    assert "policy, their_planner; or a planner of another package" in str(error.value)
    with pytest.raises(ValueError, match=r"'stilll' is unknown; did you mean 'still'.*, still; "):
        RewardSettings.model_validate({"terms": [{"term": "stilll"}]})


def test_a_bundle_without_its_planner_is_refused(packages, tmp_path, monkeypatch):
    settings = fields("optimistic").model_copy(
        update={"planner": PlannerSettings(algorithm="their_planner")}
    )
    learned("optimistic").exporter.write(tmp_path / "bundle", settings, imagined_episode())
    assert load_bundle(tmp_path / "bundle").manifest.planner.algorithm == "their_planner"
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p != str(packages)])
    with pytest.raises(BundleError, match=r"planner\.algorithm: .*'their_planner' is unknown"):
        load_bundle(tmp_path / "bundle")


def test_a_plugin_that_fails_to_load_is_refused(another):
    another(planners={"broken": "their_missing:Planner"}, models={"no_class": "math:pi"})
    with pytest.raises(ConfigError) as error:
        planner_class("broken")
    assert str(error.value) == (
        "planner 'broken' of package others can't be loaded from their_missing:Planner: "
        "ModuleNotFoundError: No module named 'their_missing'"
    )
    with pytest.raises(ConfigError, match="math:pi is no class that derives from hucrl_ros"):
        plugins.load("models", "no_class", (), Planner)
    assert main(["list", "planners"]) == 0  # It says so, and lists the others.


@pytest.mark.parametrize(
    ("kind", "name", "other"),
    [("planners", "cem", "hucrl_ros"), ("searches", "their_search", "theirs")],
)
def test_a_name_that_two_packages_provide_is_refused(another, kind, name, other, capsys):
    another(**{kind: {name: "their_robot_side:Planner"}})
    with pytest.raises(ConfigError, match=f"'{name}' is provided by ") as error:
        check_combination(tiny_config(), make_task("pendulum", 0.0))
    assert "others" in str(error.value) and other in str(error.value)
    assert main(["list", kind]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_ours_need_no_look_at_the_packages(monkeypatch):
    monkeypatch.setattr(plugins, "entry_points", lambda **_: pytest.fail("looked"))
    assert planner_class("cem") is PLANNERS["cem"]
    parse_config({"planner": {"algorithm": "icem"}, "model": {"kind": "gp"}}, "test")
