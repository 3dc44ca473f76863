"""Streams, topics, partitions, offsets, consumer groups (GW-4)."""

from __future__ import annotations

import pytest

from tests.apis.http.api import Api, batch

NEVER = 2**64 - 1


async def test_a_stream_from_beginning_to_end(root: Api) -> None:
    created = await root.ok("POST", "/streams", {"name": "st"})
    assert created | {"id": 0, "created_at": 0} == {
        "id": 0,
        "created_at": 0,
        "name": "st",
        "size": "0 B",
        "messages_count": 0,
        "topics_count": 0,
        "topics": [],
    }
    path = f"/streams/{created['id']}"
    assert await root.ok("GET", path) == created == await root.ok("GET", "/streams/st")
    assert (await root("PUT", path, {"name": "renamed"})).status == 204
    assert (await root("GET", "/streams/st")).status == 404
    assert (await root("DELETE", f"{path}/purge")).status == 204
    assert (await root("DELETE", "/streams/renamed")).status == 204
    for method in ("DELETE", "PUT"):
        answer = await root(method, path, {"name": "x"})
        assert (answer.status, answer.code, answer.data["field"]) == (404, 1009, "stream_id")


async def test_names_are_what_a_path_can_say(root: Api) -> None:
    for name, path in (("a/b", "a%2Fb"), ("a b", "a%20b"), ("ä", "%C3%A4"), ("%41", "%2541"), ("x" * 255, "x" * 255)):
        created = await root.ok("POST", "/streams", {"name": name})
        found = await root.ok("GET", f"/streams/{path}")
        assert (found["id"], found["name"]) == (created["id"], name)
    answer = await root("GET", f"/streams/{'x' * 256}")
    assert (answer.status, answer.code, answer.data["field"]) == (400, 6, "stream_id")
    assert (await root("GET", "/streams/4294967295")).status == 404
    assert (await root("GET", "/streams/4294967296")).status == 404
    assert (await root("GET", "/streams/")).status == 404


async def test_a_topic_from_beginning_to_end(root: Api) -> None:
    await root.ok("POST", "/streams", {"name": "for-topics"})
    body = {
        "name": "orders",
        "partitions_count": 2,
        "compression_algorithm": "gzip",
        "message_expiry": 7_000_000,
        "max_topic_size": "2 GiB",
        "replication_factor": 1,
    }
    created = await root.ok("POST", "/streams/for-topics/topics", body)
    assert (created["compression_algorithm"], created["message_expiry"]) == ("gzip", 7_000_000)
    assert (created["max_topic_size"], created["replication_factor"]) == (2 * 1024**3, 1)
    assert [partition["id"] for partition in created["partitions"]] == [0, 1]
    assert created["partitions"][0].keys() == {
        "id", "created_at", "segments_count", "current_offset", "size", "messages_count",
    }  # fmt: skip
    path = f"/streams/for-topics/topics/{created['id']}"
    found = await root.ok("GET", path)
    assert found["name"] == "orders"
    (listed,) = await root.ok("GET", "/streams/for-topics/topics")
    assert listed == {key: value for key, value in found.items() if key != "partitions"}
    assert (await root.ok("GET", "/streams/for-topics"))["topics"] == [listed]
    assert (
        await root("PUT", path, {"name": "bills", "max_topic_size": "unlimited", "message_expiry": NEVER})
    ).status == 204
    changed = await root.ok("GET", "/streams/for-topics/topics/bills")
    assert (changed["max_topic_size"], changed["message_expiry"]) == (NEVER, NEVER)
    await root.ok("PUT", path, {"name": "bills", "message_expiry": 7_000_000})
    await root.ok("PUT", path, {"name": "bills", "message_expiry": "never"})
    assert (await root.ok("GET", path))["message_expiry"] == NEVER
    assert (await root("PUT", path, {"name": "bills", "message_expiry": "soon"})).status == 422

    assert (await root("POST", f"{path}/partitions", {"partitions_count": 3})).status == 201
    assert (await root.ok("GET", path))["partitions_count"] == 5
    assert (await root("DELETE", f"{path}/partitions?partitions_count=4")).status == 204
    answer = await root("DELETE", f"{path}/partitions?partitions_count=2")
    assert (answer.status, answer.code) == (400, 2019)
    assert (await root("DELETE", f"{path}/partitions/0?segments_count=1")).status == 204
    assert (await root("DELETE", f"{path}/partitions/9?segments_count=1")).code == 3007
    assert (await root("DELETE", f"{path}/purge")).status == 204
    assert (await root("DELETE", path)).status == 204
    answer = await root("DELETE", path)
    assert (answer.status, answer.code, answer.data["field"]) == (404, 2010, "topic_id")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/streams", {"name": "taken"}, 400, 1012),
        ("/streams", {"name": "ä" * 128}, 400, 1013),
        ("/streams/taken/topics", {"name": "t", "partitions_count": 1}, 400, 2013),
        ("/streams/taken/topics", {"name": "ä" * 128, "partitions_count": 1}, 400, 2014),
        ("/streams/taken/topics", {"name": "small", "partitions_count": 1, "max_topic_size": 1}, 400, 1019),
        ("/streams/nowhere/topics", {"name": "t", "partitions_count": 1}, 404, 1009),
        ("/streams", {"name": ""}, 400, 1013),
        ("/streams/taken/topics", {"name": "many", "partitions_count": 1001}, 400, 2015),
        ("/streams/taken/topics", {"name": "none", "partitions_count": 1, "replication_factor": 0}, 400, 2018),
        ("/streams/taken/topics/t/partitions", {"partitions_count": 0}, 400, 2015),
        ("/streams/taken/topics/t/partitions", {"partitions_count": 1001}, 400, 2015),
        ("/streams/taken/topics/t/consumer-groups", {"name": "g"}, 400, 5004),
        ("/streams/taken/topics/t/consumer-groups", {"name": ""}, 400, 5005),
    ],
)
async def test_refusals_of_creation(root: Api, path: str, body: object, status: int, code: int) -> None:
    if (await root("GET", "/streams/taken")).status == 404:
        await root.create_topic("taken")
        await root.ok("POST", "/streams/taken/topics/t/consumer-groups", {"name": "g"})
    answer = await root("POST", path, body)
    assert (answer.status, answer.code) == (status, code)


