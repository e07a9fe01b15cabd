"""How a command line is read, refused in one line, and written down again."""

import os
import shlex
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from itertools import takewhile
from pathlib import Path
from typing import get_args

import typer
from rich.markup import escape
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from hucrl_ros.errors import ConfigError

SEVERAL = "..."
"""End of the metavar of an option that takes all values that follow: `--seeds 0 1 2`."""
MOST = 86400
"""[s or ms] Largest time that `above_zero` lets through: a day's seconds."""
Numbers = float | list[float] | None
_KINDS: dict[object, str] = {int: "expected a whole number", float: "expected a number"}


class Command(TyperCommand):
    """A command whose options may take several values."""

    # What the base class takes has a private name in typer.
    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Read the words of the command line."""
        if not ctx.resilient_parsing:  # A shell asks for completions of half a line.
            args = list(spread(args, self.params))
        return super().parse_args(ctx, args)

    def format_help(self, ctx: typer.Context, formatter: object) -> None:  # type: ignore[override]
        """Print the docstring with each paragraph as one line, for a terminal of any width."""
        paragraphs = (self.help or "").split("\n\n")
        # Escaped, since rich takes what stands in brackets for markup and leaves it out.
        self.help = escape("\n\n".join(" ".join(text.split()) for text in paragraphs))
        super().format_help(ctx, formatter)  # type: ignore[arg-type]


def spread(words: Sequence[str], params: Sequence[object]) -> Iterator[str]:
    """Yield each value with its option: `--seeds 0 1` as `--seeds=0` and `--seeds=1`.

    Raises:
        ConfigError: an option lacks its value.
    """
    options = {
        name: option
        for option in params
        if isinstance(option, TyperOption) and not option.is_flag
        for name in option.opts
    }
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (word, *rest)
            return
        if word not in options:
            yield word
            continue
        values = list(takewhile(_is_value, rest))
        if not _takes_several(options[word]):
            values = values[:1]
        if not values:
            raise ConfigError(f"{word}: expected a value")
        del rest[: len(values)]
        yield from (f"{word}={value}" for value in values)


def problem(error: typer.TyperException) -> str:
    """One line on what is wrong with a command line: the value, its option, what is accepted."""
    group = getattr(getattr(error, "ctx", None), "command", None)
    if isinstance(group, TyperGroup):
        return f"{error.format_message().rstrip('.')}; known: {', '.join(group.commands)}"
    parameter = getattr(error, "param", None)
    details = getattr(error.__cause__, "errors", None)
    if details is None or not isinstance(parameter, (TyperArgument, TyperOption)):
        return " ".join(error.format_message().split())
    detail = details()[0]
    value = str(detail["input"])
    name = parameter.opts[0] if isinstance(parameter, TyperOption) else parameter.display_name_raw
    if parameter.type_descriptor.choices is not None:
        accepted = _one_of(value, [str(choice) for choice in parameter.type_descriptor.choices])
    elif detail["type"] not in ("greater_than_equal", "less_than_equal"):
        annotation = parameter.type_descriptor.annotation
        accepted = _KINDS.get((*get_args(annotation), annotation)[0], "not understood")
    elif parameter.min is not None and parameter.max is not None:
        accepted = f"from {parameter.min} to {parameter.max}"
    else:
        accepted = f"at least {parameter.min}"
    return f"{name} = {value}: {accepted}"


def folder_to_write(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a folder that can't be made or written, before the work; the callback of options.

    Raises:
        ConfigError: it can't.
    """
    if value is not None:
        require_folder(param.opts[0], value)
    return value


def file_to_write(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a file that can't be made, as `folder_to_write` does.

    Raises:
        ConfigError: it can't.
    """
    if value is not None:
        if os.path.isdir(value):  # noqa: PTH112  # Path's raises of too long a name
            raise ConfigError(f"{param.opts[0]} = {value}: is a folder; expected a file")
        if not os.path.exists(value):  # noqa: PTH110
            require_folder(param.opts[0], value, value.absolute().parent)
        elif not os.access(value, os.W_OK):
            raise ConfigError(f"{param.opts[0]} = {value}: can't be written")
    return value


def require_folder(option: str, value: Path, folder: Path | None = None) -> None:
    """Refuse what can't be made or written in `folder`, by default `value` itself.

    Raises:
        ConfigError: it can't.
    """
    folder = folder or value.absolute()
    # The first that is there, of it and those above.
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not os.path.isdir(there):  # noqa: PTH112
        raise ConfigError(f"{option} = {value}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConfigError(f"{option} = {value}: {there} can't be written")


def above_zero(param: typer.CallbackParam, value: Numbers) -> Numbers:
    """Refuse times that aren't positive, or longer than `MOST`; the callback of options.

    Raises:
        ConfigError: one isn't.
    """
    for number in [value] if isinstance(value, float) else value or ():
        if not 0 < number <= MOST:
            raise ConfigError(f"{param.opts[0]} = {number:g}: more than 0 and at most {MOST}")
    return value


def one_of(*names: str) -> Callable[[typer.CallbackParam, list[str] | None], list[str] | None]:
    """A callback of options that refuses values which aren't known."""

    def check(param: typer.CallbackParam, values: list[str] | None) -> list[str] | None:
        for value in values or ():
            if value not in names:
                raise ConfigError(f"{param.opts[0]} = {value}: {_one_of(value, names)}")
        return values

    return check


def command_line(ctx: typer.Context, leave_out: Collection[str] = (), **changed: object) -> str:
    """The command that does the same again, as a page of results shows it.

    Args:
        ctx: The command that runs.
        leave_out: Names of parameters that change no number.
        changed: Values in the place of those that were typed.
    """
    arguments: list[str] = []
    options: list[str] = []
    for param in ctx.command.params:
        value = changed.get(str(param.name), ctx.params.get(str(param.name)))
        values = list(value) if isinstance(value, (list, tuple)) else [value]
        if param.name in leave_out or value is None or value is False or not values:
            continue
        words = [_word(entry) for entry in values]
        if isinstance(param, TyperArgument):
            arguments += words
        elif value is True:
            options.append(param.opts[0])
        elif isinstance(param, TyperOption) and _takes_several(param):
            options += [param.opts[0], *words]
        else:
            options += [part for word in words for part in (param.opts[0], word)]
    return shlex.join([*ctx.command_path.split(), *arguments, *options])


def _one_of(value: str, names: Sequence[str]) -> str:
    near = get_close_matches(value, names, n=1)
    return f"expected one of {', '.join(names)}" + (f"; did you mean {near[0]!r}?" if near else "")


def _takes_several(option: TyperOption) -> bool:
    return option.multiple and (option.metavar or "").endswith(SEVERAL)


def _is_value(word: str) -> bool:
    """Whether the word is no option; a negative number is none."""
    try:
        float(word)
    except ValueError:
        return not word.startswith("-") or word == "-"
    return True


def _word(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return os.fspath(value) if isinstance(value, Path) else str(value)
