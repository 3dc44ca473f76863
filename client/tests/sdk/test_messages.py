"""Payloads, headers and ids of all kinds, and every refusal."""

import math
import threading
import time
from collections.abc import Iterator
from enum import IntEnum
from types import MappingProxyType
from typing import Any

import pytest

import headrace
from headrace_embedded import Server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[headrace.Client]:
    with headrace.connect(server.address, username=server.username, password=server.password) as client:
        client.create_stream("messages")
        client.create_topic("messages", "t")
        yield client


@pytest.fixture(scope="module")
def producer(client: headrace.Client) -> Iterator[headrace.Producer]:
    with client.producer("messages", "t", linger=0) as producer:
        yield producer


def stored(client: headrace.Client, producer: headrace.Producer, **message: Any) -> headrace.Message:
    place = producer.send(b"payload", **message).result(60)
    assert place.offset is not None
    (found,) = client.read("messages", "t", start=place.offset, count=1)
    return found


@pytest.mark.parametrize(
    "value",
    ["text", "ü" * 127, b"\x00\xff", b"x" * 255, True, False, 0, -(2**63), 2**63 - 1, 0.5, -math.inf, 1e300],
    ids=repr,
)
def test_headers_of_every_kind_arrive_as_they_are(
    client: headrace.Client, producer: headrace.Producer, value: Any
) -> None:
    found = stored(client, producer, headers={"name": value, "other": 1})
    assert found.headers == {"name": value, "other": 1}
    assert found.headers is not None
    assert type(found.headers["name"]) is type(value)


def test_not_a_number_arrives(client: headrace.Client, producer: headrace.Producer) -> None:
    headers = stored(client, producer, headers={"nan": math.nan}).headers
    assert headers is not None
    assert math.isnan(headers["nan"])


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"": 1}, r"headers\[\"\"\]: names and values have 1 to 255 bytes"),
        ({"n" * 256: 1}, "names and values have 1 to 255 bytes"),
        ({"name": ""}, "names and values have 1 to 255 bytes"),
        ({"name": b""}, "names and values have 1 to 255 bytes"),
        ({"name": b"x" * 256}, "names and values have 1 to 255 bytes"),
        ({"name": 2**63}, r"headers\[.name.\]: the number needs more than 64 bits"),
        ({"name": -(2**63) - 1}, "the number needs more than 64 bits"),
        ({"name": None}, r"headers\[.name.\]: NoneType is none of str, bytes, bool, int and float"),
        ({"name": [1]}, "list is none of"),
        ({"name": bytearray(b"x")}, "bytearray is none of"),
        ({1: "x"}, "headers: names are texts"),
        ({b"name": "x"}, "headers: names are texts"),
        ({"headrace.key": b"k"}, "give it as `key`"),
        ({"headrace.key": "k"}, "give it as `key`"),
    ],
)
def test_headers_that_cannot_be_sent_are_refused(producer: headrace.Producer, headers: Any, problem: str) -> None:
    with pytest.raises(headrace.InvalidArgument, match=problem):
        producer.send(b"x", headers=headers)
    with pytest.raises(headrace.InvalidArgument, match=problem):
        producer.send_many([b"x"], headers=headers)


def test_keys_are_stored_with_the_message_unless_this_is_switched_off(
    client: headrace.Client, producer: headrace.Producer
) -> None:
    assert stored(client, producer, key="grün").key == "grün".encode()
    assert stored(client, producer, key=b"\x00", headers={"a": 1}).headers == {"a": 1}
    assert stored(client, producer).key is None
    with client.producer("messages", "t", store_key=False) as other:
        assert stored(client, other, key="grün").key is None
        with pytest.raises(headrace.InvalidArgument, match="key: the partition is given, and the key is not stored"):
            other.send(b"x", key="k", partition=0)


def test_ids_are_kept_and_drawn(client: headrace.Client, producer: headrace.Producer) -> None:
    for number in (1, 2**64, 2**128 - 1):
        assert stored(client, producer, message_id=number).id == number
    assert stored(client, producer).id != stored(client, producer).id != 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"message_id": -1}, "message_id: -1 is not a number of 128 bits"),
        ({"message_id": 2**128}, "message_id: .* is not a number of 128 bits"),
        ({"message_id": "1"}, "message_id: '1' is not a number"),
        ({"partition": -1}, "partition: -1 is no id of a partition"),
        ({"partition": 2**32}, "partition: 4294967296 is no id"),
        ({"partition": 1}, "partition 1"),
        ({"partition": "0"}, "partition: '0' is no id of a partition"),
        ({"key": ""}, "key: it has 0 bytes"),
        ({"key": 7}, "key: a int is neither"),
    ],
)
def test_arguments_that_mean_nothing_are_refused(producer: headrace.Producer, arguments: Any, problem: str) -> None:
    with pytest.raises(headrace.InvalidArgument, match=problem):
        producer.send(b"x", **arguments)
    if "message_id" not in arguments:
        with pytest.raises(headrace.InvalidArgument, match=problem):
            producer.send_many([b"x"], **arguments)


@pytest.mark.parametrize("payload", ["text", None, 7, ["x"]], ids=repr)
def test_payloads_are_bytes(producer: headrace.Producer, payload: Any) -> None:
    with pytest.raises(headrace.InvalidArgument, match=f"payload: a {type(payload).__name__} is not bytes"):
        producer.send(payload)
    with pytest.raises(headrace.InvalidArgument, match=f"payload: a {type(payload).__name__} is not bytes"):
        producer.send_many([b"x", payload])


