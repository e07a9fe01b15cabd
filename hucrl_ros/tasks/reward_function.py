"""A reward that a user writes as a Python function."""

import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from torch import Tensor

from hucrl_ros.errors import ConfigError
from hucrl_ros.tasks.view import RobotView

RewardFunction = Callable[[Tensor, Tensor, RobotView], Tensor]
"""States `(..., p)`, actions `(..., q)`, robot → `(...)`."""


def load_function(path: Path, name: str) -> RewardFunction:
    """Run a user's file and take the function `name` from it.

    Nothing is left behind: no entry in `sys.modules`, no compiled file next to the source.

    Raises:
        ConfigError: the file can't be read or run, or has no such function.
    """
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except Exception as error:
        raise ConfigError(explain(path, error)) from None
    found = vars(module).get(name)
    if not callable(found):
        known = [key for key, value in vars(module).items() if _is_own_function(value, path)]
        raise ConfigError(
            f"{path}: has no function {name!r}; functions there: {', '.join(known) or 'none'}"
        )
    function: RewardFunction = found
    return function


def explain(path: Path, error: Exception) -> str:
    """One line on what went wrong in a user's file, with the last of its lines involved."""
    if isinstance(error, SyntaxError):
        return f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{where}: {type(error).__name__}: {first_line(error)}"


def first_line(error: BaseException) -> str:
    """The message's first line that says something."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line for line in lines if line), type(error).__name__)


def _is_own_function(value: object, path: Path) -> bool:
    code = getattr(value, "__code__", None)
    return code is not None and code.co_filename == str(path)
