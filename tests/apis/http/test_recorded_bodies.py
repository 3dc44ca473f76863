"""Requests of existing clients over HTTP in recorded order, with unchanged bodies.

Those of Java are from its package 0.8.0, those of Rust from the Python package 0.9.0.dev1, which is built from it, and
those of C# from the contracts in its source. Requests that the Python package does not make, and logins with a token,
whose text is filled in here, are from the sources of Rust and Java. The clients for Go and Node.js speak the binary
protocol alone.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.apis.http.api import Api, b64

RECORDED = Path(__file__).with_name("recorded_bodies.jsonl")
REQUESTS = [json.loads(line) for line in RECORDED.read_text(encoding="ascii").splitlines()]
CLIENTS = {client: list(requests) for client, requests in groupby(REQUESTS, key=lambda request: request["client"])}


async def replay(root: Api, requests: list[dict[str, Any]]) -> None:
    token = ""
    for request in requests:
        headers = {"Content-Type": "application/json"} if request["body"] else {}
        body = request["body"].replace("<token>", token)
        answer = await root(request["method"], request["path"], raw=body.encode(), headers=headers)
        assert answer.status == request["status"], (request, answer.body)
        if request["method"] == "POST" and request["path"] == "/personal-access-tokens":
            token = answer.data["token"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_what_existing_clients_send_is_accepted(root: Api, client: str) -> None:
    """Members that they send and that have no meaning here are known (GW-4)."""
    await replay(root, CLIENTS[client])


async def test_what_they_mean_is_done(root: Api) -> None:
    """Headers and consumers under the names of the C# client are stored, not ignored."""
    topic = "/streams/csharp/topics/orders"
    await replay(root, [request for request in CLIENTS["csharp"] if request["method"] != "DELETE"])
    polled = await root.ok("GET", f"{topic}/messages?partition_id=0&kind=first&count=10")
    of_second = [message["user_headers"] for message in polled["messages"] if message["payload"] == b64(b"two")]
    assert len(of_second) == 2
    assert all(len(headers) == 2 for headers in of_second)
    for consumer, offset in (("7", 1), ("billing", 2)):
        stored = await root.ok("GET", f"{topic}/consumer-offsets?consumer_id={consumer}&partition_id=0")
        assert stored["stored_offset"] == offset
    assert (await root.ok("GET", "/users/csharp-user-1"))["status"] == "inactive"
    await replay(root, [request for request in CLIENTS["csharp"] if request["method"] == "DELETE"])


@pytest.mark.parametrize(
    ("method", "path", "body", "unknown"),
    [
        ("PUT", "/consumer-offsets", {"consumr_id": 7, "offset": 0}, "consumr_id"),
        ("PUT", "", {"name": "topic", "mesage_expiry": 1}, "mesage_expiry"),
        ("POST", "/partitions", {"partitions_count": 1, "partition_count": 2}, "partition_count"),
        ("POST", "/consumer-groups", {"name": "g", "id": 1}, "id"),
    ],
)
async def test_a_misspelt_member_is_named(root: Api, method: str, path: str, body: Any, unknown: str) -> None:
    """Refused before anything is changed: what it says would be lost silently (GW-9)."""
    topic = await root.create_topic(f"misspelt-{unknown}")
    answer = await root(method, f"{topic}{path}", body)
    assert answer.status == 422
    assert f"unknown field `{unknown}`" in answer.data["reason"]


@pytest.mark.parametrize(
    ("consumer", "reason"),
    [
        ({"id": {"kind": "numeric", "value": b64(b"\x07")}}, "A number has 4 bytes, not 1"),
        ({"id": {"kind": "string", "value": ""}}, "1 to 255 bytes"),
        ({"id": {"kind": "numeric", "value": b64(bytes(4))}, "type": "consumer_group"}, "stored by its members"),
    ],
)
async def test_a_consumer_that_cannot_be_read_is_refused(root: Api, consumer: Any, reason: str) -> None:
    """The reason says what was expected."""
    topic = await root.create_topic(f"refused-{len(json.dumps(consumer))}")
    answer = await root("PUT", f"{topic}/consumer-offsets", {"consumer": consumer, "offset": 0})
    assert answer.status == 400
    assert reason in answer.data["reason"]
