"""Authorization and limits of callers."""

import asyncio
import secrets
import ssl
import time
from contextlib import suppress

import grpc
import pytest
import trustme
from grpc import aio
from partition_world import (
    ELSEWHERE,
    MEBIBYTE,
    OTHER_TOPIC,
    PARTITIONS,
    STREAM,
    TOPIC,
    batch,
    messages_of,
    place,
    refused,
    running,
)

import headrace_core as core
from headrace_chassis.errors import CertificateError
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import (
    AppendRequest,
    DrainRequest,
    FetchRange,
    FetchRequest,
    GetOffsetsRequest,
    GetStatisticsRequest,
)


async def test_requests_that_do_not_begin_as_they_should(world):
    call = world.stub.Fetch(metadata=world.shown())
    await call.write(FetchRequest(credit_bytes=5))
    async with refused(Status.INVALID_COMMAND, grpc.StatusCode.INVALID_ARGUMENT):
        await call.read()
    call = world.stub.Append(metadata=world.shown())
    await call.write(AppendRequest(messages_count=1, batch=batch([b"whereto"])))
    async with refused(Status.INVALID_COMMAND, grpc.StatusCode.INVALID_ARGUMENT):
        await call.read()


async def test_what_is_elsewhere_or_nowhere_is_not_offered(world):
    async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
        await world.fetch(ELSEWHERE)
    async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
        await world.append(ELSEWHERE, [[b"x"]])
    async with refused(Status.PARTITION_NOT_FOUND, grpc.StatusCode.NOT_FOUND):
        await world.fetch(PARTITIONS)
    async with refused(Status.PARTITION_NOT_FOUND, grpc.StatusCode.NOT_FOUND):
        call = world.stub.Fetch(metadata=world.shown())
        await call.write(FetchRequest(range=FetchRange(place=place(0, incarnation=99))))
        await call.read()


@pytest.mark.parametrize(
    ("rights", "may_read", "may_write"),
    [
        ({}, True, True),
        ({"incarnation": 20}, True, True),
        ({"incarnation": 20, "write": False}, True, False),
        ({"incarnation": 20, "read": False}, False, True),
        ({"partition_id": 1, "incarnation": 101}, True, True),
        ({"partition_id": 1, "incarnation": 100}, False, False),
        ({"partition_id": 2, "incarnation": 102}, False, False),
        ({"incarnation": 19}, False, False),
        ({"topic_id": OTHER_TOPIC, "incarnation": 21}, False, False),
        ({"stream_id": STREAM + 1, "incarnation": 20}, False, False),
    ],
)
async def test_a_ticket_opens_what_it_says_and_nothing_else(world, rights, may_read, may_write):
    """A ticket for one namespace grants no access to another."""
    metadata = world.shown(**rights)
    for allowed, attempt in (
        (may_write, lambda: world.append(1, [[b"x"]], metadata)),
        (may_read, lambda: world.fetch(1, metadata)),
        (
            may_read,
            lambda: world.stub.GetOffsets(
                GetOffsetsRequest(stream_id=STREAM, topic_id=TOPIC, partition_ids=[1]), metadata=metadata
            ),
        ),
        (not rights, lambda: world.stub.GetStatistics(GetStatisticsRequest(), metadata=metadata)),
        (not rights, lambda: world.stub.Drain(DrainRequest(), metadata=metadata)),
    ):
        if allowed:
            await attempt()
        else:
            async with refused(Status.INVALID_TICKET, grpc.StatusCode.UNAUTHENTICATED):
                await attempt()


@pytest.mark.parametrize("ticket", ["expired", "foreign", "nonsense", "none", "two"])
async def test_nothing_is_answered_without_a_ticket_that_is_valid(world, ticket):
    """No port answers without credentials, and an expired ticket grants no access."""
    now = int(time.time())
    good = world.shown()
    metadata = {
        "expired": world.signed(now - 1),
        "foreign": (("headrace-ticket", core.TicketKey("another secret", "tests").sign("x", not_after=now + 9)),),
        "nonsense": (("headrace-ticket", "let me in"),),
        "none": (),
        "two": good + good,
    }[ticket]
    for call in (
        world.stub.GetOffsets(
            GetOffsetsRequest(stream_id=STREAM, topic_id=TOPIC, partition_ids=[1]), metadata=metadata
        ),
        world.stub.GetStatistics(GetStatisticsRequest(), metadata=metadata),
        world.stub.Drain(DrainRequest(), metadata=metadata),
    ):
        async with refused(Status.INVALID_TICKET, grpc.StatusCode.UNAUTHENTICATED):
            await call
    for stream in (world.stub.Fetch(metadata=metadata), world.stub.Append(metadata=metadata)):
        async with refused(Status.INVALID_TICKET, grpc.StatusCode.UNAUTHENTICATED):
            await stream.read()
    assert world.this_node.drained == []


