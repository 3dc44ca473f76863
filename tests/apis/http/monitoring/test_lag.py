"""Consumer lag in messages and seconds (USE-6)."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest.mock import ANY

from tests.apis.http.api import Api, batch, rights
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer


async def sent(root: Api, topic: str, *payloads: bytes, partition: int = 0) -> None:
    await root.ok("POST", f"{topic}/messages", batch(*payloads, partition=partition))


def metrics(lag: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (it["partition_id"], it["stored_offset"], it["last_offset"], it["lag_messages"]) for it in lag["partitions"]
    ]


async def test_a_consumer_by_itself(root: Api) -> None:
    topic = await root.create_topic("lag-of-a-consumer", partitions=3)
    url = f"{topic}/consumers/me/lag"
    none = await root.ok("GET", url)
    assert (none["lag_messages"], none["lag_seconds"]) == (0, 0)
    assert metrics(none) == [(0, None, None, 0), (1, None, None, 0), (2, None, None, 0)]

    await sent(root, topic, b"a", b"b", b"c")
    await sent(root, topic, b"x", partition=2)
    await root.ok("PUT", f"{topic}/consumer-offsets", {"consumer_id": "me", "partition_id": 0, "offset": 1})
    lag = await root.ok("GET", url)
    assert metrics(lag) == [(0, 1, 2, 1), (1, None, None, 0), (2, None, 0, 1)]
    assert lag["lag_messages"] == 2
    assert [it["member"] for it in lag["partitions"]] == [None] * 3
    assert lag["partitions"][1]["lag_seconds"] == 0
    assert 0 < lag["lag_seconds"] < 60
    assert (await root.ok("GET", f"{topic}/consumers/another/lag"))["lag_messages"] == 4

    await root.ok("PUT", f"{topic}/consumer-offsets", {"consumer_id": "me", "partition_id": 0, "offset": 2})
    await root.ok("PUT", f"{topic}/consumer-offsets", {"consumer_id": "me", "partition_id": 2, "offset": 0})
    caught_up = await root.ok("GET", url)
    assert (caught_up["lag_messages"], caught_up["lag_seconds"]) == (0, 0)


async def test_seconds_are_the_age_of_the_oldest_message(root: Api) -> None:
    topic = await root.create_topic("lag-in-seconds")
    url = f"{topic}/consumers/1/lag"
    await sent(root, topic, b"old")
    await asyncio.sleep(0.6)
    await sent(root, topic, b"new")
    one = (await root.ok("GET", url))["lag_seconds"]
    assert one >= 0.6
    assert (await root.ok("GET", url))["lag_seconds"] > one
    await root.ok("PUT", f"{topic}/consumer-offsets", {"offset": 0})
    (message,) = (await root.ok("GET", f"{topic}/messages?kind=offset&value=1"))["messages"]
    (first,) = (await root.ok("GET", f"{topic}/messages?kind=first&count=1"))["messages"]
    between = (message["header"]["timestamp"] - first["header"]["timestamp"]) / 1_000_000
    # The second message is younger by that difference, and time passes between the two requests.
    earlier, later = (await root.ok("GET", url))["lag_seconds"], (await root.ok("GET", f"{topic}/consumers/2/lag"))
    assert later["lag_seconds"] - earlier >= between


async def test_a_group_with_its_members(root: Api) -> None:
    topic = await root.create_topic("lag-of-a-group", partitions=2)
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    group = f"{topic}/consumer-groups/g"
    for partition in range(2):
        await sent(root, topic, b"1", b"2", partition=partition)
    before = await root.ok("GET", f"{group}/lag")
    assert (before["lag_messages"], [it["member"] for it in before["partitions"]]) == (4, [None, None])
    member = (await root.ok("POST", f"{group}/members"))["member"]
    polled = await root.ok("GET", f"{group}/members/{member}/messages?count=1&auto_commit=true&partition_id=1")
    assert polled["count"] == 1
    lag = await root.ok("GET", f"{group}/lag")
    assert metrics(lag) == [(0, None, 1, 2), (1, 0, 1, 1)]
    (owner,) = (await root.ok("GET", group))["members"]
    assert [it["member"] for it in lag["partitions"]] == [owner["id"]] * 2


async def test_the_groups_of_all_topics(root: Api) -> None:
    """Each caller gets the groups of the topics that it may read."""
    late, early = await root.create_topic("all-groups-late", partitions=2), await root.create_topic("all-groups-early")
    for topic, name in ((late, "billing"), (late, "audit"), (early, "billing")):
        await root.ok("POST", f"{topic}/consumer-groups", {"name": name})
    await sent(root, late, b"1", b"2", partition=1)

    async def listed(caller: Api) -> list[dict[str, Any]]:
        return [it for it in await caller.ok("GET", "/consumer-groups") if it["stream_name"].startswith("all-groups")]

    found = await listed(root)
    assert [(it["stream_name"], it["name"], it["lag_messages"], it["partitions_count"]) for it in found] == [
        ("all-groups-late", "billing", 2, 2),
        ("all-groups-late", "audit", 2, 2),
        ("all-groups-early", "billing", 0, 1),
    ]
    assert 0 < found[0]["lag_seconds"] < 60
    assert found[2]["lag_seconds"] == 0
    assert (await listed(await root.create_user("all-groups-reader", rights("read_streams"))))[0] == found[0] | {
        "lag_seconds": ANY
    }
    sender = await root.create_user("all-groups-sender", rights("send_messages"))
    assert (await sender("GET", "/consumer-groups")).status == 403


async def test_groups_beyond_the_limit_are_listed_without_lag(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"HTTP_METRICS_LAG_PARTITIONS": "2"})).login()
    topic = await root.create_topic("s", partitions=2)
    for name in ("first", "second"):
        await root.ok("POST", f"{topic}/consumer-groups", {"name": name})
    assert [(it["name"], it["lag_messages"]) for it in await root.ok("GET", "/consumer-groups")] == [
        ("first", 0),
        ("second", None),
    ]


async def test_what_was_deleted_is_not_waited_for(start_server: StartServer, reach: Reach) -> None:
    """Deleted messages do not count, and the age is that of the oldest remaining message."""
    root = await reach(start_server({"SYSTEM_SEGMENT_SIZE": "4 KiB"})).login()
    topic = await root.create_topic("s")
    for _ in range(4):
        await sent(root, topic, bytes(3000))
    await root.ok("PUT", f"{topic}/consumer-offsets", {"offset": 0})
    before = await root.ok("GET", f"{topic}/consumers/1/lag")
    assert before["lag_messages"] == 3
    await root.ok("DELETE", f"{topic}/consumer-offsets/1")
    await root.ok("DELETE", f"{topic}/partitions/0?segments_count=1")
    await root.ok("PUT", f"{topic}/consumer-offsets", {"offset": 0})
    first = (await root.ok("GET", f"{topic}/messages?kind=first&count=1"))["messages"][0]["header"]["offset"]
    assert first > 1
    lag = await root.ok("GET", f"{topic}/consumers/1/lag")
    assert lag["lag_messages"] == 4 - first
    assert 0 < lag["lag_seconds"] < before["lag_seconds"] + 60


async def test_what_is_not_there(root: Api) -> None:
    topic = await root.create_topic("lag-of-nothing", partitions=0)
    nothing = await root.ok("GET", f"{topic}/consumers/1/lag")
    assert nothing == {"lag_messages": 0, "lag_seconds": 0, "partitions": []}
    for path in (
        f"{topic}/consumer-groups/g/lag",
        f"{topic}s/consumers/1/lag",
        "/streams/none/topics/t/consumers/1/lag",
    ):
        assert (await root("GET", path)).status == 404, path
    assert (await root("GET", f"{topic}/consumers/{'x' * 256}/lag")).status == 400


async def test_who_may_see_it(root: Api, anonymous: Api) -> None:
    """The lag requires the rights of the commands that compute it: read the topic, and poll messages."""
    topic = await root.create_topic("lag-for-some")
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    await sent(root, topic, b"m")
    reader = await root.create_user("lag-reader", rights("read_topics"))
    poller = await root.create_user("lag-poller", rights("poll_messages"))
    for path in (f"{topic}/consumer-groups/g/lag", f"{topic}/consumers/1/lag"):
        assert (await anonymous("GET", path)).status == 401
        assert (await reader.ok("GET", path))["lag_messages"] == 1
        assert (await poller("GET", path)).code == 41


async def test_the_lag_of_groups_in_metrics(start_server: StartServer, reach: Reach) -> None:
    """The number of series is bounded, series by partition are optional, and scrapes within an interval share one
    result.
    """
    settings = {"HTTP_METRICS_LAG_PARTITIONS": "4", "HTTP_METRICS_LAG_INTERVAL": "300 ms"}
    anonymous = reach(start_server(settings))
    root = await anonymous.login()
    topic = await root.create_topic("orders", partitions=2)
    for name in ("billing", 'odd "name"\\', "left-out"):
        await root.ok("POST", f"{topic}/consumer-groups", {"name": name})
    await sent(root, topic, b"1", b"2", partition=1)

    async def values(query: str = "") -> dict[str, float]:
        text = (await root("GET", f"/metrics{query}")).body.decode()
        lines = [line for line in text.splitlines() if line.startswith("headrace_consumer_group")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    found = await values()
    label = '{group="billing",stream="orders",topic="t"}'
    assert found["headrace_consumer_group_lag_messages" + label] == 2
    assert found["headrace_consumer_group_lag_seconds" + label] > 0
    assert found["headrace_consumer_group_members" + label] == 0
    assert found["headrace_consumer_group_lag_omitted_groups"] == 1
    assert any(r'group="odd \"name\"\\"' in name for name in found)
    assert not any("left-out" in name or "partition" in name for name in found)
    await sent(root, topic, b"3", partition=0)
    deadline = asyncio.get_running_loop().time() + 30
    while found["headrace_consumer_group_lag_messages" + label] != 3:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
        found = await values()
    again = await values("?detail=partitions")
    of_partitions = {
        name: value for name, value in again.items() if "partition_lag_messages" in name and "billing" in name
    }
    assert [value for _, value in sorted(of_partitions.items())] == [1, 2]
    assert (await anonymous("GET", "/metrics?detail=everything")).status == 400


async def test_lags_are_worked_out_once_for_a_while(start_server: StartServer, reach: Reach) -> None:
    anonymous = reach(start_server({"HTTP_METRICS_LAG_INTERVAL": "1 h"}))
    root = await anonymous.login()
    topic = await root.create_topic("orders")
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "billing"})

    async def lines() -> list[bytes]:
        text = (await root("GET", "/metrics")).body
        return [line for line in text.splitlines() if line.startswith(b"headrace_consumer_group_lag_messages{")]

    before = await lines()
    assert len(before) == 1
    await sent(root, topic, b"1")
    assert await lines() == before
