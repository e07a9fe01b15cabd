"""The paper's smaller experiments, and that their pictures are drawn."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tiny_learning import short_episodes, tiny_config  # noqa: F401

from hucrl_ros.cli import figure, main
from hucrl_ros.experiments import bandit
from hucrl_ros.experiments.grid import make_cells
from hucrl_ros.experiments.phase import draw_phase_grid, played_run
from hucrl_ros.experiments.sweep import Sweep
from hucrl_ros.experiments.thompson import BestHead, best_head, draw_thompson, traces
from hucrl_ros.experiments.train import train
from hucrl_ros.learning.weights import PROMISE
from hucrl_ros.run.folder import RunFolder
from hucrl_ros.run.summary import read_summary


def is_picture(path):
    with Image.open(path) as image:
        colours = image.convert("RGB").getcolors(maxcolors=10**6)
        return image.width > 400 and len(colours) > 50


def test_one_observation_moves_a_gaussian_process_as_the_closed_form_says():
    tried, seen = np.array([0.25]), np.array([0.8])
    found = bandit.condition(tried, seen)
    k = np.exp(-0.5 * ((bandit.DOMAIN - 0.25) / bandit.LENGTH) ** 2)
    weight = k / (1.0 + bandit.NOISE**2)
    np.testing.assert_allclose(found.mean, 0.8 * weight, atol=1e-12)
    np.testing.assert_allclose(found.std**2, 1.0 - k * weight, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_expected_performance_is_stuck_where_optimism_is_not(seed):
    greedy, optimistic = (bandit.search(beta, 20, seed) for beta in (0.0, 2.0))
    assert greedy.regret > 0.5
    assert optimistic.regret < 0.05


def test_the_bandit_command_draws(tmp_path, capsys):
    assert main(["figure", "bandit", "--out", str(tmp_path)]) == 0
    assert is_picture(tmp_path / "bandit.png")
    assert "beta 2" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", ["phase --seed 3", "thompson --seed 3", "bandit --workers 2", "bandit --finished"]
)
def test_an_option_that_a_figure_has_no_use_for_is_refused(words, capsys):
    name, option, *_ = words.split()
    assert main(["figure", *words.split()]) == 2
    assert f"{option}: not of {name}, which" in capsys.readouterr().err


pytestmark = pytest.mark.usefixtures("short_episodes")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Two small trainings, as an experiment leaves them."""
    cells = make_cells(tiny_config(), ["optimistic", "thompson"], [0.2], [0])
    sweep = Sweep(tmp_path_factory.mktemp("figure"), cells)
    for cell in cells:
        train(cell.config, RunFolder.create(sweep.run_of(cell).root, cell.config))
    assert sweep.finished == sweep.cells
    return sweep


def test_a_row_of_the_phase_grid_shows_a_runs_first_learned_episodes(trained):
    run = trained.run_of(trained.cells[0])
    episodes = read_summary(run.summary).episodes
    played = played_run(run, 2)
    assert len(played.episodes) == min(2, len(episodes) - 1)
    for episode in played.episodes:
        assert episode.total == pytest.approx(episodes[episode.index].return_, rel=1e-12)
        assert episode.imagined is not None


def test_the_phase_grid_has_a_row_for_each_run(trained, tmp_path):
    runs = [played_run(trained.run_of(cell), 2) for cell in trained.cells]
    assert is_picture(draw_phase_grid(tmp_path / "phase.png", runs))


def test_traces_tell_what_was_imagined_and_how_uncertain_it_was(trained):
    found = list(traces(trained))
    assert [trace.strategy for trace in found] == ["optimistic", "thompson"]
    for trace in found:
        assert np.isnan(trace.simulated[0])
        assert np.isfinite(trace.simulated[1:]).all()
        assert (trace.scale[1:] > 0).all()


def test_the_best_head_is_searched_on_the_models_that_the_run_had(trained, tmp_path):
    cell = trained.cells[0]
    heads = best_head(trained, cell, (0, 99))
    assert heads.episodes == [0]
    promised = read_summary(trained.run_of(cell).summary).episodes[1].predicted_return
    assert heads.optimistic == [promised]
    assert np.isfinite(heads.best_head).all()
    assert is_picture(draw_thompson(tmp_path / "thompson.png", list(traces(trained)), heads))


def test_heads_are_searched_in_one_thread_whatever_machine_it_is(trained, tmp_path, monkeypatch):
    threads = torch.get_num_threads()
    found = []

    def noted(*_):
        found.append(torch.get_num_threads())
        return BestHead([], [], [])

    monkeypatch.setattr("hucrl_ros.experiments.thompson.best_head", noted)
    try:
        torch.set_num_threads(2)
        figure._thompson(tmp_path / "thompson.png", trained)
    finally:
        torch.set_num_threads(threads)
    assert found == [1]


def test_an_older_bundle_that_flew_promises_nothing_of_the_newest_model(trained, tmp_path):
    cell, copy = trained.cells[0], Sweep(tmp_path / "copy", trained.cells)
    shutil.copytree(trained.run_of(cell).root, copy.run_of(cell).root)
    checkpoint = copy.run_of(cell).checkpoint(0)
    save_file(load_file(checkpoint), checkpoint, {PROMISE: "12.5"})  # of the one that didn't fly
    assert best_head(copy, cell, (0,)).optimistic == [12.5]
