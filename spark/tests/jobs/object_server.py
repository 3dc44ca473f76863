"""In-process S3 server on a socket: moto, with faults on request.

The server keeps objects in memory, verifies signatures and permissions, supports multipart uploads and lists pages of
1,000 objects. Two defects of moto are fixed here: conditional writes are not atomic, so requests are serialized; and
authentication is off by default. Missing features: 409 (the response of S3 to colliding conditional writes),
throttling, TLS, virtual hosts and roles. Tests either inject these with `ObjectServer.fault` or do not cover them. For
query strings with escaped letters moto computes wrong signatures.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from moto import settings
from moto.core.authorization import ActionAuthenticatorMixin
from moto.iam.models import iam_backends
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from moto.s3.models import s3_backends
from tests.ports import free_port
from werkzeug.serving import BaseWSGIServer, make_server

_ACCOUNT: Final = "123456789012"
_REGION: Final = "eu-central-1"
"""Region other than the default of clients."""
_EVERYTHING: Final = {"Effect": "Allow", "Action": "s3:*", "Resource": "*"}

LOST: Final = -1
"""Fault: the request is executed, and its response is lost."""
UNCONDITIONAL: Final = -2
"""Fault: the condition of a write is ignored."""


class Asked(NamedTuple):
    """A received request."""

    method: str
    path: str
    """Path including the bucket."""
    query: str
    if_none_match: str | None
    range: str | None


class ObjectServer:
    """Serves buckets until the end of the block; buckets survive `stop`."""

    def __init__(self) -> None:
        self.requests: list[Asked] = []
        """All received requests."""
        self.fault: Callable[[Asked], int | None] | None = None
        """Return the status of the response to a request, or `LOST`, or `UNCONDITIONAL`; None: normal processing."""
        self._one_at_a_time = threading.Lock()
        self._app = DomainDispatcherApplication(create_backend_app)
        # A port outside the ephemeral range: it has to stay free while the server is stopped.
        self._port = free_port()
        self._server: BaseWSGIServer | None = None
        self._thread: threading.Thread | None = None
        self._user: Any = None

    @property
    def backend(self) -> Any:
        """Backend of moto, for operations that would be slow over the socket."""
        return s3_backends[_ACCOUNT]["aws"]

    @property
    def address(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self._port}"

    def settings(self) -> dict[str, str]:
        """Environment variables with the location of the server; no secrets."""
        return {"AWS_ENDPOINT_URL": self.address, "AWS_REGION": _REGION, "AWS_ALLOW_HTTP": "true"}

    def credentials(self) -> dict[str, str]:
        """Environment variables with the keys of an administrator."""
        key = self._user.access_keys[0]
        return {"AWS_ACCESS_KEY_ID": key.access_key_id, "AWS_SECRET_ACCESS_KEY": key.secret_access_key}

    def bucket(self, name: str) -> str:
        """Create a bucket; returns its URI."""
        self.backend.create_bucket(name, _REGION)
        return f"s3://{name}"

    def empty(self, name: str) -> None:
        """Create or empty a bucket."""
        if name in self.backend.buckets:
            del self.backend.buckets[name]
            del s3_backends.bucket_accounts[name]
        self.bucket(name)
        self.requests.clear()

    def keys(self, bucket: str) -> dict[str, bytes]:
        """Contents of a bucket."""
        with self._one_at_a_time:
            return {name: key.value for name, key in self.backend.buckets[bucket].keys.items()}

    def uploads(self, bucket: str) -> int:
        """Number of multipart uploads that are neither completed nor aborted."""
        return len(self.backend.buckets[bucket].multiparts)

    def start(self) -> None:
        """Listen on the same port each time."""
        self._server = make_server("127.0.0.1", self._port, self._answer, threaded=True, request_handler=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections."""
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = self._thread = None

    @contextmanager
    def failing(self, fault: Callable[[Asked], int | None]) -> Iterator[None]:
        """Inject a fault within the block."""
        self.fault = fault
        try:
            yield
        finally:
            self.fault = None

    @contextmanager
    def letting_all_in(self) -> Iterator[None]:
        """Disable authentication within the block."""
        settings.INITIAL_NO_AUTH_ACTION_COUNT = float("inf")
        try:
            yield
        finally:
            settings.INITIAL_NO_AUTH_ACTION_COUNT = 0

    def __enter__(self) -> Self:
        iam = iam_backends[_ACCOUNT]["aws"]
        self._user = iam.create_user(_REGION, "jobs")
        iam.create_access_key("jobs")
        iam.put_user_policy("jobs", "all", json.dumps({"Version": "2012-10-17", "Statement": [_EVERYTHING]}))
        settings.INITIAL_NO_AUTH_ACTION_COUNT = ActionAuthenticatorMixin.request_count = 0
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self.backend.reset()
        iam_backends[_ACCOUNT]["aws"].reset()

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Any:
        asked = Asked(
            environ["REQUEST_METHOD"],
            environ["PATH_INFO"],
            environ.get("QUERY_STRING", ""),
            environ.get("HTTP_IF_NONE_MATCH"),
            environ.get("HTTP_RANGE"),
        )
        self.requests.append(asked)
        fault = None if self.fault is None else self.fault(asked)
        if fault is not None and fault > 0:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response(f"{fault} Planted", [("Content-Type", "application/xml"), ("ETag", '"planted"')])
            return [b"<Error><Code>Planted</Code><Message>Come back later</Message></Error>"]
        with self._one_at_a_time:
            if fault == UNCONDITIONAL:
                bucket, _, key = asked.path.lstrip("/").partition("/")
                self.backend.delete_object(bucket, key)
            answer = self._app(environ, start_response)
        if fault == LOST:
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            raise ConnectionResetError("planted")
        return answer


class _Quiet(MotoRequestHandler):
    def log(self, *_: Any) -> None:
        """Do nothing: requests are recorded in `ObjectServer.requests`."""


def unused_address() -> str:
    """Return an address without a listener."""
    return f"http://127.0.0.1:{free_port()}"


@contextmanager
def environment(given: Mapping[str, str]) -> Iterator[None]:
    """Set these environment variables for AWS, and unset all others."""
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith("AWS_"):
            del os.environ[name]
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
