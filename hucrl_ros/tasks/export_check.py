"""Whether a user's reward can become part of a bundle's graphs; it takes a few seconds."""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.task import Task
from hucrl_ros.tasks.view import first_line

COUNT = 64
TOLERANCE = 1e-3
"""Largest |onnx − torch| / (1 + |torch|), as in a bundle [1]."""


class _Reward(nn.Module):
    def __init__(self, task: Task) -> None:
        super().__init__()
        self.task = task

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        return self.task.reward(state, action)


def check_export(task: Task) -> None:
    """Export the reward alone, and compare it with torch in other states.

    Raises:
        ConfigError: it can't be exported, or computes something else then: it branches on
            values, or leaves torch.
    """
    generator = torch.Generator().manual_seed(1)
    states = task.imagined_states(2 * COUNT, generator)
    limits = torch.tensor(task.spec.effort_limits)
    actions = limits * (2.0 * torch.rand(len(states), len(limits), generator=generator) - 1.0)
    origin = task.origin
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "reward.onnx"
        try:
            _export(task, states[:COUNT], actions[:COUNT], path)
        except Exception as error:
            raise ConfigError(
                f"{origin}: the reward can't be exported to ONNX: {_cause(error)}; it must be "
                "made of torch operations, without branches on values"
            ) from None
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = {"state": states[COUNT:].numpy(), "action": actions[COUNT:].numpy()}
    exported = session.run(None, inputs)[0]
    with torch.no_grad():
        expected = task.reward(states[COUNT:], actions[COUNT:]).numpy()
    wrong = np.abs(exported - expected) / (1.0 + np.abs(expected))
    if not wrong.max() <= TOLERANCE:
        worst = int(np.nan_to_num(wrong, nan=np.inf).argmax())
        raise ConfigError(
            f"{origin}: exported to ONNX the reward is {exported[worst]:.6g} where torch says "
            f"{expected[worst]:.6g}; it must be made of torch operations alone"
        )


def _export(task: Task, states: Tensor, actions: Tensor, path: Path) -> None:
    count = torch.export.Dim("particles", min=1)
    with quiet_export():
        program = torch.onnx.export(
            _Reward(task).eval(),
            (states, actions),
            input_names=["state", "action"],
            output_names=["reward"],
            dynamic_shapes=({0: count}, {0: count}),
            dynamo=True,
            optimize=False,
            verbose=False,
        )
    assert program is not None
    program.save(str(path))


def _cause(error: BaseException) -> str:
    """The first error of a chain: the exporter wraps it in pages of advice."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return f"{type(error).__name__}: {first_line(error)}"


@contextmanager
def quiet_export() -> Iterator[None]:
    """Inside, `torch.onnx.export` says nothing but errors."""
    registration = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = registration.level
    registration.setLevel(logging.ERROR)  # It warns of every absent optional package.
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        registration.setLevel(level)
