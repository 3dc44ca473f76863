"""The source `webhook`: JSON that callers send over HTTP, answered when it is stored."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from typing import Any, ClassVar, Final, Self

from aiohttp import web
from pydantic import model_validator

from headrace_connectors.contract import Record, Settings, stable_id
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value
from headrace_connectors.sources.http_endpoint import EndpointSettings, HttpEndpoint, RequestRefused, refuse_pages
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address, Secret

_JSON_LINES: Final = "application/x-ndjson"


class WebhookSettings(EndpointSettings):
    """`settings` of the source `webhook`."""

    address: Address = Address.parse("127.0.0.1:8121")
    """Address to listen on; port 0 picks a free port."""
    path: str = "/"
    """Path that accepts requests."""
    token: Secret | None = None
    """Bearer token of callers; needed beyond loopback, with 16 bytes at least."""

    @model_validator(mode="after")
    def _is_closed_beyond_loopback(self) -> Self:
        if not self.address.ip.is_loopback and self.token is None:
            raise ValueError(f"address = {self.address} is not loopback: token is needed")
        if not self.address.ip.is_loopback and self.token is not None and self.token.is_guessable:
            raise ValueError(f"address = {self.address} is not loopback: token has 16 bytes at least")
        if not self.path.startswith("/"):
            raise ValueError(f"path = {self.path!r} does not start with /")
        return self


class Webhook(HttpEndpoint):
    """Accepts JSON: an object or array in a request, or one value per line (`application/x-ndjson`).

    An array is as many records as it has elements. A request is answered 200 when its records are stored, 503 if they
    could not be, and 429 if too much waits already. A repeated request with the same `Idempotency-Key` has the same
    message ids.
    """

    settings_type: ClassVar[type[Settings]] = WebhookSettings

    def __init__(self, settings: WebhookSettings) -> None:
        """Listen to nothing yet."""
        super().__init__(settings.address, settings)
        self._settings = settings

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the one route."""
        return [web.post(self._settings.path, self.receive)]

    def authorize(self, http: web.Request) -> None:
        """Check the token."""
        token = self._settings.token
        if token is None:
            refuse_pages(http)
        else:
            given = http.headers.get("Authorization", "")
            text = "the header Authorization has not the token of this webhook"
            self.require(
                http,
                is_given=bool(given),
                is_right=is_one_of(given, (f"Bearer {token.reveal()}",)),
                refusal=RequestRefused(401, text, {"WWW-Authenticate": "Bearer"}),
            )

    def records(self, http: web.Request, body: bytes) -> Iterator[Record]:
        """Return a record for each value of JSON."""
        try:
            yield from _records(body, http.content_type, http.headers.get("Idempotency-Key"))
        except NOT_JSON as error:
            raise RequestRefused(400, f"the body is not JSON: {error}") from error

    def stored(self, count: int) -> web.Response:
        """Return the number of records that are stored."""
        return web.json_response({"stored": count})

    def refusal(self, http: web.Request, refused: RequestRefused) -> web.Response:
        """Return the reason."""
        del http
        document = {"status": refused.status, "detail": str(refused)}
        return web.json_response(document, status=refused.status, headers=refused.headers)


def _records(body: bytes, content_type: str, request_id: str | None) -> Iterator[Record]:
    values: Iterable[Any]
    if content_type == _JSON_LINES:
        values = (json_value(line) for part in BytesIO(body) for line in part.splitlines() if line.strip())
    else:
        decoded = json_value(body)
        values = decoded if isinstance(decoded, list) else [decoded]
    # Without a key of the caller, a request that is sent again is another request.
    base = request_id if request_id is not None else f"{time.time_ns()}/{id(body)}"
    for number, value in enumerate(values):
        yield Record(value, id=stable_id("webhook", base, number))
