"""Good plugins, and their cases. Their other side is an object in memory."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any

from hypothesis import strategies as st

from headrace_connectors.conformance import Case, CodecCase, SinkCase, SourceCase, TransformCase
from headrace_connectors.contract import (
    Batch,
    Codec,
    InFlight,
    InvalidRecord,
    Place,
    Polling,
    Received,
    Record,
    Settings,
    Sink,
    Source,
    Transform,
    decode_state,
    encode_state,
)
from headrace_connectors.plugins.discovery import Plugins
from headrace_settings import Secret


class GoodSettings(Settings):
    """Settings of planted plugins."""

    shelf: str
    """Number of the shelf that the plugin works on."""
    password: Secret | None = None
    """A secret."""


SHELVES: list[dict[str, Any]] = []
"""The other side: what cases have put there, and what plugins have left."""


class Shelf:
    """A case's part of the other side."""

    def __init__(self) -> None:
        self.number = len(SHELVES)
        SHELVES.append({"rows": [], "offsets": {}})

    @property
    def content(self) -> dict[str, Any]:
        return SHELVES[self.number]

    @property
    def settings(self) -> Mapping[str, Any]:
        return {"shelf": str(self.number), "password": "planted-password"}


class GoodSource(Source):
    """Reads the rows of a shelf, and removes them when they are committed."""

    settings_type = GoodSettings

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self._rows: list[int] = SHELVES[int(settings.shelf)]["rows"]
        self._last = -1
        self._polled = -1
        self.flight = InFlight[int]()

    def mode(self) -> Any:
        return Polling(destructive=True)

    async def open(self, state: bytes | None) -> None:
        if state is not None:
            self._last = self._polled = decode_state(state, 1, int)
            self.remove()

    async def open_read_only(self, state: bytes | None) -> None:
        self._last = -1 if state is None else decode_state(state, 1, int)

    def remove(self) -> None:
        self._rows[:] = [row for row in self._rows if row > self._last]

    async def poll(self) -> Batch | None:
        batch = await self._after(self._last)
        self._polled = self.flight.last or self._polled
        self.flight.clear()
        return batch

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        return None

    async def poll_ahead(self) -> Batch | None:
        return await self._after(self._last if self.flight.last is None else self.flight.last)

    async def commit_batch(self, batch: Batch) -> None:
        if committed := self.flight.committed(batch):
            self._last = committed[-1]
        self.remove()

    async def rewind(self) -> None:
        self.flight.clear()

    async def _after(self, last: int) -> Batch | None:
        await asyncio.sleep(0)
        found = [row for row in self._rows if row > last][:2]
        await asyncio.sleep(0)
        if not found:
            return None
        batch = Batch([Record({"id": row}, id=row + 1) for row in found], encode_state(1, found[-1]))
        self.flight.add(batch, found[-1])
        return batch

    async def commit(self) -> None:
        self._last = self._polled
        self.remove()

    async def close(self) -> None:
        await asyncio.sleep(0)


PLANTED_SECONDS = 0.3
"""Time for a planted plugin, which may use all of it. A good one has as much as a slow machine needs."""


class PlantedSourceCase(SourceCase):
    def __init__(self, plugin: type[Source] = GoodSource) -> None:
        if plugin is not GoodSource:
            self.seconds = PLANTED_SECONDS
        self._plugin = plugin
        self._shelf = Shelf()
        self._numbers = itertools.count()

    def loaded(self) -> type[Source]:
        return self._plugin

    def settings(self) -> Mapping[str, Any]:
        return self._shelf.settings

    async def feed(self, count: int) -> None:
        self._shelf.content["rows"] += itertools.islice(self._numbers, count)

    async def kept(self) -> int | None:
        return len(self._shelf.content["rows"])


class GoodSink(Sink):
    """Puts numbers on a shelf, with the offsets."""

    settings_type = GoodSettings

    def __init__(self, settings: Any) -> None:
        self._settings = settings
        self.shelf = SHELVES[int(settings.shelf)]
        self.held: list[Received] = []

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        return {place: self.shelf["offsets"][place] for place in places if place in self.shelf["offsets"]}

    async def write(self, messages: Sequence[Received]) -> None:
        await asyncio.sleep(0)
        for index, message in enumerate(messages):
            if message.record.payload["id"] < 0:
                raise InvalidRecord("a number is negative", index=index)
        self.held += messages

    async def flush(self, positions: Mapping[Place, int]) -> None:
        held, self.held = self.held, []
        await asyncio.sleep(0)
        offsets = self.shelf["offsets"]
        self.shelf["rows"] += [m.record.payload["id"] for m in held if m.offset >= offsets.get(m.place, 0)]
        for place, offset in positions.items():
            offsets[place] = max(offset, offsets.get(place, 0))

    async def forget(self) -> None:
        self.held = []

    async def close(self) -> None:
        await asyncio.sleep(0)


class PlantedSinkCase(SinkCase):
    def __init__(self, plugin: type[Sink] = GoodSink) -> None:
        if plugin is not GoodSink:
            self.seconds = PLANTED_SECONDS
        self._plugin = plugin
        self._shelf = Shelf()

    def loaded(self) -> type[Sink]:
        return self._plugin

    def settings(self) -> Mapping[str, Any]:
        return self._shelf.settings

    def invalid_payload(self) -> Any:
        return {"id": -1}

    async def written(self) -> Sequence[int]:
        return list(self._shelf.content["rows"])


class GoodTransform(Transform):
    """Counts the fields of objects."""

    def __init__(self, settings: Settings) -> None:
        self.count = 0

    def apply(self, record: Record) -> Any:
        if not isinstance(record.payload, dict):
            raise InvalidRecord("the payload is no object")
        return Record({**record.payload, "fields": len(record.payload)}, id=record.id, headers=record.headers)


class PlantedTransformCase(TransformCase):
    def __init__(self, plugin: type[Transform] = GoodTransform) -> None:
        self._plugin = plugin

    def loaded(self) -> type[Transform]:
        return self._plugin


class GoodCodec(Codec):
    """Numbers in decimal digits."""

    def __init__(self, settings: Settings) -> None:
        pass

    def encode(self, payload: Any) -> bytes:
        if not isinstance(payload, int):
            raise InvalidRecord("no number")
        return b"%d" % payload

    def decode(self, encoded: bytes) -> Any:
        try:
            return int(encoded)
        except ValueError as error:
            raise InvalidRecord("no digits") from error


class PlantedCodecCase(CodecCase):
    bad_bytes = (b"x",)

    def __init__(self, plugin: type[Codec] = GoodCodec) -> None:
        self._plugin = plugin

    def loaded(self) -> type[Codec]:
        return self._plugin

    def payloads(self) -> Any:
        return st.integers()


class OtherVersionCase(SourceCase):
    """version_is_declared"""

    def __init__(self) -> None:
        self.name = "mine"
        self.plugins = Plugins([EntryPoint("mine", "my_package:Mine", "headrace_connectors.v2.sources")])


GOOD: Sequence[type[Case[Any]]] = (PlantedSourceCase, PlantedSinkCase, PlantedTransformCase, PlantedCodecCase)
