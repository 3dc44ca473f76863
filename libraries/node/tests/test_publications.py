"""Publications that partitions have appended reach the metadata service, despite failures in between."""

import asyncio

import pytest

from headrace_node import Publications, publications
from headrace_proto.metadata.v1 import AppliedPublications, Command, PublicationsApplied


def notice(*done: tuple[int, int, int]) -> PublicationsApplied:
    """Build a notice from partition, incarnation and number of each."""
    return PublicationsApplied(
        partitions=[
            AppliedPublications(
                stream_id=1, topic_id=2, partition_id=partition_id, partition_incarnation=incarnation, number=number
            )
            for partition_id, incarnation, number in done
        ]
    )


class Metadata:
    def __init__(self) -> None:
        self.heard: list[list[tuple[int, int, int]]] = []
        self.failures: list[Exception] = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def propose(self, command: Command) -> None:
        self.asked.set()
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        assert command.WhichOneof("operation") == "publications_applied"
        reported = command.publications_applied.partitions
        self.heard.append([(one.partition_id, one.partition_incarnation, one.number) for one in reported])


async def reported(waiting: Publications) -> None:
    task = asyncio.create_task(waiting.run())
    async with asyncio.timeout(10):
        while waiting.waiting_count:
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait({task})


async def test_a_later_publication_speaks_for_the_earlier_ones() -> None:
    metadata = Metadata()
    waiting = Publications(metadata.propose)
    for one in (notice((0, 5, 10), (1, 5, 10)), notice((0, 5, 12)), notice((0, 5, 11), (2, 6, 3)), notice((2, 7, 1))):
        waiting.applied(one)
    assert waiting.waiting_count == 3
    await reported(waiting)
    assert metadata.heard == [[(0, 5, 12), (1, 5, 10), (2, 7, 1)]]


async def test_they_are_reported_until_they_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "_RETRY_SECONDS", 0.001)
    metadata = Metadata()
    metadata.failures = [OSError("nobody"), RuntimeError("who knows")]
    waiting = Publications(metadata.propose)
    waiting.applied(notice((0, 5, 10)))
    await reported(waiting)
    assert metadata.heard == [[(0, 5, 10)]]


async def test_what_comes_meanwhile_is_reported_too() -> None:
    metadata = Metadata()
    metadata.gate.clear()
    waiting = Publications(metadata.propose)
    waiting.applied(notice((0, 5, 10), (1, 5, 10)))
    task = asyncio.create_task(reported(waiting))
    await metadata.asked.wait()
    waiting.applied(notice((0, 5, 11)))
    metadata.gate.set()
    await task
    assert metadata.heard == [[(0, 5, 10), (1, 5, 10)], [(0, 5, 11)]]


async def test_one_command_is_not_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "_PARTITIONS_MAX", 2)
    metadata = Metadata()
    waiting = Publications(metadata.propose)
    waiting.applied(notice(*((number, 1, 1) for number in range(5))))
    await reported(waiting)
    assert [len(one) for one in metadata.heard] == [2, 2, 1]
