"""CON-91: points of InfluxDB in the order of their times, each once, with real servers of version 1.6 and 1.8."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache, partial
from typing import Any

import pytest

import headrace
from headrace_connectors.conformance import Rule, rules_of, verify
from headrace_connectors.contract import ConnectorError, Unavailable
from headrace_connectors.sources.influxdb.query.settings import InfluxQuerySettings
from headrace_connectors.sources.influxdb.query.source import InfluxQuery
from tests.connectors.influxdb.case import POLICY, Database, InfluxQueryCase
from tests.connectors.process import Connectors, until
from tests.influxdb import InfluxDb, influxdb

KINDS = {
    "1.6 with InfluxQL": ("1.6", "influxql"),
    "1.8 with InfluxQL": ("1.8", "influxql"),
    "1.8 with Flux": ("1.8", "flux"),
}
_QUICK_KIND = "1.8 with Flux"
EACH_KIND = [kind if kind == _QUICK_KIND else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]


Servers = Callable[[str], InfluxDb]


@pytest.fixture(scope="module")
def server_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The server of a version, which is started for its first test."""
    with ExitStack() as stack:

        @cache
        def server_of(version: str) -> InfluxDb:
            return stack.enter_context(influxdb(tmp_path_factory.mktemp("influxdb"), version))

        yield server_of


@pytest.fixture(params=EACH_KIND)
def database(server_of: Servers, request: pytest.FixtureRequest) -> Database:
    """An empty database."""
    version, language = KINDS[request.param]
    return Database(server_of(version), language)


@pytest.fixture
async def source_of(database: Database):
    """Make a source, and close it at the end."""
    made: list[InfluxQuery] = []

    async def make(*, state: bytes | None = None, **settings: Any) -> InfluxQuery:
        source = InfluxQuery(InfluxQuerySettings.model_validate(database.settings(**settings)))
        made.append(source)
        await source.open(state)
        return source

    yield make
    for source in made:
        await source.close()


async def batches(source: InfluxQuery) -> tuple[list[list[dict[str, Any]]], bytes | None]:
    """Read and commit all points; return the payloads of each batch, and the last state."""
    found, state = [], None
    while (batch := await source.poll()) is not None:
        found.append([record.payload for record in batch.records])
        state = batch.state
        await source.commit()
    return found, state


async def read(source: InfluxQuery) -> list[dict[str, Any]]:
    """Read and commit all points; return their payloads."""
    return [payload for batch in (await batches(source))[0] for payload in batch]


@pytest.mark.parametrize("kind", [pytest.param("1.6 with InfluxQL", marks=pytest.mark.long), _QUICK_KIND])
@pytest.mark.parametrize("rule", rules_of("sources"), ids=str)
def test_the_source_keeps_the_rules(server_of: Servers, kind: str, rule: Rule[Any]) -> None:
    version, language = KINDS[kind]
    verify(rule, partial(InfluxQueryCase, server_of(version), language))


async def test_a_point_has_its_tags_and_fields_with_their_types(source_of, database):
    # Flux has no earlier times.
    first_ns = 1 if database.language == "flux" else -5
    database.write(
        rf'room\ 1,floor=2,side=no\,rth celsius=21,people=3i,open=true,note="a, \"b\" ${{x}}\é" {first_ns}',
        "room\\ 1,side=south celsius=-0.5 1700000000000000001",
        'log,_x=1 text="two\nlines, and \u2028",empty="" 1700000000000000002',
    )
    found = await read(await source_of())
    place = f"{database.name}/{POLICY}" if database.language == "flux" else database.name
    assert found == [
        {
            "measurement": "room 1",
            "tags": {"floor": "2", "side": "no,rth"},
            "fields": {"celsius": 21.0, "people": 3, "open": True, "note": 'a, "b" ${x}\\é'},
            "timestamp_ns": first_ns,
            "bucket": place,
        },
        {
            "measurement": "room 1",
            "tags": {"side": "south"},
            "fields": {"celsius": -0.5},
            "timestamp_ns": 1_700_000_000_000_000_001,
            "bucket": place,
        },
        {
            "measurement": "log",
            "tags": {"_x": "1"},
            "fields": {"text": "two\nlines, and \u2028", "empty": ""},
            "timestamp_ns": 1_700_000_000_000_000_002,
            "bucket": place,
        },
    ]
    types = {name: type(value) for name, value in found[0]["fields"].items()}
    assert types == {"celsius": float, "people": int, "open": bool, "note": str}


@pytest.mark.parametrize("batch_size", [1, 3, 1000])
async def test_points_with_the_same_time_come_together_and_each_once(source_of, database, batch_size):
    times = [1, 1, 1, 2, 5, 5, 10**9, 10**9 + 1, 10**18, 10**18, 10**18, 10**18]
    lines = [f"m{number % 2},n={number} value={number}i {at}" for number, at in enumerate(times)]
    database.write(*lines)
    source = await source_of(batch_size=batch_size)
    found, state = await batches(source)
    assert sorted(point["fields"]["value"] for batch in found for point in batch) == list(range(len(times)))
    ordered = [point["timestamp_ns"] for batch in found for point in batch]
    assert ordered == sorted(times)
    # No time is divided, and a batch is larger than allowed only if it has one time.
    first_times = [batch[0]["timestamp_ns"] for batch in found]
    assert all(batch[-1]["timestamp_ns"] < following for batch, following in zip(found, first_times[1:], strict=False))
    assert all(len(batch) <= batch_size or len({one["timestamp_ns"] for one in batch}) == 1 for batch in found)
    database.write(f"m0,n=new value=12i {10**18 + 1}")
    restarted = await source_of(batch_size=batch_size, state=state)
    for one in (restarted, source):
        assert [point["tags"]["n"] for point in await read(one)] == ["new"]


