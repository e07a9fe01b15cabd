"""Draws a robot, its floor, goal, constraints and ways of its tip into a scene of viser."""

import numpy as np
from numpy.typing import NDArray
from viser import LineSegmentsHandle, MeshHandle, SceneApi, SceneNodeHandle

from hucrl_ros.page.belief import Belief
from hucrl_ros.page.fences import Fences
from hucrl_ros.page.kinematics import Kinematics
from hucrl_ros.page.look import EXPECTED, HAPPENED, OPTIMISTIC, Colour
from hucrl_ros.page.tube import tube
from hucrl_ros.robots.shapes import floor_height, shapes

Array = NDArray[np.float64]
WIDEST = 0.12
"""Radius of a tube that is drawn, as a share of the robot's size."""
NOWHERE = np.zeros((2, 3))


class Figure:
    """A robot in a scene; one frame for each body, its geoms below it.

    One that goes away is followed: it stays where it is seen, and the floor moves below it.
    """

    def __init__(self, scene: SceneApi, kinematics: Kinematics, root: str) -> None:
        """Draw it as the model has it, below the node `root`."""
        self._scene, self._kinematics, self._root = scene, kinematics, root
        self._base = scene.add_frame(root, show_axes=False)
        model = kinematics.model
        self._frames: list[SceneNodeHandle] = [
            scene.add_frame(f"{root}/bodies/{body}", show_axes=False)
            for body in range(model.nbody)
        ]
        for shape in shapes(model):
            scene.add_mesh_simple(
                f"{root}/bodies/{shape.body}/{shape.name}",
                shape.vertices,
                shape.faces,
                color=shape.colour,
                opacity=None if shape.opacity >= 1.0 else shape.opacity,
            )
        self._fences = Fences(scene, root, kinematics.constraints, model, kinematics.data)
        self._size = float(model.stat.extent)
        cell = 10.0 ** np.floor(np.log10(self._size)) / 2.0
        scene.add_grid(
            f"{root}/floor",
            infinite_grid=True,
            cell_size=cell,
            section_size=5 * cell,
            cell_color=(206, 211, 219),
            section_color=(176, 183, 194),
            fade_distance=14.0 * self._size,
            shadow_opacity=0.18,
            position=(0.0, 0.0, floor_height(model) or 0.0),
        )
        thickness = 0.004 * self._size
        self._ways = {
            name: _line(scene, f"{root}/ways/{name}", colour, thickness * share)
            for name, colour, share in (
                ("fan", OPTIMISTIC, 0.3),
                ("optimistic", OPTIMISTIC, 1.1),
                ("expected", EXPECTED, 1.5),
                ("happened", HAPPENED, 0.8),
            )
        }
        self._tube: MeshHandle = scene.add_mesh_simple(
            f"{root}/ways/tube",
            *tube(NOWHERE, np.zeros(2)),
            color=EXPECTED,
            opacity=0.22,
            side="double",
            cast_shadow=False,
            receive_shadow=False,
            visible=False,
        )

    def show(self, visible: bool) -> None:
        """Or hide all of it."""
        self._base.visible = visible

    def pose(self, state: Array, untold: Array | float = 0.0) -> None:
        """Put robot, object and goal where a state `(p,)` says, and what is `untold` of it."""
        positions, quaternions = self._kinematics.poses(state, untold)
        self._base.position = -self._kinematics.gone
        for frame, position, quaternion in zip(self._frames, positions, quaternions, strict=True):
            frame.position = position
            frame.wxyz = quaternion
        self._fences.follow(self._kinematics.data)

    def believe(self, belief: Belief | None) -> None:
        """Draw what a bundle imagines; None: nothing."""
        for name in ("fan", "optimistic", "expected"):
            self._ways[name].visible = belief is not None
        self._tube.visible = belief is not None
        if belief is None:
            return
        _draw(self._ways["fan"], *belief.fan)
        _draw(self._ways["optimistic"], belief.optimistic)
        _draw(self._ways["expected"], belief.expected)
        # A wider one would hide the robot.
        vertices, faces = tube(belief.expected, np.minimum(belief.spread, WIDEST * self._size))
        self._tube.vertices = vertices.astype(np.float32)
        self._tube.faces = faces.astype(np.uint32)

    def happened(self, tips: Array) -> None:
        """Draw where the tip was `(T, 3)` [m]."""
        self._ways["happened"].visible = len(tips) > 1
        if len(tips) > 1:
            _draw(self._ways["happened"], tips)


def _line(scene: SceneApi, name: str, colour: Colour, thickness: float) -> LineSegmentsHandle:
    return scene.add_line_segments(name, NOWHERE[None], colour, thickness=thickness, visible=False)


def _draw(line: LineSegmentsHandle, *ways: Array) -> None:
    """One line through each of `ways` `(T, 3)`."""
    segments = [np.stack([way[:-1], way[1:]], axis=1) for way in ways]
    line.points = np.concatenate(segments).astype(np.float32)
