"""Client of the gateway's HTTP API for the example: login, topics, messages, and a user for the page."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

HTTP_ADDRESS = "127.0.0.1:3000"
STREAM, FLIGHTS, DELAYS = "flights", "flights", "delays"
PASSWORD_VARIABLE = "HEADRACE_PASSWORD"  # noqa: S105 - the name of one

FLIGHTS_PARTITIONS, DELAYS_PARTITIONS = 4, 2

_ATTEMPTS = 3
_TIMEOUT_SECONDS = 30.0


class GatewayError(Exception):
    """The gateway is unreachable, or refuses a request."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """HTTP status; None without a response."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for the gateway and the user."""
    group = parser.add_argument_group("the gateway")
    group.add_argument(
        "--http", metavar="HOST:PORT", default=HTTP_ADDRESS, help="HTTP address of the gateway [%(default)s]"
    )
    group.add_argument("--stream", default=STREAM, help="the stream of the topics [%(default)s]")
    group.add_argument(
        "--username",
        default=os.environ.get("HEADRACE_USERNAME", "iggy"),
        help="who logs in [HEADRACE_USERNAME, otherwise iggy]; the password is read from the variable "
        "HEADRACE_PASSWORD, or from the file that HEADRACE_PASSWORD_FILE names",
    )


def password() -> str:
    """Return the password for the login.

    Raises:
        GatewayError: No password is configured.
    """
    if PASSWORD_VARIABLE in os.environ:
        return os.environ[PASSWORD_VARIABLE]
    if file := os.environ.get("HEADRACE_PASSWORD_FILE"):
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise GatewayError(f"HEADRACE_PASSWORD_FILE: {error}") from error
    raise GatewayError("the password is not set: export HEADRACE_PASSWORD=...")


class Gateway:
    """An authenticated connection. Reconnects when the connection breaks."""

    def __init__(self, address: str, username: str, secret: str) -> None:
        """Log in.

        Raises:
            GatewayError: The gateway is unreachable, or the login is refused.
        """
        self._address = address
        self._connection = http.client.HTTPConnection(address, timeout=_TIMEOUT_SECONDS)
        self.token = ""
        """Token of the login."""
        answer = self("POST", "/users/login", {"username": username, "password": secret})
        self.token = str(answer["access_token"]["token"])

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request and return the response, parsed as JSON.

        Raises:
            GatewayError: The request is refused, or there is no response.
        """
        data = json.dumps(body).encode() if body is not None else None
        answer = self._answer(method, path, data, {"Content-Type": "application/json"} if data else {})
        return json.loads(answer) if answer else None

    def send(self, stream: str, topic: str, key: str, rows: Iterable[Any]) -> None:
        """Append rows, one message each, to the partition selected by a key.

        The request is idempotent: the gateway recognizes a retry by the request id.

        Raises:
            GatewayError: The request is refused, or there is no response.
        """
        lines = b"".join(json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows)
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": uuid.uuid4().hex}
        self._answer("POST", f"/streams/{stream}/topics/{topic}/messages?key={key}", lines, headers)

    def make_topics(self, stream: str) -> None:
        """Create the two topics unless they exist.

        Raises:
            GatewayError: The topics cannot be created.
        """
        self._made("/streams", {"name": stream})
        for topic, partitions in ((FLIGHTS, FLIGHTS_PARTITIONS), (DELAYS, DELAYS_PARTITIONS)):
            self._made(f"/streams/{stream}/topics", {"name": topic, "partitions_count": partitions})

    def make_reader(self, stream: str, topic: str, username: str, secret: str) -> None:
        """Create a user that may only read one topic.

        Raises:
            GatewayError: The topic does not exist, or the caller may not create users.
        """
        names = ("manage_topics", "read_topics", "poll_messages", "send_messages")
        nowhere = dict.fromkeys(
            ("manage_servers", "read_servers", "manage_users", "read_users", "manage_streams", "read_streams", *names),
            False,
        )
        of_stream = dict.fromkeys(("manage_stream", "read_stream", *names), False)
        of_topic = {"manage_topic": False, "read_topic": True, "poll_messages": True, "send_messages": False}
        stream_id = self("GET", f"/streams/{stream}")["id"]
        topic_id = self("GET", f"/streams/{stream}/topics/{topic}")["id"]
        permissions = {
            "global": nowhere,
            "streams": {str(stream_id): {**of_stream, "topics": {str(topic_id): of_topic}}},
        }
        self.remove_user(username)
        body = {"username": username, "password": secret, "status": "active", "permissions": permissions}
        self("POST", "/users", body)

    def remove_user(self, username: str) -> None:
        """Delete a user if it exists.

        Raises:
            GatewayError: The caller may not delete users.
        """
        try:
            self("DELETE", f"/users/{username}")
        except GatewayError as error:
            if error.status not in {400, 404}:
                raise

    def _made(self, path: str, body: dict[str, Any]) -> None:
        try:
            self("GET", f"{path}/{body['name']}")
        except GatewayError as error:
            if error.status not in {400, 404}:
                raise
            self("POST", path, body)

    def _answer(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> bytes:
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        # All requests of this client are idempotent.
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._connection.request(method, path, body, headers)
                response = self._connection.getresponse()
                answer = response.read()
                break
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if attempt == _ATTEMPTS or isinstance(error, ConnectionRefusedError):
                    raise GatewayError(f"no gateway answers at {self._address}: {error}") from error
        if response.status >= 300:
            raise GatewayError(f"{method} {path}: {response.status} {_reason(answer)}", response.status)
        return answer

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _reason(answer: bytes) -> str:
    with suppress(ValueError, TypeError):
        document = json.loads(answer)
        return str(document.get("reason") or document.get("code") or document)
    return answer.decode(errors="replace")
