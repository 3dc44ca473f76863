"""The sink `opensearch`: messages as documents, under ids that make repetitions harmless."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

import msgspec
from pydantic import AfterValidator

from headrace_connectors.contract import (
    ConnectorError,
    InvalidRecord,
    Place,
    Received,
    Settings,
    Sink,
    Unavailable,
)
from headrace_connectors.routing.paths import MISSING, ReadPath, parse_path, value_at
from headrace_connectors.search.server import SearchServer, ServerSettings, reason_of
from headrace_connectors.sinks.json_values import encoded
from headrace_settings import Between, Size

_NAMES: Final = ("stream", "topic", "partition", "date")
_PAYLOAD: Final = "payload."
_BLANK: Final = re.compile(r"\{([^{}]*)\}")
_JSON_LINES: Final = "application/x-ndjson"
_ID_BYTES_MAX: Final = 512
_SHOWN_CHARACTERS: Final = 50


def _template(text: str) -> str:
    for name in _BLANK.findall(text):
        if name.startswith(_PAYLOAD):
            parse_path(name.removeprefix(_PAYLOAD))
        elif name not in _NAMES:
            allowed = ", ".join(f"{{{one}}}" for one in _NAMES)
            raise ValueError(f"{{{name}}} is no blank of an index: use {allowed} or {{payload.PATH}}")
    return text


class OpenSearchSinkSettings(ServerSettings):
    """`settings` of the sink `opensearch`."""

    index: Annotated[str, AfterValidator(_template)]
    """Index, alias or data stream of a message, as `orders` or `{topic}-{date}`: the blanks `{stream}`, `{topic}`,
    `{partition}`, `{date}` (the day in UTC, as 2026.01.31) and `{payload.PATH}` are filled.
    """
    id_field: ReadPath | None = None
    """Path of the document's id in the payload; not set: stream, topic, partition and offset."""
    operation: Literal["index", "create"] = "index"
    """Replace the document with the same id, or keep it, as data streams require."""
    max_body: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("100 MiB"))] = Size.parse("10 MiB")
    """Size of a request, above which another one follows."""


class _Document(NamedTuple):
    number: int
    """Number of the message in the batch."""
    identity: tuple[Place, int, int]
    """Partition, offset, and number among the records of the message."""
    lines: bytes


