"""CON-50: several processes share the connectors of a file, and each connector runs in one of them."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

import headrace
from headrace import aio
from headrace.aio.direct import DirectProducer
from headrace_connectors.app import tried
from headrace_connectors.leases.ledger import NO_FENCE, Claim, Configured, Renewal, Saved, encode_change
from headrace_connectors.leases.topic import LedgerTopic
from headrace_connectors.pipeline_file.pipeline import read_pipeline
from headrace_connectors.plugins.discovery import Plugins
from headrace_connectors.versions import Author, NewVersion
from tests.conftest import TWO_SHARDS
from tests.connectors.process import Connectors, is_suspended, until
from tests.sdk.conftest import url_of
from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess

LEASE = "20 s"
"""Lease of a process that keeps its connectors, however slow the machine is."""
HOLDER_LEASE = "5 s"
"""Lease of a process that is killed or suspended: another one waits for its end."""
CUT_OFF_LEASE = "15 s"
"""The last fifth, by which a process ends before another begins, is longer than a pause of a process."""
NEW = NewVersion(datetime.now(UTC), Author("anna", ""), "http", "sources", {"plugin": "random"})
CHANGE = Configured("connectors", "a", 0, encode_change(NEW))
Pair = tuple[Connectors, Connectors]


@pytest.fixture
def pair(shared_server: ServerProcess, tmp_path: Path) -> Iterator[Pair]:
    """Two processes; not started."""
    processes = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        processes.append(Connectors(tmp_path / name, url_of(shared_server.address)))
    yield processes[0], processes[1]
    for process in processes:
        process.send_signal(signal.SIGCONT)
        process.kill()
        sys.stdout.write(process.tail())


def sharing(stream: str, lease: str = LEASE) -> str:
    return f'[sharing]\ngroup = "g"\nstream = "{stream}-leases"\nlease = "{lease}"\n'


def rows_source(key: str, url: str, stream: str) -> str:
    return (
        f'[sources.{key}]\nplugin = "postgres"\nstream = "{stream}"\ntopic = "{key}"\n'
        f'[sources.{key}.settings]\nurl = "{url}"\ntable = "public.rows"\npoll_interval = "10 ms"\nbatch_size = 4\n'
        f'cursor_column = "id"\n[sources.{key}.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "20 ms"\n'
    )


@pytest.fixture
def insert(database: psycopg.Connection) -> Callable[[], int]:
    """Insert ten more rows into the table; returns their number so far."""
    database.execute("CREATE TABLE rows (id serial PRIMARY KEY)")

    def more() -> int:
        database.execute("INSERT INTO rows SELECT FROM generate_series(1, 10)")
        (count,) = database.execute("SELECT count(*) FROM rows").fetchone() or (0,)
        return int(count)

    return more


def read(client: headrace.Client, stream: str, topic: str) -> list[int]:
    """Ids of the rows in a topic."""
    try:
        return [json.loads(message.payload)["id"] for message in client.read(stream, topic, count=10_000)]
    except headrace.NotFound:
        return []


def running(process: Connectors) -> set[str]:
    """Connectors that run in a process."""
    return {one["key"] for one in process.get("/connectors") if one["state"] == "running"}


@pytest.mark.long
def test_two_processes_share_the_connectors_and_take_them_over(
    client: headrace.Client, pair: Pair, stream: str, database_url: str, insert: Callable[[], int]
) -> None:
    """Each source runs in one process; after kill -9 the other continues with what was saved, and gives half back."""
    one, two = pair
    names = ["a", "b", "c", "d"]
    sources = "".join(rows_source(name, database_url, stream) for name in names)

    def share() -> bool:
        ones, twos = running(one), running(two)
        return len(ones) == len(twos) == 2 and ones | twos == set(names)

    count = insert()
    one.run(sharing(stream, HOLDER_LEASE) + sources)
    until(lambda: running(one) == set(names))
    two.run(sharing(stream) + sources)
    until(share)
    standby = until(lambda: [found for found in two.get("/connectors") if found["state"] == "standby"])[0]
    assert standby["runs_in"].endswith(f":{one.pid}")
    with pytest.raises(OSError, match="409"):
        two.post(f"/connectors/{standby['key']}/start")
    # Records that are stored and not saved yet would come again after the kill.
    until(lambda: all(sum(one_.status(name)["records_count"] for one_ in pair) == count for name in names))
    assert all(len(read(client, stream, name)) == count for name in names)

    one.kill()
    count = insert()
    until(lambda: running(two) == set(names))
    until(lambda: all(len(read(client, stream, name)) == count for name in names))
    one.run()
    until(share)
    assert two.stop() == 0
    count = insert()
    until(lambda: running(one) == set(names))

    def is_complete(name: str) -> bool:
        return len(read(client, stream, name)) == count

    for name in names:
        until(partial(is_complete, name))
        assert read(client, stream, name) == sorted(set(read(client, stream, name)))
    assert one.stop() == 0
    # `headrace connect test` continues after the states in the topic, too.
    insert()
    trials = asyncio.run(tried(read_pipeline(one.file, Plugins(), {}), records_max=1, seconds=30))
    assert [json.loads(trial.records[0].payload)["id"] for trial in trials] == [count + 1] * len(names)


@pytest.mark.long(but=1)
@pytest.mark.parametrize("point", ["stopped-before-saving", "stopped-before-committing"])
def test_a_stopped_holder_that_wakes_saves_and_commits_nothing(
    client: headrace.Client, pair: Pair, stream: str, database_url: str, insert: Callable[[], int], point: str
) -> None:
    """The holder is stopped between two steps, another process takes the source over, and then it is continued."""
    one, two = pair
    source = rows_source("a", database_url, stream)
    insert()
    one.run(sharing(stream, HOLDER_LEASE) + source, fault=[point], is_waiting=False)
    until(lambda: is_suspended(one.pid))
    assert set(read(client, stream, "a")) == {1, 2, 3, 4}
    two.run(sharing(stream) + source)
    count = insert()
    until(lambda: set(read(client, stream, "a")) == set(range(1, count + 1)))
    one.send_signal(signal.SIGCONT)
    status = one.becomes("a", "standby")
    assert status["batches_count"] == 0
    # It stops at the end of its lease, and may read later who has the next one.
    until(lambda: one.status("a")["runs_in"] == two.status("a")["runs_in"])
    two.becomes("a", "running")
    # Neither has the state gone back: the next process continues where the second one was.
    two.stop()
    count = insert()
    until(lambda: running(one) == {"a"})
    until(lambda: set(read(client, stream, "a")) == set(range(1, count + 1)))
    repeated = {row for row, times in Counter(read(client, stream, "a")).items() if times > 1}
    assert repeated <= {1, 2, 3, 4}
    assert repeated or point == "stopped-before-committing"


@pytest.mark.long
def test_a_process_that_is_cut_off_stops_before_another_begins(
    client: headrace.Client,
    shared_server: ServerProcess,
    pair: Pair,
    tmp_path: Path,
    stream: str,
    database_url: str,
    insert: Callable[[], int],
) -> None:
    """The times of its status show it; when it is back, it waits until it is needed."""
    _, two = pair
    (tmp_path / "cut").mkdir()
    source = rows_source("a", database_url, stream)
    count = insert()
    with Proxy(shared_server.address) as proxy:
        one = Connectors(tmp_path / "cut", url_of(proxy.address))
        try:
            one.run(sharing(stream, CUT_OFF_LEASE) + source)
            until(lambda: running(one) == {"a"})
            until(lambda: len(read(client, stream, "a")) == count)
            two.run(sharing(stream) + source)
            two.becomes("a", "standby")
            proxy.stall()
            count = insert()
            begun = two.becomes("a", "running")
            ended = one.becomes("a", "standby")
            last_run = max(i for i, one_ in enumerate(ended["history"]) if one_["state"] == "running")
            stopped_at = next(o["at"] for o in ended["history"][last_run:] if o["state"] in {"stopped", "standby"})
            began_at = next(o["at"] for o in begun["history"] if o["state"] == "running")
            assert stopped_at < began_at
            until(lambda: len(read(client, stream, "a")) >= count)
            proxy.stall(is_stalled=False)
            two.stop()
            count = insert()
            until(lambda: running(one) == {"a"})
            until(lambda: set(read(client, stream, "a")) == set(range(1, count + 1)))
        finally:
            one.kill()
            sys.stdout.write(one.tail())


async def test_a_ledger_is_read_from_its_snapshot(shared_server: ServerProcess, stream: str) -> None:
    """A process that comes later reads nothing before the snapshot, and has the same leases and states."""
    async with aio.connect(url_of(shared_server.address)) as client:
        first = LedgerTopic(client, stream, "g", timeout=10)
        async with first.opened():
            assert await first.append(Renewal("m", "m", 10.0, ("a",)))
            assert await first.append(Claim("m", "a", NO_FENCE))
            fence = first.ledger.fence("a")
            for number in range(50):
                assert await first.append(Saved("m", "a", fence, "random", b"%d" % number))
            await first.shorten()
            assert not await first.append(Saved("m", "a", fence + 1, "random", b"no"))
            assert await first.append(Saved("m", "a", fence, "random", b"last"))
            stored = await client.offset(stream, "g", 0, consumer="ledger")
            assert stored is not None
            assert stored.stored_offset == 51
            second = LedgerTopic(client, stream, "g", timeout=10)
            async with second.opened():
                assert await second.append(Renewal("n", "n", 10.0, ("a",)))
                assert second.ledger.states["a"].state == b"last"
                assert second.ledger.leases == first.ledger.leases
                assert set(second.ledger.members) == {"m", "n"}
            once = await LedgerTopic(client, stream, "g", timeout=10).read_once()
            assert (once.states, once.leases) == (second.ledger.states, second.ledger.leases)
            nothing = await LedgerTopic(client, stream, "other", timeout=10).read_once()
            assert nothing.next_offset == 0
            with pytest.raises(headrace.NotFound):
                await client.topic(stream, "other")
        await client.delete_stream(stream)


@pytest.mark.parametrize("offset", [0, 1, 52, None])
async def test_the_stored_offset_of_the_ledger_is_not_believed(
    shared_server: ServerProcess, stream: str, offset: int | None
) -> None:
    """Regression: every reader of the topic may store one, and processes that came later waited without an end."""
    async with aio.connect(url_of(shared_server.address)) as client:
        first = LedgerTopic(client, stream, "g", timeout=10)
        async with first.opened():
            assert await first.append(Renewal("m", "m", 10.0, ("a",)))
            assert await first.append(Claim("m", "a", NO_FENCE))
            await first.shorten()
            # The newest snapshot is further from the end than is looked through at a time.
            for number in range(50 if offset is not None else 600):
                assert await first.append(Saved("m", "a", first.ledger.fence("a"), "random", b"%d" % number))
            if offset is None:
                await client.delete_offset(stream, "g", 0, consumer="ledger")
            else:
                await client.store_offset(stream, "g", 0, offset, consumer="ledger")
            second = LedgerTopic(client, stream, "g", timeout=10)
            async with second.opened():
                assert await second.append(Renewal("n", "n", 10.0, ("a",)))
                assert (second.ledger.states, second.ledger.leases) == (first.ledger.states, first.ledger.leases)
            once = await LedgerTopic(client, stream, "g", timeout=10).read_once()
            assert once.leases == first.ledger.leases
        await client.delete_stream(stream)


async def test_of_two_changes_that_are_the_same_one_counts(shared_server: ServerProcess, stream: str) -> None:
    """CON-76: made at the same moment by the same author, and distinguished by the ids of their messages."""
    async with aio.connect(url_of(shared_server.address)) as client:
        topics = [LedgerTopic(client, stream, "g", timeout=10) for _ in range(2)]
        async with topics[0].opened(), topics[1].opened():
            assert sorted(await asyncio.gather(*(topic.append(CHANGE) for topic in topics))) == [False, True]
            assert topics[0].ledger.versions["connectors"]["a"].epoch == 1
        await client.delete_stream(stream)


async def test_a_change_that_was_sent_twice_counts_once(
    shared_server: ServerProcess, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-76: the first answer was lost, and the producer has sent it again."""
    send_to = DirectProducer.send_to

    async def twice(*arguments: Any) -> Any:
        await send_to(*arguments)
        return await send_to(*arguments)

    monkeypatch.setattr(DirectProducer, "send_to", twice)
    async with aio.connect(url_of(shared_server.address)) as client:
        topic = LedgerTopic(client, stream, "g", timeout=10)
        async with topic.opened():
            assert await topic.append(CHANGE)
            assert (topic.ledger.next_offset, topic.ledger.versions["connectors"]["a"].epoch) == (2, 1)
        await client.delete_stream(stream)


