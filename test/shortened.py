"""The paper's tasks with shorter episodes, in this process."""

import dataclasses

import pytest

from hucrl_ros.robots import resolve

_described = resolve._resolved


def shorten(patch: pytest.MonkeyPatch, steps: int, **robot: object) -> None:
    """Let their episodes last `steps` control periods; replace other settings of `robot`, too."""

    def short(path):
        found = _described(path)
        changed = found.robot.model_copy(update={"steps": steps, **robot})
        return dataclasses.replace(found, robot=changed)

    patch.setattr(resolve, "_resolved", short)