class OpenSearchSink(Sink):
    """Writes documents with the bulk API. A message that is repeated has the same id, and is one document."""

    settings_type: ClassVar[type[Settings]] = OpenSearchSinkSettings

    def __init__(self, settings: OpenSearchSinkSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._server = SearchServer(settings)
        self._id_path = None if settings.id_field is None else parse_path(settings.id_field)
        self._blanks = {
            name: parse_path(name.removeprefix(_PAYLOAD))
            for name in _BLANK.findall(settings.index)
            if name.startswith(_PAYLOAD)
        }
        # Outcomes since the last flush: a batch is sent again without the message that is refused, and these are known.
        self._stored: set[tuple[Place, int, int]] = set()
        self._refused: dict[tuple[Place, int, int], str] = {}

    async def open(self) -> None:
        """Ask the server for its version.

        Raises:
            Unavailable: It does not answer.
            ConnectorError: It refuses the login.
        """
        await self._server.open()
        await self._server.ask("GET", "/")

    async def write(self, messages: Sequence[Received]) -> None:
        """Store documents.

        Raises:
            InvalidRecord: The server refuses a document, or one has no index, no id or a long one, or no form in JSON.
            Unavailable: The server is not reached, or busy.
            ConnectorError: It refuses the request, or the index.
        """
        documents = list(self._documents(messages))
        try:
            for part in self._parts(documents):
                await self._send(part)
        except InvalidRecord:
            raise
        except BaseException:
            self._forget()
            raise
        for document in documents:
            if (reason := self._refused.get(document.identity)) is not None:
                raise InvalidRecord(reason, index=document.number)

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Do nothing: what was answered is on disk."""
        del positions
        self._forget()

    async def close(self) -> None:
        """Close connections."""
        await self._server.close()

    def _forget(self) -> None:
        self._stored.clear()
        self._refused.clear()

    def _documents(self, messages: Sequence[Received]) -> Iterator[_Document]:
        sources = encoded(messages, lambda message: message.record.payload)
        numbers: Counter[tuple[Place, int]] = Counter()
        for index, (message, source) in enumerate(zip(messages, sources, strict=True)):
            place = (message.place, message.offset)
            number = numbers[place]
            numbers[place] += 1
            try:
                target = {"_index": self._index(message), "_id": _checked(self._id(message, number))}
            except InvalidRecord as error:
                raise InvalidRecord(str(error), index=index) from error
            action = msgspec.json.encode({self._settings.operation: target})
            yield _Document(index, (*place, number), action + b"\n" + source + b"\n")

    def _index(self, message: Received) -> str:
        place, payload = message.place, message.record.payload

        def filled(blank: re.Match[str]) -> str:
            name = blank[1]
            if name == "date":
                return f"{datetime.fromtimestamp(message.timestamp_micros / 1e6, UTC):%Y.%m.%d}"
            if name in _NAMES:
                return str(getattr(place, name))
            return _text(payload, self._blanks[name], "the name of an index")

        return _BLANK.sub(filled, self._settings.index)

    def _id(self, message: Received, number: int) -> str:
        if self._id_path is not None:
            return _text(message.record.payload, self._id_path, "an id")
        own = f"{message.place.stream}/{message.place.topic}/{message.place.partition}/{message.offset}"
        return own if number == 0 else f"{own}/{number}"

    def _parts(self, documents: Sequence[_Document]) -> Iterator[list[_Document]]:
        part: list[_Document] = []
        size = 0
        for document in documents:
            if document.identity in self._stored or document.identity in self._refused:
                continue
            if part and size + len(document.lines) > self._settings.max_body.bytes:
                yield part
                part, size = [], 0
            part.append(document)
            size += len(document.lines)
        if part:
            yield part

    async def _send(self, part: Sequence[_Document]) -> None:
        answer = await self._server.ask("POST", "/_bulk", b"".join(one.lines for one in part), _JSON_LINES)
        if answer.status == 413:
            if len(part) > 1:
                raise ConnectorError(
                    f"the server takes no request of this size: {answer.reason}; lower settings.max_body"
                )
            raise InvalidRecord(f"the server takes no document of this size: {answer.reason}", index=part[0].number)
        if answer.status != 200:
            raise ConnectorError(f"the server refuses the request with {answer.status}: {answer.reason}")
        busy: str | None = None
        for document, item in zip(part, answer.part("items"), strict=True):
            (outcome,) = item.values()
            status, error = outcome["status"], outcome.get("error")
            # With `create`, a document that is there already is one that was stored before.
            if error is None or (status == 409 and self._settings.operation == "create"):
                self._stored.add(document.identity)
            elif status == 429 or status >= 500 or error.get("type") == "cluster_block_exception":
                busy = reason_of(error)
            elif status in (403, 404):
                raise ConnectorError(
                    f"the server refuses to write: {reason_of(error)}; correct settings.index, or create it"
                )
            else:
                self._refused[document.identity] = f"the server refuses the document: {reason_of(error)}"
        if busy is not None:
            raise Unavailable(f"the server takes no more documents now: {busy}")


def _checked(document_id: str) -> str:
    # The server would refuse the whole request.
    if (size := len(document_id.encode())) > _ID_BYTES_MAX:
        raise InvalidRecord(
            f"the id {document_id[:_SHOWN_CHARACTERS]}... has {size} bytes, and documents have ids of at most "
            f"{_ID_BYTES_MAX}: set id_field to a shorter one"
        )
    return document_id


def _text(payload: Any, path: tuple[str, ...], what: str) -> str:
    value = value_at(payload, path)
    if value is MISSING or value is None or isinstance(value, dict | list) or value == "":
        raise InvalidRecord(f"the payload has no {'.'.join(path)} that could be {what}")
    return str(value)
