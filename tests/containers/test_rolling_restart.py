"""Everything is restarted in turn while the official client works, which reconnects by itself."""

from __future__ import annotations

import asyncio

from apache_iggy import IggyClient, PollingStrategy, SendMessage

from tests.containers.cluster import SERVICES, Containers
from tests.containers.load import Entrance

RETRY_TIMEOUT = "reconnection_interval=200ms&reestablish_after=200ms"
PARTITIONS_COUNT = 4
_STEP_SECONDS = 60.0


class OfficialSender:
    """Numbers for one partition; a batch that was refused is sent again, as it was not taken."""

    def __init__(self, entrance: Entrance, stream: str, partition: int) -> None:
        credentials = f"{entrance.username}:{entrance.password}"
        self.partition = partition
        self.sent = 0
        self.reconnects = 0
        self._client = IggyClient.from_connection_string(f"iggy+tcp://{credentials}@{entrance.address}?{RETRY_TIMEOUT}")
        self._stream = stream

    async def run(self, is_over: asyncio.Event) -> None:
        """Send until it is over."""
        await self._client.connect()
        while not is_over.is_set():
            async with asyncio.timeout(_STEP_SECONDS):
                await self._send(str(self.sent))
            self.sent += 1
            await asyncio.sleep(0.02)

    async def _send(self, text: str) -> None:
        while True:
            try:
                return await self._client.send_messages(self._stream, "t", self.partition, [SendMessage(text)])
            except RuntimeError as error:
                # The client's heartbeat has detected the loss and reconnects; callers get this error meanwhile.
                if str(error) not in {"Disconnected", "NotConnected", "Unauthenticated", "CannotEstablishConnection"}:
                    raise
                self.reconnects += 1
                await asyncio.sleep(0.1)

    async def received(self) -> list[int]:
        """Everything that is there, in its order."""
        numbers: list[int] = []
        offset = 0
        while messages := await self._client.poll_messages(
            self._stream, "t", self.partition, PollingStrategy.Offset(offset), 1000, auto_commit=False
        ):
            numbers += [int(message.payload()) for message in messages]
            offset = messages[-1].offset() + 1
        return numbers


async def test_a_rolling_restart_of_everything(
    cluster: Containers, entrance: Entrance, name: str, show: list[str]
) -> None:
    """No message is lost or out of order; duplicates are limited to batches that the client has resent."""
    client = IggyClient.from_connection_string(
        f"iggy+tcp://{entrance.username}:{entrance.password}@{entrance.address}?{RETRY_TIMEOUT}"
    )
    await client.connect()
    await client.create_stream(name)
    await client.create_topic(name, "t", PARTITIONS_COUNT)
    senders = [OfficialSender(entrance, name, partition) for partition in range(PARTITIONS_COUNT)]
    is_over = asyncio.Event()
    running = [asyncio.create_task(sender.run(is_over)) for sender in senders]

    async def all_progress() -> None:
        goals = [sender.sent + 3 for sender in senders]
        async with asyncio.timeout(_STEP_SECONDS):
            while any(sender.sent < goal for sender, goal in zip(senders, goals, strict=True)):
                for task in running:
                    if task.done():
                        await task
                await asyncio.sleep(0.05)

    await all_progress()
    for service in (*SERVICES, "balancer"):
        await asyncio.to_thread(cluster.restart, service)
        await asyncio.to_thread(cluster.wait_healthy, service)
        await all_progress()
    is_over.set()
    await asyncio.gather(*running)
    for sender in senders:
        numbers = await sender.received()
        assert list(dict.fromkeys(numbers)) == list(range(sender.sent)), f"partition {sender.partition}"
        twice = len(numbers) - sender.sent
        show.append(
            f"partition {sender.partition}: {sender.sent} messages, {sender.reconnects} refusals, {twice} twice"
        )
        # Once for each time that its way was cut: its gateway, its node, the balancer.
        assert twice <= 3
    await asyncio.sleep(0.1)  # the client's own threads come to rest
