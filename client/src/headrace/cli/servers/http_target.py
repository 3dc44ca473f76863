"""Client of a server's HTTP API, for functions that the binary protocol lacks."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

from headrace.cli import output
from headrace.cli.errors import CommandError
from headrace.cli.servers.target import Target
from headrace.connection import Credentials, Token

_DEFAULT_PORT: Final = 3000
_TIMEOUT_SECONDS: Final = 30.0


def url_of(target: Target) -> str:
    """Return the address at which the server of a target usually has its HTTP API."""
    scheme = "https" if target.address.startswith("tls://") else "http"
    host = target.address.removeprefix("tls://").partition("?")[0].rpartition(":")[0]
    return f"{scheme}://{host}:{_DEFAULT_PORT}"


class HttpError(CommandError):
    """The HTTP API is unreachable, or has refused a request. The message contains the reason."""

    def __init__(self, message: str, *, status: int = 1, http_status: int | None = None) -> None:
        super().__init__(message, status=status)
        self.http_status = http_status
        """Status of the refusal; None: there was no answer."""


class Api:
    """The HTTP API with a logged-in user, or that of another process with a fixed token.

    Args:
        url: Its address.
        name: What it is called in messages.
        variable: Variable of the environment with the address, for messages.
        token: Bearer token; not needed before `log_in`.
        timeout_seconds: Time for an answer.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "the HTTP API",
        variable: str = "HEADRACE_URL",
        token: str = "",
        timeout_seconds: float = _TIMEOUT_SECONDS,
    ) -> None:
        if not url.startswith(("http://", "https://")):
            raise HttpError(
                f"--url: {url!r} is not the address of an HTTP API: give http://host:port or https://host:port",
                status=2,
            )
        self._url = url.rstrip("/")
        self._name, self._variable = name, variable
        self._token = token
        self._timeout_seconds = timeout_seconds

    def log_in(self, credentials: Credentials | Token) -> None:
        """Log in; later requests are sent as this user."""
        match credentials:
            case Credentials(username=username, password=password):
                given = "POST", "/users/login", {"username": username, "password": password}
            case Token(text=text):
                given = "POST", "/personal-access-tokens/login", {"token": text}
        answer = self.ask_json(*given)
        try:
            self._token = answer["access_token"]["token"]
        except (KeyError, TypeError) as error:
            raise self._another() from error

    def ask_json(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> Any:
        """Return the value of JSON in the body of an answer; arguments and errors are those of `ask`."""
        answer = self.ask(method, path, body, headers)
        try:
            return json.loads(answer)
        except ValueError as error:
            raise self._another() from error

    def ask(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> bytes:
        """Return the body of an answer.

        Args:
            method: Method.
            path: Path, with the query.
            body: Body, sent as JSON.
            headers: More headers.

        Raises:
            HttpError: The answer is an error, or there was no answer.
        """
        headers = {"Content-Type": "application/json", **headers}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._url + path, data, headers, method=method)  # noqa: S310 - see __init__
        try:
            with urllib.request.urlopen(request, timeout=self._timeout_seconds) as response:  # noqa: S310 - see __init__
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            raise HttpError(f"{self._url} refused {method} {path}: {_reason(error)}", http_status=error.code) from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            raise HttpError(
                f"{self._name} at {self._url} cannot be reached: {_cause(error)}; give its address with --url or "
                f"{self._variable}"
            ) from error

    def _another(self) -> HttpError:
        return HttpError(f"{self._url} is not the address of {self._name}: give it with --url or {self._variable}")


@contextmanager
def logged_in(url: str, target: Target) -> Iterator[Api]:
    """Log in with the credentials of a target for the duration of a ``with`` block, and log out at its end."""
    credentials = target.credentials()
    if not isinstance(credentials, (Credentials, Token)):
        raise HttpError("the HTTP API accepts no tickets: give a user or an access token", status=2)
    api = Api(url)
    api.log_in(credentials)
    try:
        yield api
    finally:
        api.ask("DELETE", "/users/logout")


def _cause(error: Exception) -> str:
    """Return why there is no answer, without the bytes of another protocol, which a terminal would interpret."""
    match error:
        case http.client.RemoteDisconnected() | UnicodeError():
            return str(error)
        case http.client.BadStatusLine():
            return "the answer is not HTTP"
        case http.client.IncompleteRead():
            return "the answer breaks off"
        case _:
            return output.harmless(str(getattr(error, "reason", error)))


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        problem = json.loads(error.read())
        reason = problem["reason"] if "reason" in problem else problem["detail"]
    except (ValueError, KeyError, TypeError, OSError, http.client.HTTPException):
        return f"{error.code} {error.reason}"
    return f"{error.code} {reason}"
