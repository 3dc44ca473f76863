"""Restart of every process in turn under load, without loss (GW-8, GW-10)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

import pytest
from apache_iggy import IggyClient, PollingStrategy, SendMessage

from tests.cluster import Cluster, ended
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME

ROUNDS = int(os.environ.get("CLUSTER_ROUNDS", "1"))
"""Number of restarts of each process, from the environment."""
PARTITIONS_COUNT = 4
BATCH_COUNT = 10
BETWEEN_SECONDS = 0.3
RETRY_TIMEOUT = "reconnection_interval=200ms&reestablish_after=200ms"
"""Reduce both delays of the client from their default of five seconds."""
ATTEMPT_SECONDS = 60


async def connected(address: str) -> IggyClient:
    """Return a client that reconnects by itself, logs in again and repeats the interrupted request."""
    client = IggyClient.from_connection_string(f"iggy+tcp://{USERNAME}:{PASSWORD}@{address}?{RETRY_TIMEOUT}")
    await client.connect()
    return client


@dataclass
class Conversation:
    """One partition, written through one gateway and read through the other."""

    partition: int
    acknowledged: int = 0
    """Number of acknowledged batches; batches are numbered."""
    unanswered: int = 0
    """Number of failed attempts; each may have stored its batch once."""
    seen: list[bytes] = field(default_factory=list)
    is_over: bool = False
    is_written: bool = False

    async def write(self, address: str) -> None:
        """Send batches, each until it is acknowledged."""
        client = await connected(address)
        while not self.is_over:
            messages = [SendMessage(b"%d %d" % (self.acknowledged, part)) for part in range(BATCH_COUNT)]
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS):
                    await client.send_messages("rolling", "t", self.partition, messages)
            except RuntimeError:
                # The client fails requests when its heartbeat notices the lost connection.
                self.unanswered += 1
                await asyncio.sleep(0.1)
                continue
            self.acknowledged += 1
            await asyncio.sleep(0.002)
        self.is_written = True

    async def read(self, address: str) -> None:
        """Poll continuously from the end of the last response."""
        client = await connected(address)
        while True:
            is_written = self.is_written
            strategy = PollingStrategy.Offset(len(self.seen))
            try:
                async with asyncio.timeout(ATTEMPT_SECONDS):
                    found = await client.poll_messages("rolling", "t", self.partition, strategy, 100, auto_commit=False)
            except RuntimeError:
                await asyncio.sleep(0.1)
                continue
            assert [it.offset() for it in found] == list(range(len(self.seen), len(self.seen) + len(found)))
            self.seen += [it.payload() for it in found]
            if is_written and not found:
                return
            await asyncio.sleep(0.002 if found else 0.02)

    def repeated(self) -> int:
        """Check that each acknowledged batch is stored in order and in one piece; return the number of repetitions."""
        batches = [self.seen[start : start + BATCH_COUNT] for start in range(0, len(self.seen), BATCH_COUNT)]
        numbers = [int(batch[0].split()[0]) for batch in batches]
        for number, batch in zip(numbers, batches, strict=True):
            assert batch == [b"%d %d" % (number, part) for part in range(BATCH_COUNT)]
        assert list(dict.fromkeys(numbers))[: self.acknowledged] == list(range(self.acknowledged))
        assert numbers == sorted(numbers), "a batch came after one that was sent later"
        return len(numbers) - len(set(numbers))


@pytest.mark.long
@pytest.mark.timeout(180 + 120 * ROUNDS)
async def test_everything_is_restarted(cluster: Cluster, show: list[str]) -> None:
    """The official client may repeat an unanswered batch once when its gateway stops, and no other batch."""
    addresses = [gateway.listeners.tcp for gateway in cluster.gateways]
    with RawConnection.as_root(addresses[0]) as root:
        root.create_topic("rolling", partitions=PARTITIONS_COUNT)
    conversations = [Conversation(partition) for partition in range(PARTITIONS_COUNT)]
    async with asyncio.TaskGroup() as group:
        for number, conversation in enumerate(conversations):
            group.create_task(conversation.write(addresses[number % 2]))
            group.create_task(conversation.read(addresses[1 - number % 2]))
        for _ in range(ROUNDS):
            for service in cluster.services:
                await asyncio.sleep(BETWEEN_SECONDS)
                before = [conversation.acknowledged for conversation in conversations]
                await asyncio.to_thread(ended, [service])
                service.start()
                await asyncio.to_thread(cluster.wait_ready)
                async with asyncio.timeout(ATTEMPT_SECONDS):
                    while any(it.acknowledged <= count for it, count in zip(conversations, before, strict=True)):
                        await asyncio.sleep(0.05)
        for conversation in conversations:
            conversation.is_over = True
    for conversation in conversations:
        repeated = conversation.repeated()
        # Each gateway was restarted once a round; only its own clients had to reconnect.
        assert repeated <= ROUNDS + conversation.unanswered
        show.append(
            f"partition {conversation.partition}: {conversation.acknowledged} batches, {repeated} twice, "
            f"{conversation.unanswered} attempts without an answer"
        )
