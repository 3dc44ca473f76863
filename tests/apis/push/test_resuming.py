"""Resumption after a lost connection without gaps or duplicates (GW-5)."""

from __future__ import annotations

import asyncio
import base64
import random
from typing import Any

import pytest

from tests.apis.http.api import Api, batch
from tests.apis.push.browser import BINARY, JSON, logged_in

PARTITIONS = 3
BATCHES = 150


class Reader:
    """A reader whose connections do not last."""

    def __init__(self, api: Api, stream: str, subprotocol: str, chance: random.Random) -> None:
        self._api = api
        self._stream = stream
        self._subprotocol = subprotocol
        self._chance = chance
        self._positions: dict[int, tuple[int, str]] = {}
        self.read: dict[int, list[tuple[int, bytes]]] = {partition: [] for partition in range(PARTITIONS)}
        self.begun = asyncio.Event()
        self.connections = 0

    @property
    def count(self) -> int:
        return sum(map(len, self.read.values()))

    async def run(self, expected: int) -> None:
        while self.count < expected:
            self.connections += 1
            async with logged_in(self._api, self._subprotocol) as browser:
                credit = {"messages": self._chance.randint(1, 30), "bytes": self._chance.randint(1, 3000)}
                positions = [
                    {"partition_id": partition, "offset": offset, "epoch": epoch}
                    for partition, (offset, epoch) in self._positions.items()
                ]
                answer = await browser.subscribe(self._stream, positions=positions, credit=credit)
                for reported in answer["partitions"]:
                    self._positions.setdefault(reported["partition_id"], (reported["offset"], reported["epoch"]))
                    # Received messages are not requested again.
                    assert self._positions[reported["partition_id"]] == (reported["offset"], reported["epoch"])
                self.begun.set()
                for _ in range(self._chance.randint(0, 6)):
                    if self.count >= expected:
                        break
                    payloads = self._take(await browser.event("messages"))
                    used = sum(64 + len(payload) for payload in payloads)
                    await browser.send(type="credit", subscription=1, messages=len(payloads), bytes=used)
                # Abort without a close frame; data in flight is lost.
                assert browser.socket._conn is not None
                assert browser.socket._conn.transport is not None
                browser.socket._conn.transport.abort()

    def _take(self, event: dict[str, Any]) -> list[bytes]:
        partition = event["partition_id"]
        payloads = [base64.b64decode(message["payload"]) for message in event["messages"]]
        offsets = [message["offset"] for message in event["messages"]]
        self.read[partition] += zip(offsets, payloads, strict=True)
        self._positions[partition] = (event["next_offset"], event["epoch"])
        return payloads


@pytest.mark.parametrize("subprotocol", [JSON, BINARY])
async def test_no_gap_and_nothing_twice(root: Api, subprotocol: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    chance = random.Random(seed)
    stream = f"resumed-{subprotocol}"
    topic = await root.create_topic(stream, partitions=PARTITIONS)
    sent: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for partition in range(PARTITIONS):
        # Messages that existed before do not matter.
        await root.ok(
            "POST", f"{topic}/messages", batch(*(b"old" for _ in range(partition)), b"o", partition=partition)
        )
    plan = [(chance.randrange(PARTITIONS), chance.randint(1, 20)) for _ in range(BATCHES)]
    total = sum(count for _, count in plan)
    readers = [Reader(root, stream, subprotocol, random.Random(chance.random())) for _ in range(3)]

    async def produce() -> None:
        for reader in readers:
            await reader.begun.wait()
        for number, (partition, count) in enumerate(plan):
            payloads = [b"%d/%d " % (number, place) + b"x" * chance.randint(0, 300) for place in range(count)]
            sent[partition] += payloads
            await root.ok("POST", f"{topic}/messages", batch(*payloads, partition=partition))
            if number % 10 == 0:
                await asyncio.sleep(0.01)

    async with asyncio.timeout(90), asyncio.TaskGroup() as tasks:
        tasks.create_task(produce())
        for reader in readers:
            tasks.create_task(reader.run(total))
    for reader in readers:
        for partition, payloads in sent.items():
            first = partition + 1
            assert reader.read[partition] == [(first + place, payload) for place, payload in enumerate(payloads)]
    assert sum(reader.connections for reader in readers) > 20


async def test_over_a_restart_of_the_server(root: Api, shared_server: Any) -> None:
    topic = await root.create_topic("restarted")
    await root.ok("POST", f"{topic}/messages", batch(b"0", b"1"))
    async with logged_in(root) as browser:
        await browser.subscribe("restarted", start={"kind": "first"})
        event = await browser.event("messages")
        restarting = asyncio.create_task(asyncio.to_thread(shared_server.restart, kill=True))
        assert await browser.closed() in {1006, None}
        await restarting
    root = await Api(root.session, root.url).login()
    async with logged_in(root) as browser:
        position = {"partition_id": 0, "offset": event["next_offset"], "epoch": event["epoch"]}
        answer = await browser.subscribe("restarted", positions=[position])
        assert answer["partitions"][0]["offset"] == 2
        await root.ok("POST", f"{topic}/messages", batch(b"2"))
        assert await browser.payloads(1) == [b"2"]
        await browser.silence()
