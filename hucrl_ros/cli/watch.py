"""`hucrl watch`: a live page of a run, beside it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

HOST, PORT = "127.0.0.1", 8080
LAST_LINE = "token"
"""Beginning of the last line that the page's process prints."""
END_S = 5.0
"""[s] For the page to end."""


def run(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="a run's folder; default: the one that you play in ROS_DOMAIN_ID, or the newest"
        ),
    ] = None,
    host: Annotated[
        str, Option(help="address to serve on; others can reach any but 127.0.0.1")
    ] = HOST,
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free")] = PORT,
    token: Annotated[
        Path | None, Option(help="file with the token for the controls; default: a new token")
    ] = None,
) -> None:
    """Show a run in a browser: the robot, what its bundle believes, how learning goes.

    The page only listens. Whoever enters the token that is printed may also stop the robot and
    choose what comes next.
    """
    from hucrl_ros.page.nodes.watch import watch

    raise typer.Exit(watch(run, host, port, token, _say))


def _say(line: str) -> None:
    print(line, flush=True)


def page_command(run: Path, port: int = PORT) -> list[str]:
    """Command line of a page of `run`."""
    return [sys.executable, "-m", "hucrl_ros", "watch", str(run), "--port", str(port)]


@contextmanager
def page_beside(run: Path, log: Path, port: int = PORT) -> Iterator[None]:
    """A page of `run` in a process of its own; its address is printed first.

    Without a page, in one line, where that process can't serve: a run needs none.
    """
    from hucrl_ros.run.session import PARENT_VARIABLE

    with log.open("w") as errors:
        process = subprocess.Popen(
            page_command(run, port),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, PARENT_VARIABLE: str(os.getpid())},
            start_new_session=True,  # Ctrl-C is for the run, which then ends it
        )
    try:
        _pass_on(process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _pass_on(process: "subprocess.Popen[str]", log: Path) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        _say(line.rstrip())
        if line.startswith(LAST_LINE):
            return
    said = log.read_text(errors="replace").strip().splitlines()
    _say(f"no page: {said[-1] if said else 'it ended without a word'}")
