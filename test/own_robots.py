"""Robots of one's own for the tests: descriptions written into a folder."""

import copy
from pathlib import Path

import pytest
import yaml

from hucrl_ros.config.files import share_directory
from hucrl_ros.config.task_file import Description, read_description
from hucrl_ros.errors import ConfigError
from hucrl_ros.robots.resolve import resolve
from hucrl_ros.tasks import Task

EXAMPLES = share_directory() / "config" / "examples"
PENDULUM = {
    "robot": {
        "name": "stick",
        "model": str(share_directory() / "sim" / "pendulum.xml"),
        "period": 0.0125,
        "steps": 400,
        "scales": {"pendulum_joint_velocity": 5.0},
        "state_bounds": {"pendulum_joint_velocity": 12.0},
        "start": {"pendulum_joint": 3.141592653589793},
    },
    "reward": {
        "terms": [
            {
                "term": "product",
                "factors": [
                    {"term": "upright", "joint": "pendulum_joint"},
                    {"term": "slow", "joint": "pendulum_joint", "band": 0.5, "margin": 0.5},
                ],
            },
            {"term": "gentle", "band": 0.1, "margin": 0.1},
        ]
    },
}
"""The paper's pendulum, as a user would describe it."""
ARM = yaml.safe_load((EXAMPLES / "planar_arm" / "planar_arm.yaml").read_text())
PUSHER = """<mujoco><compiler angle="radian"/><worldbody>
  <body pos="0 0 0.05"><joint name="rail" type="slide" axis="1 0 0" range="-1 1"/>
    <geom size="0.04" pos="0.1 0 0.01"/>
    <body><joint name="swing" axis="0 0.1 1" range="-1 1"/>
      <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0.02"/></body></body>
  <body name="puck" pos="0.2 0.1 0.05">
    <joint type="slide" axis="1 0 0"/>{object}</body>
</worldbody><actuator><motor joint="rail" ctrlrange="-2 2"/>
<motor joint="swing" ctrlrange="-1 1"/></actuator></mujoco>"""
"""A rail with a swinging arm, in front of a puck that slides."""


DANGLING = """<mujoco><option timestep="0.01"/><worldbody>
  <body><joint name="rail" type="slide" axis="1 0 0"/><geom size="0.1"/>
    <body name="bob"><joint axis="0 1 0"/><geom size="0.05" pos="0 0 -0.3"/></body>
    <body><joint axis="0 1 0"/><geom size="0.05" pos="0 0 -0.3"/></body></body>
  <body name="ball" pos="0 0 2"><freejoint name="loose"/><geom size="0.05"/></body>
</worldbody><actuator><motor joint="rail" ctrlrange="-3 3"/></actuator></mujoco>"""
"""A cart with two bobs on joints without a name, and a ball that falls."""


def write(folder: Path, document: dict, name: str = "mine.yaml") -> Path:
    """A description with its own files copied next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("planar_arm.urdf", "planar_arm.py"):
        (folder / file).write_bytes((EXAMPLES / "planar_arm" / file).read_bytes())
    path = folder / name
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def changed(document: dict, section: str = "robot", **changes) -> dict:
    """A copy with some keys of a section replaced; None: taken out."""
    new = copy.deepcopy(document)
    for key, value in changes.items():
        new[section].pop(key, None)
        if value is not None:
            new[section][key] = value
    return new


def resolved(folder: Path, document: dict) -> Description:
    """What becomes of a description."""
    return resolve(read_description(write(folder, document)))


def task_of(folder: Path, document: dict, action_penalty: float = 0.0) -> Task:
    """The task of a description."""
    return Task(resolved(folder, document), action_penalty)


def pushing(folder: Path, geom: str) -> dict:
    """A robot that can push a puck of a given `<geom>`."""
    (folder / "pusher.xml").write_text(PUSHER.format(object=geom))
    robot = {
        "model": str(folder / "pusher.xml"),
        "period": 0.02,
        "steps": 50,
        "observed": ["puck_z", "puck_x", "puck_y", "puck_x_velocity"],
    }
    reward = {"terms": [{"term": "distance", "of": "puck", "to": [0.5, 0.0, 0.05]}]}
    return {"robot": robot, "reward": reward}


def modelled(folder: Path, model: str, **robot) -> dict:
    """A robot of an MJCF or URDF, as short as can be."""
    path = folder / f"model.{'urdf' if model.lstrip().startswith('<robot') else 'xml'}"
    path.write_text(model)
    robot = {"model": str(path), "period": 0.02, "steps": 50, **robot}
    return {"robot": robot, "reward": {"terms": [{"term": "effort"}]}}


def refusal(folder: Path, document: dict) -> str:
    """The one line with which a description is refused."""
    with pytest.raises(ConfigError) as caught:
        task_of(folder, document)
    message = str(caught.value)
    assert "\n" not in message
    return message
