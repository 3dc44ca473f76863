"""The binary protocol over QUIC, as an independent client meets it (GW-3)."""

from __future__ import annotations

import asyncio
import struct

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import polled
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.long_poll import watch
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.conftest import StartServer
from tests.encryption.quic_caller import QuicCaller, calling
from tests.encryption.test_tls import clients
from tests.server_process import ServerProcess

QUIC_TRANSPORT = 2
CONTROL_PAYLOAD_BYTES_MAX = 10 << 20


async def topic(caller: QuicCaller, stream: str) -> None:
    await caller.log_in()
    await caller.ok(Code.CREATE_STREAM, frames.name(stream))
    await caller.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t", 1))


def sending(stream: str, *payloads: bytes) -> bytes:
    return frames.send(stream, "t", frames.to_partition(0), [frames.message(payload) for payload in payloads])


def polling(stream: str, count: int = 100, offset: int = 0) -> bytes:
    return frames.poll(stream, "t", 0, Strategy.OFFSET, offset, count, auto_commit=False, who=frames.consumer(1))


async def test_streams_share_the_session_of_their_connection(shared_server: ServerProcess) -> None:
    """A login on one stream holds for the next ones, and not for another connection; listed as transport 2."""
    async with calling(shared_server.quic_address) as caller, calling(shared_server.quic_address) as unauthenticated:
        assert await caller.request(Code.PING) == Reply(Status.OK)
        assert (await caller.request(Code.GET_STREAMS)).status == Status.UNAUTHENTICATED
        await topic(caller, "shared")
        assert (await unauthenticated.request(Code.GET_STREAMS)).status == Status.UNAUTHENTICATED
        with RawConnection.as_root(shared_server.address) as watcher:
            assert (QUIC_TRANSPORT, caller.local_address) in clients(watcher)
        payloads = [bytes([number]) * size for number, size in enumerate([1, 100, 17_000, 6 << 20])]
        for payload in payloads:
            await caller.ok(Code.SEND_MESSAGES, sending("shared", payload))
        answer = polled(await caller.ok(Code.POLL_MESSAGES, polling("shared")))
        assert [message.payload for message in answer.messages] == payloads
        await caller.ok(Code.LOGOUT_USER)
        assert (await caller.request(Code.GET_STREAMS)).status == Status.UNAUTHENTICATED


async def test_streams_share_the_request_for_offsets(shared_server: ServerProcess) -> None:
    async with calling(shared_server.quic_address) as caller, calling(shared_server.quic_address) as other:
        await topic(caller, "places")
        await other.log_in()
        await caller.ok(Code.REPORT_OFFSETS)
        for offset in (0, 3):
            place = await caller.ok(Code.SEND_MESSAGES, sending("places", b"1", b"2"))
            assert place == frames.u32(0) + frames.u64(offset)
            assert await other.ok(Code.SEND_MESSAGES, sending("places", b"3")) == b""