async def test_a_size_with_a_line_break_is_no_size(root: Api) -> None:
    path = await root.create_topic("broken-size")
    body = {"name": "t", "max_topic_size": "10 GiB\n"}
    for answer in (
        await root("PUT", path, body),
        await root("POST", "/streams/broken-size/topics", {**body, "name": "u", "partitions_count": 1}),
    ):
        assert answer.status == 422
        assert "is not a size" in answer.body.decode()


async def test_offsets(root: Api) -> None:
    topic = await root.create_topic("for-offsets", partitions=2)
    path = f"{topic}/consumer-offsets"
    assert (await root("GET", path)).data["code"] == "not_found"
    body = {"consumer_id": "me", "partition_id": 1, "offset": 1}
    refused = await root("PUT", path, body)
    assert (refused.status, refused.code, refused.data["field"]) == (400, 4100, "offset")
    await root.ok("POST", f"{topic}/messages", batch(b"a", b"b", b"c", partition=1))
    assert (await root("PUT", path, body)).status == 204
    stored = await root.ok("GET", f"{path}?consumer_id=me&partition_id=1")
    assert stored == {"partition_id": 1, "current_offset": 2, "stored_offset": 1}
    assert (await root("GET", f"{path}?consumer_id=you&partition_id=1")).status == 404
    assert (await root("DELETE", f"{path}/me?partition_id=1")).status == 204
    assert (await root("DELETE", f"{path}/me?partition_id=1")).code == 3021


async def test_groups(root: Api) -> None:
    topic = await root.create_topic("for-groups", partitions=3)
    path = f"{topic}/consumer-groups"
    answer = await root("POST", path, {"name": "readers"})
    group = {"id": answer.data["id"], "name": "readers", "partitions_count": 3, "members_count": 0}
    assert (answer.status, answer.data) == (201, group | {"members": []})
    assert await root.ok("GET", path) == [group]
    assert await root.ok("GET", f"{path}/readers") == group | {"members": []}
    assert (await root("GET", f"{path}/writers")).data["code"] == "not_found"
    assert (await root("DELETE", f"{path}/{group['id']}")).status == 204
    assert (await root("DELETE", f"{path}/readers")).status == 404


async def test_pages(root: Api) -> None:
    await root.ok("POST", "/streams", {"name": "pages"})
    for number in range(5):
        await root.ok("POST", "/streams/pages/topics", {"name": f"t{number}", "partitions_count": 0})
    everything = await root.ok("GET", "/streams/pages/topics")
    found, path = [], "/streams/pages/topics?limit=2&sizes=bytes"
    while path:
        answer = await root("GET", path)
        assert len(answer.data) <= 2
        found += answer.data
        link = answer.headers.get("Link", "")
        path = link.partition(">")[0].removeprefix("<")
        assert not link or link.endswith('; rel="next"')
    assert [topic["id"] for topic in found] == [topic["id"] for topic in everything]
    assert found[0]["size"] == 0
    for query in ("limit=0", "limit=1001", "cursor=x", "sizes=big"):
        assert (await root("GET", f"/streams/pages/topics?{query}")).status == 400


async def test_who_has_a_list_already_keeps_it(root: Api) -> None:
    topic = await root.create_topic("etags")
    for path in ("/streams", "/streams/etags", "/streams/etags/topics", topic, "/users", f"{topic}/consumer-groups"):
        first = await root("GET", path)
        tag = first.headers["ETag"]
        again = await root("GET", path, headers={"If-None-Match": tag})
        assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag), path
        assert (await root("GET", path, headers={"If-None-Match": '"other"'})).body == first.body
    tag = (await root("GET", topic)).headers["ETag"]
    await root.ok("POST", f"{topic}/messages", batch(b"new"))
    # Counts are part of the response: a new message changes the tag.
    assert (await root("GET", topic, headers={"If-None-Match": tag})).status == 200
