"""Sending and reading messages (GW-4, LOG-9)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.apis.http.api import PROBLEM, Api, b64, batch, payloads

HEADER = {"key": {"kind": "string", "value": b64(b"key")}, "value": {"kind": "uint32", "value": "KgAAAA=="}}


async def test_what_is_sent_is_read(root: Api) -> None:
    topic = await root.create_topic("sent", partitions=2)
    body = batch(b"hello", b"world", partition=1)
    body["messages"][0] |= {"id": "af362865-042c-4000-8000-0000000000ff", "user_headers": [HEADER]}
    body["messages"][1] |= {"id": str(2**128 - 1)}
    answer = await root("POST", f"{topic}/messages", body)
    assert (answer.status, answer.body) == (201, b"")
    polled = await root.ok("GET", f"{topic}/messages?partition_id=1")
    assert (polled["partition_id"], polled["current_offset"], polled["count"]) == (1, 1, 2)
    first, second = polled["messages"]
    assert first["user_headers"] == [HEADER]
    assert first["header"]["id"] == 0xAF362865_042C_4000_8000_0000000000FF
    assert second["header"]["id"] == 2**128 - 1
    assert second["user_headers"] == []
    header = second["header"]
    assert (header["offset"], header["payload_length"], header["user_headers_length"], header["reserved"]) == (
        1,
        5,
        0,
        0,
    )
    assert header["timestamp"] >= header["origin_timestamp"] > 10**15
    assert header["checksum"] > 0
    assert payloads(polled) == [b"hello", b"world"]
    as_text = await root.ok("GET", f"{topic}/messages?partition_id=1&numbers=text")
    assert as_text["messages"][1]["header"]["id"] == str(2**128 - 1)
    assert (await root.ok("GET", f"{topic}/messages"))["count"] == 0


async def test_a_text_is_searched_in_bounded_steps(root: Api) -> None:
    topic = await root.create_topic("searched", partitions=2)
    body = batch(*(b"order %d" % number for number in range(10)), b"GR\xc3\x9cN \x00", partition=1)
    body["messages"][3]["user_headers"] = [{"key": HEADER["key"], "value": {"kind": "string", "value": b64(b"Berlin")}}]
    await root.ok("POST", f"{topic}/messages", body)

    async def search(text: str, **more: int) -> dict[str, Any]:
        query = "&".join(f"{name}={value}" for name, value in {"text": text, "partition_id": 1, **more}.items())
        found: dict[str, Any] = await root.ok("GET", f"{topic}/messages/search?{query}")
        return found

    every = {"partition_id": 1, "scanned": 11, "next_offset": 11}
    assert await search("ORDER%207") == every | {"offsets": [7]}
    assert await search("berlin") == every | {"offsets": [3]}
    assert await search("gr%C3%9Cn") == every | {"offsets": [10]}
    assert await search("nowhere") == every | {"offsets": []}
    assert await search("order", offset=8, count=2) == every | {"scanned": 2, "offsets": [8, 9], "next_offset": 10}
    assert await search("order", offset=11) == every | {"scanned": 0, "offsets": [], "next_offset": None}
    assert (await search("order", partition_id=0))["scanned"] == 0
    assert (await root("GET", f"{topic}/messages/search")).status == 400
    assert (await root("GET", f"{topic}/messages/search?text=a&count=0")).status == 400
    assert (await root("GET", f"{topic}/messages/search?text=a&partition_id=9")).code == 3007


async def test_partitionings(root: Api) -> None:
    topic = await root.create_topic("parted", partitions=4)
    for _ in range(8):
        await root.ok("POST", f"{topic}/messages", batch(b"x"))
        await root.ok("POST", f"{topic}/messages", batch(b"k", key=b"key"))
    counts = [partition["messages_count"] for partition in (await root.ok("GET", topic))["partitions"]]
    assert sorted(counts) == [2, 2, 2, 10]
    with_none = (await root.create_topic("unparted", partitions=0)) + "/messages"
    assert 400 <= (await root("POST", with_none, batch(b"x"))).status <= 404
    assert (await root("POST", f"{topic}/messages", batch(b"x", partition=9))).code == 3007


async def test_ways_of_reading(root: Api) -> None:
    topic = await root.create_topic("read")
    await root.ok("POST", f"{topic}/messages", batch(*(b"%d" % number for number in range(9))))
    path = f"{topic}/messages"
    first = await root.ok("GET", f"{path}?kind=offset&value=3&count=2")
    assert payloads(first) == [b"3", b"4"]
    timestamp = first["messages"][0]["header"]["timestamp"]
    assert payloads(await root.ok("GET", f"{path}?kind=timestamp&value={timestamp}&count=1")) == [b"0"]
    assert payloads(await root.ok("GET", f"{path}?kind=first&count=1")) == [b"0"]
    assert payloads(await root.ok("GET", f"{path}?kind=last&count=2")) == [b"7", b"8"]
    for expected in ([b"0", b"1", b"2"], [b"3", b"4", b"5"]):
        polled = await root.ok("GET", f"{path}?kind=next&count=3&auto_commit=true&consumer_id=me")
        assert payloads(polled) == expected
    assert payloads(await root.ok("GET", f"{path}?kind=next&count=1&consumer_id=you")) == [b"0"]
    for query in (
        "kind=never",
        "count=-1",
        "count=x",
        "partition_id=4294967296",
        f"value={2**64}",
        "auto_commit=maybe",
    ):
        assert (await root("GET", f"{path}?{query}")).status == 400, query


@pytest.mark.parametrize("wait", ["", "&wait_ms=2000"])
async def test_polls_of_one_consumer_at_the_same_time_share_the_messages(root: Api, wait: str) -> None:
    """No message is in two answers, and the stored offset is that of the last one."""
    topic = await root.create_topic(f"at-once{len(wait)}")
    path = f"{topic}/messages?kind=next&auto_commit=true&consumer_id=me{wait}"
    polls = [asyncio.ensure_future(root.ok("GET", f"{path}&count={2 + number % 3}")) for number in range(8)]
    if not wait:
        await asyncio.wait(polls)
        assert all(payloads(poll.result()) == [] for poll in polls)
    numbers = [b"%d" % number for number in range(24)]
    await root.ok("POST", f"{topic}/messages", batch(*numbers))
    if not wait:
        polls = [asyncio.ensure_future(root.ok("GET", f"{path}&count={2 + number % 3}")) for number in range(8)]
    found = [payload for polled in await asyncio.gather(*polls) for payload in payloads(polled)]
    assert sorted(found, key=int) == numbers[: len(found)]
    assert len(found) == sum(2 + number % 3 for number in range(8)) == 23
    stored = await root.ok("GET", f"{topic}/consumer-offsets?consumer_id=me&partition_id=0")
    assert stored["stored_offset"] == 22


async def test_lines_and_bytes(root: Api) -> None:
    topic = await root.create_topic("forms", partitions=3)
    path = f"{topic}/messages"
    lines = b'{"a": 1}\n\n[2]\n"three"'
    for query, body, media_type in (
        ("?partition_id=0", lines, "application/x-ndjson"),
        ("?key=k%C3%A4y", b'{"keyed": true}', "application/x-ndjson"),
        ("?partition_id=1", bytes(range(256)), "application/octet-stream"),
    ):
        answer = await root("POST", path + query, raw=body, headers={"Content-Type": media_type})
        assert (answer.status, answer.body) == (201, b"")
    assert payloads(await root.ok("GET", f"{path}?partition_id=0"))[:3] == [b'{"a": 1}', b"[2]", b'"three"']
    assert payloads(await root.ok("GET", f"{path}?partition_id=1"))[0] == bytes(range(256))
    headers = {"Content-Type": "application/x-ndjson"}
    assert (await root("POST", path, raw=b"{}\nnot json", headers=headers)).status == 400
    assert (await root("POST", path, raw=b"\n", headers=headers)).code == 4009
    assert (await root("POST", f"{path}?key=a&partition_id=1", raw=b"{}", headers=headers)).status == 400
    assert (await root("POST", path, raw=b"", headers={"Content-Type": "application/octet-stream"})).code == 4025
    assert (await root("POST", path, raw=b"x", headers={"Content-Type": "text/plain"})).status == 415


async def test_a_key_appends_once(root: Api) -> None:
    topic = await root.create_topic("once")
    path = f"{topic}/messages"

    async def send(payload: bytes, key: str) -> tuple[int, str | None]:
        answer = await root("POST", path, batch(payload), headers={"Idempotency-Key": key})
        return answer.status, answer.headers.get("Idempotent-Replayed")

    assert await send(b"one", "k1") == (201, None)
    assert await send(b"one", "k1") == (201, "true")
    assert await send(b"two", "k1") == (422, None)
    answers = await asyncio.gather(*(send(b"three", "k2") for _ in range(10)))
    assert sorted(answers, key=str) == [(201, "true")] * 9 + [(201, None)]
    assert payloads(await root.ok("GET", path)) == [b"one", b"three"]
    assert (await root("POST", path, batch(b"x"), headers={"Idempotency-Key": "k" * 256})).status == 400
    # A refused batch is not appended: its idempotency key stays unused.
    wrong = batch(b"four", partition=7)
    assert (await root("POST", path, wrong, headers={"Idempotency-Key": "k3"})).status == 404
    assert await send(b"four", "k3") == (201, None)


async def test_a_large_batch(root: Api) -> None:
    """The limit of the body is 2 MB; a body within the limit is stored completely and can be read back."""
    path = (await root.create_topic("large")) + "/messages"
    sent = [bytes([number]) * 14_000 for number in range(100)]
    await root.ok("POST", path, batch(*sent))
    assert payloads(await root.ok("GET", f"{path}?count=1000")) == sent
    many = batch(*(b"x" for _ in range(40_000)))
    await root.ok("POST", path, many)
    polled = await root.ok("GET", f"{path}?value=100&count=1000000")
    assert polled["count"] == 10_000  # http.max_poll_count
    too_large = await root("POST", path, batch(b"x" * 1_600_000))
    assert too_large.status == 413


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("fsync", ["true", "false", "fsync=true", "fsync=false"])
async def test_flush(root: Api, method: str, fsync: str) -> None:
    if (await root("GET", "/streams/flushed")).status == 404:
        await root.create_topic("flushed")
    answer = await root(method, f"/streams/flushed/topics/t/messages/flush/0/{fsync}")
    assert (answer.status, answer.body) == (200, b"")


async def test_flush_refuses_other_words(root: Api) -> None:
    topic = await root.create_topic("unflushed")
    assert (await root("GET", f"{topic}/messages/flush/0/maybe")).status == 400
    assert (await root("GET", f"{topic}/messages/flush/x/true")).status == 400
    assert (await root("GET", f"{topic}/messages/flush/7/true")).code == 3007


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"messages": []}, 400, 4009),
        ({"messages": [{"payload": ""}]}, 400, 4025),
        ({"partitioning": {"kind": "messages_key", "value": ""}}, 400, 4028),
        (
            {"messages": [{"payload": "eA==", "user_headers": [{**HEADER, "key": {"kind": "raw", "value": ""}}]}]},
            400,
            4018,
        ),
        ({"messages": [{"payload": "no base64"}]}, 422, None),
        ({"messages": [{"payload": "eA==", "id": "no id"}]}, 422, None),
        ({"messages": [{}]}, 422, None),
        ({"more": 1}, 422, None),
    ],
)
async def test_refusals(root: Api, change: dict[str, object], status: int, code: int | None) -> None:
    if (await root("GET", "/streams/refused")).status == 404:
        await root.create_topic("refused")
    answer = await root("POST", "/streams/refused/topics/t/messages", batch(b"x") | change)
    assert answer.status == status
    if code is None:
        assert answer.headers["Content-Type"] == PROBLEM
        assert answer.code == status
        assert next(iter(change)) in answer.data["reason"]
    else:
        assert answer.code == code


@pytest.mark.parametrize(
    ("path", "unknown"),
    [
        (("messages", 1), "hedders"),
        (("messages", 1, "user_headers", 0), "kind"),
        (("messages", 1, "user_headers", 0, "value"), "type"),
        (("partitioning",), "partition"),
        ((), "msgs"),
    ],
)
async def test_an_unknown_field_is_refused_by_name(root: Api, path: tuple[str | int, ...], unknown: str) -> None:
    """No message of the batch is appended: headers under a wrong name would be lost silently (GW-9)."""
    stream = f"unknown-{unknown}-{len(path)}"
    topic = await root.create_topic(stream)
    body: Any = batch(b"one", b"two")
    body["messages"][1]["user_headers"] = [HEADER | {}]
    body = json.loads(json.dumps(body))
    place = body
    for step in path:
        place = place[step]
    place[unknown] = []
    answer = await root("POST", f"{topic}/messages", body)
    assert answer.status == 422
    assert f"unknown field `{unknown}`" in answer.data["reason"]
    assert (await root.ok("GET", f"{topic}/messages"))["count"] == 0


async def test_the_header_of_a_polled_message_may_be_sent_along(root: Api) -> None:
    """Existing clients send the header; it has no effect."""
    topic = await root.create_topic("forwarded")
    await root.ok("POST", f"{topic}/messages", batch(b"one"))
    (message,) = (await root.ok("GET", f"{topic}/messages"))["messages"]
    await root.ok("POST", f"{topic}/messages", {**batch(), "messages": [message]})
    assert payloads(await root.ok("GET", f"{topic}/messages")) == [b"one", b"one"]


async def test_an_offset_without_a_partition_is_that_of_the_first(root: Api) -> None:
    """Existing clients send null for the partition."""
    topic = await root.create_topic("nullable", partitions=2)
    await root.ok("POST", f"{topic}/messages", batch(b"one", b"two", partition=0))
    body = {"consumer_id": 1, "partition_id": None, "offset": 1}
    assert (await root("PUT", f"{topic}/consumer-offsets", body)).status == 204
    stored = await root.ok("GET", f"{topic}/consumer-offsets?consumer_id=1&partition_id=0")
    assert stored == {"partition_id": 0, "current_offset": 1, "stored_offset": 1}
    wrong = await root("PUT", f"{topic}/consumer-offsets", body | {"partition_id": "x"})
    assert (wrong.status, wrong.code) == (422, 422)
