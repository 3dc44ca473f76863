"""Consuming as a group member without a persistent connection (GW-4, CTL-8)."""

from __future__ import annotations

import asyncio

import pytest

from tests.apis.http.api import Api, batch, payloads
from tests.apis.http.conftest import Reach
from tests.conftest import StartServer


async def joined(api: Api, group: str) -> str:
    member = await api.ok("POST", f"{group}/members")
    assert member["expires_in_seconds"] > 0
    return f"{group}/members/{member['member']}"


async def test_members_share_the_partitions(root: Api) -> None:
    topic = await root.create_topic("shared-out", partitions=2)
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    group = f"{topic}/consumer-groups/g"
    for partition in range(2):
        await root.ok("POST", f"{topic}/messages", batch(b"%d" % partition, partition=partition))
    one, other = await joined(root, group), await joined(root, group)
    members = (await root.ok("GET", group))["members"]
    assert sorted(member["partitions"] for member in members) == [[0], [1]]

    seen = []
    for member in (one, other):
        polled = await root.ok("GET", f"{member}/messages?count=5")
        seen += payloads(polled)
        offset = {"partition_id": polled["partition_id"], "offset": polled["messages"][-1]["header"]["offset"]}
        assert (await root("PUT", f"{member}/offsets", offset)).status == 204
        assert (await root.ok("GET", f"{member}/messages"))["count"] == 0
    assert sorted(seen) == [b"0", b"1"]

    # Unacknowledged messages are delivered again, and only to the owner of the partition.
    for member, partition in ((one, members[0]["partitions"][0]), (other, members[1]["partitions"][0])):
        assert (await root("DELETE", f"{member}/offsets/{1 - partition}")).code == 3022
        assert (await root("DELETE", f"{member}/offsets/{partition}")).status == 204
        assert payloads(await root.ok("GET", f"{member}/messages")) == [b"%d" % partition]

    assert (await root("DELETE", other)).status == 204
    gone = await root("GET", f"{other}/messages")
    assert (gone.status, gone.code) == (404, 5006)
    (left,) = (await root.ok("GET", group))["members"]
    assert left["partitions"] == [0, 1]


async def test_a_membership_is_a_secret_of_its_user(root: Api) -> None:
    topic = await root.create_topic("secretive")
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "h"})
    member = await joined(root, f"{topic}/consumer-groups/g")
    other = await root.create_user("other-user", (await root.ok("GET", "/users/0"))["permissions"])
    for method, path in (("GET", f"{member}/messages"), ("DELETE", member)):
        answer = await other(method, path)
        assert (answer.status, answer.code) == (404, 5006)
    elsewhere = member.replace("/g/", "/h/")
    assert (await root("GET", f"{elsewhere}/messages")).code == 5006
    assert (await root("GET", f"{topic}/consumer-groups/g/members/made-up/messages")).code == 5006
    assert (await root.ok("GET", f"{member}/messages"))["count"] == 0
    assert (await root("POST", f"{topic}/consumer-groups/nothing/members")).status == 404


@pytest.mark.long
async def test_silent_members_leave(start_server: StartServer, reach: Reach) -> None:
    server = start_server({"HTTP_CONSUMER_GROUP_MEMBER_TIMEOUT": "10 s", "HTTP_CONSUMER_GROUP_MAX_MEMBERS": "4"})
    root = await reach(server).login()
    topic = await root.create_topic("silence", partitions=2)
    group = f"{topic}/consumer-groups/g"
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "g"})
    lively, silent = await joined(root, group), await joined(root, group)
    full = await root("POST", f"{group}/members")
    assert (full.status, full.headers["Retry-After"]) == (429, "1")
    async with asyncio.timeout(60):
        while True:
            assert (await root("GET", f"{lively}/messages")).status == 200
            members = (await root.ok("GET", group))["members"]
            if len(members) == 1:
                break
            await asyncio.sleep(0.1)
    assert [member["partitions"] for member in members] == [[0, 1]]
    assert (await root("GET", f"{silent}/messages")).code == 5006
