"""Several batches in flight: what is sent ahead, what is settled together, and what follows from failures."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from headrace_connectors.contract import (
    Batch,
    Cdc,
    ConnectorError,
    InFlight,
    InvalidRecord,
    Opaque,
    Polling,
    Record,
    Source,
    Unavailable,
)
from headrace_connectors.pipeline_file.models import DeliverySettings
from headrace_connectors.runtime.pipelined_loop import PipelinedLoop
from headrace_connectors.runtime.status import State, Status
from headrace_connectors.storing.steps import InDoubt

FAST = {"backoff_min": "1 ms", "backoff_max": "2 ms", "commit_failure_threshold": 3, "commit_stop_grace": "50 ms"}


class Counter(Source):
    """One number for each batch. Its steps are recorded, and fail as listed."""

    def __init__(self, mode=None, end=1000, **failures):
        self.steps = []
        self.failures = {name: list(of_step) for name, of_step in failures.items()}
        self.last = 0
        self.end = end
        self.flight = InFlight[int]()
        self.progress = asyncio.Event()
        self.calls = 0
        self._mode = mode or Cdc()

    def mode(self):
        return self._mode

    def step(self, name, number=None):
        self.steps.append(name if number is None else (name, number))
        self.progress.set()
        if self.failures.get(name):
            raise self.failures[name].pop(0)

    async def open(self, state):
        self.step("open")
        self.last = int(state or 0)

    async def poll(self):
        raise AssertionError("it is polled ahead")

    async def commit(self):
        raise AssertionError("batches are committed")

    @classmethod
    def pipelining_refusal(cls, settings):
        return None

    @contextlib.contextmanager
    def alone(self):
        assert self.calls == 0, "two calls at a time"
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1

    async def poll_ahead(self):
        with self.alone():
            await asyncio.sleep(0)
            number = (self.flight.last or self.last) + 1
            if number > self.end:
                await asyncio.sleep(0.001)
                return None
            self.step("poll", number)
            batch = Batch([Record(number)], b"%d" % number)
            self.flight.add(batch, number)
            return batch

    async def commit_batch(self, batch):
        self.step("commit")
        if committed := self.flight.committed(batch):
            self.last = committed[-1]
        self.steps[-1] = ("commit", self.last)

    async def rewind(self):
        with self.alone():
            self.flight.clear()
            self.step("rewind")

    async def abandon(self):
        with self.alone():
            self.step("abandon")
            self.last += 1
            self.flight.drop_oldest()
            return str(self.last)

    async def close(self):
        self.step("close")


class Storage:
    """Sends that end when their gates are opened, or at once; steps are those of the source."""

    def __init__(self, source, *, is_held=False, **failures):
        self.source = source
        self.failures = failures
        self.gates = {}
        self.is_held = is_held
        self.state = None
        self.has_held = False

    def gate(self, number):
        return self.gates.setdefault(number, asyncio.Event())

    def _fail(self, name, number):
        of_step = self.failures.get(name, {})
        if of_step.get(number):
            raise of_step[number].pop(0)

    async def recover(self):
        return self.state

    async def send(self, batch):
        number = batch.records[0].payload
        self.source.step("send", number)
        if self.is_held:
            await self.gate(number).wait()
        self._fail("send", number)
        return number

    async def settle(self, batch, sent):
        self._fail("settle", sent)
        self.source.step("settle", (sent, batch.state))
        self.state = batch.state or self.state
        return 1

    async def discard(self, sent):
        self.source.step("discard", sent)

    async def give_up_held(self):
        self.source.step("begin again")
        return self.has_held

    async def rest(self):
        self.source.step("rest")


@contextlib.asynccontextmanager
async def running(source, storage, create=None, may_go_on=lambda: True, **settings):
    status = Status()
    given = DeliverySettings(**{**FAST, "batches_in_flight": 3, **settings})
    loop = PipelinedLoop("a", source, given, status, create=create, may_go_on=may_go_on)
    task = asyncio.create_task(loop.run(storage))
    try:
        yield loop, status, task
    finally:
        for gate in storage.gates.values():
            gate.set()
        storage.is_held = False
        loop.stop()
        await asyncio.wait({task})


async def until(source, condition):
    async with asyncio.timeout(30):
        while not condition():
            source.progress.clear()
            await source.progress.wait()


def of(source, *names):
    return [step for step in source.steps if (step if isinstance(step, str) else step[0]) in names]


async def test_several_batches_are_sent_before_the_first_one_is_stored():
    """CON-70: no more than the setting says, and none is settled before those in front of it."""
    source = Counter()
    storage = Storage(source, is_held=True)
    async with running(source, storage):
        await until(source, lambda: ("send", 3) in source.steps)
        for gate in (3, 2):
            storage.gate(gate).set()
            await asyncio.sleep(0.01)
        assert of(source, "send") == [("send", 1), ("send", 2), ("send", 3)]
        assert not of(source, "settle", "commit")
        storage.gate(1).set()
        await until(source, lambda: source.last == 3)
    # All that have been sent are settled together: one state is saved, and one commit follows.
    assert of(source, "settle")[:3] == [("settle", (1, None)), ("settle", (2, None)), ("settle", (3, b"3"))]
    assert of(source, "commit")[0] == ("commit", 3)


async def test_a_commit_never_comes_before_its_state():
    """CON-70."""
    source = Counter(end=200)
    storage = Storage(source)
    async with running(source, storage, batches_in_flight=7) as (_, status, _task):
        await until(source, lambda: source.last == 200)
    saved = 0
    for step in source.steps:
        if step[0] == "settle" and step[1][1] is not None:
            saved = int(step[1][1])
        if step[0] == "commit":
            assert step[1] <= saved
    assert status.batches_count == status.records_count == 200


async def test_what_is_behind_a_failure_is_discarded_and_read_again():
    """CON-70: it goes on with one batch at a time, until one is committed."""
    source = Counter()
    storage = Storage(source, is_held=True, send={1: [Unavailable("no server")]})
    async with running(source, storage) as (_, status, _task):
        await until(source, lambda: ("send", 3) in source.steps)
        storage.gate(2).set()
        storage.gate(1).set()
        await asyncio.sleep(0.01)
        assert "rewind" not in source.steps, "the third one is on its way still"
        storage.gate(3).set()
        await until(source, lambda: source.last == 1)
    after = source.steps[source.steps.index(("discard", 2)) :]
    assert after[:8] == [
        ("discard", 2), ("discard", 3), "rewind", "begin again", ("poll", 1), ("send", 1), ("settle", (1, b"1")),
        ("commit", 1),
    ]  # fmt: skip
    assert status.last_error == "no server"


async def test_a_batch_that_cannot_be_settled_is_not_discarded_here():
    """CON-70: the storage has what was sent of it, and of those that are settled with it."""
    source = Counter(end=3)
    storage = Storage(source, is_held=True, settle={2: [Unavailable("refused")]})
    async with running(source, storage):
        await until(source, lambda: ("send", 3) in source.steps)
        for number in (3, 2, 1):
            storage.gate(number).set()
        await until(source, lambda: source.last == 3)
    assert of(source, "discard") == [("discard", 3)]
    assert of(source, "commit")[0] == ("commit", 1)


async def test_batches_before_a_failed_one_are_committed():
    source = Counter(end=5)
    async with running(source, Storage(source, send={3: [Unavailable("no server")]})):
        await until(source, lambda: source.last == 5)
    commits = [number for _, number in of(source, "commit")]
    assert commits == sorted(set(commits))
    assert ("send", 1) in source.steps[: source.steps.index("rewind")]
    assert source.steps.count(("send", 1)) == 1


async def test_a_poll_that_fails_lets_earlier_batches_be_stored():
    source = Counter(end=3, poll=[None, None])
    source.failures["poll"] = []
    storage = Storage(source, is_held=True)
    async with running(source, storage, batches_in_flight=9):
        await until(source, lambda: ("send", 3) in source.steps)
        source.end = 4
        source.failures["poll"] = [Unavailable("no database")]
        await until(source, lambda: ("poll", 4) in source.steps)
        for number in (1, 2, 3, 4):
            storage.gate(number).set()
        await until(source, lambda: source.last == 4)
    assert source.steps.count(("poll", 1)) == 1
    assert not of(source, "discard")


async def test_what_is_in_doubt_is_settled_before_anything_else():
    source = Counter(end=3)
    storage = Storage(source, settle={1: [InDoubt("no answer")] * 3})
    async with running(source, storage) as (_, status, _task):
        await until(source, lambda: source.last == 3)
        assert any(change.state is State.DEGRADED for change in status.history)
    assert "rewind" not in source.steps
    assert [number for _, (number, _) in of(source, "settle")] == [1, 2, 3]


async def test_held_records_that_are_given_up_open_the_source_anew():
    """A snapshot whose records wait for the state behind it."""
    source = Counter(end=3)
    following = Counter(end=3)
    storage = Storage(source, send={2: [Unavailable("no server")]})
    storage.has_held = True

    def create():
        storage.source, storage.has_held = following, False
        return following

    async with running(source, storage, create=create):
        await until(following, lambda: following.last == 3)
    assert source.steps[-1] == "close"
    assert following.steps[0] == "open"


async def test_a_failed_commit_of_a_log_is_tried_for_ever():
    source = Counter(end=3, commit=[RuntimeError("no database")] * 5)
    async with running(source, Storage(source)) as (_, status, _task):
        await until(source, lambda: source.last == 3)
    assert any(change.state is State.DEGRADED for change in status.history)
    assert "rewind" not in source.steps


async def test_after_a_failed_commit_a_table_is_read_again():
    source = Counter(Polling(destructive=False), end=3, commit=[RuntimeError("no database")])
    async with running(source, Storage(source)):
        await until(source, lambda: source.last == 3)
    assert source.steps.count("rewind") == 1


async def test_a_failed_commit_without_a_buffer_behind_it_ends_the_connector():
    source = Counter(Opaque(), commit=[RuntimeError("gone")])
    async with running(source, Storage(source)) as (_, _status, task):
        await asyncio.wait({task})
    assert str(task.exception()) == "gone"


@pytest.mark.parametrize(
    ("mode", "error", "ends"),
    [(Cdc(), InvalidRecord("no JSON"), False), (Opaque(), InvalidRecord("no JSON"), True),
     (Cdc(), ConnectorError("the slot is gone"), True)],
)  # fmt: skip
async def test_lasting_failures(mode, error, ends):
    source = Counter(mode, end=3)
    async with running(source, Storage(source, send={2: [error]})) as (_, status, task):
        if ends:
            await asyncio.wait({task})
            assert task.exception() is error
        else:
            await until(source, lambda: source.last == 3)
            assert any(change.state is State.DEGRADED for change in status.history)


async def test_a_stop_stores_what_is_in_flight():
    """CON-70: no poll follows, and what was polled is settled and committed in order."""
    source = Counter()
    storage = Storage(source, is_held=True)
    async with running(source, storage) as (loop, _status, task):
        await until(source, lambda: ("send", 3) in source.steps)
        loop.stop()
        for number in (1, 2, 3):
            storage.gate(number).set()
        await asyncio.wait({task})
        assert task.exception() is None
    assert source.last == 3
    assert source.steps[-1] == "close"


async def test_a_lease_that_is_lost_commits_nothing_more():
    """CON-70: what is in flight is discarded, and the next holder reads it again."""
    source, may_go_on = Counter(), [True]
    storage = Storage(source, is_held=True)
    async with running(source, storage, may_go_on=lambda: may_go_on[0]) as (_, _status, task):
        await until(source, lambda: ("send", 3) in source.steps)
        may_go_on[0] = False
        for number in (1, 2, 3):
            storage.gate(number).set()
        await asyncio.wait({task})
    assert not of(source, "settle", "commit")
    assert len(of(source, "discard")) == 3


async def test_the_oldest_batch_is_given_up():
    """CON-70: one batch that cannot be stored, and none of those behind it."""
    source = Counter(end=3)
    storage = Storage(source, send={1: [Unavailable("no server")] * 10_000})
    async with running(source, storage) as (loop, status, _task):
        await until(source, lambda: status.state is State.DEGRADED)
        assert await loop.abandon() == "1"
        assert status.last_abandoned == "1"
        await until(source, lambda: source.last == 3)
    assert {number for _, (number, _) in of(source, "settle")} == {2, 3}


async def test_giving_up_while_a_commit_fails_keeps_the_batches_behind():
    """CON-70: they are stored already, and are committed as soon as that works."""
    source = Counter(end=3, commit=[RuntimeError("no database")] * 10_000)
    async with running(source, Storage(source)) as (loop, status, _task):
        await until(source, lambda: status.state is State.DEGRADED)
        assert await loop.abandon() == "1"
        source.failures["commit"].clear()
        await until(source, lambda: source.last == 3)
    assert "rewind" not in source.steps
    assert sorted(number for _, (number, _) in of(source, "settle")) == [1, 2, 3]


async def test_an_idle_source_lets_the_storage_tidy_up():
    source = Counter(end=2)
    async with running(source, Storage(source)):
        await until(source, lambda: "rest" in source.steps)
    assert source.last == 2
