"""Learning on another device: refused where there is none, the same bundles where there is one."""

from typing import get_args

import pytest
import torch
from own_robots import EXAMPLES
from tiny_learning import random_episode, short_episodes, tiny_config  # noqa: F401
from torch import nn

from hucrl_ros.cli import main
from hucrl_ros.config.files import dump_config
from hucrl_ros.config.schema import (
    KERNEL_MODELS,
    ExplorationSettings,
    ModelName,
    ModelSettings,
    SearchSettings,
)
from hucrl_ros.config.task_file import known_tasks
from hucrl_ros.controller.bundle import load_bundle
from hucrl_ros.errors import ConfigError
from hucrl_ros.learning.learner import Learner
from hucrl_ros.models import make_model
from hucrl_ros.models.exploration import make_imagined_dynamics
from hucrl_ros.run.asked import RunOptions
from hucrl_ros.run.device import check_device, moved_to
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.prepare import prepare_run
from hucrl_ros.search import SEARCHES, ActorCritic
from hucrl_ros.tasks import make_task

EPISODES = [random_episode(seed) for seed in range(2)]


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def silent(phase, share):
    """Nobody listens."""


@pytest.mark.parametrize(
    ("built", "said"), [(None, "is built for the processor alone"), ("12.8", "finds no GPU")]
)
def test_a_machine_without_a_gpu_says_why(monkeypatch, without_gpu, built, said):
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(ConfigError, match=f"device = 'cuda': torch .* {said}"):
        check_device("cuda")
    check_device("cpu")


def test_the_command_makes_no_run_without_a_gpu(without_gpu, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "pendulum", "--device", "cuda", "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert "device = 'cuda'" in error
    assert error.count("\n") == 1
    assert not out.exists()


def test_a_learner_of_a_run_from_elsewhere_says_so(without_gpu, tmp_path):
    run = RunFolder.create(tmp_path / "run", tiny_config(device="cuda"))
    with pytest.raises(ConfigError, match="device = 'cuda'"):
        Learner(run.config, run)


def test_a_run_goes_on_on_another_device(monkeypatch, tmp_path):
    def ask(device, resume):
        overrides = {"device": device}
        return prepare_run(
            RunOptions("pendulum", overrides=overrides, out=tmp_path / "run", resume=resume)
        )

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = ask("cuda", resume=False).config
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="take cpu"):
        ask("cuda", resume=True)
    assert before.device == "cuda"
    assert ask("cpu", resume=True).config == before.model_copy(update={"device": "cpu"})


def test_nothing_moves_for_the_processor():
    module = nn.Linear(2, 2)
    with moved_to("cpu", module):
        assert module.weight.device.type == torch.zeros(1).device.type == "cpu"


def test_a_file_of_settings_does_not_bring_a_run_to_another_device(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    overrides, out = {"device": "cuda"}, tmp_path / "run"
    before = prepare_run(RunOptions("pendulum", overrides=overrides, out=out)).config
    file = tmp_path / "file.yaml"
    file.write_text(dump_config(before.model_copy(update={"device": "cpu"})))
    again = prepare_run(RunOptions("pendulum", config=file, out=out, resume=True))
    assert again.config == before


@pytest.mark.parametrize(
    ("task", "kind"),
    [
        *(("pendulum", kind) for kind in get_args(ModelName)),
        *((task, "probabilistic_ensemble") for task in known_tasks()),
        (str(EXAMPLES / "planar_arm" / "planar_arm.yaml"), "gp"),
    ],
)
def test_every_tensor_of_a_learner_moves_with_its_modules(task, kind):
    made, settings = make_task(task, 0.1), SearchSettings()
    model = make_model(made, ModelSettings(kind=kind), torch.Generator())
    step = make_imagined_dynamics("optimistic", model, ExplorationSettings())
    actors = ActorCritic(made, step.hallucination_dim, settings, torch.Generator())
    for module in (*step.modules(), *actors.modules()):
        left_behind = [name for name, value in vars(module).items() if torch.is_tensor(value)]
        assert left_behind == []


@pytest.mark.gpu
def test_modules_come_back_whatever_happens():
    module = nn.Linear(2, 2)
    with pytest.raises(KeyboardInterrupt), moved_to("cuda", module):
        assert module.weight.device.type == torch.zeros(1).device.type == "cuda"
        raise KeyboardInterrupt
    assert module.weight.device.type == torch.zeros(1).device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.usefixtures("short_episodes")
@pytest.mark.parametrize(
    "changes",
    [
        *({"search": {**tiny_config().search.model_dump(), "algorithm": a}} for a in SEARCHES),
        *({"model": {"kind": kind, "features": 8}} for kind in KERNEL_MODELS),
        {"strategy": "thompson"},
        {"strategy": "greedy", "exploration": {"covariance": "full"}},
    ],
    ids=str,
)
def test_a_gpu_learns_bundles_for_the_processor(tmp_path, changes):
    run = RunFolder.create(tmp_path / "run", tiny_config(device="cuda", **changes))
    learner = Learner(run.config, run)
    written = []
    for _ in range(2):  # the second time, after a stop, it learns the same
        bundle = load_bundle(learner.learn_from(EPISODES[:1], silent))
        written.append(bundle.manifest.report.predicted_return)
    assert written[0] == pytest.approx(written[1], rel=1e-3)
    assert {p.device.type for p in learner.actor_critic.parameters()} == {"cpu"}
