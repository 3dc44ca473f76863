"""CON-60, CON-89: batches that are saved, committed and looked up, while calls fail."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest

from headrace.sdk.errors import HeadraceError, NotDelivered, OutcomeUnknown
from headrace.sdk.stages import Stage
from headrace_connectors.contract import Batch, Cdc, Record, Source, Unavailable
from headrace_connectors.pipeline_file.models import DeliverySettings
from headrace_connectors.runtime.source_loop import SourceLoop
from headrace_connectors.runtime.status import Status
from headrace_connectors.storing.exactly_once import ExactlyOnce, Fenced, TooLarge
from headrace_connectors.storing.progress import Stored
from headrace_proto.errors import Status as Code

NOTHING = Stored(None)
FAST = DeliverySettings(backoff_min="1 ms", backoff_max="2 ms")


class Server:
    """A delivery, a producer of stages, and calls about transactions, for the one topic of a source."""

    def __init__(self):
        self.staged = {}
        self.committed = []
        self.failures = []
        self.lost = 0
        """Number of the next answers of commits that are lost."""
        self.writer = None
        self.progress = {}
        """Last batch of each writer."""

    async def prepare(self, records):
        return {("s", "t"): [record.payload for record in records]} if records else {}

    def check(self, outgoing, results):
        pass

    def stored(self, count):
        return count

    async def stage_groups(self, groups, *, lifetime):
        (name,) = groups
        stage = Stage(1, 0, 1, len(self.staged) + 1, len(groups[name]))
        self.staged[stage.stage_id] = groups[name]
        return {name: [stage]}

    async def commit_transaction(self, stream, transaction, query_id, batch_id, stages, *, fence=False):
        if stages and self.failures:
            raise self.failures.pop(0)
        is_committed = batch_id <= self.progress.get(query_id, -1)
        if not is_committed:
            if self.writer not in (None, query_id) and not fence:
                raise HeadraceError("another writer", code=Code.TRANSACTION_FENCED)
            self.writer, self.progress[query_id] = query_id, batch_id
            for stage in stages:
                self.committed += self.staged[stage.stage_id]
        if self.lost:
            self.lost -= 1
            raise OutcomeUnknown("no answer")
        return SimpleNamespace(already_committed=is_committed)

    async def transaction(self, stream, name):
        return self.writer and SimpleNamespace(query_id=self.writer, batch_id=self.progress[self.writer])

    async def abort_transaction(self, stream, transaction, query_id, batch_id, stages):
        for stage in stages:
            self.staged[stage.stage_id] = None


class Halves(Source):
    """Reads records that count together: the state comes with the last one, which alone is read again."""

    def __init__(self):
        self.committed = 0

    def mode(self):
        return Cdc()

    async def poll(self):
        await asyncio.sleep(0)
        if self.committed == 3:
            return None
        number = self.committed + 1
        return Batch([Record(number)], b"3" if number == 3 else None)

    async def commit(self):
        self.committed += 1


def exactly_once(server, save, stored=NOTHING):
    return ExactlyOnce(stored, server, server, server, save, name="connector-a", lifetime=timedelta(days=1))


async def stored(storing, number):
    batch = Batch([Record(number)], b"%d" % number)
    await storing.settle(batch, await storing.send(batch))


@pytest.mark.parametrize("step", ["save", "commit"])
async def test_held_records_are_read_again_when_they_do_not_count(step):
    server = Server()
    failures = [Unavailable("no answer")] if step == "save" else []
    server.failures = [] if step == "save" else [NotDelivered("refused", retryable=True)]

    async def save(state):
        if failures:
            raise failures.pop()

    storing = exactly_once(server, save)
    status = Status()
    loop = SourceLoop("a", Halves(), FAST, status, create=Halves)
    running = asyncio.create_task(loop.run(storing))
    async with asyncio.timeout(30):
        while storing.state is None:
            await asyncio.sleep(0)
        loop.stop()
        await running
    assert server.committed == [1, 2, 3]


@pytest.mark.parametrize("is_killed", [False, True])
async def test_a_start_whose_answers_are_lost_goes_on(is_killed):
    """The server has let the new writer take over, and neither that nor the state reaches the runtime at first."""
    server, states = Server(), []
    failures = []

    async def save(state):
        if failures:
            raise failures.pop()
        states.append(state)

    first = exactly_once(server, save)
    await stored(first, 1)
    await first.rest()
    second = exactly_once(server, save, Stored.decode(states[-1]))
    server.lost = 1
    for _ in range(2):
        with pytest.raises(Unavailable):
            await second.recover()
        failures[:] = [Unavailable("no answer")]
    failures.clear()
    if is_killed:
        second = exactly_once(server, save, Stored.decode(states[-1]))
    assert await second.recover() == b"1"
    await stored(second, 2)
    with pytest.raises(Fenced):
        await stored(first, 3)
    assert server.committed == [1, 2]


@pytest.mark.parametrize("count", [1, 2])
async def test_a_state_that_is_not_saved_at_the_start_is_not_gone_back_behind(count):
    """The process was killed after a commit; the next one cannot save at first that it counts."""
    server, states, results = Server(), [], []

    async def save(state):
        if results and (failure := results.pop(0)) is not None:
            raise failure
        states.append(state)

    first = exactly_once(server, save)
    for number in range(count):
        await stored(first, number + 1)
    second = exactly_once(server, save, Stored.decode(states[-1]))
    # Before it can count, a batch that is not the first one is saved with its new writer.
    results[:] = [None] * (count - 1) + [Unavailable("no answer")]
    with pytest.raises(Unavailable):
        await second.recover()
    assert not results
    assert await second.recover() == b"%d" % count
    await stored(second, count + 1)
    assert server.committed == list(range(1, count + 2))


@pytest.mark.parametrize("state", [None, b"2"])
async def test_more_stages_than_a_commit_may_name_end_the_source(monkeypatch, state):
    """The server would refuse them at each attempt, and the snapshot would be read again for ever."""
    monkeypatch.setattr("headrace_connectors.storing.exactly_once.STAGES_PER_COMMAND_MAX", 1)

    async def save(state):
        raise AssertionError("there is nothing to save")

    server = Server()
    storing = exactly_once(server, save)
    first, second = Batch([Record(1)]), Batch([Record(2)], state)
    await storing.settle(first, await storing.send(first))
    with pytest.raises(TooLarge, match="batch_size"):
        await storing.settle(second, await storing.send(second))
    assert server.committed == []
