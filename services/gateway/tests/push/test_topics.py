"""Announcement of new partitions to those who follow a topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from headrace_gateway.push.feeds.topics import Topic, Topics

ONE, TWO, THREE = (dict.fromkeys(range(count), 100) for count in (1, 2, 3))
NUMBERS = (1, 2)


class KnownTopics(Topics):
    """Finds what the test says."""

    def __init__(self) -> None:
        super().__init__(None, interval_seconds=0.001)  # type: ignore[arg-type]  # nothing is looked up
        self.found: Topic | None = topic(ONE)

    async def _look_up(self, stream: Any, topic: Any) -> Topic | None:
        return self.found


def topic(partitions: dict[int, int]) -> Topic:
    return Topic(*NUMBERS, created_at_micros=50, partitions=partitions)


@asynccontextmanager
async def running(topics: Topics) -> AsyncIterator[None]:
    task = asyncio.create_task(topics.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


class Follower:
    """A client; it reads if the test lets it."""

    def __init__(self, *, reads: bool = True) -> None:
        self.called = 0
        self.announced: asyncio.Queue[Topic] = asyncio.Queue()
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.can_read = asyncio.Event()
        if reads:
            self.can_read.set()

    async def grown(self, found: Topic) -> bool:
        self.called += 1
        self.begun.set()
        try:
            await self.can_read.wait()
        finally:
            self.ended.set()
        self.announced.put_nowait(found)
        return True


async def test_a_client_that_does_not_read_holds_up_no_other() -> None:
    """Regression: the followers were called one after the other, and each waited for its client without limit."""
    topics, stuck, other = KnownTopics(), Follower(reads=False), Follower()
    topics.follow(topic(ONE), stuck.grown)
    topics.follow(topic(ONE), other.grown)
    async with running(topics):
        for partitions in (TWO, THREE):
            topics.found = topic(partitions)
            assert (await other.announced.get()).partitions == partitions
        assert stuck.called == 1, "one announcement at a time"
        stuck.can_read.set()
        assert (await stuck.announced.get()).partitions == TWO
        assert (await stuck.announced.get()).partitions == THREE, "the newest one follows"


async def test_an_announcement_ends_when_its_follower_leaves() -> None:
    topics, stuck = KnownTopics(), Follower(reads=False)
    topics.follow(topic(ONE), stuck.grown)
    topics.found = topic(TWO)
    async with running(topics):
        await stuck.begun.wait()
        topics.leave(NUMBERS, stuck.grown)
        await stuck.ended.wait()
    assert stuck.announced.empty()


async def test_an_announcement_ends_with_the_server() -> None:
    topics, stuck = KnownTopics(), Follower(reads=False)
    topics.follow(topic(ONE), stuck.grown)
    topics.found = topic(TWO)
    async with running(topics):
        await stuck.begun.wait()
    assert stuck.ended.is_set()


async def test_a_follower_may_leave_during_its_announcement() -> None:
    topics, left = KnownTopics(), asyncio.Event()

    async def grown(found: Topic) -> bool:
        topics.leave(NUMBERS, grown)
        # A cancelled task would not get further.
        await asyncio.sleep(0)
        left.set()
        return False

    topics.follow(topic(ONE), grown)
    topics.found = topic(TWO)
    async with running(topics):
        await left.wait()


async def test_a_failed_announcement_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    topics, announced = KnownTopics(), asyncio.Event()

    async def grown(found: Topic) -> bool:
        if not caplog.records:
            raise ValueError("something unexpected")
        announced.set()
        return True

    topics.follow(topic(ONE), grown)
    topics.found = topic(TWO)
    async with running(topics):
        await announced.wait()
    assert "new partitions of topic 1/2 were not announced" in caplog.text
