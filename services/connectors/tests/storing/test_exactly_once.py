"""CON-89: records without a state are committed with the next one, or read again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace

import pytest

from headrace.sdk.errors import NotDelivered
from headrace.sdk.stages import Stage
from headrace_connectors.contract import Batch, Cdc, Record, Source, Unavailable
from headrace_connectors.pipeline_file.models import DeliverySettings
from headrace_connectors.runtime.source_loop import SourceLoop
from headrace_connectors.runtime.status import Status
from headrace_connectors.storing.exactly_once import ExactlyOnce
from headrace_connectors.storing.progress import Stored

FAST = DeliverySettings(backoff_min="1 ms", backoff_max="2 ms")


class Server:
    """A delivery, a producer of stages, and calls about transactions, for the one topic of a source."""

    def __init__(self):
        self.staged = {}
        self.committed = []
        self.failures = []

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
        for stage in stages:
            self.committed += self.staged[stage.stage_id]
        return SimpleNamespace(already_committed=False)

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


@pytest.mark.parametrize("step", ["save", "commit"])
async def test_held_records_are_read_again_when_they_do_not_count(step):
    server = Server()
    failures = [Unavailable("no answer")] if step == "save" else []
    server.failures = [] if step == "save" else [NotDelivered("refused", retryable=True)]

    async def save(state):
        if failures:
            raise failures.pop()

    storing = ExactlyOnce(Stored(None), server, server, server, save, name="connector-a", lifetime=timedelta(days=1))
    status = Status()
    loop = SourceLoop("a", Halves(), FAST, status, create=Halves)
    running = asyncio.create_task(loop.run(storing))
    async with asyncio.timeout(30):
        while storing.state is None:
            await asyncio.sleep(0)
        loop.stop()
        await running
    assert server.committed == [1, 2, 3]
