"""One robot for each kind of command: a cart with a pole on a rail, and an arm of two links."""

from pathlib import Path

from own_robots import task_of

CART = """<mujoco><compiler angle="radian"/><option timestep="0.01" integrator="implicitfast"/>
<worldbody><body pos="0 0 0.5"><joint name="rail" type="slide" axis="1 0 0" range="-2 2"/>
  <geom type="box" size="0.1 0.05 0.05" mass="1" contype="0" conaffinity="0"/>
  <site name="cart"/>
  <body><joint name="pole" axis="0 1 0" damping="0.05"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.4" mass="0.2" contype="0"
      conaffinity="0"/></body></body></worldbody>
<actuator>{actuator}</actuator></mujoco>"""
ARM = """<mujoco><compiler angle="radian"/><option timestep="0.01" integrator="implicitfast"/>
<worldbody><body pos="0 0 0.8"><joint name="shoulder" axis="0 1 0" range="-2.5 2.5" damping="0.2"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0 0 -0.3" mass="0.5" contype="0" conaffinity="0"/>
  <body pos="0 0 -0.3"><joint name="elbow" axis="0 1 0" range="-2.5 2.5" damping="0.1"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0 0 -0.3" mass="0.3" contype="0"
      conaffinity="0"/><site name="hand" pos="0 0 -0.3"/></body></body></worldbody>
<actuator>{actuator}</actuator></mujoco>"""
MODELS = {
    "effort": ARM.format(
        actuator='<motor joint="shoulder" ctrlrange="-6 6"/>'
        '<motor joint="elbow" ctrlrange="-2 2"/>'
    ),
    "velocity": CART.format(actuator='<velocity joint="rail" kv="40" ctrlrange="-1.5 1.5"/>'),
    "position": ARM.format(
        actuator='<position joint="shoulder" kp="60" kv="4" forcerange="-12 12"/>'
        '<position joint="elbow" kp="30" kv="1.5" forcerange="-6 6"/>'
    ),
}
ROBOTS = {
    "effort": {"joints": ["shoulder", "elbow"]},
    "velocity": {"joints": ["rail", "pole"], "start": {"rail": {"low": 0.8, "high": 1.2}}},
    "position": {"joints": ["shoulder", "elbow"], "command_limits": [0.15, 0.15]},
}
PLACES = {"effort": [0.3, 0.0, 0.4], "velocity": [-0.6, 0.0, 0.5], "position": [0.35, 0.0, 0.5]}
TOOLS = {"effort": "hand", "velocity": "cart", "position": "hand"}
COMMANDS = tuple(MODELS)
PERIOD, STEPS = 0.04, 75


def described(folder: Path, command: str) -> dict:
    """A description, whose model is written into the folder."""
    model = folder / f"{command}.xml"
    folder.mkdir(parents=True, exist_ok=True)
    model.write_text(MODELS[command])
    aim = {"of": TOOLS[command], "to": PLACES[command]}
    robot = {
        "name": f"{command}_robot",
        "model": str(model),
        "period": PERIOD,
        "steps": STEPS,
        "command": command,
        **ROBOTS[command],
    }
    reward = {
        "terms": [{"term": "near", **aim, "length": 0.25}],
        "success": {**aim, "within": 0.05},
    }
    return {"robot": robot, "reward": reward}


def task_with(folder: Path, command: str):
    """The task of a robot that takes such commands."""
    return task_of(folder, described(folder, command))
