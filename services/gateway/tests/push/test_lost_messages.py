"""Subscriptions to a partition that loses its last messages with the power of its node."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from struct import pack
from types import SimpleNamespace
from typing import Any

from headrace_gateway.push.feeds.cache import Cache
from headrace_gateway.push.feeds.partition_feeds import Feed, Reads
from headrace_gateway.push.forms import Start
from headrace_gateway.push.frames import Epoch, Place
from headrace_gateway.push.subscriptions.credit import Credit
from headrace_gateway.push.subscriptions.cursors import Cursor, Subscription
from headrace_gateway.push.subscriptions.pump import Pump
from headrace_gateway.push.subscriptions.start_resolution import _place
from headrace_proto.errors import Status

EPOCH = Epoch(3, 0)
MANY = 10_000
LOST, NEW = b"0", b"1"


class World:
    """A partition, and the feed of it."""

    def __init__(self) -> None:
        self.log: list[bytes] = []
        self.openings = [(3, 0)]
        self.answers = asyncio.Event()
        self.answers.set()
        self.calls = 0
        sessions: Any = self
        self.feed = Feed(0, Place(1, 2, 0), Reads(sessions, Cache(2**20), batch_bytes=2**30))

    def append(self, count: int, payload: bytes) -> None:
        self.log += [payload] * count
        self.notify()

    def cut(self, end: int) -> None:
        del self.log[end:]
        self.notify()

    def cut_unseen(self, end: int, count: int, payload: bytes) -> None:
        """Lose messages and get others before anything is notified."""
        del self.log[end:]
        self.openings.append((self.openings[-1][0] + 2, end))
        self.append(count, payload)

    def notify(self) -> None:
        entry: Any = SimpleNamespace(
            incarnation=EPOCH.incarnation,
            purge_epoch=EPOCH.purge_epoch,
            first_offset=0,
            next_offset=len(self.log),
            openings=list(self.openings),
        )
        self.feed.notified(entry)

    async def call(self, _user_id: int, _code: int, request: bytes) -> Any:
        """Poll the partition; the answer has what was there before it is let through."""
        self.calls += 1
        # Strategy "offset" and its value stand before the count and the flag of the poll.
        start, count = int.from_bytes(request[-13:-5], "little"), int.from_bytes(request[-5:-1], "little")
        found = range(start, min(start + count, len(self.log)))
        messages = [pack("<8s16xQ16xII8x", self.log[at], at, 0, 1) + self.log[at] for at in found]
        payload = pack("<IQI", 0, len(self.log) - 1, len(found)) + b"".join(messages)
        await self.answers.wait()
        return SimpleNamespace(status=Status.OK, payload=payload)


class Client:
    """A subscription that begins at an offset."""

    def __init__(self, world: World, offset: int, *, credit: int) -> None:
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        watch: Any = SimpleNamespace()
        socket: Any = SimpleNamespace(takes_at_once=False, is_ending=False, send_text=self._take)
        metrics: Any = SimpleNamespace(sent=lambda messages, size_bytes: None, stalled=lambda: None)
        self.pump = Pump(socket, metrics, is_binary=False)
        self.subscription = Subscription(
            1,
            watch=watch,
            queue=self.pump,
            credit=Credit(messages_max=MANY, bytes_max=2**30),
            filter_=None,
            consumer=None,
        )
        self.subscription.add_credit(credit, 2**30)
        self.cursor = Cursor(self.subscription, world.feed, offset, EPOCH)

    async def _take(self, text: bytes | str) -> None:
        self._events.put_nowait(json.loads(text))

    async def reset(self) -> int:
        """Offset of the next event, a reset."""
        event = await self._next()
        assert (event["type"], event["epoch"]) == ("reset", str(EPOCH))
        offset = event["offset"]
        assert isinstance(offset, int)
        return offset

    async def read(self, count: int) -> list[tuple[int, bytes]]:
        """Offsets and payloads of the next messages."""
        read: list[tuple[int, bytes]] = []
        while len(read) < count:
            event = await self._next()
            assert event["type"] == "messages"
            read += [(message["offset"], base64.b64decode(message["payload"])) for message in event["messages"]]
        return read

    async def silence(self) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        assert self._events.empty()

    async def _next(self) -> dict[str, Any]:
        async with asyncio.timeout(10):
            return await self._events.get()


@asynccontextmanager
async def client(world: World, offset: int, *, credit: int = MANY) -> AsyncIterator[Client]:
    created = Client(world, offset, credit=credit)
    created.cursor.activate()
    try:
        yield created
    finally:
        await created.pump.close()


def new(start: int, end: int) -> list[tuple[int, bytes]]:
    return [(offset, NEW) for offset in range(start, end)]


async def test_a_client_that_has_read_all_is_reset_to_the_end_that_is_left() -> None:
    """Regression: the message before the position was another one, and nothing was sent any more."""
    world = World()
    world.append(1000, LOST)
    async with client(world, 0) as reader:
        assert len(await reader.read(1000)) == 1000
        world.cut(900)
        assert await reader.reset() == 900
        world.append(105, NEW)
        assert await reader.read(105) == new(900, 1005)
        await reader.silence()


async def test_a_client_that_has_read_nothing_yet_is_reset() -> None:
    """Regression: the messages that got the offsets of the lost ones were passed over."""
    world = World()
    world.append(1000, LOST)
    async with client(world, 1000) as reader:
        world.cut(900)
        assert await reader.reset() == 900
        world.append(105, NEW)
        assert await reader.read(105) == new(900, 1005)


async def test_a_slow_client_gets_no_lost_messages() -> None:
    """Regression: they were sent from the cache."""
    world = World()
    world.append(1000, LOST)
    async with client(world, 0) as fast, client(world, 950, credit=0) as slow:
        await fast.read(1000)
        assert world.feed.found(950) is not None
        world.cut(900)
        world.append(105, NEW)
        assert await slow.reset() == 900
        slow.subscription.add_credit(MANY, 2**30)
        assert await slow.read(105) == new(900, 1005)


async def test_a_loss_behind_which_the_log_has_grown_is_noticed() -> None:
    """Only a smaller end was a sign of a loss before."""
    world = World()
    world.append(1000, LOST)
    async with client(world, 0) as reader, client(world, 890, credit=5) as slow:
        await reader.read(1000)
        await slow.read(5)
        world.cut_unseen(900, 300, NEW)
        assert await reader.reset() == 900
        assert await reader.read(300) == new(900, 1200)
        slow.subscription.add_credit(MANY, 2**30)
        assert await slow.read(305) == [(offset, LOST) for offset in range(895, 900)] + new(900, 1200)


async def test_a_client_before_the_loss_notices_nothing() -> None:
    world = World()
    world.append(1000, LOST)
    async with client(world, 890, credit=5) as reader:
        await reader.read(5)
        world.cut(900)
        world.append(5, NEW)
        reader.subscription.add_credit(MANY, 2**30)
        assert await reader.read(10) == [(offset, LOST) for offset in range(895, 900)] + new(900, 905)
        await reader.silence()


async def test_a_client_waits_on_for_the_offset_that_it_has_chosen() -> None:
    world = World()
    world.append(1000, LOST)
    async with client(world, 1002) as reader:
        world.cut(900)
        await reader.silence()
        world.append(105, NEW)
        assert await reader.read(3) == new(1002, 1005)


async def test_the_lowest_of_two_losses_counts() -> None:
    world = World()
    world.append(1000, LOST)
    async with client(world, 0) as reader:
        await reader.read(1000)
        world.cut(900)
        world.append(50, NEW)
        world.cut(920)
        assert await reader.reset() == 900
        assert await reader.read(20) == new(900, 920)
        await reader.silence()


async def test_what_was_read_before_the_loss_was_known_is_not_sent() -> None:
    world = World()
    world.append(1000, LOST)
    world.answers.clear()
    async with client(world, 950) as reader:
        while world.calls == 0:
            await asyncio.sleep(0)
        world.cut(900)
        world.answers.set()
        assert await reader.reset() == 900
        assert world.feed.found(950) is None
        world.append(105, NEW)
        assert await reader.read(105) == new(900, 1005)


async def test_losses_before_the_subscription_do_not_matter() -> None:
    world = World()
    world.append(1000, LOST)
    world.cut(900)
    world.append(105, NEW)
    async with client(world, 950) as reader:
        assert await reader.read(55) == new(950, 1005)


async def test_a_loss_during_the_look_up_of_the_start_counts() -> None:
    world = World()
    world.append(1000, LOST)
    reader = Client(world, 0, credit=MANY)
    session: Any = SimpleNamespace(call=lambda code, request: world.call(0, code, request))
    world.answers.clear()
    looking = asyncio.create_task(_place(reader.cursor, None, Start(kind="timestamp", value=950), session))
    while world.calls == 0:
        await asyncio.sleep(0)
    world.cut(900)
    world.answers.set()
    assert not await looking
    # The fake takes the time for an offset.
    assert reader.cursor.offset == 950
    reader.cursor.activate()
    assert await reader.reset() == 900
    await reader.pump.close()


async def test_a_loss_before_the_look_up_of_the_start_does_not_matter() -> None:
    world = World()
    world.append(1000, LOST)
    reader = Client(world, 0, credit=MANY)
    world.cut(900)
    world.append(105, NEW)
    session: Any = None
    assert not await _place(reader.cursor, None, Start(kind="offset", value=950), session)
    reader.cursor.activate()
    assert await reader.read(55) == new(950, 1005)
    await reader.pump.close()
