"""The transform `route`: a destination from a field of the payload, by a mapping."""

from __future__ import annotations

from typing import Any, ClassVar, Final

import aiohttp
import msgspec

from headrace_connectors.contract import ConnectorError, Destination, Record, Settings, Transform
from headrace_connectors.pipeline_file.models import TableDestination
from headrace_connectors.routing.paths import MISSING, FieldPath, parse_path, value_at
from headrace_settings import Duration, Secret

_BODY_BYTES_MAX: Final = 16 * 1024 * 1024


class RouteSettings(Settings):
    """`transforms.route`: routing by a field."""

    topic_field: FieldPath
    """Path of the field in the payload, such as `event.type`: names of objects with dots between them."""
    mapping_url: str
    """Address of the mapping: of the connectors' own HTTP server, `http://127.0.0.1:8120/mappings/NAME`, or of another
    one. It is read once, at the start; without it the connector does not start.
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


class Route(Transform):
    """Replaces the destination of each record whose field is in the mapping, as a whole."""

    settings_type: ClassVar[type[Settings]] = RouteSettings
    is_routing: ClassVar[bool] = True

    def __init__(self, settings: RouteSettings) -> None:
        """Read nothing yet."""
        self._settings = settings
        self._path = parse_path(settings.topic_field)
        self._mapping: dict[str, Destination] = {}
        default = settings.default
        self._default = None if default is None else Destination(default.stream, default.topic)

    async def open(self) -> None:
        """Read the mapping.

        Raises:
            MappingUnavailable: It cannot be read, or is not a mapping.
        """
        encoded = await self._read()
        url = self._settings.mapping_url
        try:
            entries = msgspec.json.decode(encoded, type=dict[str, _Entry])
        except msgspec.MsgspecError as error:
            raise MappingUnavailable(
                f'{url} is not a mapping: {error}; it has the form {{"value": {{"stream": "...", "topic": "..."}}}}'
            ) from error
        if not entries:
            raise MappingUnavailable(f"{url} is an empty mapping: it would route no record")
        self._mapping = {value: Destination(entry.stream, entry.topic) for value, entry in entries.items()}

    async def _read(self) -> bytes:
        settings = self._settings
        headers = {}
        if settings.mapping_token is not None:
            headers["Authorization"] = f"Bearer {settings.mapping_token.reveal()}"
        timeout = aiohttp.ClientTimeout(total=settings.timeout.seconds)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=headers) as session,
                session.get(settings.mapping_url) as response,
            ):
                body = await response.content.read(_BODY_BYTES_MAX + 1)
                if response.status != 200:
                    text = body[:200].decode(errors="replace")
                    raise MappingUnavailable(f"{settings.mapping_url} answered {response.status}: {text}")
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            reason = str(error) or type(error).__name__
            raise MappingUnavailable(f"{settings.mapping_url} cannot be read: {reason}") from error
        if len(body) > _BODY_BYTES_MAX:
            raise MappingUnavailable(f"{settings.mapping_url} has more than {_BODY_BYTES_MAX} bytes")
        return body

    def apply(self, record: Record) -> Record:
        """Set the destination; one that is set stays if the value is unknown and there is no default."""
        value: Any = value_at(_decoded(record.payload), self._path)
        found = self._mapping.get(str(value)) if value is not MISSING and value is not None else None
        found = found or self._default
        if found is not None:
            record.destination = found
        return record


def _decoded(payload: Any) -> Any:
    """Return a payload that a source passed on as bytes, as its value: sources of opaque data do not decode it."""
    if not isinstance(payload, bytes):
        return payload
    try:
        return msgspec.json.decode(payload)
    except msgspec.MsgspecError:
        return MISSING
