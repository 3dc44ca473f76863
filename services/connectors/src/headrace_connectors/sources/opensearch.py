"""The source `opensearch`: documents of an index, read again and again after a growing field."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import quote

import msgspec
from pydantic import Field

from headrace_connectors.contract import (
    Batch,
    ConnectorError,
    HeaderValue,
    InFlight,
    Lag,
    Polling,
    Record,
    Settings,
    Source,
    Unavailable,
    decode_state,
    encode_state,
    stable_id,
)
from headrace_connectors.contract.records import HEADER_BYTES_MAX
from headrace_connectors.json_values import JsonEncoder
from headrace_connectors.search.server import SearchServer, ServerSettings
from headrace_settings import Between, Duration

_STATE_VERSION: Final = 1
_ENCODER: Final = JsonEncoder()
_RESULTS_MAX: Final = 10_000
"""Documents that servers return at once, unless an index is configured otherwise."""
_LAG_MAX: Final = 10_000
"""Documents that are counted for the lag."""
_LATE_MAX: Final = 1000
"""Late documents that are named in the position; beyond them, those with the smallest values are not searched any more.
"""


class OpenSearchSourceSettings(ServerSettings):
    """`settings` of the source `opensearch`."""

    index: str = Field(min_length=1)
    """Index, alias or pattern, as `orders` or `logs-*`."""
    cursor_field: str
    """Field that grows with each new or changed document: a number, a time or a keyword. Documents are read in its
    order, and those after the last one only; one that becomes visible late with a smaller value is not seen.
    """
    query: dict[str, Any] = Field(default_factory=dict)
    """Query of the server's language that documents have to match, such as `{ term = { state = "paid" } }`; empty: all.
    """
    batch_size: Annotated[int, Between(1, 5000)] = 1000
    """Maximum number of documents of a batch."""
    poll_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse("1 s")
    """Pause after a poll without documents."""


class _State(msgspec.Struct):
    """Position: all documents up to a value of the field, and those after it that are named."""

    after: Any = None
    """Value of the field: documents up to it are not searched any more. None: there is none yet."""
    last: Any = None
    """Greatest value that was read."""
    names: list[str] = []
    """Documents that were read and have that value."""
    late: list[tuple[Any, str]] = []
    """Documents that were read and have a value between the two, with it, in its order: they became visible late."""


class OpenSearchSource(Source):
    """Reads documents in batches. Several may have the same value of the field: those that were read are left out."""

    settings_type: ClassVar[type[Settings]] = OpenSearchSourceSettings

    def __init__(self, settings: OpenSearchSourceSettings) -> None:
        """Connect to nothing yet."""
        self._settings = settings
        self._server = SearchServer(settings)
        self._state = _State()
        self._flight = InFlight[_State]()
        self._types: frozenset[str] = frozenset()

    def mode(self) -> Polling:
        """Documents stay where they are."""
        return Polling(destructive=False)

    async def open(self, state: bytes | None) -> None:
        """Continue after the state.

        Raises:
            Unavailable: The server does not answer, or no document has the field yet.
            ConnectorError: There is no such index, or the login is refused.
        """
        if state is not None:
            self._state = decode_state(state, _STATE_VERSION, _State)
        await self._server.open()
        settings = self._settings
        index, field = quote(settings.index, safe="*,"), quote(settings.cursor_field, safe="*")
        answer = await self._server.ask("GET", f"/{index}/_field_caps?fields={field}")
        if answer.status == 404:
            raise ConnectorError(f"there is no index {settings.index}: create it, or correct settings.index")
        self._check(answer.status, answer.reason)
        fields = answer.part("fields")
        if settings.cursor_field not in fields:
            raise Unavailable(
                f"{settings.index} has no field {settings.cursor_field} yet: correct cursor_field if it never has"
            )
        self._types = frozenset(fields[settings.cursor_field])

    async def poll(self) -> Batch | None:
        """Return the documents after the last commit."""
        await self.rewind()
        return await self.poll_ahead()

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return None: a search can begin anywhere."""
        del settings
        return None

    async def poll_ahead(self) -> Batch | None:
        """Return the next documents."""
        state = self._state if self._flight.last is None else self._flight.last
        hits = await self._hits(state)
        if not hits:
            await asyncio.sleep(self._settings.poll_interval.seconds)
            return None
        following = _following(state, hits)
        records = [
            Record(
                hit["_source"],
                id=stable_id(*_version(hit)),
                headers=_headers(hit["_id"]),
                table=hit["_index"],
            )
            for hit in hits
        ]
        batch = Batch(records, encode_state(_STATE_VERSION, following))
        self._flight.add(batch, following)
        return batch

    async def commit(self) -> None:
        """Go on after these documents."""
        if committed := self._flight.clear():
            self._state = committed[-1]

    async def commit_batch(self, batch: Batch) -> None:
        """Go on after these documents."""
        if committed := self._flight.committed(batch):
            self._state = committed[-1]

    async def rewind(self) -> None:
        """Search after the last commit again."""
        self._flight.clear()

    async def close(self) -> None:
        """Close connections."""
        await self._server.close()

    async def _hits(self, state: _State) -> list[dict[str, Any]]:
        settings = self._settings
        read = {*state.names, *(name for _, name in state.late)}
        size = settings.batch_size + len(read)
        if size > _RESULTS_MAX:
            raise ConnectorError(
                f"more than {_RESULTS_MAX - settings.batch_size} documents of {settings.index} have the same "
                f"{settings.cursor_field}: choose a field with finer values, such as a time with milliseconds"
            )
        search: dict[str, Any] = {
            "size": size,
            "query": {"bool": {"filter": self._conditions}},
            "sort": [{settings.cursor_field: {"order": "asc"}}],
            "seq_no_primary_term": True,
            "track_total_hits": False,
        }
        if state.after is not None:
            search["search_after"] = [state.after]
        hits: list[dict[str, Any]] = (await self._found(search))["hits"]
        return [hit for hit in hits if _name(hit) not in read][: settings.batch_size]

    async def lag(self) -> Lag | None:
        """Return the number of documents that are not stored yet; more than 10,000 are not counted.

        Raises:
            Unavailable: The server does not answer.
            ConnectorError: It refuses the query.
        """
        state, conditions = self._state, self._conditions
        if state.after is not None:
            if "date_nanos" in self._types:
                # The value that it is sorted by has no form in a query.
                return None
            above: dict[str, Any] = {"gt": state.after}
            if "date" in self._types:
                above["format"] = "epoch_millis"
            conditions.append({"range": {self._settings.cursor_field: above}})
        search = {"size": 0, "query": {"bool": {"filter": conditions}}, "track_total_hits": _LAG_MAX}
        total = (await self._found(search))["total"]
        read = 0 if total["relation"] == "gte" else len(state.names) + len(state.late)
        return Lag(max(0, total["value"] - read), "rows")

    @property
    def _conditions(self) -> list[dict[str, Any]]:
        """Conditions of all documents that are read."""
        query = self._settings.query
        return [{"exists": {"field": self._settings.cursor_field}}, *([query] if query else [])]

    async def _found(self, search: dict[str, Any]) -> dict[str, Any]:
        index = quote(self._settings.index, safe="*,")
        # An answer without one of the shards would leave documents out for ever.
        path = f"/{index}/_search?allow_partial_search_results=false"
        answer = await self._server.ask("POST", path, _ENCODER.encode(search))
        self._check(answer.status, answer.reason)
        hits: dict[str, Any] = answer.part("hits")
        return hits

    def _check(self, status: int, reason: str) -> None:
        if status != 200:
            raise ConnectorError(
                f"reading {self._settings.index} is refused with {status}: {reason}; correct cursor_field or query"
            )


