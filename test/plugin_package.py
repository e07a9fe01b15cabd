"""A package of plug-ins as pip would install it: a module, and a dist-info with entry points."""

from pathlib import Path

SOURCE = '''
from hucrl_ros.planners import Cem
from hucrl_ros.config.reward import TermSettings


class Planner(Cem):
    """A planner of another package."""


class Still(TermSettings):
    """-bias - |q| of a joint."""

    joint: str
    bias: float = 0.0

    def value(self, robot, state, action):
        return -self.bias - robot.position(state, self.joint).abs()
'''
LEARNING = '''
from hucrl_ros.models import Ensemble
from hucrl_ros.search import Lookahead


class Model(Ensemble):
    """A model of another package."""


class Search(Lookahead):
    """A search of another package."""
'''
POINTS = {
    "planners": {"their_planner": "their_robot_side:Planner"},
    "reward_terms": {"still": "their_robot_side:Still"},
    "models": {"their_model": "their_learning:Model"},
    "searches": {"their_search": "their_learning:Search"},
}


def install(folder: Path, points=POINTS, package="theirs") -> None:
    """Write the modules and the metadata of `package` into a folder of `sys.path`."""
    (folder / "their_robot_side.py").write_text(SOURCE)
    (folder / "their_learning.py").write_text(LEARNING)
    information = folder / f"{package}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    )
    lines = []
    for kind, members in points.items():
        lines += [f"[hucrl_ros.{kind}]", *(f"{name} = {path}" for name, path in members.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
