"""Cases of the codecs and transforms that come with Headrace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
