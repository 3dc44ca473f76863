"""The source `influxdb`: points that clients of InfluxDB write, such as Telegraf."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, ClassVar, Final, Self

from aiohttp import web
from pydantic import model_validator

from headrace_connectors.contract import Record, Settings, stable_id
from headrace_connectors.sources.http_endpoint import EndpointSettings, HttpEndpoint, RequestRefused, refuse_pages
from headrace_connectors.sources.influxdb.line_protocol import PRECISIONS, LineProtocolError, Point, points
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address, Between, Secret, Size

_VERSION: Final = {"X-Influxdb-Version": "1.8-headrace", "X-Influxdb-Build": "OSS"}
_V2: Final = "/api/v2/"
_CODES: Final = {400: "invalid", 401: "unauthorized", 413: "request too large", 429: "too many requests"}


class InfluxEndpointSettings(EndpointSettings):
    """`settings` of the source `influxdb`."""

    address: Address = Address.parse("127.0.0.1:8086")
    """Address to listen on; port 0 picks a free port."""
    token: Secret | None = None
    """Token of clients of InfluxDB 2 (`Authorization: Token ...`); beyond loopback, it has 16 bytes at least."""
    username: str | None = None
    """User of clients of InfluxDB 1; beyond loopback, it and `password`, or `token`, are needed."""
    password: Secret | None = None
    """Password of this user; beyond loopback, it has 16 bytes at least."""
    max_body: Annotated[Size, Between(Size(1), Size.parse("64 MiB"))] = Size.parse("16 MiB")
    """Maximum size of a request, decompressed."""

    @model_validator(mode="after")
    def _is_closed_beyond_loopback(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password belong together: set both")
        if not self.address.ip.is_loopback and self.token is None and self.username is None:
            raise ValueError(f"address = {self.address} is not loopback: token, or username and password, are needed")
        if not self.address.ip.is_loopback:
            for name, secret in (("token", self.token), ("password", self.password)):
                if secret is not None and secret.is_guessable:
                    raise ValueError(f"address = {self.address} is not loopback: {name} has 16 bytes at least")
        return self


class InfluxEndpoint(HttpEndpoint):
    """Accepts InfluxDB's line protocol at `/write` and `/api/v2/write`: each point is a record.

    A request is answered 204 when its points are stored. If a line is not valid, the answer is 400 with its number, and
    nothing of the request is stored. A point that is written again has the same message id.
    """

    settings_type: ClassVar[type[Settings]] = InfluxEndpointSettings

    def __init__(self, settings: InfluxEndpointSettings) -> None:
        """Listen to nothing yet."""
        super().__init__(settings.address, settings)
        self._settings = settings

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes of writing, and those that clients try before they write."""
        return [
            web.post("/write", self.receive),
            web.post("/api/v2/write", self.receive),
            web.get("/ping", self._ping),
            web.get("/health", self._health),
            web.route("*", "/query", self._query),
        ]

    def authorize(self, http: web.Request) -> None:
        """Check the token, or user and password, from the header or the query."""
        settings = self._settings
        if settings.token is None and settings.password is None:
            refuse_pages(http)
            return
        scheme, _, value = http.headers.get("Authorization", "").partition(" ")
        name, password = http.query.get("u", ""), http.query.get("p", "")
        if scheme.lower() == "basic":
            name, password = _basic(value)
        is_known = settings.token is not None and (
            (scheme.lower() in ("token", "bearer") and is_one_of(value, (settings.token.reveal(),)))
            # Clients of InfluxDB 1 have a token as their password.
            or is_one_of(password, (settings.token.reveal(),))
        )
        if settings.password is not None and settings.username is not None:
            given, expected = f"{name}\0{password}", f"{settings.username}\0{settings.password.reveal()}"
            is_known = is_one_of(given, (expected,)) or is_known
        text = "unauthorized: neither the token nor user and password are those of this source"
        self.require(
            http,
            is_given=bool(scheme or name or password),
            is_right=is_known,
            refusal=RequestRefused(401, text, {"WWW-Authenticate": 'Basic realm="InfluxDB"'}),
        )

    def records(self, http: web.Request, body: bytes) -> Iterator[Record]:
        """Return a record for each point."""
        precision = http.query.get("precision", "ns") or "ns"
        if precision not in PRECISIONS:
            raise RequestRefused(400, f"precision {precision!r} is not one of {', '.join(PRECISIONS)}")
        bucket = http.query.get("bucket") or "/".join(
            part for part in (http.query.get("db"), http.query.get("rp")) if part
        )
        now_ns = time.time_ns()
        try:
            for point in points(body, precision):
                yield point_record(point, bucket, now_ns)
        except LineProtocolError as error:
            raise RequestRefused(400, f"unable to parse {error}; nothing of this request is stored") from error

    def stored(self, count: int) -> web.Response:
        """Return 204, as InfluxDB."""
        del count
        return web.Response(status=204, headers=_VERSION)

    def refusal(self, http: web.Request, refused: RequestRefused) -> web.Response:
        """Return the reason in the form of version 1 or 2."""
        headers = {**_VERSION, "X-Influxdb-Error": " ".join(str(refused).split())[:500], **(refused.headers or {})}
        document: dict[str, Any] = {"error": str(refused)}
        if http.path.startswith(_V2):
            document = {"code": _CODES.get(refused.status, "unavailable"), "message": str(refused)}
            if isinstance(refused.__cause__, LineProtocolError):
                document["line"] = refused.__cause__.line
        return web.json_response(document, status=refused.status, headers=headers)

    async def _ping(self, http: web.Request) -> web.Response:
        del http
        return web.Response(status=204, headers=_VERSION)

    async def _health(self, http: web.Request) -> web.Response:
        del http
        return web.json_response({"name": "influxdb", "message": "ready for writes", "status": "pass", "checks": []})

    async def _query(self, http: web.Request) -> web.Response:
        """Answer the one statement that clients send before they write; there is nothing to create."""
        try:
            self.authorize(http)
            statement = http.query.get("q", "")
            if http.method == "POST" and not statement:
                with self._held(self._limits.max_body.bytes, 1):
                    statement = str((await http.post()).get("q", ""))
            if not statement.strip().upper().startswith("CREATE DATABASE"):
                raise RequestRefused(400, "this endpoint stores points in topics, and has no queries")
        except RequestRefused as refused:
            return self.refusal(http, refused)
        return web.json_response({"results": [{"statement_id": 0}]}, headers=_VERSION)


def point_record(point: Point, bucket: str, now_ns: int) -> Record:
    """Return the record of a point.

    Args:
        point: The point.
        bucket: Bucket, or database with retention policy, that it was written to.
        now_ns: Time of points without one.
    """
    timestamp_ns = now_ns if point.timestamp_ns is None else point.timestamp_ns
    payload = {
        "measurement": point.measurement,
        "tags": point.tags,
        "fields": point.fields,
        "timestamp_ns": timestamp_ns,
        "bucket": bucket,
    }
    identity = (bucket, point.measurement, *point.tags.items(), timestamp_ns, *sorted(point.fields.items()))
    return Record(payload, id=stable_id("influxdb", *identity), table=point.measurement)


def _basic(value: str) -> tuple[str, str]:
    try:
        name, _, password = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return "", ""
    return name, password