async def test_every_stream_gets_its_own_answer(shared_server: ServerProcess) -> None:
    """Hundreds of concurrent requests, small and large, valid and invalid, are answered in any order."""
    async with calling(shared_server.quic_address) as caller:
        await topic(caller, "many")
        sizes = [1 + (number * 7919) % 40_000 for number in range(100)]
        for size in sizes:
            await caller.ok(Code.SEND_MESSAGES, sending("many", bytes([size % 251]) * size))

        async def check(number: int) -> None:
            offset = number % len(sizes)
            if number % 5 == 4:
                reply = await caller.request(Code.GET_STREAM, frames.ident(f"nothing {number}"))
                assert reply == Reply(Status.OK)
                return
            answer = polled(await caller.ok(Code.POLL_MESSAGES, polling("many", 1, offset)))
            [message] = answer.messages
            assert message.payload == bytes([sizes[offset] % 251]) * sizes[offset]

        await asyncio.gather(*(check(number) for number in range(500)))


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"\x04\0\0", b""),
        (struct.pack("<II", 3, Code.PING), b""),
        (struct.pack("<II", 0, Code.PING), b""),
        (frames.request(9999), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        (frames.request(9999, bytes(1000)), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        # The announced bytes are never sent, and the server does not wait for them.
        (struct.pack("<II", 0xFFFF_FFFF, 9999), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        (struct.pack("<II", 5 + (10 << 20), Code.CREATE_STREAM), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        (struct.pack("<II", 4 + (512 << 20), Code.SEND_MESSAGES), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        (frames.request(Code.CREATE_STREAM), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        (frames.request(Code.CREATE_STREAM, b"\0"), struct.pack("<II", Status.INVALID_FORMAT, 0)),
        # Notifications belong to no stream.
        (frames.request(Code.WATCH_PARTITIONS, watch("s", [0])), struct.pack("<II", Status.INVALID_COMMAND, 0)),
        # Bytes after the frame are ignored.
        (frames.request(Code.PING) + b"more", bytes(8)),
        (frames.request(Code.PING, b"padding"), bytes(8)),
        # A request that ends early.
        (frames.request(Code.CREATE_STREAM, frames.name("broken off"))[:-1], b""),
    ],
)
async def test_bad_input_costs_its_stream_at_most(shared_server: ServerProcess, sent: bytes, answer: bytes) -> None:
    async with calling(shared_server.quic_address) as caller:
        await caller.log_in()
        assert await caller.exchange(sent) == answer
        assert await caller.request(Code.PING) == Reply(Status.OK)


async def test_a_stream_need_not_end_to_be_answered(shared_server: ServerProcess) -> None:
    async with calling(shared_server.quic_address) as caller:
        assert await caller.exchange(frames.request(Code.PING), end=False) == bytes(8)


async def test_little_is_kept_for_an_unauthenticated_client(shared_server: ServerProcess) -> None:
    """Without a login large requests are refused before they are received."""
    async with calling(shared_server.quic_address) as caller:
        for head in (
            struct.pack("<II", 4 + (1 << 20), Code.SEND_MESSAGES),
            struct.pack("<II", 4 + (1 << 20), Code.CREATE_STREAM),
        ):
            answer = await caller.exchange(head, end=False)
            assert answer == struct.pack("<II", Status.UNAUTHENTICATED, 0)


async def test_a_slow_request_delays_no_other(shared_server: ServerProcess) -> None:
    """A large batch that arrives in two halves, and one that never does, beside others of the same connection."""
    async with calling(shared_server.quic_address) as caller:
        await topic(caller, "slow")
        request = frames.request(Code.SEND_MESSAGES, sending("slow", bytes(2 << 20)))
        slow, never = caller.stream(), caller.stream()
        slow.send(request[: len(request) // 2])
        never.send(frames.request(Code.CREATE_STREAM, frames.name("never"))[:12])
        for number in range(50):
            await caller.ok(Code.SEND_MESSAGES, sending("slow", b"%d" % number))
        slow.send(request[len(request) // 2 :], end=True)
        assert await slow.answer() == bytes(8)
        answer = polled(await caller.ok(Code.POLL_MESSAGES, polling("slow")))
        assert [len(message.payload) for message in answer.messages][-1] == 2 << 20
        assert len(answer.messages) == 51


async def test_streams_that_are_given_up_leave_the_others_alone(shared_server: ServerProcess) -> None:
    async with calling(shared_server.quic_address) as caller:
        await topic(caller, "given up")
        await caller.ok(Code.SEND_MESSAGES, sending("given up", bytes(1 << 20)))
        for number in range(40):
            stream = caller.stream()
            request = frames.request(Code.POLL_MESSAGES, polling("given up"))
            in_the_middle = number % 2 == 1
            stream.send(request[:-1] if in_the_middle else request, end=not in_the_middle)
            stream.give_up(sending=in_the_middle)
        for _ in range(5):
            answer = polled(await caller.ok(Code.POLL_MESSAGES, polling("given up")))
            assert len(answer.messages) == 1


async def test_a_member_of_a_group_is_the_connection(shared_server: ServerProcess) -> None:
    """The membership is shared by all streams and ends with the connection."""
    group = frames.consumer("g", group=True)
    place = frames.ident("grouped") + frames.ident("t")
    poll = frames.poll("grouped", "t", None, Strategy.NEXT, 0, 10, auto_commit=True, who=group)
    async with calling(shared_server.quic_address) as other:
        await topic(other, "grouped")
        await other.ok(Code.CREATE_CONSUMER_GROUP, place + frames.name("g"))
        async with calling(shared_server.quic_address) as member:
            await member.log_in()
            await member.ok(Code.SEND_MESSAGES, sending("grouped", b"a", b"b"))
            await member.ok(Code.JOIN_CONSUMER_GROUP, place + frames.ident("g"))
            answer = polled(await member.ok(Code.POLL_MESSAGES, poll))
            assert [message.payload for message in answer.messages] == [b"a", b"b"]
            assert (await other.request(Code.POLL_MESSAGES, poll)).status == Status.GROUP_MEMBER_NOT_FOUND
        await other.ok(Code.JOIN_CONSUMER_GROUP, place + frames.ident("g"))


@pytest.mark.long
async def test_the_end_of_a_connection_is_the_end_of_its_session(start_server: StartServer) -> None:
    """A session ends with a close by the client, and with the idle timeout."""
    # Longer than a pause of the client that stays.
    settings = {"QUIC_MAX_IDLE_TIMEOUT": "8 s", "QUIC_KEEP_ALIVE_INTERVAL": "500 ms"}
    server = start_server(settings)
    with RawConnection.as_root(server.address) as watcher:
        async with calling(server.quic_address) as caller, calling(server.quic_address) as vanishing:
            for one in (caller, vanishing):
                assert await one.request(Code.PING) == Reply(Status.OK)
            assert len(clients(watcher)) == 3
            vanishing.vanish()
            async with asyncio.timeout(60):
                while len(clients(watcher)) == 3:
                    # The other client answers meanwhile.
                    await asyncio.sleep(0.05)
            # Kept alive beyond the timeout.
            assert await caller.request(Code.PING) == Reply(Status.OK)
        eventually("the end of its session", lambda: len(clients(watcher)) == 1)


async def test_a_server_that_stops_closes_its_connections(server: ServerProcess) -> None:
    """Pending requests are answered, and no client has to wait for a timeout (GW-10)."""
    async with calling(server.quic_address) as caller:
        await topic(caller, "s")
        asked = asyncio.ensure_future(caller.request(Code.SEND_MESSAGES, sending("s", b"last")))
        while not asked.done():
            await asyncio.sleep(0.001)
        stopping = asyncio.ensure_future(asyncio.to_thread(server.stop))
        await asyncio.wait_for(caller.wait_closed(), 20)
        assert await stopping == 0
        assert asked.result() == Reply(Status.OK)
        assert caller.terminated is not None
        assert caller.terminated.reason_phrase == "the session has ended"


async def test_it_can_be_turned_off(start_server: StartServer) -> None:
    server = start_server({"QUIC_ENABLED": "false"})
    eventually("the banner says so", lambda: "quic        not listening" in server.log_tail())
