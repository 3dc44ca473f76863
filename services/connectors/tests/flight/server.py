"""A server and a source in memory that fail: what a loop leaves behind can be looked at after any failure."""

from __future__ import annotations

import asyncio
import itertools
from types import SimpleNamespace

from headrace.sdk.errors import ConnectionFailed, DeadlineExceeded, OutcomeUnknown, PermissionDenied, RequestRefused
from headrace.sdk.stages import Stage
from headrace_connectors.contract import (
    Batch,
    Destination,
    InFlight,
    Polling,
    Record,
    Source,
    Transform,
    decode_state,
    encode_state,
)
from headrace_proto.errors import Status

SENDING = (ConnectionFailed("no server"), DeadlineExceeded("late"), OutcomeUnknown("no answer"))


class Chance:
    """Decides what fails and how long it takes."""

    def __init__(self, draw, rate):
        self.draw = draw
        self.rate = rate

    async def wait(self):
        for _ in range(self.draw.randrange(4)):
            await asyncio.sleep(0)

    def fails(self):
        return self.draw.random() < self.rate


class Server:
    """Topics, stages and transactions."""

    def __init__(self, chance):
        self.chance = chance
        self.topics = {}
        self.staged = {}
        self.numbers = itertools.count(1)
        self.transactions = {}
        self.requests_count = 0

    async def send_groups(self, groups):
        """Send, as `DirectProducer` does: a failure may come after the messages were stored, or some of them."""
        results = {}
        for name, messages in groups.items():
            self.requests_count += 1
            await self.chance.wait()
            stored = len(messages)
            if self.chance.fails():
                results[name] = self.chance.draw.choice(SENDING)
                stored = self.chance.draw.choice((0, stored, self.chance.draw.randrange(stored + 1)))
            self.topics.setdefault(name, []).extend(int(message.payload) for message in messages[:stored])
            await self.chance.wait()
            results.setdefault(name, [])
        return results

    async def stage_groups(self, groups, *, lifetime=None):
        """Stage, as `DirectProducer` does."""
        results = {}
        for name, messages in groups.items():
            await self.chance.wait()
            number = next(self.numbers)
            self.staged[number] = (name, [int(message.payload) for message in messages])
            if self.chance.fails():
                results[name] = self.chance.draw.choice(SENDING)
            else:
                results[name] = [Stage(0, 0, 0, number, len(messages))]
        return results

    async def commit_transaction(self, stream, transaction, query_id, batch_id, stages, *, fence=False):
        """Commit: a writer's batch counts once, and earlier writers are fenced off."""
        await self.chance.wait()
        if self.chance.fails() and not fence:
            # A look-up that is refused ends the connector.
            refusals = (PermissionDenied("no permission"),) if stages else ()
            raise self.chance.draw.choice((*refusals, ConnectionFailed("no server")))
        one = self.transactions.setdefault((stream, transaction), {"writer": query_id, "last": {}})
        done = one["last"].get(query_id, -1)
        if batch_id <= done and not fence:
            return SimpleNamespace(already_committed=True)
        if one["writer"] != query_id and query_id in one["last"]:
            raise RequestRefused("fenced", code=Status.TRANSACTION_FENCED)
        if any(stage.stage_id not in self.staged for stage in stages):
            raise RequestRefused("aborted", code=Status.STAGE_ABORTED)
        one["writer"] = query_id
        one["last"][query_id] = max(done, batch_id)
        for stage in stages:
            name, numbers = self.staged.pop(stage.stage_id)
            self.topics.setdefault(name, []).extend(numbers)
        if self.chance.fails() and not fence:
            raise OutcomeUnknown("no answer")
        return SimpleNamespace(already_committed=False)

    async def abort_transaction(self, stream, transaction, query_id, batch_id, stages):
        """Discard stages."""
        await self.chance.wait()
        for stage in stages:
            self.staged.pop(stage.stage_id, None)

    async def transaction(self, stream, name):
        """Return the last commit."""
        found = self.transactions.get((stream, name))
        if found is None:
            return None
        return SimpleNamespace(query_id=found["writer"], batch_id=found["last"][found["writer"]])


class Disk:
    """The state file."""

    def __init__(self):
        self.content = None

    async def save(self, state):
        self.content = state


class Numbers(Source):
    """The numbers up to an end, in batches of different sizes, for different topics."""

    def __init__(self, chance, end, topics, on_commit):
        self.chance = chance
        self.end = end
        self.topics = topics
        self.on_commit = on_commit
        self.last = 0
        self.flight = InFlight[int]()

    def mode(self):
        return Polling(destructive=True)

    async def open(self, state):
        self.last = 0 if state is None else decode_state(state, 1, int)

    async def poll(self):
        raise AssertionError("it is polled ahead")

    async def commit(self):
        raise AssertionError("batches are committed")

    @classmethod
    def pipelining_refusal(cls, settings):
        return None

    async def poll_ahead(self):
        await self.chance.wait()
        begin = self.last if self.flight.last is None else self.flight.last
        count = self.chance.draw.randrange(1, 4)
        numbers = range(begin + 1, min(begin + count, self.end) + 1)
        if not numbers:
            await asyncio.sleep(0.001)
            return None
        records = [Record(b"%d" % n, destination=Destination("s", f"t{n % self.topics}")) for n in numbers]
        batch = Batch(records, encode_state(1, numbers[-1]))
        self.flight.add(batch, numbers[-1])
        return batch

    async def commit_batch(self, batch):
        await self.chance.wait()
        if committed := self.flight.committed(batch):
            self.last = committed[-1]
        self.on_commit(self.last)
        if self.chance.fails():
            raise RuntimeError("no database")

    async def rewind(self):
        self.flight.clear()


class Routed(Transform):
    """Leaves records where they say that they go."""

    is_routing = True

    def apply(self, record):
        return record
