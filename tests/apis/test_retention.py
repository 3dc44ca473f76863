"""Past and upcoming retention over HTTP and gRPC, and responses to consumers below the first offset (LOG-6)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import pytest

from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.apis.http.api import Api, batch
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS, ended_well
from tests.server_process import ServerProcess

SECOND_MICROS = 1_000_000
DAY_MICROS = 86_400 * SECOND_MICROS


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose cleaner runs every second."""
    settings = TWO_SHARDS | {"DATA_MAINTENANCE_MESSAGES_INTERVAL": "1 s"}
    server = ServerProcess(tmp_path_factory.mktemp("cleaned") / "data", settings)
    with server:
        yield server
    ended_well(server)


@pytest.fixture
async def root(cleaned: ServerProcess) -> AsyncIterator[Api]:
    async with aiohttp.ClientSession() as http:
        yield await Api(http, cleaned.http_url).login()


async def emptied(root: Api, stream: str) -> str:
    """Create a topic with three removed messages, and a consumer at the first offset."""
    topic = await root.create_topic(stream)
    settings = {"name": "t", "message_expiry": 2 * SECOND_MICROS}
    await root.ok("POST", f"{topic}/messages", batch(b"0", b"1", b"2", partition=0))
    await root.ok("PUT", f"{topic}/consumer-offsets", {"consumer_id": 7, "partition_id": 0, "offset": 0})
    await root.ok("PUT", topic, settings)
    deadline = time.monotonic() + 60
    # The two values come from different commands: a removal between them shows in only one.
    while _first_and_count(partition := (await root.ok("GET", topic))["partitions"][0]) != (3, 0):
        assert time.monotonic() < deadline, partition
        await asyncio.sleep(0.05)
    await root.ok("PUT", topic, settings | {"message_expiry": DAY_MICROS})
    return topic


async def fallen_behind(root: Api, stream: str) -> str:
    """Create a topic with three removed and two remaining messages, and a consumer at the first offset."""
    topic = await emptied(root, stream)
    await root.ok("POST", f"{topic}/messages", batch(b"3", b"4", partition=0))
    return topic


def _first_and_count(partition: dict[str, Any]) -> tuple[int, int]:
    return partition["first_offset"], partition["messages_count"]


def offsets(polled: dict[str, Any]) -> list[int]:
    return [message["header"]["offset"] for message in polled["messages"]]


async def test_http(root: Api) -> None:
    topic = await fallen_behind(root, "over-http")
    (partition,) = (await root.ok("GET", topic))["partitions"]
    assert (partition["first_offset"], partition["current_offset"], partition["state"]) == (3, 4, "serving")
    assert partition["node"] is None
    since = partition["next_deletion"] - DAY_MICROS
    assert abs(since - time.time() * SECOND_MICROS) < 120 * SECOND_MICROS

    gap = {"from": 1, "to": 3}
    behind = f"{topic}/messages?consumer_id=7&kind=next"
    for path in (behind, f"{behind}&wait_ms=1000"):
        polled = await root.ok("GET", path)
        assert (polled["gap"], offsets(polled)) == (gap, [3, 4]), path
    texts = await root.ok("GET", f"{behind}&numbers=text")
    assert texts["gap"] == {"from": "1", "to": "3"}
    polled = await root.ok("GET", f"{topic}/messages?kind=first")
    assert ("gap" in polled, offsets(polled)) == (False, [3, 4])

    group = f"{topic}/consumer-groups"
    await root.ok("POST", group, {"name": "g"})
    member = (await root.ok("POST", f"{group}/g/members"))["member"]
    polled = await root.ok("GET", f"{group}/g/members/{member}/messages?wait_ms=5000")
    # The group has no stored offset: it begins with the first retained message.
    assert ("gap" in polled, offsets(polled)) == (False, [3, 4])

    url = f"{root.url}{topic}/events?kind=offset&value=1"
    async with root.session.get(url, headers={"Authorization": f"Bearer {root.token}"}) as events:
        async for line in events.content:
            if line.startswith(b"event: gap"):
                assert (await events.content.readline()) == b'data: {"from":1,"to":3}\n'
                break
            assert not line.startswith(b"id:"), "a message came before the gap was named"


async def heads(answer: aiohttp.ClientResponse, count: int) -> list[bytes]:
    """First lines of the next server-sent events."""
    found: list[bytes] = []
    async with asyncio.timeout(30):
        async for line in answer.content:
            if line.startswith((b"event:", b"id:")):
                found.append(line.strip())
            if len(found) == count:
                break
    return found


async def test_events_of_a_partition_without_messages(root: Api) -> None:
    """Regression: a gap was named again with each wait, and also to a caller who wanted only new messages."""
    topic = await emptied(root, "events-of-an-emptied")
    url, headers = f"{root.url}{topic}/events", {"Authorization": f"Bearer {root.token}"}
    async with (
        root.session.get(f"{url}?kind=offset&value=1", headers=headers) as behind,
        root.session.get(f"{url}?kind=end", headers=headers) as new,
    ):
        assert await heads(behind, 1) == [b"event: gap"]
        await root.ok("POST", f"{topic}/messages", batch(b"3", b"4", partition=0))
        for answer in (behind, new):
            assert await heads(answer, 2) == [b"id: 3", b"id: 4"]


async def test_grpc(root: Api, cleaned: ServerProcess) -> None:
    await fallen_behind(root, "over-grpc")
    with RawConnection.as_root(cleaned.address) as connection:
        token = access_token(connection)
    await asyncio.to_thread(_check_grpc, cleaned.grpc_address, token)


def _check_grpc(address: str, token: str) -> None:
    place = {"stream": v1.Identifier(name="over-grpc"), "topic": v1.Identifier(name="t")}
    gap = v1.Gap(**{"from": 1}, to=3)
    with GrpcCaller(address, token) as caller:
        (partition,) = caller.catalog.GetTopic(v1.GetTopicRequest(**place)).partitions
        assert (partition.first_offset, partition.node) == (3, "")
        assert partition.health == v1.PARTITION_HEALTH_SERVING
        assert partition.next_deletion_micros > time.time() * SECOND_MICROS
        consumer = v1.Consumer(consumer=v1.Identifier(id=7))
        poll = v1.PollRequest(**place, consumer=consumer, partition_id=0, start=v1.Start(stored=v1.Start.Stored()))
        polled = caller.messages.Poll(poll)
        assert (polled.gap, [message.offset for message in polled.messages]) == (gap, [3, 4])
        first = v1.PollRequest(**place, consumer=consumer, partition_id=0, start=v1.Start(first=v1.Start.First()))
        assert not caller.messages.Poll(first).HasField("gap")
        subscribe = v1.Subscribe(**place, consumer=consumer, start=v1.Start(offset=1))
        responses = caller.subscriptions.Consume(iter([v1.ConsumeRequest(subscribe=subscribe)]))
        batches = (response.batch for response in responses if response.HasField("batch"))
        read = next(batches)
        assert (read.gap, [message.offset for message in read.messages]) == (gap, [3, 4])
        responses.cancel()