@pytest.mark.long
def test_a_process_of_its_own_ends_with_the_lease(
    client: headrace.Client, pair: Pair, stream: str, database_url: str, insert: Callable[[], int]
) -> None:
    """CON-51: the process that has the lease is stopped, and the one that works for it ends by itself."""
    one, two = pair
    source = rows_source("a", database_url, stream).replace("\nplugin", '\nisolation = "process"\nplugin', 1)
    count = insert()
    one.run(sharing(stream, HOLDER_LEASE) + source)
    until(lambda: set(read(client, stream, "a")) == set(range(1, count + 1)))
    two.run(sharing(stream) + source)
    two.becomes("a", "standby")
    worker = one.becomes("a", "running")["process_id"]
    one.send_signal(signal.SIGSTOP)
    count = insert()
    until(lambda: running(two) == {"a"})
    # Its parent is stopped, and has not asked for its exit status.
    until(lambda: psutil.Process(worker).status() == psutil.STATUS_ZOMBIE)
    until(lambda: set(read(client, stream, "a")) == set(range(1, count + 1)))
    one.send_signal(signal.SIGCONT)
    one.becomes("a", "standby")
    two.stop()
    count = insert()
    until(lambda: running(one) == {"a"})
    until(lambda: set(read(client, stream, "a")) == set(range(1, count + 1)))


