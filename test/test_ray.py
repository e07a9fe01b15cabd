"""A sweep on a Ray cluster of two nodes gives what it gives on this machine."""

import os
import sys
from pathlib import Path

import pytest
from pretended_training import DIES, FAILS, MARKER
from test_sweep import PRETENDED, run, sweep_of

from hucrl_ros.cli import main
from hucrl_ros.errors import RunError
from hucrl_ros.experiments.sweep import PARTIAL
from hucrl_ros.experiments.workers import RayWorkers

# Ray replaces 127.0.0.1 by the machine's own address, unless it believes to be on a desktop.
os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """Its address; two nodes with a processor each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv(MARKER, str(tmp_path_factory.mktemp("ray") / "killed"))
        node = {"num_cpus": 1, "include_dashboard": False, "node_ip_address": "127.0.0.1"}
        nodes = Cluster(initialize_head=True, head_node_args=node)
        nodes.add_node(num_cpus=1, node_ip_address="127.0.0.1")
        try:
            yield nodes.address
        finally:
            ray.shutdown()
            nodes.shutdown()


def run_there(address, sweep, report=lambda cell, exit_: None):
    return sweep.run(RayWorkers(address, sweep.logs, PRETENDED), report)


def test_both_places_give_the_same_table_and_a_killed_workers_cells_are_done_again(
    cluster, tmp_path
):
    here, there = (sweep_of(tmp_path / name, [0, DIES, 2]) for name in ("here", "there"))
    assert run_there(cluster, there) == []
    assert Path(os.environ[MARKER]).exists()  # the worker did die
    assert run(here, 2) == []
    assert there.rows() == here.rows()
    assert len(there.rows()) == 2 * 3 * 3


def test_a_failed_training_says_why_and_the_next_sweep_does_what_is_missing(cluster, tmp_path):
    ended = []
    sweep = sweep_of(tmp_path, [FAILS, 0])
    failures = run_there(cluster, sweep, lambda cell, exit_: ended.append(cell.config.seed))
    assert len(failures) == 2
    assert "the model exploded" in failures[0].description
    assert "the model exploded" in (sweep.logs / f"{failures[0].name}.log").read_text()
    assert sorted(ended) == [0, 0, FAILS, FAILS]
    assert {cell.config.seed for cell in sweep.finished} == {0}
    assert not list(tmp_path.glob(f"*seed0{PARTIAL}"))
    ended.clear()
    more = sweep_of(tmp_path, [0, 1])
    assert run_there(cluster, more, lambda cell, exit_: ended.append(cell.config.seed)) == []
    assert ended == [1, 1]


def test_an_address_without_a_cluster_is_refused_in_one_line(tmp_path):
    with pytest.raises(RunError, match=r"--ray 127\.0\.0\.1:1: no Ray cluster there") as refused:
        RayWorkers("127.0.0.1:1", tmp_path)
    assert "\n" not in str(refused.value)


def test_local_and_ray_workers_exclude_each_other(capsys):
    words = ["sweep", "pendulum", "--out", "x", "--workers", "2", "--ray", "auto"]
    assert main(words) == 2
    assert "not allowed with" in capsys.readouterr().err
