"""Cases of the codecs and transforms that come with Headrace."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web
from hypothesis import strategies as st

from headrace_connectors.conformance import CodecCase, TransformCase
from headrace_connectors.contract import Destination, Record
from tests.ports import free_port

_NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=8), values, max_size=4),
    max_leaves=10,
)


class JsonCase(CodecCase):
    name = "json"
    bad_bytes = (b"", b"{", b"\xff", b"{} {}")

    def payloads(self) -> Any:
        return JSON_VALUES


class TextCase(CodecCase):
    name = "text"
    bad_bytes = (b"\xff", b"\xc3")

    def payloads(self) -> Any:
        return st.text()


class RawCase(CodecCase):
    name = "raw"

    def payloads(self) -> Any:
        return st.binary()


class ArrowCase(CodecCase):
    """Rows whose columns are numbers and texts."""

    name = "arrow"
    bad_bytes = (b"", b"ARROW1", b"\xff" * 40)

    def payloads(self) -> Any:
        row = st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "name": st.text() | st.none()})
        return st.lists(row, min_size=1, max_size=5)


class _WithSchema:
    """A directory with a schema."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="headrace-conformance-"))

    async def clean(self) -> None:
        shutil.rmtree(self.directory)


class AvroCase(_WithSchema, CodecCase):
    name = "avro"
    bad_bytes = (b"", b"\x02", b"\x02\x02")

    def settings(self) -> Mapping[str, Any]:
        fields = [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]
        file = self.directory / "order.avsc"
        file.write_text(json.dumps({"type": "record", "name": "Order", "fields": fields}), encoding="utf-8")
        return {"schema_file": str(file)}

    def payloads(self) -> Any:
        return st.fixed_dictionaries({"id": st.integers(-(2**63), 2**63 - 1), "name": st.text() | st.none()})


class ProtobufCase(CodecCase):
    """A message of the standard library of Protocol Buffers, with a field of bytes and a text."""

    name = "protobuf"
    bad_bytes = (b"\x0a\xff", b"\xff")

    def settings(self) -> Mapping[str, Any]:
        return {"message": "google.protobuf.SourceContext", "module": "google.protobuf.source_context_pb2"}

    def payloads(self) -> Any:
        return st.fixed_dictionaries({"file_name": st.text(min_size=1)})


def transform(plugin: str, settings: Mapping[str, Any]) -> type[TransformCase]:
    """Return the case of a transform that needs nothing but settings."""

    class Case(TransformCase):
        name = plugin

        def settings(self) -> Mapping[str, Any]:
            return settings

        def records(self) -> Sequence[Record]:
            person = {"user": {"name": "Anna", "mail": "anna@example.com"}, "items": [{"id": 1}, 2], "card": "4000123"}
            return [*super().records(), Record(person, id=9, table="t", destination=Destination("s", "t"))]

    return Case


def shouted(record: Record) -> Record:
    """Return a record with the payload as a text in capitals."""
    return Record(str(record.payload).upper(), id=record.id, headers=record.headers)


class RouteCase(TransformCase):
    """A server with the mapping."""

    name = "route"

    def __init__(self) -> None:
        self._port = free_port()
        self._runner: web.AppRunner | None = None

    def settings(self) -> Mapping[str, Any]:
        return {"topic_field": "type", "mapping_url": f"http://127.0.0.1:{self._port}/"}

    def records(self) -> Sequence[Record]:
        fixed = Record({"type": "unknown"}, destination=Destination("s", "t"))
        return [*super().records(), Record({"type": "paid"}), Record(b'{"type": "paid"}'), Record(b"{"), fixed]

    async def prepare(self) -> None:
        async def mapping(request: web.Request) -> web.Response:
            return web.json_response({"paid": {"stream": "shop", "topic": "payments"}})

        application = web.Application()
        application.router.add_get("/", mapping)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def clean(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
