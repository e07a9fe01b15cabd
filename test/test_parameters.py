from types import SimpleNamespace

from own_robots import PENDULUM, resolved

from hucrl_ros.config.schema import Config
from hucrl_ros.nodes.parameters import robot_of_run
from hucrl_ros.robots import Pendulum
from hucrl_ros.run.folder import RunFolder


class Node:
    """Has the parameter `run`."""

    def __init__(self, run):
        self.run = str(run)

    def has_parameter(self, name):
        return name == "run"

    def get_parameter(self, name):
        return SimpleNamespace(value=getattr(self, name))


def test_a_run_that_describes_its_robot_tells_its_limits(tmp_path):
    described = resolved(tmp_path, PENDULUM)
    run = RunFolder.create(tmp_path / "run", Config(task="stick"), described)
    spec = robot_of_run(Node(run.root), "stick")
    assert spec is not None
    assert (spec.name, spec.effort_limits) == ("stick", Pendulum.spec.effort_limits)


def test_without_such_a_run_the_robot_is_not_known(tmp_path):
    run = RunFolder.create(tmp_path / "run", Config())
    assert robot_of_run(Node(run.root), "pendulum") is None
    assert robot_of_run(Node(""), "pendulum") is None
