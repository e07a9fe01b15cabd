"""HTTP on the learner's side, by Python's standard library."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import BinaryIO, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ValidationError

from hucrl_ros.errors import ConfigError, HucrlError, RunError, shortened
from hucrl_ros.run.remote.contract import (
    CHUNK,
    LISTING_BYTES,
    MESSAGE_BYTES,
    SHARED,
    FileEntry,
    Listing,
    Missing,
    Order,
    Report,
    digest_of,
)

TIMEOUT_S = 20.0
"""[s] For the robot's side to answer, and between two parts of a file."""
EXAMINED_S = 90.0
"""[s] For it to examine a bundle, in a process that has a minute for it."""
ATTEMPTS = 3
"""Times that a file is fetched, or a bundle sent, before damage is taken for no accident."""
logger = logging.getLogger(__name__)
_HEADERS = {"Content-Type": "application/json"}

Message = TypeVar("Message", bound=BaseModel)
Done = TypeVar("Done")


class UnreachableError(HucrlError):
    """The robot's side doesn't answer, or not now: it may later."""


class DamagedError(HucrlError):
    """What came isn't what was sent, or was not accepted as such: to be sent anew."""


class RobotClient:
    """Speaks with `RunServer`, through no proxy, and follows nobody elsewhere."""

    def __init__(self, url: str, token: str) -> None:
        """Nothing is sent yet.

        Raises:
            ConfigError: the address has another form.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
            (host or "").encode("idna")  # as the library does, much later
        except ValueError:
            host = port = None
        if host is None or port is None or parts.scheme != "http" or parts.path not in ("", "/"):
            raise ConfigError(f"--robot: {url!r}: expected http://HOST:PORT")
        self.url = f"http://{host}:{port}"
        self._host, self._port, self._token = host, port, token

    def report(self, report: Report) -> Order:
        """Say how the learner is; returns what it is asked for.

        Raises:
            UnreachableError: nobody answers.
            RunError: the robot's side refuses.
        """
        return self._asked("POST", "/learner", Order, report.model_dump_json().encode())

    def listing(self) -> Listing:
        """What the run holds.

        Raises:
            UnreachableError: nobody answers.
            RunError: the robot's side refuses, or names what may not be written here.
        """
        found = self._asked("GET", "/run", Listing)
        for path in found.files:
            if not SHARED.fullmatch(path):
                raise RunError(f"{self.url}: offers a file of a strange name: {shortened(path)}")
        return found

    def fetch(self, path: str, entry: FileEntry, part: Path) -> None:
        """Load a file, or what of it `part` doesn't hold yet.

        Raises:
            UnreachableError: nobody answers, or no more; `part` holds what came.
            DamagedError: its hash is another; `part` is deleted.
            RunError: the robot's side refuses, or the file can't be written here.
        """
        have = part.stat().st_size if part.is_file() else 0
        if have < entry.size or not have:
            headers = {"Range": f"bytes={have}-"} if have else {}
            with self._response("GET", f"/files/{path}", b"", headers) as response:
                goes_on = response.status == HTTPStatus.PARTIAL_CONTENT
                with _written(part), part.open("ab" if goes_on else "wb") as file:
                    while file.tell() <= entry.size and (chunk := self._read(response)):
                        file.write(chunk)
            have = part.stat().st_size
            if have < entry.size:
                raise UnreachableError(f"{self.url}: the connection broke off")
        with part.open("rb") as file:
            found = digest_of(file)
        if found != entry.sha256:
            part.unlink()
            raise DamagedError(
                f"{path} came damaged: its SHA-256 is {found[:12]}…, not {entry.sha256[:12]}…"
            )

    def _read(self, response: HTTPResponse) -> bytes:
        try:
            return response.read1(CHUNK)
        except (OSError, HTTPException) as error:  # not of the file that is written meanwhile
            raise UnreachableError(f"{self.url}: {_reason(error)}") from None

    def send(self, path: str, file: Path) -> tuple[str, ...]:
        """Send a file of the bundle that is waited for; returns what of it is still missing.

        Raises:
            UnreachableError: nobody answers.
            DamagedError: it came damaged.
            RunError: the robot's side refuses.
        """
        with file.open("rb") as opened:
            headers = {"X-SHA256": digest_of(opened), "Content-Length": str(opened.tell())}
            opened.seek(0)
            return self._asked("PUT", f"/files/{path}", Missing, opened, headers).missing

    def finish(self, index: int) -> Order:
        """Let the bundle that was sent appear; returns the next order.

        Raises:
            UnreachableError: nobody answers.
            DamagedError: it isn't complete, or not accepted.
            RunError: the robot's side refuses.
        """
        return self._asked("POST", f"/bundles/{index}", Order, timeout_s=EXAMINED_S)

    def _asked(
        self,
        method: str,
        path: str,
        kind: type[Message],
        content: bytes | BinaryIO = b"",
        headers: dict[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Message:
        limit = LISTING_BYTES if kind is Listing else MESSAGE_BYTES
        with self._response(method, path, content, headers or _HEADERS, timeout_s) as response:
            text = response.read(limit)
        if response.length and len(text) < limit:  # else it would pass for another program's
            raise UnreachableError(f"{self.url}: the connection broke off")
        try:
            return kind.model_validate_json(text)
        except ValidationError:
            raise RunError(
                f"{self.url}: no robot of this program's version answers there: "
                f"{shortened(text.decode(errors='replace'), 80)}"
            ) from None

    @contextmanager
    def _response(
        self,
        method: str,
        path: str,
        content: bytes | BinaryIO,
        headers: dict[str, str],
        timeout_s: float = TIMEOUT_S,
    ) -> Iterator[HTTPResponse]:
        connection = HTTPConnection(self._host, self._port, timeout=timeout_s)
        sent = {**headers, "Authorization": f"Bearer {self._token}", "Connection": "close"}
        try:
            connection.connect()
            # What is sent may be refused before its end.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, content, sent)
            response = connection.getresponse()
            self._require_success(response)
            yield response
        except (OSError, HTTPException) as error:
            raise UnreachableError(f"{self.url}: {_reason(error)}") from None
        finally:
            connection.close()

    def _require_success(self, response: HTTPResponse) -> None:
        status = response.status
        if status in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            return
        if status == HTTPStatus.UNAUTHORIZED:
            raise RunError(f"{self.url}: the robot's side has another token")
        text = response.read(MESSAGE_BYTES).decode(errors="replace")
        try:
            line = shortened(json.loads(text)["error"])
        except (ValueError, KeyError, TypeError):
            line = f"{status} {shortened(text, 80)}"
        if status in (HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST):
            raise DamagedError(f"{self.url}: refused: {line}")
        if status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND, HTTPStatus.INSUFFICIENT_STORAGE):
            raise UnreachableError(f"{self.url}: {line}")  # It may be another one soon.
        raise RunError(f"{self.url}: {line}")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Say of a file that can't be written that it is the one here.

    Raises:
        RunError: it can't be.
    """
    try:
        yield
    except OSError as error:
        raise RunError(f"{path}: can't be written: {_reason(error)}") from None


def patiently(job: Callable[[], Done]) -> Done:
    """Do a transfer again where something came damaged; returns what it does.

    Raises:
        RunError: it came damaged each time.
    """
    for left in reversed(range(ATTEMPTS)):
        try:
            return job()
        except DamagedError as error:
            if not left:
                raise RunError(f"{ATTEMPTS} times in a row: {error}") from None
            logger.warning("%s; again", error)
    raise AssertionError("no attempt")