def _version(hit: dict[str, Any]) -> tuple[str, str, int, int]:
    """Return what identifies a document as it is: the sequence number is another one when it is changed."""
    return (hit["_index"], hit["_id"], hit["_primary_term"], hit["_seq_no"])


def _headers(document_id: str) -> dict[str, HeaderValue] | None:
    # A part of an id would be that of another document.
    return {"document_id": document_id} if len(document_id.encode()) <= HEADER_BYTES_MAX else None


def _name(hit: dict[str, Any]) -> str:
    return "/".join(map(str, _version(hit)))


def _following(state: _State, hits: Sequence[dict[str, Any]]) -> _State:
    """Return the position after these documents: the first ones after the last position, in the order of the field."""
    read = [(hit["sort"][0], _name(hit)) for hit in hits]
    newest = read[-1][0]
    if state.last is None or newest > state.last:
        # Positions of earlier releases may have `after` above `last`.
        below = [value for value in (state.after, state.last, *(value for value, _ in read)) if value is not None]
        after = max((value for value in below if value < newest), default=None)
        return _State(after, newest, [name for value, name in read if value == newest])
    # All of them became visible late: the greatest value stays, with those that have it.
    names = [*state.names, *(name for value, name in read if value == state.last)]
    late = sorted([*state.late, *(one for one in read if one[0] != state.last)])
    # Others that have the newest value may be in the next batch.
    after = max((value for value, _ in late[:-_LATE_MAX] if value < newest), default=state.after)
    return _State(after, state.last, names, [one for one in late if after is None or one[0] > after])
