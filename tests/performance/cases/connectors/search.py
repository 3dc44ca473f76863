"""Source and sink of OpenSearch."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from tests.opensearch import HOME, OpenSearch, opensearch
from tests.performance.cases.connectors.runs import BATCH, ONE_BY_ONE, LeftOut, Measurements, Runs, row, unique

_SOURCE: Final = "source opensearch"
_SINK: Final = "sink opensearch"
_INDEX: Final = "rows"
_SHARE: Final = 3
"""Rows per document: the server needs longer for a document than for any other kind of row."""
_ALONE: Final = 500


class Search(Measurements):
    """Documents into a topic and back, with a server of this machine."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs)
        self._server: OpenSearch | None = None

    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements."""
        count = self.runs.rows // _SHARE
        return {
            _SOURCE: lambda: {_SOURCE: self._read(count)},
            _SOURCE + ONE_BY_ONE: lambda: {_SOURCE + ONE_BY_ONE: self._read(count // 10, one_by_one=True)},
            _SINK: lambda: {_SINK: self._written(count)},
            _SINK + ONE_BY_ONE: lambda: {_SINK + ONE_BY_ONE: self._written(_ALONE, batch=1)},
        }

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Start the server, and fill the index."""
        if not HOME.is_dir():
            raise LeftOut("OpenSearch was left out: `make opensearch` fetches it")
        directory = self.runs.directory / "opensearch"
        directory.mkdir()
        with opensearch(directory) as server:
            self._server = server
            self._create(_INDEX)
            lines = (
                f'{{"index":{{"_id":"{number}"}}}}\n{json.dumps(row(number))}\n'
                for number in range(self.runs.rows // _SHARE)
            )
            kind = {"Content-Type": "application/x-ndjson"}
            url = f"{server.url}/{_INDEX}/_bulk?refresh=true"
            with urllib.request.urlopen(urllib.request.Request(url, "".join(lines).encode(), kind)) as answer:
                assert not json.loads(answer.read())["errors"]
            yield

    def _create(self, index: str) -> None:
        assert self._server is not None
        properties = {"id": {"type": "integer"}, "amount": {"type": "integer"}}
        texts = {"topic": {"type": "keyword"}, "name": {"type": "keyword"}}
        settings = {"number_of_replicas": 0}
        self._server.ask("PUT", f"/{index}", {"settings": settings, "mappings": {"properties": properties | texts}})

    def _read(self, count: int, *, one_by_one: bool = False) -> float:
        assert self._server is not None
        settings = f'url = "{self._server.url}"\nindex = "{_INDEX}"\ncursor_field = "id"\nbatch_size = {BATCH}\n'
        return self.runs.source("opensearch", settings, count, one_by_one=one_by_one)

    def _written(self, count: int, batch: int = BATCH) -> float:
        assert self._server is not None
        index = unique("written")
        self._create(index)
        try:
            settings = f'url = "{self._server.url}"\nindex = "{index}"\n'
            return self.runs.sink("opensearch", settings, count=count, batch=batch)
        finally:
            self._server.ask("DELETE", f"/{index}")
