"""Topics of a sink: what was written before a failure of the runtime is written again, and is there once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from headrace.sdk.errors import ConnectionFailed, NotFound
from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import InvalidRecord, Settings, Sink
from headrace_connectors.counters import SinkCounters
from headrace_connectors.pipeline_file.models import SinkSettings
from headrace_connectors.runtime.attempts import Attempts
from headrace_connectors.runtime.sink_batch import Decoding
from headrace_connectors.runtime.sink_loop import SinkLoop, SinkParts
from headrace_connectors.runtime.status import State, Status
from headrace_connectors.sinks.postgres.settings import PostgresSinkSettings
from headrace_connectors.sinks.postgres.sink import PostgresSink


class Topic:
    """A consumer of a topic with one batch."""

    def __init__(self, *numbers, refusals=lambda: False):
        self.messages = [
            SimpleNamespace(
                payload=b'{"id": %s}' % number, headers={}, id=1, offset=offset, timestamp_micros=0, key=None
            )
            for offset, number in enumerate(numbers)
        ]
        self.refuses_dead_letters = refusals
        self.may_be_read, self.has_refused, self.is_committed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.dead = []

    async def poll(self, **_pause):
        await self.may_be_read.wait()
        if not self.messages:
            await asyncio.Event().wait()
        batch, self.messages = Messages(self.messages), []
        return batch

    async def dead_letter(self, message, error):
        if self.refuses_dead_letters():
            self.has_refused.set()
            raise ConnectionFailed("away")
        self.dead.append(message.payload)

    async def commit(self):
        self.is_committed.set()

    async def close(self, seconds):
        pass


class Messages(list):
    """A batch of the consumer."""

    partition_id = 0

    @property
    def next_offset(self):
        return self[-1].offset + 1


class Halved(Sink):
    """Keeps messages until the flush; which of a batch is invalid is not known."""

    def __init__(self):
        self.held, self.flushed = [], []

    async def write(self, messages):
        numbers = [message.record.payload["id"] for message in messages]
        if None in numbers:
            raise InvalidRecord("there is no number")
        self.held += numbers

    async def flush(self, positions):
        self.flushed += self.held
        self.held = []

    async def forget(self):
        self.held = []


class Late(Topic):
    """A topic that is missing in the first polls."""

    def __init__(self, misses, *numbers):
        super().__init__(*numbers)
        self.misses_left = misses
        self.may_be_read.set()

    async def poll(self, **pause):
        if self.misses_left:
            self.misses_left -= 1
            raise NotFound("there is no topic")
        return await super().poll(**pause)


def loops_of(sink, stop, *, status=None, failures=16, **topics):
    """Start a loop for each topic."""
    settings = SinkSettings.model_validate(
        {
            "plugin": "postgres",
            "topics": [{"stream": "s", "topic": name} for name in topics],
            "batch_size": 1,
            "delivery": {"backoff_min": "1 ms", "backoff_max": "10 ms", "commit_failure_threshold": failures},
        }
    )
    status = status or Status()
    attempts = Attempts("numbers", settings.delivery, status, stop)
    decoding = Decoding(JsonCodec(Settings()), ())
    parts = SinkParts("numbers", sink, decoding, settings, status, SinkCounters(), attempts, stop)
    client = SimpleNamespace(consumer=lambda _stream, topic, **_options: topics[topic])
    return [SinkLoop(topic, parts).run(client) for topic in settings.sources]


async def test_halves_that_were_written_before_a_dead_letter_failed_are_written_once():
    stop, sink, failures = asyncio.Event(), Halved(), iter((True, True))
    topic = Topic(b"1", b"2", b"null", b"3", refusals=lambda: next(failures, False))
    topic.may_be_read.set()
    async with asyncio.TaskGroup() as group:
        for loop in loops_of(sink, stop, numbers=topic):
            group.create_task(loop)
        await topic.is_committed.wait()
        stop.set()
    assert topic.has_refused.is_set()
    assert sink.flushed == [1, 2, 3]
    assert topic.dead == [b'{"id": null}']


async def test_another_topic_does_not_make_rows_durable_without_their_offset(database, database_url):
    database.execute("CREATE TABLE numbers (id int NOT NULL)")
    other = Topic(b"10", b"11")
    topic = Topic(b"1", b"2", b"null", b"3", refusals=lambda: not other.is_committed.is_set())
    sink = PostgresSink(PostgresSinkSettings.model_validate({"url": database_url, "table": "public.numbers"}))
    await sink.open()
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for loop in loops_of(sink, stop, numbers=topic, others=other):
            group.create_task(loop)
        topic.may_be_read.set()
        await topic.has_refused.wait()
        other.may_be_read.set()
        await topic.is_committed.wait()
        stop.set()
    await sink.close()
    assert database.execute("SELECT id FROM numbers ORDER BY id").fetchall() == [(1,), (2,), (3,), (10,), (11,)]
    stored = database.execute("SELECT topic, next_offset::int FROM headrace_offsets ORDER BY topic").fetchall()
    assert stored == [("numbers", 4), ("others", 2)]


async def test_a_topic_that_comes_soon_is_awaited_and_no_error():
    """A source of the same file creates it with its first record: the first run of every example is such a one."""
    stop, sink, topic, status = asyncio.Event(), Halved(), Late(5, b"1"), Status()
    async with asyncio.TaskGroup() as group:
        for loop in loops_of(sink, stop, status=status, numbers=topic):
            group.create_task(loop)
        await topic.is_committed.wait()
        stop.set()
    assert sink.flushed == [1]
    assert (status.last_error, [*status.errors]) == (None, [])


async def test_a_topic_that_stays_missing_is_an_error():
    stop, topic, status = asyncio.Event(), Late(10**9), Status()
    status.become(State.RUNNING)
    is_degraded = asyncio.Event()
    status.on_change = lambda change: is_degraded.set() if change.state is State.DEGRADED else None
    async with asyncio.TaskGroup() as group:
        for loop in loops_of(Halved(), stop, status=status, failures=3, numbers=topic):
            group.create_task(loop)
        await is_degraded.wait()
        stop.set()
    assert status.last_error == "there is no topic s/numbers yet: create it, or start the source that creates it"
