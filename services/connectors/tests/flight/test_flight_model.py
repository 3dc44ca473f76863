"""The loop with several batches in flight, its delivery and its transactions, under random failures and stops."""

from __future__ import annotations

import asyncio
import itertools
import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.property_runs import bounded

from headrace_connectors.admission.table import AdmissionTable
from headrace_connectors.codecs.plain import RawCodec
from headrace_connectors.contract import Settings, decode_state
from headrace_connectors.counters import Counters
from headrace_connectors.pipeline_file.models import Admission, CircuitBreaker, DeliverySettings, SourceSettings
from headrace_connectors.runtime.pipelined_loop import PipelinedLoop
from headrace_connectors.runtime.status import Status
from headrace_connectors.storing.delivery import Delivery
from headrace_connectors.storing.dispatch import Dispatcher, OrderedDelivery
from headrace_connectors.storing.exactly_once import ExactlyOnce
from headrace_connectors.storing.progress import Stored
from headrace_connectors.storing.steps import AtLeastOnce

from .server import Chance, Disk, Numbers, Routed, Server

END = 40


class VirtualTime(asyncio.SelectorEventLoop):
    """Time passes when nothing else can be done: an example takes the same steps each time."""

    now = 0.0

    def time(self):
        return self.now

    def _run_once(self):
        if not self._ready and self._scheduled:
            self.now = max(self.now, self._scheduled[0].when())
        super()._run_once()


class Run:
    """Runs of one source, one after the other, with what they leave behind."""

    def __init__(self, seed, *, guarantee, width, topics, rate):
        self.draw = random.Random(seed)
        self.chance = Chance(self.draw, rate)
        self.server = Server(self.chance)
        self.disk = Disk()
        self.guarantee = guarantee
        self.width = width
        self.topics = topics
        self.committed = 0

    def saved(self):
        state = Stored.decode(self.disk.content).state
        return 0 if state is None else decode_state(state, 1, int)

    def stored(self):
        return [number for numbers in self.server.topics.values() for number in numbers]

    @property
    def is_complete(self):
        # The last commit may be left out by a stop.
        return self.committed == END or self.saved() == END

    def on_commit(self, last):
        """No commit comes before its state is durable, and no state before its records are."""
        durable = self.saved()
        if self.guarantee == "exactly_once":
            # The state on disk is the one before, beside that of the batch which the server has committed.
            progress = Stored.decode(self.disk.content).delivery
            assert progress is not None
        else:
            assert last <= durable
        assert set(range(1, max(last, durable) + 1)) <= set(self.stored())
        self.committed = max(self.committed, last)

    def loop(self):
        source = Numbers(self.chance, END, self.topics, self.on_commit)
        settings = DeliverySettings(
            batches_in_flight=self.width, backoff_min="1 ms", backoff_max="1 ms", guarantee=self.guarantee
        )

        async def create(name):
            await self.chance.wait()
            return 1

        breaker = CircuitBreaker(failure_threshold=1_000_000)
        table = AdmissionTable(Admission(), breaker, create, asyncio.get_running_loop().time)
        own = SourceSettings(plugin="x")
        sending = Delivery(own, source.mode(), (Routed(),), RawCodec(Settings()), table, self.server, Counters())
        loop = PipelinedLoop("a", source, settings, Status(), random.Random(self.draw.random()))
        return loop, self.storing(sending)

    def storing(self, sending):
        stored = Stored.decode(self.disk.content)
        if self.guarantee == "exactly_once":
            day = timedelta(days=1)
            return ExactlyOnce(stored, sending, self.server, self.server, self.disk.save, name="n", lifetime=day)

        async def recover():
            return stored.state

        ordered = OrderedDelivery(sending, Dispatcher(self.server, concurrency=2))
        return AtLeastOnce(ordered, self.disk.save, recover, ordered.begin_again)

    async def once(self, *, stops_after, is_killed):
        """Run until a number of steps of the event loop, or until everything is committed."""
        loop, storing = self.loop()
        task = asyncio.create_task(loop.run(storing))
        for step in itertools.count():
            if task.done() or self.is_complete or step == stops_after:
                break
            await asyncio.sleep(0 if step % 50 else 0.0005)
        if is_killed:
            task.cancel()
        else:
            loop.stop()
        await asyncio.wait({task})
        if not task.cancelled():
            assert task.exception() is None, task.exception()


def check_order(run):
    """Each topic has all numbers in the source's order; what is repeated begins at a batch that is not committed."""
    for topic in range(run.topics):
        expected = [number for number in range(1, END + 1) if number % run.topics == topic]
        stored = run.server.topics.get(("s", f"t{topic}"), [])
        if run.guarantee == "exactly_once":
            assert stored == expected
            continue
        high = -1
        for number in stored:
            assert expected.index(number) <= high + 1, f"{number} comes before {expected[high + 1]}: {stored}"
            high = max(high, expected.index(number))
        assert high == len(expected) - 1


@pytest.mark.long
@bounded(60)
@given(
    seed=st.integers(0, 2**32),
    width=st.sampled_from([2, 3, 8]),
    topics=st.integers(1, 3),
    rate=st.sampled_from([0.0, 0.05, 0.3]),
    stops=st.lists(st.tuples(st.integers(1, 150), st.booleans()), max_size=4),
)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_nothing_is_lost_and_the_order_is_kept(guarantee, seed, width, topics, rate, stops):
    """CON-71: whatever fails, and wherever it is stopped or cancelled."""

    async def everything():
        run = Run(seed, guarantee=guarantee, width=width, topics=topics, rate=rate)
        for after, is_killed in stops:
            await run.once(stops_after=after, is_killed=is_killed)
        async with asyncio.timeout(60):
            while not run.is_complete:
                await run.once(stops_after=-1, is_killed=False)
        check_order(run)

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(everything())