async def test_a_point_is_read_when_it_has_its_age(source_of, database):
    now_ns = time.time_ns()
    database.write(f"m value=1 {now_ns - 7200 * 10**9}", f"m value=2 {now_ns - 1800 * 10**9}")
    source = await source_of(lag="1 h")
    assert [point["fields"]["value"] for point in await read(source)] == [1.0]
    # Written late, but before its time is read.
    database.write(f"m value=3 {now_ns - 3700 * 10**9}")
    assert [point["fields"]["value"] for point in await read(source)] == [3.0]
    state = (await batches(await source_of(lag="1 h")))[1]
    assert [point["fields"]["value"] for point in await read(await source_of(state=state))] == [2.0]


async def test_a_source_can_begin_at_the_end(source_of, database):
    database.write("m value=1 1")
    source = await source_of(start="end")
    batch = await source.poll()
    assert list(batch.records) == []
    await source.commit()
    database.write(f"m value=2 {time.time_ns()}")
    restarted = await source_of(start="end", state=batch.state)
    assert [point["fields"]["value"] for point in await read(restarted)] == [2.0]


async def test_measurements_are_chosen_and_are_tables(source_of, database):
    database.write('a"b value=1 1', "b value=2 2", "c value=3 3")
    source = await source_of(measurements=['a"b', "c"])
    batch = await source.poll()
    assert [record.table for record in batch.records] == ['a"b', "c"]
    again = await source.poll()
    assert [record.id for record in again.records] == [record.id for record in batch.records]


async def test_a_retention_policy_can_be_named(source_of, database):
    database.server.statement(f'CREATE RETENTION POLICY "for ever" ON "{database.name}" DURATION INF REPLICATION 1')
    database.write("m value=1 1")
    database.write("m value=2 2", policy="for ever")
    named = {"bucket": f"{database.name}/for ever"} if database.language == "flux" else {"retention_policy": "for ever"}
    assert [point["fields"]["value"] for point in await read(await source_of(**named))] == [2.0]


async def test_large_answers_arrive_in_parts(source_of, database):
    count = 12_000
    database.write(*(f'm,series={n % 7} value={n}i,text="{"x" * 40}" {1 + n // 10}' for n in range(count)))
    source = await source_of(batch_size=4000)
    found, _ = await batches(source)
    # Two points of a series at a time are one.
    expected = {(n % 7, 1 + n // 10): n for n in range(count)}
    assert sorted(point["fields"]["value"] for batch in found for point in batch) == sorted(expected.values())
    assert len(found) < 40


async def test_a_database_that_is_not_there_is_an_error(source_of, database):
    named = {"bucket": "missing/autogen"} if database.language == "flux" else {"database": "missing"}
    with pytest.raises(ConnectorError, match=r"not find|not found|no database") as caught:
        await source_of(**named)
    assert not isinstance(caught.value, Unavailable)
    assert "; correct settings." in str(caught.value)


async def test_a_wrong_login_is_an_error(source_of, database):
    wrong = {"token": "headrace:wrong"} if database.language == "flux" else {"password": "wrong"}
    with pytest.raises(ConnectorError, match=r"answered 401: .*; correct the login") as caught:
        await source_of(**wrong)
    assert not isinstance(caught.value, Unavailable)


async def test_a_server_that_is_not_there_is_tried_again(source_of):
    with pytest.raises(Unavailable, match="is not reached"):
        await source_of(url="http://127.0.0.1:9")


def test_points_reach_a_topic(client: headrace.Client, connectors: Connectors, database: Database, stream: str) -> None:
    """The process is killed before it stores its state: the points come again, with the same ids."""
    database.write(*(f"m{n % 3},n={n} value={n}i {1 + n // 2}" for n in range(40)))
    settings = "".join(f"{name} = {json.dumps(value)}\n" for name, value in database.settings(batch_size=10).items())
    pipeline = (
        f'[sources.a]\nplugin = "influxdb_query"\n[sources.a.routing]\ndefault_stream = "{stream}"\n'
        'default_topic = "other"\n[sources.a.routing.by_table]\n'
        f'm0 = {{ stream = "{stream}", topic = "m0" }}\n[sources.a.settings]\n{settings}'
    )
    connectors.run(pipeline, fault=("before-saving",))
    assert connectors.wait() == -9
    connectors.run()
    found: dict[str, set[int]] = {}

    def all_of_them() -> bool:
        for topic in ("m0", "other"):
            messages = {message.id: json.loads(message.payload) for message in client.read(stream, topic)}
            found[topic] = {point["fields"]["value"] for point in messages.values()}
            assert len(messages) == len(found[topic])
        return sum(map(len, found.values())) == 40

    until(lambda: {topic.name for topic in client.topics(stream)} >= {"m0", "other"})
    until(all_of_them)
    assert connectors.stop() == 0
    assert found["m0"] == set(range(0, 40, 3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"database": None}, "exactly one of database"),
        ({"bucket": "b"}, "exactly one of database"),
        ({"organization": "o"}, "belongs to bucket"),
        ({"database": None, "bucket": "b", "retention_policy": "r"}, "belongs to database"),
        ({"username": "a"}, "belong together"),
        ({"username": "a", "password": "b", "token": "c"}, "replaces username and password"),
        ({"url": "influxdb:8086"}, "should match pattern"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        InfluxQuerySettings.model_validate({"url": "http://x:8086", "database": "d", **settings})
