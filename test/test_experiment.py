"""An experiment's file becomes trainings, or is refused with one line."""

from functools import partial

import pytest
import yaml
from test_sweep import PRETENDED, read_rows

from hucrl_ros.cli import main
from hucrl_ros.config.files import share_directory
from hucrl_ros.errors import ConfigError
from hucrl_ros.experiments import workers
from hucrl_ros.experiments.grid import read_grid
from hucrl_ros.experiments.workers import LocalWorkers
from hucrl_ros.models import MODELS, kind_of
from hucrl_ros.tasks import make_task

TWO_TASKS = {
    "tasks": {
        "pendulum": {"action_penalties": [0.0, 0.2], "episodes": 3, "goal": 1.0},
        "cartpole": {"action_penalties": [0.05], "set": {"planner.horizon": 7}},
    },
    "strategies": ["greedy", "optimistic"],
    "seeds": [3, 4],
    "set": {"planner.particles": 16},
    "variants": {
        "name": "optimiser",
        "options": {
            "policy": {"planner.algorithm": "policy", "search.algorithm": "mpo"},
            "dyna": {},
        },
    },
}


def written(path, **changes):
    path.write_text(yaml.safe_dump({**TWO_TASKS, **changes}, sort_keys=False))
    return path


def test_cells_are_all_combinations_task_by_task(tmp_path):
    cells = read_grid(written(tmp_path / "grid.yaml")).cells()
    assert len(cells) == len({cell.name for cell in cells}) == 2 * 2 * 2 * 2 + 2 * 2 * 2
    assert [cell.config.task for cell in cells] == ["pendulum"] * 16 + ["cartpole"] * 8
    assert {cell.config.planner.particles for cell in cells} == {16}
    assert {cell.config.planner.horizon for cell in cells[16:]} == {7}
    assert {cell.config.episodes for cell in cells[:16]} == {3}
    for cell in cells:
        follows = cell.value == "policy"
        assert (cell.config.planner.algorithm == "policy") == follows
        assert (cell.config.search.algorithm == "mpo") == follows


ENSEMBLES = "probabilistic_ensemble"
NAMED = {kind: kind for kind in MODELS} | {
    "RFF": "rff",
    "QFF": "qff",
    "no bootstrap": ENSEMBLES,
    "geometric rff": "rff",
    "confidence rff": "rff",
}


KINDS = {
    "ablation": {ENSEMBLES},
    "beta": {"rff", "gp", ENSEMBLES},
    "models": set(MODELS),
    "thompson": {ENSEMBLES, "rff", "qff"},
}


@pytest.mark.parametrize("name", KINDS)
def test_an_experiments_models_are_those_that_it_names(name):
    seen = set()
    for cell in read_grid(share_directory() / "config" / "experiments" / f"{name}.yaml").cells():
        kind = kind_of(cell.config.model, make_task(cell.config.task, 0.0))
        if cell.value in NAMED:
            assert kind == NAMED[cell.value]
        elif cell.value.endswith(" heads") or name == "ablation":
            assert kind == ENSEMBLES
        if cell.value.endswith(" heads"):
            assert cell.config.model.heads == int(cell.value.removesuffix(" heads"))
        seen.add(kind)
    assert seen == KINDS[name]


def test_a_strategy_may_be_tried_with_the_first_variant_only(tmp_path):
    variants = {**TWO_TASKS["variants"], "first_only": ["greedy"]}
    cells = read_grid(written(tmp_path / "grid.yaml", variants=variants)).cells()
    tried = {(cell.config.strategy, cell.value) for cell in cells}
    assert tried == {("greedy", "policy"), ("optimistic", "policy"), ("optimistic", "dyna")}


def test_one_task_needs_no_prefix(tmp_path):
    tasks = {"pendulum": {"action_penalties": [0.2]}}
    cells = read_grid(written(tmp_path / "grid.yaml", tasks=tasks, variants=None)).cells()
    assert cells[0].name == "greedy-rho0.2-seed3"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tasks": {}}, "tasks = {}: "),
        ({"seeds": []}, r"seeds = \[\]: "),
        ({"sedes": [1]}, "unknown key 'sedes'; did you mean 'seeds'"),
        ({"strategies": ["hopeful"]}, r"strategies\.0 = 'hopeful': "),
        ({"set": {"planner.particels": 3}}, "'planner.particels'; did you mean 'particles'"),
        ({"tasks": {"pendulm": {"action_penalties": [0]}}}, "'pendulm' is unknown"),
        (
            {"variants": {**TWO_TASKS["variants"], "first_only": ["thompson"]}},
            "first_only: thompson; expected some of the strategies greedy, optimistic",
        ),
        ({"seeds": [1, 1]}, "asks for it more than once"),
        ({"variants": {"name": "x", "options": {"a": {"search.x": 1}}}}, r"'search\.x'"),
    ],
)
def test_a_senseless_file_is_refused_by_name(tmp_path, changes, message):
    with pytest.raises(ConfigError, match=message):
        read_grid(written(tmp_path / "grid.yaml", **changes)).cells()


@pytest.mark.parametrize("text", ["- 1", "a: [", "\xff"])
def test_a_file_of_other_things_is_refused(tmp_path, text, capsys):
    path = tmp_path / "grid.yaml"
    path.write_bytes(text.encode("latin-1"))
    assert main(["sweep", str(path), "--out", str(tmp_path / "out")]) == 2
    assert str(path) in capsys.readouterr().err


def test_the_command_trains_what_is_missing_and_makes_one_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(workers, "LocalWorkers", partial(LocalWorkers, module=PRETENDED))
    monkeypatch.chdir(tmp_path)
    grid = written(tmp_path / "grid.yaml", variants=None, seeds=[0], strategies=["greedy"])
    words = ["sweep", str(grid), "--out", "out", "--workers", "2"]
    assert main(words) == 0
    rows = read_rows(tmp_path / "out" / "returns.csv")
    assert {(row["task"], row["action_penalty"]) for row in rows} == {
        ("pendulum", "0.0"),
        ("pendulum", "0.2"),
        ("cartpole", "0.05"),
    }
    for task in ("pendulum", "cartpole"):
        assert (tmp_path / "out" / task / "README.md").is_file()
    page = (tmp_path / "out" / "pendulum" / "README.md").read_text()
    assert f"hucrl sweep {grid} --out out\n" in page
    capsys.readouterr()
    assert main(["experiment", *words[1:]]) == 0
    captured = capsys.readouterr()
    assert "3 of 3 runs are finished already" in captured.out
    assert captured.err == "hucrl experiment: it is called `hucrl sweep` now\n"


def test_what_a_file_says_is_no_option(tmp_path, capsys):
    path = str(written(tmp_path / "grid.yaml"))
    assert main(["sweep", path, "--out", "out", "--seeds", "0"]) == 2
    error = f"hucrl sweep: --seeds: {path} says it; leave the option out\n"
    assert capsys.readouterr().err == error
