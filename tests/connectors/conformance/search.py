"""Cases of the connectors to OpenSearch."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from headrace_connectors.conformance import SinkCase, SourceCase
from tests.opensearch import OpenSearch

_numbers = itertools.count()


class OpenSearchCase(SourceCase):
    """Documents of which two and two have the same value of the field."""

    name = "opensearch"

    def __init__(self, server: OpenSearch) -> None:
        self._server = server
        self._index = f"source-{next(_numbers)}"
        self._fed = 0

    def settings(self) -> Mapping[str, Any]:
        return {
            "url": self._server.url,
            "index": self._index,
            "cursor_field": "n",
            "batch_size": 2,
            "poll_interval": "1 ms",
        }

    async def prepare(self) -> None:
        self._server.ask("PUT", f"/{self._index}", {"mappings": {"properties": {"n": {"type": "integer"}}}})

    async def clean(self) -> None:
        self._server.ask("DELETE", f"/{self._index}")

    async def feed(self, count: int) -> None:
        for number in range(self._fed, self._fed + count):
            self._server.ask("PUT", f"/{self._index}/_doc/{number}", {"id": number, "n": number // 2})
        self._fed += count
        self._server.ask("POST", f"/{self._index}/_refresh")


class OpenSearchSinkCase(SinkCase):
    """An index whose mapping refuses texts as numbers."""

    name = "opensearch"

    def __init__(self, server: OpenSearch) -> None:
        self._server = server
        self._index = f"sink-{next(_numbers)}"

    def settings(self) -> Mapping[str, Any]:
        return {"url": self._server.url, "index": self._index}

    def invalid_payload(self) -> Any:
        return {"id": "five"}

    async def prepare(self) -> None:
        self._server.ask("PUT", f"/{self._index}", {"mappings": {"properties": {"id": {"type": "integer"}}}})

    async def clean(self) -> None:
        self._server.ask("DELETE", f"/{self._index}")

    async def written(self) -> Sequence[int]:
        return [document["id"] for document in self._server.documents(self._index).values()]
