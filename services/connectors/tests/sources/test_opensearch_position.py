"""CON-47: the position of the source `opensearch`, while documents become visible in any order.

A document has to be sent once if its value is at least the greatest one that was sent before it became visible. The
source sees more of them: all whose value is after the one that searches begin at.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_connectors.contract import Lag, decode_state, encode_state
from headrace_connectors.sources import opensearch
from headrace_connectors.sources.opensearch import OpenSearchSource, OpenSearchSourceSettings, _State

ROUNDS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 5), max_size=5),  # values of documents that become visible
        st.integers(0, 2),  # batches
        st.sampled_from([True, True, False]),  # stored
        st.none() | st.integers(0, 50),  # a document that is hidden, or not any more
    ),
    max_size=12,
)


class Index:
    """Documents, each of which has a number as its id."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.hidden: set[int] = set()
        self.name: str | None = None

    def appear(self, *values: Any) -> list[int]:
        """Make documents visible; return their ids."""
        self.values += values
        return list(range(len(self.values) - len(values), len(self.values)))

    def hits(self, search: dict[str, Any]) -> list[dict[str, Any]]:
        """Answer a search as OpenSearch does."""
        after = search["search_after"][0] if "search_after" in search else None
        found = sorted(
            (value, number)
            for number, value in enumerate(self.values)
            if number not in self.hidden and (after is None or value > after)
        )
        return [
            {
                "_index": "i",
                "_id": self.name or str(number),
                "_primary_term": 1,
                "_seq_no": number,
                "_source": {},
                "sort": [value],
            }
            for value, number in found[: search["size"]]
        ]


class Reading(OpenSearchSource):
    """A source that reads such documents."""

    def __init__(self, index: Index, batch_size: int, state: bytes | None = None) -> None:
        given = {"url": "http://x", "index": "i", "cursor_field": "n", "poll_interval": "1 ms"}
        super().__init__(OpenSearchSourceSettings.model_validate({**given, "batch_size": batch_size}))
        self.index, self.stored = index, state
        self._state = self.position

    @property
    def position(self) -> _State:
        """Position that is stored."""
        return _State() if self.stored is None else decode_state(self.stored, 1, _State)

    async def _found(self, search: dict[str, Any]) -> dict[str, Any]:
        hits = self.index.hits(search)
        return {"hits": hits, "total": {"value": len(hits), "relation": "eq"}}

    async def sent(self, polls: int = 1, *, is_stored: bool = True) -> list[int]:
        """Ids of the documents of so many batches, which are committed, or else forgotten."""
        batches = [batch for _ in range(polls) if (batch := await self.poll_ahead()) is not None]
        if not is_stored:
            await self.rewind()
            return []
        for batch in batches:
            await self.commit_batch(batch)
            self.stored = batch.state
        return [int(record.headers["document_id"]) for batch in batches for record in batch.records]


@settings(max_examples=300, deadline=None)
@given(ROUNDS, st.integers(1, 4), st.sampled_from([1, 2, 1000]))
def test_a_document_is_sent_once_if_it_becomes_visible_in_time(rounds, batch_size, late_max):
    async def run() -> None:
        index = Index()
        source = Reading(index, batch_size)
        sent: Counter[int] = Counter()
        promised, found = set(), set()

        async def poll(count: int, *, is_stored: bool) -> bool:
            ids = await source.sent(count, is_stored=is_stored)
            sent.update(ids)
            assert not ids or max(sent.values()) == 1
            return bool(ids)

        for values, polls, is_stored, toggled in rounds:
            after, last = source.position.after, max((index.values[number] for number in sent), default=-1)
            for number in index.appear(*values):
                value = index.values[number]
                promised |= {number} if value >= last else set()
                found |= {number} if after is None or value > after else set()
            if sent and toggled is not None:
                # Copies of a shard are not refreshed together: an older one may answer next.
                index.hidden ^= {list(sent)[toggled % len(sent)]}
            await poll(polls, is_stored=is_stored)
            source = Reading(index, batch_size, source.stored)
        index.hidden.clear()
        while await poll(1, is_stored=True):
            pass
        assert promised <= found
        assert set(sent) == found

    with patch.object(opensearch, "_LATE_MAX", late_max):
        asyncio.run(run())


@pytest.fixture
async def reading():
    """A source that has sent the documents 0 and 1, with the values 10 and 20."""
    index = Index()
    index.appear(10, 20)
    source = Reading(index, 10)
    assert await source.sent() == [0, 1]
    return source


async def test_a_late_document_alone_leaves_the_greatest_value(reading):
    reading.index.appear(15)
    assert await reading.sent() == [2]
    assert (reading.position.after, reading.position.last) == (10, 20)
    reading.index.appear(20)
    assert await reading.sent(2) == [3]


async def test_a_late_document_leaves_those_of_the_greatest_value_known(reading):
    reading.index.appear(15, 20)
    assert await reading.sent(2) == [2, 3]
    reading.index.appear(20, 21, 12)
    assert await reading.sent(2) == [6, 4, 5]
    reading.index.appear(21)
    assert await reading.sent(2) == [7]


async def test_one_value_in_the_future_leaves_the_position_small(reading, monkeypatch):
    monkeypatch.setattr(opensearch, "_LATE_MAX", 3)
    reading.index.appear(10_000)
    assert await reading.sent() == [2]
    for number in range(3, 60):
        reading.index.appear(20 + number)
        assert await reading.sent(2) == [number]
        assert len(reading.position.late) <= 3
        assert reading.position.last == 10_000


async def test_a_position_of_an_earlier_release_is_continued():
    index = Index()
    index.appear(10, 20, 15, 18, 25)
    source = Reading(index, 10, encode_state(1, {"after": 20, "last": 15, "names": ["i/2/1/2"]}))
    assert await source.sent() == [4]
    assert (source.position.after, source.position.last) == (20, 25)


async def test_late_documents_that_are_read_are_not_behind(reading):
    reading.index.appear(15)
    await reading.sent()
    reading._types = frozenset(["long"])
    reading._found = lambda search: answered(2)
    assert await reading.lag() == Lag(0, "rows")


@pytest.mark.parametrize(("name", "is_sent"), [("ü" * 127, True), ("ü" * 128, False)])
async def test_an_id_that_is_too_long_for_a_header_is_left_out(name, is_sent):
    index = Index()
    index.appear(10)
    index.name = name
    batch = await Reading(index, 10).poll()
    assert [record.headers for record in batch.records] == [{"document_id": name} if is_sent else None]


async def answered(total: int) -> dict[str, Any]:
    return {"hits": [], "total": {"value": total, "relation": "eq"}}
