"""Messages through the gRPC API (GW-6), alongside the binary protocol on the same partitions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace_core import Client
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, status_of
from tests.server_process import PASSWORD, USERNAME, ServerProcess


@pytest.fixture
def topic(root: GrpcCaller, stream: str) -> dict[str, v1.Identifier]:
    """A topic with two partitions, as an identifier for requests."""
    root.catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    named = {"stream": v1.Identifier(name=stream), "topic": v1.Identifier(name="t")}
    settings = v1.TopicSettings(name="t")
    root.catalog.CreateTopic(v1.CreateTopicRequest(stream=named["stream"], settings=settings, partitions_count=2))
    return named


def to(partition: int) -> v1.Partitioning:
    return v1.Partitioning(partition_id=partition)


def first(partition: int = 0, count: int = 0) -> dict[str, object]:
    return {"partition_id": partition, "start": v1.Start(first=v1.Start.First()), "count": count}


def refusal(call, request) -> tuple[grpc.StatusCode, int]:
    with pytest.raises(grpc.RpcError) as raised:
        call(request)
    return status_of(raised.value)


def test_what_was_produced_is_polled(root: GrpcCaller, topic: dict[str, v1.Identifier]) -> None:
    headers = [
        v1.Header(key=b"kind", value=b"test", key_kind=v1.HEADER_KIND_STRING, value_kind=v1.HEADER_KIND_STRING),
        v1.Header(key=b"n", value=(7).to_bytes(4, "little"), value_kind=v1.HEADER_KIND_UINT32),
    ]
    batch = [
        v1.NewMessage(payload=b"one", id=(5).to_bytes(16, "little"), headers=headers),
        v1.NewMessage(payload=b"two"),
    ]
    root.messages.Produce(v1.ProduceRequest(**topic, partitioning=to(1), messages=batch, origin_timestamp_micros=1234))
    polled = root.messages.Poll(v1.PollRequest(**topic, **first(1)))
    assert (polled.partition_id, polled.current_offset) == (1, 1)
    one, two = polled.messages
    assert [(message.offset, message.payload) for message in (one, two)] == [(0, b"one"), (1, b"two")]
    assert int.from_bytes(one.id, "little") == 5
    assert int.from_bytes(two.id, "little") > 0, "the server made one up"
    assert one.origin_timestamp_micros == 1234
    assert 0 < one.timestamp_micros <= two.timestamp_micros
    assert [(header.key, header.value) for header in one.headers] == [(b"kind", b"test"), (b"n", b"\x07\0\0\0")]
    assert one.headers[1].key_kind == v1.HEADER_KIND_RAW
    assert not two.headers
    assert not root.messages.Poll(v1.PollRequest(**topic, **first(0))).messages


def test_the_binary_protocol_sees_the_same(
    shared_server: ServerProcess, root: GrpcCaller, topic: dict[str, v1.Identifier], stream: str
) -> None:
    client = Client.connect(shared_server.address)
    client.login(USERNAME, PASSWORD)
    root.messages.Produce(v1.ProduceRequest(**topic, partitioning=to(0), messages=[v1.NewMessage(payload=b"g")]))
    client.send(stream, "t", [b"b"], partition=0)
    assert [m.payload for m in client.poll(stream, "t", 0, strategy="first").messages] == [b"g", b"b"]
    polled = root.messages.Poll(v1.PollRequest(**topic, **first()))
    assert [message.payload for message in polled.messages] == [b"g", b"b"]
    client.close()


def test_ways_to_begin(root: GrpcCaller, topic: dict[str, v1.Identifier]) -> None:
    batch = [v1.NewMessage(payload=bytes([n])) for n in range(10)]
    root.messages.Produce(v1.ProduceRequest(**topic, partitioning=to(0), messages=batch))

    def offsets(start: v1.Start | None, count: int = 3, **more: object) -> list[int]:
        request = v1.PollRequest(**topic, start=start, count=count, **more)
        return [message.offset for message in root.messages.Poll(request).messages]

    assert offsets(v1.Start(offset=4)) == [4, 5, 6]
    assert offsets(v1.Start(first=v1.Start.First())) == [0, 1, 2]
    assert offsets(v1.Start(last=v1.Start.Last())) == [7, 8, 9]
    stored = root.messages.Poll(v1.PollRequest(**topic, start=v1.Start(offset=5), count=1)).messages[0]
    assert offsets(v1.Start(timestamp_micros=stored.timestamp_micros))[0] <= 5
    assert offsets(None, auto_commit=True) == [0, 1, 2]
    assert offsets(v1.Start(stored=v1.Start.Stored())) == [3, 4, 5]


def test_offsets(root: GrpcCaller, topic: dict[str, v1.Identifier]) -> None:
    root.messages.Produce(v1.ProduceRequest(**topic, partitioning=to(0), messages=[v1.NewMessage(payload=b"x")] * 5))
    consumer = v1.Consumer(consumer=v1.Identifier(name="reader"))
    of_reader = {**topic, "consumer": consumer}
    assert refusal(root.messages.GetOffset, v1.GetOffsetRequest(**of_reader))[0] == grpc.StatusCode.NOT_FOUND
    root.messages.StoreOffset(v1.StoreOffsetRequest(**of_reader, offset=3))
    found = root.messages.GetOffset(v1.GetOffsetRequest(**of_reader))
    assert (found.stored_offset, found.current_offset) == (3, 4)
    root.messages.DeleteOffset(v1.DeleteOffsetRequest(**of_reader))
    assert refusal(root.messages.GetOffset, v1.GetOffsetRequest(**of_reader))[0] == grpc.StatusCode.NOT_FOUND
    assert refusal(root.messages.StoreOffset, v1.StoreOffsetRequest(**of_reader, offset=99)) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        Status.INVALID_OFFSET,
    )
    root.messages.Flush(v1.FlushRequest(**topic, sync=True))


def test_a_stream_of_batches_keeps_its_order(root: GrpcCaller, topic: dict[str, v1.Identifier]) -> None:
    def requests() -> Iterator[v1.ProduceRequest]:
        for number in range(300):
            yield v1.ProduceRequest(
                **topic, partitioning=to(0), messages=[v1.NewMessage(payload=str(number).encode())] * 3
            )

    assert sum(1 for _ in root.messages.ProduceStream(requests())) == 300
    polled = root.messages.Poll(v1.PollRequest(**topic, **first()))
    assert [message.payload for message in polled.messages] == [str(n // 3).encode() for n in range(900)]


def test_a_stream_ends_with_the_batch_that_is_refused(root: GrpcCaller, topic: dict[str, v1.Identifier]) -> None:
    """The preceding responses arrive, followed by the reason of the refusal (GW-9)."""
    good = v1.ProduceRequest(**topic, partitioning=to(0), messages=[v1.NewMessage(payload=b"x")])
    for bad, status in (
        (v1.ProduceRequest(**topic, partitioning=to(9), messages=good.messages), Status.PARTITION_NOT_FOUND),
        (v1.ProduceRequest(**topic, messages=[v1.NewMessage()]), Status.INVALID_MESSAGE_PAYLOAD_LENGTH),
        (v1.ProduceRequest(**topic), Status.INVALID_MESSAGES_COUNT),
    ):
        call = root.messages.ProduceStream(iter([good, good, bad]))
        assert [next(call), next(call)] == [v1.ProduceResponse()] * 2
        with pytest.raises(grpc.RpcError) as raised:
            next(call)
        assert status_of(raised.value)[1] == status


def test_a_caller_who_leaves_in_the_middle_disturbs_no_other_call(
    root: GrpcCaller, topic: dict[str, v1.Identifier]
) -> None:
    """A session with responses in flight is not reused for another call."""
    request = v1.ProduceRequest(**topic, partitioning=to(0), messages=[v1.NewMessage(payload=b"x" * 1000)] * 50)
    for _ in range(10):
        call = root.messages.ProduceStream(iter([request] * 200))
        next(call)
        call.cancel()
        with contextlib.suppress(grpc.RpcError):
            list(call)
        assert root.messages.Poll(v1.PollRequest(**topic, **first(count=1))).messages[0].offset == 0


def test_large_batches(root: GrpcCaller, topic: dict[str, v1.Identifier]) -> None:
    """A batch larger than one read of the session, and than the default limit of gRPC."""
    payload = bytes(range(256)) * 9_000
    root.messages.Produce(v1.ProduceRequest(**topic, partitioning=to(0), messages=[v1.NewMessage(payload=payload)] * 3))
    polled = root.messages.Poll(v1.PollRequest(**topic, **first()))
    assert [message.payload == payload for message in polled.messages] == [True] * 3


@pytest.mark.parametrize(
    ("request_of", "status"),
    [
        (
            lambda t: v1.ProduceRequest(topic=t["topic"], messages=[v1.NewMessage(payload=b"x")]),
            Status.INVALID_IDENTIFIER,
        ),
        (lambda t: v1.ProduceRequest(**t), Status.INVALID_MESSAGES_COUNT),
        (lambda t: v1.ProduceRequest(**t, messages=[v1.NewMessage(payload=b"x", id=b"short")]), Status.INVALID_FORMAT),
        (
            lambda t: v1.ProduceRequest(**t, messages=[v1.NewMessage(payload=b"x", headers=[v1.Header(key=b"k")])]),
            Status.INVALID_HEADER_VALUE,
        ),
        (
            lambda t: v1.ProduceRequest(
                **t, messages=[v1.NewMessage(payload=b"x", headers=[v1.Header(key=b"k", value=b"v", key_kind=99)])]
            ),
            Status.INVALID_HEADER_KIND,
        ),
    ],
)
def test_bad_batches(root: GrpcCaller, topic: dict[str, v1.Identifier], request_of, status: int) -> None:
    code, number = refusal(root.messages.Produce, request_of(topic))
    assert (code, number) == (grpc.StatusCode.INVALID_ARGUMENT, status)
    assert not root.messages.Poll(v1.PollRequest(**topic, **first())).messages, "nothing was appended"


@pytest.mark.parametrize(
    "path",
    ["Messages/Produce", "Messages/ProduceStream", "Subscriptions/Consume", "Subscriptions/Watch", "Login/Login"],
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(encoded=st.binary(max_size=200))
def test_any_bytes_are_answered(shared_server: ServerProcess, root: GrpcCaller, path: str, encoded: bytes) -> None:
    """Any request bytes are refused or executed, and the server keeps running."""
    assert root.token is not None
    with grpc.insecure_channel(shared_server.grpc_address) as channel:
        call = channel.stream_stream(f"/headrace.gateway.v1.{path}")
        with pytest.raises(grpc.RpcError) as raised:
            list(call(iter([encoded]), metadata=(("authorization", f"Bearer {root.token}"),), timeout=20))
    assert raised.value.code() in {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND}
    root.system.GetClusterMetadata(v1.GetClusterMetadataRequest())
