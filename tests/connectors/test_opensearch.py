"""CON-47: documents of OpenSearch into topics, and messages into documents, with a real server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

import headrace
from headrace_connectors.conformance import Rule, rules_of, verify
from headrace_connectors.contract import ConnectorError, InvalidRecord, Lag, Place, Received, Record, Unavailable
from headrace_connectors.sinks.opensearch import OpenSearchSink, OpenSearchSinkSettings
from headrace_connectors.sources import opensearch as sources_opensearch
from headrace_connectors.sources.opensearch import OpenSearchSource, OpenSearchSourceSettings
from tests.connectors.conformance.search import OpenSearchCase, OpenSearchSinkCase
from tests.connectors.process import Connectors, until
from tests.connectors.standalone import received
from tests.connectors.test_sinks import FAST
from tests.opensearch import OpenSearch, opensearch

PLACE = Place("s", "t", 0)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    """A server."""
    with opensearch(tmp_path_factory.mktemp("opensearch")) as started:
        yield started


@pytest.fixture
def index(server: OpenSearch) -> str:
    """Name of an index of this test alone, with a number `n`."""
    name = f"index-{next(_numbers)}"
    server.ask("PUT", f"/{name}", {"mappings": {"properties": {"n": {"type": "integer"}}}})
    return name


messages = partial(received.messages, at=1_767_225_600_000_000)


@pytest.fixture
async def sink_of(server: OpenSearch):
    """Make a sink, and close it at the end."""
    made: list[OpenSearchSink] = []

    async def make(index: str, **settings: Any) -> OpenSearchSink:
        sink = OpenSearchSink(OpenSearchSinkSettings.model_validate({"url": server.url, "index": index, **settings}))
        made.append(sink)
        await sink.open()
        return sink

    yield make
    for sink in made:
        await sink.close()


@pytest.fixture
async def source_of(server: OpenSearch):
    """Make a source, and close it at the end."""
    made: list[OpenSearchSource] = []

    async def make(index: str, *, state: bytes | None = None, **settings: Any) -> OpenSearchSource:
        filled = {"url": server.url, "index": index, "cursor_field": "n", "poll_interval": "1 ms", **settings}
        source = OpenSearchSource(OpenSearchSourceSettings.model_validate(filled))
        made.append(source)
        await source.open(state)
        return source

    yield make
    for source in made:
        await source.close()


@pytest.mark.long(but=4)
@pytest.mark.parametrize("rule", rules_of("sources"), ids=str)
def test_the_source_keeps_the_rules(server: OpenSearch, rule: Rule[Any]) -> None:
    verify(rule, partial(OpenSearchCase, server))


@pytest.mark.long(but=4)
@pytest.mark.parametrize("rule", rules_of("sinks"), ids=str)
def test_the_sink_keeps_the_rules(server: OpenSearch, rule: Rule[Any]) -> None:
    verify(rule, partial(OpenSearchSinkCase, server))


# ---- the sink


async def test_a_message_is_a_document_under_an_id_of_its_own(sink_of, server, index):
    sink = await sink_of(index)
    two = [Received(Record({"part": part}), PLACE, 9, 0, None) for part in (1, 2)]
    for _ in range(2):
        await sink.write(messages({"n": 1}, {"n": 2}) + two)
        await sink.flush({PLACE: 10})
    assert server.documents(index) == {
        "s/t/0/0": {"n": 1},
        "s/t/0/1": {"n": 2},
        "s/t/0/9": {"part": 1},
        "s/t/0/9/1": {"part": 2},
    }


async def test_a_field_can_be_the_id(sink_of, server, index):
    sink = await sink_of(index, id_field="order.id", max_body="1 KiB")
    many = [{"order": {"id": number % 40}, "text": "x" * 100, "n": number} for number in range(80)]
    await sink.write(messages(*many))
    await sink.flush({PLACE: 80})
    assert {key: value["n"] for key, value in server.documents(index).items()} == {
        str(number): number + 40 for number in range(40)
    }
    with pytest.raises(InvalidRecord, match=r"the payload has no order\.id that could be an id") as caught:
        await sink.write(messages({"order": {"id": 1}}, {"order": {}}))
    assert caught.value.index == 1


async def test_an_index_has_blanks(sink_of, server):
    sink = await sink_of("{stream}-{topic}-{partition}-{date}-{payload.kind}")
    await sink.write(messages({"kind": "a"}, {"kind": "b"}))
    found = server.ask("GET", "/s-t-0-*/_alias")
    assert sorted(found) == ["s-t-0-2026.01.01-a", "s-t-0-2026.01.01-b"]


async def test_documents_that_are_there_stay_with_create(sink_of, server, index):
    sink = await sink_of(index, operation="create")
    for number in (1, 2):
        await sink.write(messages({"n": number}))
        await sink.flush({PLACE: 1})
    assert server.documents(index) == {"s/t/0/0": {"n": 1}}


async def test_each_refused_document_is_named(sink_of, server, index):
    sink = await sink_of(index)
    batch = messages(*[{"n": number if number % 3 else "no number"} for number in range(10)])
    refused = []
    for _ in range(4):
        with pytest.raises(InvalidRecord, match=r"failed to parse field \[n\] of type \[integer\]") as caught:
            await sink.write(batch)
        refused.append(batch.pop(caught.value.index).offset)
    await sink.write(batch)
    await sink.flush({PLACE: 10})
    assert refused == [0, 3, 6, 9]
    assert sorted(one["n"] for one in server.documents(index).values()) == [1, 2, 4, 5, 7, 8]


async def test_an_index_that_is_blocked_is_tried_again(sink_of, server, index):
    sink = await sink_of(index)
    server.ask("PUT", f"/{index}/_settings", {"index.blocks.read_only_allow_delete": True})
    with pytest.raises(Unavailable, match="the server takes no more documents now"):
        await sink.write(messages({"n": 1}))
    server.ask("PUT", f"/{index}/_settings", {"index.blocks.read_only_allow_delete": None})
    await sink.write(messages({"n": 1}))
    assert len(server.documents(index)) == 1


async def test_an_index_that_may_not_be_created_is_an_error(sink_of, server):
    sink = await sink_of("not-there")
    server.ask("PUT", "/_cluster/settings", {"transient": {"action.auto_create_index": "false"}})
    try:
        with pytest.raises(ConnectorError, match=r"no such index \[not-there\].*; correct settings\.index") as caught:
            await sink.write(messages({"n": 1}))
        assert not isinstance(caught.value, InvalidRecord)
    finally:
        server.ask("PUT", "/_cluster/settings", {"transient": {"action.auto_create_index": None}})


async def test_a_server_that_is_not_there_is_tried_again(sink_of):
    with pytest.raises(Unavailable, match="is not reached"):
        await sink_of("x", url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"index": "a-{day}"}, r"\{day\} is no blank of an index"),
        ({"index": "a-{payload.a..b}"}, "is not a path"),
        ({"url": "search:9200"}, "should match pattern"),
        ({"username": "a"}, "belong together"),
        ({"username": "a", "password": "b", "api_key": "c"}, "replaces username and password"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        OpenSearchSinkSettings.model_validate({"url": "http://x:9200", "index": "a", **settings})


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", ["sink-before-flushing", "sink-before-storing", "sink-after-storing"])
def test_documents_are_there_once_whatever_is_killed(
    client: headrace.Client, connectors: Connectors, server: OpenSearch, index: str, stream: str, point: str
) -> None:
    """Messages that are written again have the ids that they had; those that the mapping refuses are dead letters."""
    client.create_stream(stream)
    client.create_topic(stream, "t", partitions=2)
    with client.producer(stream, "t") as producer:
        for number in range(60):
            payload = b'{"n": "no number"}' if number % 10 == 9 else b'{"n": %d}' % number
            producer.send_many([payload], partition=number % 2)
    connectors.run(
        f'[sinks.a]\nplugin = "opensearch"\nstream = "{stream}"\ntopic = "t"\nlinger = "5 ms"\nbatch_size = 5\n'
        f'[sinks.a.settings]\nurl = "{server.url}"\nindex = "{index}"\n{FAST}',
        fault=(point,),
    )
    assert connectors.wait() == -9
    connectors.run()
    expected = [number for number in range(60) if number % 10 != 9]
    until(lambda: len(server.documents(index)) >= len(expected))
    assert connectors.stop() == 0
    assert sorted(one["n"] for one in server.documents(index).values()) == expected
    assert len(list(client.read(stream, "t-dead"))) >= 6


# ---- the source


def put(server: OpenSearch, index: str, numbers: Sequence[int], first: int = 0) -> None:
    """Add documents with these values of the field."""
    for document, number in enumerate(numbers, first):
        server.ask("PUT", f"/{index}/_doc/{document}", {"n": number})
    server.ask("POST", f"/{index}/_refresh")


async def read(source: OpenSearchSource) -> tuple[list[str], bytes | None]:
    """Read and commit all documents; return their ids in their order, and the last state."""
    found: list[str] = []
    state = None
    while (batch := await source.poll()) is not None:
        found += [str((record.headers or {})["document_id"]) for record in batch.records]
        state = batch.state
        await source.commit()
    return found, state


@pytest.mark.long(but=1)
@pytest.mark.parametrize("batch_size", [3, 1, 2, 100])
async def test_documents_with_the_same_value_are_each_read_once(source_of, server, index, batch_size):
    put(server, index, [1, 1, 1, 2, 3, 3, 4])
    source = await source_of(index, batch_size=batch_size)
    found, state = await read(source)
    assert sorted(found) == list("0123456")
    # One more with the last value, and one that follows, each by itself.
    put(server, index, [4], first=7)
    restarted = await source_of(index, batch_size=batch_size, state=state)
    assert (await read(restarted))[0] == ["7"]
    assert (await read(source))[0] == ["7"]
    for number in range(8, 20):
        put(server, index, [number], first=number)
        found, state = await read(source)
        assert found == [str(number)]
    assert len(state or b"") < 100


async def test_a_changed_document_is_another_record(source_of, server, index):
    put(server, index, [1])
    source = await source_of(index)
    first = (await source.poll()).records[0]
    assert (await source.poll()).records[0].id == first.id
    assert (first.payload, first.table) == ({"n": 1}, index)
    await source.commit()
    put(server, index, [2])
    assert (await source.poll()).records[0].id != first.id


async def test_a_query_chooses_documents(source_of, server, index):
    put(server, index, range(10))
    source = await source_of(index, query={"range": {"n": {"gte": 7}}})
    assert (await read(source))[0] == ["7", "8", "9"]


async def test_times_and_texts_can_be_the_field(source_of, server):
    index = f"index-{next(_numbers)}"
    properties = {"at": {"type": "date"}, "key": {"type": "keyword"}, "text": {"type": "text"}}
    server.ask("PUT", f"/{index}", {"mappings": {"properties": properties}})
    for number in range(4):
        document = {"at": f"2026-01-01T00:00:00.00{number}Z", "key": f"k{number}", "text": "words"}
        server.ask("PUT", f"/{index}/_doc/{number}", document)
    server.ask("POST", f"/{index}/_refresh")
    for field in ("at", "key"):
        source = await source_of(index, cursor_field=field, batch_size=2)
        batch = await source.poll()
        await source.commit()
        restarted = await source_of(index, cursor_field=field, batch_size=2, state=batch.state)
        assert (await read(restarted))[0] == ["2", "3"]
    source = await source_of(index, cursor_field="text")
    with pytest.raises(ConnectorError, match=r"refused with 400.*; correct cursor_field or query"):
        await source.poll()


async def test_the_lag_is_the_number_of_documents_that_are_not_stored(source_of, server, index, monkeypatch):
    """CON-84: documents with the same value are counted each; no more than some are counted."""
    put(server, index, [1, 1, 1, 2, 3, 3, 4])
    source = await source_of(index, batch_size=2)
    for behind in (7, 5, 3, 1):
        assert await source.lag() == Lag(behind, "rows")
        await source.poll()
        assert await source.lag() == Lag(behind, "rows")
        await source.commit()
    assert await source.lag() == Lag(0, "rows")
    put(server, index, range(10, 20), first=7)
    monkeypatch.setattr(sources_opensearch, "_LAG_MAX", 4)
    assert await source.lag() == Lag(4, "rows")
    filtered = await source_of(index, query={"range": {"n": {"gte": 17}}})
    assert await filtered.lag() == Lag(3, "rows")


async def test_the_lag_of_times_and_texts(source_of, server):
    """CON-84: the value of a time of nanoseconds has no form in a query, so that the lag is not known."""
    index = f"index-{next(_numbers)}"
    kinds = {"date": "2026-01-01T00:00:00.00{}Z", "date_nanos": "2026-01-01T00:00:00.00000{}Z", "keyword": "k{}"}
    properties = {kind: {"type": kind} for kind in kinds} | {"day": {"type": "date", "format": "basic_date"}}
    server.ask("PUT", f"/{index}", {"mappings": {"properties": properties}})
    for number in range(4):
        document = {kind: text.format(number) for kind, text in kinds.items()} | {"day": f"2026010{number + 1}"}
        server.ask("PUT", f"/{index}/_doc/{number}", document)
    server.ask("POST", f"/{index}/_refresh")
    for field, behind in (
        ("date", Lag(2, "rows")),
        ("day", Lag(2, "rows")),
        ("keyword", Lag(2, "rows")),
        ("date_nanos", None),
    ):
        source = await source_of(index, cursor_field=field, batch_size=2)
        assert await source.lag() == Lag(4, "rows")
        await source.poll()
        await source.commit()
        assert await source.lag() == behind


async def test_parts_that_are_missing_are_named(source_of, index):
    with pytest.raises(ConnectorError, match="there is no index missing: create it"):
        await source_of("missing")
    with pytest.raises(Unavailable, match=f"{index} has no field at yet"):
        await source_of(index, cursor_field="at")


async def test_too_many_documents_with_one_value_are_an_error(source_of, server, index):
    sink = OpenSearchSink(OpenSearchSinkSettings.model_validate({"url": server.url, "index": index}))
    await sink.open()
    await sink.write(messages(*[{"n": 1}] * 5001))
    await sink.close()
    server.ask("POST", f"/{index}/_refresh")
    source = await source_of(index, batch_size=5000)
    for _ in range(2):
        assert await source.poll() is not None
        await source.commit()
    with pytest.raises(ConnectorError, match=r"more than 5000 documents of .* have the same n: choose a field"):
        await source.poll()


def test_documents_reach_a_topic(
    client: headrace.Client, connectors: Connectors, server: OpenSearch, index: str, stream: str
) -> None:
    """The process is killed before it stores its state: the documents come again, with the same ids."""
    put(server, index, range(20))
    pipeline = (
        f'[sources.a]\nplugin = "opensearch"\nstream = "{stream}"\ntopic = "t"\n[sources.a.settings]\n'
        f'url = "{server.url}"\nindex = "{index}"\ncursor_field = "n"\nbatch_size = 10\npoll_interval = "5 ms"\n'
    )
    connectors.run(pipeline, fault=("before-saving",))
    assert connectors.wait() == -9
    connectors.run()
    until(lambda: len({message.id for message in client.read(stream, "t")}) == 20)
    assert connectors.stop() == 0
    found = {message.id: json.loads(message.payload)["n"] for message in client.read(stream, "t")}
    assert sorted(found.values()) == list(range(20))