async def test_memory_is_bounded_however_many_read(tmp_path):
    """Readers that do not read hold a bounded amount of memory, which is released when they disconnect."""
    async with running(tmp_path, memory_bytes=4 * MEBIBYTE, poll_bytes=MEBIBYTE) as world:
        await world.append(0, [[secrets.token_bytes(100_000)] * 20] * 10)
        calls = []
        for _ in range(20):
            call = world.stub.Fetch(metadata=world.shown())
            await call.write(FetchRequest(range=FetchRange(place=place(0))))
            calls.append(call)
        highest = 0
        async with asyncio.timeout(30):
            while not world.memory.used_bytes:
                await asyncio.sleep(0.001)
        for _ in range(50):
            highest = max(highest, world.memory.used_bytes)
            await asyncio.sleep(0.01)
        assert 0 < highest <= 4 * MEBIBYTE
        for call in calls[1:]:
            call.cancel()
        received = [message.offset for message in messages_of([response async for response in calls[0]])]
        assert received == list(range(200))
        async with asyncio.timeout(30):
            while world.memory.used_bytes or world.calls.count:
                await asyncio.sleep(0.01)


async def test_one_call_too_many_is_refused(tmp_path):
    async with running(tmp_path, calls_max=1) as world:
        call = world.stub.Append(metadata=world.shown())
        await call.write(AppendRequest(place=place(0), messages_count=1, batch=batch([b"x"])))
        await call.read()
        async with refused(Status.TOO_MANY_WAITS, grpc.StatusCode.UNAVAILABLE):
            await world.fetch(0)
        await call.done_writing()
        assert await call.read() is aio.EOF
        assert len(messages_of(await world.fetch(0))) == 1


@pytest.mark.parametrize("limit", ["memory", "calls"])
async def test_one_user_leaves_room_for_others(tmp_path, limit):
    """One user's calls, whose answers he does not read or which he leaves open, hold up no other user."""
    limits = {"memory": {"memory_bytes": 4 * MEBIBYTE, "poll_bytes": MEBIBYTE}, "calls": {"calls_max": 8}}
    async with running(tmp_path, **limits[limit]) as world:
        await world.append(0, [[secrets.token_bytes(100_000)] * 20] * 10)
        await world.append(1, [[b"x"]])
        unread = []
        for _ in range(20):
            call = world.stub.Fetch(metadata=world.shown(incarnation=20, issuer=(0, 0, 0)))
            unread.append(call)
            with suppress(asyncio.InvalidStateError, aio.AioRpcError):
                await call.write(FetchRequest(range=FetchRange(place=place(0), end_offset=10_000)))
        async with asyncio.timeout(30):
            while world.memory.used_bytes < 1.5 * MEBIBYTE if limit == "memory" else world.calls.count < 4:
                await asyncio.sleep(0.001)
        async with asyncio.timeout(10):
            assert len(messages_of(await world.fetch(1, end_offset=1))) == 1
            await world.append(1, [[b"y"]])
        for call in unread:
            call.cancel()


async def test_a_node_that_stops_ends_calls(tmp_path):
    async with running(tmp_path) as world:
        fetching = asyncio.create_task(world.fetch(0, end_offset=1))
        await asyncio.sleep(0.1)
        world.stop_calls()
        async with refused(Status.DISCONNECTED, grpc.StatusCode.UNAVAILABLE):
            await fetching


async def test_it_can_be_encrypted(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "certificate.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    files = (tmp_path / "certificate.pem", tmp_path / "key.pem")
    async with running(tmp_path / "data", certificate=files, trusted=authority.cert_pem.bytes()) as world:
        await world.append(0, [[b"secret"]])
        assert [message.payload for message in messages_of(await world.fetch(0))] == [b"secret"]


async def test_a_new_certificate_is_for_new_connections(tmp_path):
    authority = trustme.CA()
    chain, key = tmp_path / "certificate.pem", tmp_path / "key.pem"

    def renew():
        issued = authority.issue_cert("127.0.0.1")
        # Certificate and key do not match in between: this is reported, and the old pair stays in use.
        issued.private_key_pem.write_to_path(key)
        issued.cert_chain_pems[0].write_to_path(chain)
        return chain.read_text()

    def shown(address):
        host, _, port = str(address).rpartition(":")
        return ssl.get_server_certificate((host, int(port)))

    first = renew()
    async with running(tmp_path / "data", certificate=(chain, key), trusted=authority.cert_pem.bytes()) as world:
        assert await asyncio.to_thread(shown, world.address) == first
        await world.append(0, [[b"before"]])
        second = renew()
        async with asyncio.timeout(30):
            while await asyncio.to_thread(shown, world.address) != second:
                await asyncio.sleep(0.01)
        await world.append(0, [[b"after"]])
        assert [message.payload for message in messages_of(await world.fetch(0))] == [b"before", b"after"]


async def test_a_certificate_that_is_not_there_is_reported(tmp_path):
    with pytest.raises(CertificateError, match=r"tls: .*no\.pem"):
        async with running(tmp_path / "data", certificate=(tmp_path / "no.pem", tmp_path / "no.key")):
            pass
