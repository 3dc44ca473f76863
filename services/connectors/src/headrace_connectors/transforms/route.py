"""The transform `route`: a destination from a field of the payload, by a mapping."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import aiohttp
import msgspec
from pydantic import AfterValidator, Field

from headrace_connectors.contract import ConnectorError, Destination, Record, Settings, Transform
from headrace_connectors.contract.records import HEADER_BYTES_MAX
from headrace_connectors.http_client import beginning, reason_of, without_secrets
from headrace_connectors.json_errors import NOT_JSON
from headrace_connectors.json_values import json_value
from headrace_connectors.pipeline_file.models import TableDestination
from headrace_connectors.routing.paths import MISSING, ReadPath, parse_path, value_at
from headrace_settings import Between, Duration, Secret

_BODY_BYTES_MAX: Final = 16 * 1024 * 1024
_log = logging.getLogger(__name__)


def _header(name: str) -> str:
    if len(name.encode()) > HEADER_BYTES_MAX:
        raise ValueError(f"a user header has a name of at most {HEADER_BYTES_MAX} bytes")
    return name


class RouteSettings(Settings):
    """`transforms.route`: routing by a field."""

    topic_field: ReadPath
    """Path of the field in the payload, such as `event.type`: names of objects with dots between them."""
    mapping_url: str = Field(pattern="^https?://")
    """Address of the mapping: of the connectors' own HTTP server, `http://127.0.0.1:8120/mappings/NAME`, or of another
    one. Without it the connector does not start.
    """
    reload_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] | None = None
    """Time after which it is read again while the connector runs; not set: it is read once, at the start. If it cannot
    be read later, the old one stays, and the status has the reason.
    """
    epoch_header: Annotated[str, AfterValidator(_header)] = "mapping_epoch"
    """User header with the epoch of the mapping that has routed a record, if `reload_interval` is set: the ETag of the
    answer, or a digest of it. Empty: none.
    """
    mapping_token: Secret | None = None
    """Bearer token for it."""
    default: TableDestination | None = None
    """Destination of records whose value is not in the mapping; not set: they have none."""
    timeout: Duration = Duration.parse("10 s")
    """Time for the answer."""


class MappingUnavailable(ConnectorError):
    """The mapping could not be read. Routing everything to a default instead would be silent damage."""

    code = "mapping_unavailable"


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    topic: str


class _Mapping(NamedTuple):
    epoch: str
    tag: str | None
    """ETag as it was answered."""
    destinations: Mapping[str, Destination]


class Route(Transform):
    """Replaces the destination of each record whose field is in the mapping, as a whole.

    A mapping that is read while the source runs takes effect with the next batch: no batch is routed by two.
    """

    settings_type: ClassVar[type[Settings]] = RouteSettings
    is_routing: ClassVar[bool] = True

    def __init__(self, settings: RouteSettings) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._path = parse_path(settings.topic_field)
        self._mapping = _Mapping("", None, {})
        self._next: _Mapping | None = None
        self._checked_at: datetime | None = None
        self._error: str | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._header = settings.epoch_header if settings.reload_interval is not None else ""
        self._shown_url = without_secrets(settings.mapping_url)
        default = settings.default
        self._default = None if default is None else Destination(default.stream, default.topic)

    async def open(self) -> None:
        """Read the mapping, and begin to read it again and again if this is wanted.

        Raises:
            MappingUnavailable: It cannot be read, or is not a mapping.
        """
        found = await self._read(None)
        if found is not None:
            self._mapping = found
        self._checked_at = datetime.now(UTC)
        interval = self._settings.reload_interval
        if interval is not None:
            self._reloading = asyncio.create_task(self._reload(interval.seconds), name="route-mapping")

    async def close(self) -> None:
        """End the reading."""
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait({self._reloading})

    async def _reload(self, interval_seconds: float) -> None:
        while True:
            await asyncio.sleep(interval_seconds)
            try:
                found = await self._read(self._newest)
            except MappingUnavailable as error:
                if self._error is None:
                    _log.warning("the mapping with the epoch %s stays: %s", self._newest.epoch, error)
                self._error = str(error)
                continue
            if found is not None:
                _log.info("the mapping of %s has the epoch %s", self._shown_url, found.epoch)
                self._next = found
            self._error, self._checked_at = None, datetime.now(UTC)

    @property
    def _newest(self) -> _Mapping:
        return self._mapping if self._next is None else self._next

    async def _read(self, known: _Mapping | None) -> _Mapping | None:
        """Return the mapping; None: it is the known one."""
        url = self._shown_url
        answer = await self._asked(None if known is None else known.tag)
        if answer is None:
            return None
        encoded, tag = answer
        epoch = (
            hashlib.blake2b(encoded, digest_size=8).hexdigest() if tag is None else tag.removeprefix("W/").strip('"')
        )
        if known is not None and epoch == known.epoch:
            return None
        try:
            entries = msgspec.json.decode(encoded, type=dict[str, _Entry])
        except NOT_JSON as error:
            raise MappingUnavailable(
                f'{url} is not a mapping: {error}; it has the form {{"value": {{"stream": "...", "topic": "..."}}}}'
            ) from error
        if not entries:
            raise MappingUnavailable(f"{url} is an empty mapping: it would route no record")
        return _Mapping(epoch, tag, {value: Destination(entry.stream, entry.topic) for value, entry in entries.items()})

    async def _asked(self, tag: str | None) -> tuple[bytes, str | None] | None:
        """Return the body and its ETag; None: it has not changed."""
        settings = self._settings
        headers = {} if tag is None else {"If-None-Match": tag}
        if settings.mapping_token is not None:
            headers["Authorization"] = f"Bearer {settings.mapping_token.reveal()}"
        timeout = aiohttp.ClientTimeout(total=settings.timeout.seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
                session.get(settings.mapping_url, allow_redirects=False) as response,
            ):
                if response.status == 304 and tag is not None:
                    return None
                if response.status // 100 == 3:
                    text = f"{self._shown_url} answered {response.status}, a redirect: correct settings.mapping_url"
                    raise MappingUnavailable(text)
                body = await beginning(response.content, _BODY_BYTES_MAX + 1)
                if response.status != 200:
                    text = body[:200].decode(errors="replace")
                    raise MappingUnavailable(f"{self._shown_url} answered {response.status}: {text}")
                found = response.headers.get("ETag")
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise MappingUnavailable(f"{self._shown_url} cannot be read: {reason_of(error)}") from error
        if len(body) > _BODY_BYTES_MAX:
            raise MappingUnavailable(f"{self._shown_url} has more than {_BODY_BYTES_MAX} bytes")
        return body, found

    def begin_batch(self) -> None:
        """Put a mapping into effect that was read since the last batch."""
        if self._next is not None:
            self._mapping, self._next = self._next, None

    def apply(self, record: Record) -> Record:
        """Set the destination; one that is set stays if the value is unknown and there is no default."""
        value: Any = value_at(_decoded(record.payload), self._path)
        found = self._mapping.destinations.get(str(value)) if value is not MISSING and value is not None else None
        found = found or self._default
        if found is not None:
            record.destination = found
            if self._header:
                record.headers = {**(record.headers or {}), self._header: self._mapping.epoch}
        return record

    def report(self) -> Mapping[str, Any]:
        """Describe the mapping: its epoch, when it was last found to be current, and why it could not be read since."""
        at = self._checked_at
        return {
            "epoch": self._newest.epoch,
            "checked_at": None if at is None else at.isoformat(timespec="milliseconds"),
            "error": self._error,
        }


def _decoded(payload: Any) -> Any:
    """Return a payload that a source passed on as bytes, as its value: sources of opaque data do not decode it."""
    if not isinstance(payload, bytes):
        return payload
    try:
        return json_value(payload)
    except NOT_JSON:
        return MISSING
