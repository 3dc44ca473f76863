"""Commit horizon of an embedded server without other operations."""

import asyncio
import time
from dataclasses import dataclass

from headrace_embedded.commit_horizon import pass_horizon
from headrace_metadata.errors import AppendFailedError
from headrace_node import Horizon


@dataclass
class State:
    version: int = 3
    timestamp_micros: int = 1_000


class Replica:
    def __init__(self):
        self.state = State()
        self.pulses = 0
        self.failures = 0

    async def propose(self, command):
        assert command.HasField("pulse")
        if self.failures:
            self.failures -= 1
            raise AppendFailedError("the disk is full")
        self.pulses += 1
        self.state.timestamp_micros = time.time_ns() // 1000


async def looks(replica, stages_count, times):
    passed, looked = [], 0

    def count():
        nonlocal looked
        looked += 1
        return stages_count

    task = asyncio.create_task(pass_horizon(replica, count, Horizon(passed.append), check_seconds=0.001))
    async with asyncio.timeout(60):
        while looked < times:
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.wait({task})
    return passed


async def test_time_passes_as_long_as_anything_is_staged():
    replica = Replica()
    before = time.time_ns() // 1000
    passed = await looks(replica, 2, 4)
    assert replica.pulses >= 1
    assert passed[0] >= before
    assert passed == sorted(passed)


async def test_nothing_is_written_when_nothing_is_staged():
    replica = Replica()
    assert await looks(replica, 0, 4) == []
    assert replica.pulses == 0


async def test_a_disk_that_is_full_is_looked_at_again():
    replica = Replica()
    replica.failures = 2
    passed = await looks(replica, 1, 6)
    # The shards know everything in the state.
    assert passed[0] == 1_000
    assert replica.pulses >= 1