@pytest.mark.parametrize("name", ["", "n" * 256, -1, 2**32, None], ids=repr)
def test_names_that_cannot_exist_are_refused(client: headrace.Client, name: Any) -> None:
    with pytest.raises(headrace.InvalidArgument, match="stream"):
        client.producer(name, "t")
    with pytest.raises(headrace.InvalidArgument, match="topic"):
        client.consumer("messages", name)
    with pytest.raises(headrace.InvalidArgument):
        client.stream(name)


def test_options_that_exclude_each_other_are_refused(client: headrace.Client) -> None:
    for arguments in ({"name": "n"}, {"partitions": [0]}):
        with pytest.raises(headrace.InvalidArgument, match=r"group: .*name and partitions exclude it"):
            client.consumer("messages", "t", group="g", **arguments)  # type: ignore[arg-type]
    with pytest.raises(headrace.InvalidArgument, match="partitions: "):
        client.consumer("messages", "t", partitions=[])
    with pytest.raises(headrace.InvalidArgument, match="partitions: "):
        client.consumer("messages", "t", partitions=[-1])
    with pytest.raises(headrace.InvalidArgument, match="partitions: "):
        client.consumer("messages", "t", partitions=[0, 0])


class Text(str):
    """A text of a user's own type."""

    __slots__ = ()


class Place(IntEnum):
    """Partitions by name."""

    FIRST = 0


@pytest.mark.parametrize(
    ("message", "key", "headers"),
    [
        ({}, None, {}),
        ({"key": "ü"}, "ü".encode(), {}),
        ({"key": b"k" * 255, "headers": {"name": 1}}, b"k" * 255, {"name": 1}),
        ({"key": Text("k"), "partition": Place.FIRST}, b"k", {}),
        ({"headers": MappingProxyType({"name": Text("x")}), "partition": False}, None, {"name": "x"}),
        ({"headers": {}, "message_id": True, "timeout": 10}, None, {}),
    ],
    ids=repr,
)
def test_values_of_all_types_are_sent(
    client: headrace.Client, producer: headrace.Producer, message: dict[str, Any], key: bytes | None, headers: Any
) -> None:
    found = stored(client, producer, **message)
    assert (found.payload, found.key, found.headers) == (b"payload", key, headers)
    assert found.id == 1 or "message_id" not in message


@pytest.mark.parametrize(
    ("payload", "message", "problem"),
    [
        ("text", {}, "payload: a str is not bytes"),
        (bytearray(b"x"), {}, "payload: a bytearray is not bytes"),
        (b"x", {"key": ""}, "key"),
        (b"x", {"key": "k" * 256}, "key"),
        (b"x", {"key": "\ud800"}, "key"),
        (b"x", {"key": 7}, "key: a int is neither bytes nor text"),
        (b"x", {"partition": -1}, "partition: -1 is no id"),
        (b"x", {"partition": 1.0}, "partition: 1.0 is no id"),
        (b"x", {"partition": 1}, "the topic has 1 partitions, and no partition 1"),
        (b"x", {"message_id": 2**128}, "message_id"),
    ],
    ids=repr,
)
def test_values_that_cannot_be_sent_are_refused(
    producer: headrace.Producer, payload: Any, message: dict[str, Any], problem: str
) -> None:
    with pytest.raises(headrace.InvalidArgument, match=problem):
        producer.send(payload, **message)


@pytest.mark.parametrize(("arguments", "named"), [((), {}), ((b"x", 0), {}), ((b"x",), {"topic": "t"})])
def test_calls_with_other_arguments_are_type_errors(producer: Any, arguments: Any, named: Any) -> None:
    with pytest.raises(TypeError):
        producer.send(*arguments, **named)


def test_a_message_is_handed_over_without_python(producer: headrace.Producer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(producer), "_send_in_python", None)
    delivery = producer.send(b"payload", key="k", headers={"name": 1})
    assert isinstance(delivery, headrace.Delivery)
    assert delivery.result(60).partition_id == 0


def test_places_are_right_if_another_thread_sends_meanwhile(client: headrace.Client) -> None:
    payloads = [b"%d" % number for number in range(9_000)]
    is_over = threading.Event()
    with client.producer("messages", "t", linger=0.2) as producer:

        def send_others() -> None:
            while not is_over.is_set():
                producer.send(b"other", partition=0)
                time.sleep(0)  # The first thread goes on.

        other = threading.Thread(target=send_others)
        other.start()
        try:
            sent = [producer.send_many(payloads, partition=0) for _ in range(3)]
        finally:
            is_over.set()
            other.join()
        for deliveries in sent:
            found: list[bytes] = []
            for place, count in deliveries.result(60):
                assert place.offset is not None
                read = client.read("messages", "t", start=place.offset, count=count)
                found += [bytes(message.payload) for message in read]
            assert found == payloads


def test_several_batches_have_the_whole_timeout(client: headrace.Client) -> None:
    with client.producer("messages", "t", linger=0, batch_messages=1) as producer:
        for _ in range(50):
            deliveries = producer.send_many([b"1", b"2"], partition=0)
            begin = time.monotonic()
            try:
                assert len(deliveries.result(0.09)) == 2
            except headrace.DeadlineExceeded:
                # A machine may be that slow.
                waited = time.monotonic() - begin
                assert waited > 0.089