@pytest.mark.long
def test_a_sink_is_taken_over_from_a_stopped_process(tmp_path: Path) -> None:
    """The server removes a member that is silent, if its heartbeat is enabled; no message is left out."""
    settings = TWO_SHARDS | {"HEARTBEAT_ENABLED": "true", "HEARTBEAT_INTERVAL": "5 s"}
    with ServerProcess(tmp_path / "data", settings) as server, headrace.connect(url_of(server.address)) as client:
        client.create_stream("s")
        client.create_topic("s", "t", partitions=2)
        sink = '[sinks.a]\nplugin = "stdout"\nstream = "s"\ntopic = "t"\nlinger = "10 ms"\n'
        processes = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            processes.append(Connectors(tmp_path / name, url_of(server.address)))
        one, two = processes
        try:
            one.run(sharing("s", HOLDER_LEASE) + sink)
            one.becomes("a", "running")
            two.run(sharing("s") + sink)
            with client.producer("s", "t") as producer:
                producer.send_many([b"1"], partition=0)
                producer.send_many([b"2"], partition=1)
                until(lambda: one.status("a")["records_count"] == 2)
                one.send_signal(signal.SIGSTOP)
                producer.send_many([b"3"], partition=0)
                producer.send_many([b"4"], partition=1)
                until(lambda: two.status("a")["records_count"] == 2)
                one.send_signal(signal.SIGCONT)
                one.becomes("a", "standby")
                producer.send_many([b"5"], partition=1)
            until(lambda: two.status("a")["records_count"] == 3)
            assert one.status("a")["records_count"] == 2
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)
                process.kill()
                sys.stdout.write(process.tail())
