"""HTTP on the robot's side, by Python's standard library."""

import contextlib
import hmac
import json
import logging
import re
import socket
import threading
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import BaseModel, ValidationError

from hucrl_ros.errors import ConfigError, HucrlError, RunError, shortened
from hucrl_ros.run.remote.contract import CHUNK, MESSAGE_BYTES, Report
from hucrl_ros.run.remote.exchange import Exchange
from hucrl_ros.run.remote.inbox import RefusedError

HEAD_S = 5.0
"""[s] For a request's head to come: before it nobody has shown the token."""
IDLE_S = 20.0
"""[s] Longest silence in the middle of a request."""
CONNECTIONS = 8
"""At a time; more are closed unheard."""
_FILES, _FINISH = "/files/", re.compile(r"/bundles/(\d{1,9})", re.ASCII)
_RANGE = re.compile(r"bytes=(\d{1,18})-", re.ASCII)
logger = logging.getLogger(__name__)


class RunServer(ThreadingHTTPServer):
    """Serves a run to the learner that knows the token, in threads of its own."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, exchange: Exchange, token: str) -> None:
        """Listen; requests are answered once `start` was called.

        Raises:
            RunError: nobody can listen there.
        """
        self._free = threading.BoundedSemaphore(CONNECTIONS)
        try:
            super().__init__((host, port), partial(_Handler, exchange, token))
        except OSError as error:
            raise RunError(f"{host}:{port}: can't listen there: {error.strerror}") from None

    def start(self) -> None:
        """Answer requests, until this process ends."""
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer in a new thread, if not too many do already."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """In that thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """One line, not a traceback on the standard error: learners come and go."""
        logger.warning("a request from %s broke off", client_address[0], exc_info=False)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`.

    Raises:
        ConfigError: it has another form.
    """
    host, _, port = text.rpartition(":")
    if not re.fullmatch(r"[\w.-]+", host) or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise ConfigError(f"--listen: {text!r}: expected HOST:PORT, e.g. 0.0.0.0:8642")
    return host, int(port)


def is_loopback(listen: str) -> bool:
    """Whether only this machine reaches a server that listens there."""
    host = parse_address(listen)[0]
    return host == "localhost" or host.startswith("127.")


def learner_command(listen: str) -> str:
    """What a person types where the learner shall run, for a server that listens there."""
    host, port = parse_address(listen)
    named = socket.gethostname() if host == "0.0.0.0" else host
    return f"hucrl learner --robot http://{named}:{port} --token-file robot.token"


class _Handler(BaseHTTPRequestHandler):
    """One connection. Nothing is looked at before the token was."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "hucrl", ""
    error_message_format, error_content_type = "%(message)s\n", "text/plain; charset=utf-8"
    timeout = IDLE_S

    def __init__(self, exchange: Exchange, token: str, *given: Any) -> None:  # noqa: ANN401
        self._exchange, self._token = exchange, token
        super().__init__(*given)

    def handle(self) -> None:
        """Answer requests until either side has had enough."""
        with contextlib.suppress(ConnectionError, TimeoutError):
            super().handle()

    def handle_one_request(self) -> None:
        """Answer a request whose head comes in time, however evenly it trickles in."""
        self._late = threading.Timer(HEAD_S, self._hang_up)
        self._late.daemon = True
        self._late.start()
        try:
            super().handle_one_request()
        finally:
            self._late.cancel()

    def _hang_up(self) -> None:
        with contextlib.suppress(OSError):  # it has gone by itself
            self.connection.shutdown(socket.SHUT_RDWR)

    def parse_request(self) -> bool:
        """Read a request's head; whoever doesn't know the token gets 401 and nothing else."""
        complete = super().parse_request()
        self._late.cancel()
        if not complete:
            return False
        given = self.headers.get("Authorization", "").encode(errors="replace")
        if hmac.compare_digest(given, f"Bearer {self._token}".encode()):
            return True
        logger.warning("wrong token from %s", self.client_address[0])
        self.close_connection = True
        self.send_response(HTTPStatus.UNAUTHORIZED)
        self.send_header("WWW-Authenticate", "Bearer")
        self.send_header("Content-Length", "0")
        self.end_headers()
        return False

    def handle_expect_100(self) -> bool:
        """Promise nothing before the token was looked at."""
        return True

    def log_message(self, format: str, *args: object) -> None:
        """A learner asks once a second: that is not worth a line."""

    def do_GET(self) -> None:
        """The list of files, or one of them."""
        self._answer(self._get)

    def do_PUT(self) -> None:
        """A file of the bundle that is waited for."""
        self._answer(self._put)

    def do_POST(self) -> None:
        """A learner's report, or the end of a bundle."""
        self._answer(self._post)

    def _answer(self, serve: Any) -> None:  # noqa: ANN401  # one of the methods below
        try:
            answer = serve()
        except (ConnectionError, TimeoutError):
            raise  # the network
        except (HucrlError, OSError) as error:
            status = HTTPStatus.INSUFFICIENT_STORAGE
            if isinstance(error, HucrlError):
                status = HTTPStatus.INTERNAL_SERVER_ERROR
            if isinstance(error, RefusedError):
                status = error.status
            self.close_connection = True  # The rest of the request may still be coming.
            self._send(status, {"error": shortened(error, 400)})
            if status not in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                logger.warning("refused: %s", error)
        else:
            if isinstance(answer, BaseModel):
                self._send(HTTPStatus.OK, answer.model_dump(mode="json"))

    def _send(self, status: HTTPStatus, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def _get(self) -> BaseModel | None:
        if self.path == "/run":
            return self._exchange.listing()
        if not self.path.startswith(_FILES):
            raise RefusedError(HTTPStatus.NOT_FOUND, "no such place")
        file, entry = self._exchange.open(self.path.removeprefix(_FILES))
        with file:
            asked = _RANGE.fullmatch(self.headers.get("Range", ""))
            first = int(asked[1]) if asked else 0
            if asked and first >= entry.size:
                raise RefusedError(
                    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, f"it has {entry.size} bytes"
                )
            self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
            if asked:
                span = f"bytes {first}-{entry.size - 1}/{entry.size}"
                self.send_header("Content-Range", span)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(entry.size - first))
            self.end_headers()
            file.seek(first)
            left = entry.size - first
            while left and (chunk := file.read(min(left, CHUNK))):
                self.wfile.write(chunk)
                left -= len(chunk)
                self._exchange.hear()
            self.close_connection = self.close_connection or left > 0
        return None

    def _put(self) -> BaseModel:
        if not self.path.startswith(_FILES):
            raise RefusedError(HTTPStatus.NOT_FOUND, "no such place")
        path = self.path.removeprefix(_FILES)
        digest = self.headers.get("X-SHA256", "")
        return self._exchange.take_file(path, self._length(), digest, self.rfile.read1)

    def _post(self) -> BaseModel:
        length = self._length()
        if length > MESSAGE_BYTES:
            raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too long a message")
        content = self.rfile.read(length)
        if finish := _FINISH.fullmatch(self.path):
            return self._exchange.finish(int(finish[1]))
        if self.path != "/learner":
            raise RefusedError(HTTPStatus.NOT_FOUND, "no such place")
        try:
            return self._exchange.take_report(Report.model_validate_json(content))
        except ValidationError:
            raise RefusedError(HTTPStatus.BAD_REQUEST, "not a learner's report") from None

    def _length(self) -> int:
        """Length of the request's body [bytes]."""
        text = self.headers.get("Content-Length", "")
        if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
            raise RefusedError(HTTPStatus.LENGTH_REQUIRED, "its length isn't told")
        return int(text)
