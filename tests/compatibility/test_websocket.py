"""The binary protocol over WebSocket: differences from TCP (GW-2)."""

from __future__ import annotations

import random
import signal
import struct

import pytest
import websockets.exceptions
from apache_iggy import IggyClient, PollingStrategy, SendMessage
from websockets.sync.client import connect as websocket_connect

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection, Reply, eventually
from tests.compatibility.protocol.websocket import (
    BINARY,
    CLOSE,
    CONTINUATION,
    FINAL,
    PING,
    PONG,
    TEXT,
    UPGRADE,
    HandMade,
    WebSocketConnection,
    hand_made,
    masked,
    open_websocket,
)
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME, ServerProcess

OK = Reply(Status.OK)
PING_REQUEST = frames.request(Code.PING)
PART = 0
"""First byte of a frame that is not the last of its message, without the opcode."""
MIB = 1 << 20
WEBSOCKET = 4
"""Transport code of WebSocket in client listings."""


@pytest.fixture
def address(shared_server: ServerProcess) -> str:
    """Address of the WebSocket listener."""
    return shared_server.websocket_address


# ---- upgrade


def test_any_path_and_offer(address: str) -> None:
    """The server ignores path and offers of the client; it accepts no extension and no sub-protocol."""
    for path in ("/", "/some/where?token=1"):
        with websocket_connect(
            f"ws://{address}{path}",
            subprotocols=None,
            additional_headers={"X-Anything": "x" * 4000},
            proxy=None,
        ) as websocket:
            assert websocket.response is not None
            assert "Sec-WebSocket-Extensions" not in websocket.response.headers
            assert "Sec-WebSocket-Protocol" not in websocket.response.headers
            websocket.send(PING_REQUEST)
            assert websocket.recv(10) == bytes(8)


REFUSED = {
    "no upgrade": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 426),
    "another version": (UPGRADE.replace(b"Version: 13", b"Version: 8"), 426),
    "a page in a browser": (UPGRADE[:-2] + b"Origin: https://elsewhere.example\r\n\r\n", 403),
    "another method": (UPGRADE.replace(b"GET", b"POST"), 405),
    "no key": (UPGRADE.replace(b"Sec-WebSocket-Key", b"Sec-Nothing"), 400),
    "a short key": (UPGRADE.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"AAAA"), 400),
    "HTTP/1.0": (UPGRADE.replace(b"HTTP/1.1", b"HTTP/1.0"), 505),
    "no HTTP": (frames.request(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD)), 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "a header without end": (UPGRADE[:-2] + b"X: " + b"x" * 20_000, 431),
}


@pytest.mark.parametrize(("request_bytes", "status"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_upgrade(address: str, request_bytes: bytes, status: int) -> None:
    """The response is an HTTP status with a readable reason, and the connection closes."""
    with HandMade(address) as connection:
        connection.write(request_bytes)
        answer = b""
        while data := connection.socket.recv(4096):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"Content-Length: %d" % len(body) in head
    assert body


def test_an_upgrade_byte_by_byte(address: str) -> None:
    """An upgrade may arrive byte by byte, with the first request directly behind it."""
    with HandMade(address) as connection:
        for byte in UPGRADE:
            connection.write(bytes([byte]))
        assert connection.until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
        assert connection.request(Code.PING) == OK
    with HandMade(address) as connection:
        connection.write(UPGRADE + masked(BINARY, PING_REQUEST))
        assert connection.until(b"\r\n\r\n").startswith(b"HTTP/1.1 101 ")
        assert connection.receive() == OK


@pytest.mark.long
def test_a_slow_upgrade(start_server: StartServer) -> None:
    """A client that sends no complete upgrade request in time gets a timeout response."""
    server = start_server({"WEBSOCKET_HANDSHAKE_TIMEOUT": "8 s"})
    with (
        HandMade(server.websocket_address) as silent,
        HandMade(server.websocket_address) as slow,
        hand_made(server.websocket_address) as quick,
    ):
        slow.write(UPGRADE[:50])
        for connection in (silent, slow):
            assert connection.until(b"\r\n\r\n").startswith(b"HTTP/1.1 408 ")
        assert quick.request(Code.PING) == OK


# ---- messages


def test_messages_and_frames_have_no_meaning(address: str, stream: str) -> None:
    """Boundaries are irrelevant: one request in several messages and fragments, several requests in one, pings and
    texts between them.
    """
    with hand_made(address) as connection:
        connection.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
        connection.create_topic(stream)
        generator = random.Random(7)
        bodies = [generator.randbytes(generator.choice((0, 1, 100, 5_000, 70_000)) + 1) for _ in range(40)]
        requests = b"".join(
            frames.request(Code.SEND_MESSAGES, frames.send(stream, "t", frames.to_partition(0), [frames.message(body)]))
            for body in bodies
        )
        at = pings = 0
        inside = False
        while at < len(requests):
            size = generator.choice((0, 1, 7, 126, 1_000, 65_536, 200_000))
            last = generator.random() < 0.5 or at + size >= len(requests)
            opcode = CONTINUATION if inside else BINARY
            connection.write(masked(opcode, requests[at : at + size], first=FINAL if last else PART))
            at, inside = at + size, not last
            if generator.random() < 0.3:
                connection.write(masked(PING, b"%d" % pings))
                pings += 1
            if not inside and generator.random() < 0.3:
                connection.write(masked(TEXT, "bedeutungslos, größer".encode()))
        answers = pongs = 0
        while answers < len(bodies) or pongs < pings:
            first, payload = connection.frame()
            if first == FINAL | PONG:
                assert payload == b"%d" % pongs
                pongs += 1
            else:
                assert (first, payload) == (FINAL | BINARY, bytes(8))
                answers += 1
        assert connection.poll(stream, "t", 0, Strategy.FIRST, count=100).payloads == bodies


@pytest.mark.parametrize("size", [16 * MIB, 60 * MIB])
def test_a_large_request_in_frames_of_the_limit(address: str, stream: str, size: int) -> None:
    """A frame may have 16 MiB: larger requests span several frames or several messages."""
    message = frames.message(random.Random(size).randbytes(size))
    payload = frames.send(stream, "t", frames.to_partition(0), [message])
    request = frames.request(Code.SEND_MESSAGES, payload)
    with WebSocketConnection.as_root(address) as root:
        root.create_topic(stream)
        pieces = [request[at : at + 16 * MIB] for at in range(0, len(request), 16 * MIB)]
        # The library sends a generator as one fragmented message.
        root.websocket.send(iter(pieces))
        assert root.receive() == OK
        for piece in pieces:
            root.write(piece)
        assert root.receive() == OK
        polled = root.poll(stream, "t", 0, Strategy.FIRST, count=1)
        assert polled.payloads == [message[64:]]
        assert root.stored_offset(stream, "t", 0) is None


@pytest.mark.parametrize("listener", ["tcp", "websocket"])
def test_memory_after_large_requests(start_server: StartServer, stream: str, listener: str) -> None:
    """Memory of the peak returns to the system; the idle time is shortened for the test."""
    server = start_server({"SYSTEM_MEMORY_POOL_IDLE_TIME": "200 ms"})
    kind: type[RawConnection] = WebSocketConnection if listener == "websocket" else RawConnection
    address = server.websocket_address if listener == "websocket" else server.address
    with kind.as_root(address) as first, kind.as_root(address) as second:
        first.create_topic(stream)
        before = server.memory_bytes()
        for size in (16 * MIB, 60 * MIB):
            payload = frames.send(stream, "t", frames.to_partition(0), [frames.message(bytes(size))])
            request = frames.request(Code.SEND_MESSAGES, payload)
            pieces = [request[at : at + 16 * MIB] for at in range(0, len(request), 16 * MIB)]
            # Send the first part of both before the end of either, so that both need memory at the same time.
            for half in (pieces[:-1], pieces[-1:]):
                for connection in (first, second):
                    for piece in half:
                        connection.write(piece)
            for connection in (first, second):
                assert connection.receive() == OK
        eventually("the memory of before", lambda: server.memory_bytes() - before < 48 * MIB)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (masked(BINARY, PING_REQUEST, first=FINAL | 0x40), 1002),
        (masked(3), 1002),
        (masked(15), 1002),
        (bytes([FINAL | BINARY, 8]) + PING_REQUEST, 1002),
        (masked(PING, first=PART), 1002),
        (masked(PING, bytes(126)), 1002),
        (masked(CONTINUATION, PING_REQUEST), 1002),
        (masked(BINARY, b"x", first=PART) + masked(BINARY, b"y"), 1002),
        (masked(CLOSE, b"\x03"), 1002),
        (masked(CLOSE, struct.pack(">H", 1005)), 1002),
        (masked(CLOSE, struct.pack(">H", 1000) + b"\xff"), 1007),
        (masked(TEXT, b"\xc3\x28"), 1007),
        (masked(TEXT, b"\xf4\x90", first=PART), 1007),
        (struct.pack(">BBQ", FINAL | BINARY, 0xFF, 16 * MIB + 1) + bytes(4), 1009),
        (struct.pack(">BBQ", FINAL | BINARY, 0xFF, 1 << 63) + bytes(4), 1002),
    ],
)
def test_violations(address: str, data: bytes, code: int) -> None:
    """Requests before the violation are answered; then the server sends a close frame with the reason and closes."""
    with hand_made(address) as connection:
        connection.send_frame(Code.PING)
        connection.write(data)
        assert connection.receive() == OK
        assert connection.close_code() == code


def test_limits_of_frames_and_messages(start_server: StartServer) -> None:
    """Configured limits of frames and messages are enforced; requests may be larger than either."""
    server = start_server({"WEBSOCKET_MAX_FRAME_SIZE": "64 KiB", "WEBSOCKET_MAX_MESSAGE_SIZE": "100 KiB"})
    login = masked(BINARY, frames.request(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD)))
    padded = frames.request(Code.PING, bytes(200_000))
    with hand_made(server.websocket_address) as connection:
        connection.write(login)
        assert connection.receive().status == Status.OK
        for at in range(0, len(padded), 65_536):
            connection.write(masked(BINARY, padded[at : at + 65_536]))
        assert connection.receive() == OK
        connection.write(masked(BINARY, bytes(65_537)))
        assert connection.close_code() == 1009
    with hand_made(server.websocket_address) as connection:
        connection.write(login)
        assert connection.receive().status == Status.OK
        connection.write(masked(BINARY, padded[:65_536], first=PART))
        connection.write(masked(CONTINUATION, padded[65_536:131_072]))
        assert connection.close_code() == 1009


# ---- close


def test_closing(address: str) -> None:
    """The server echoes the peer's close code after the responses to all earlier requests."""
    with hand_made(address) as connection:
        connection.write(masked(BINARY, PING_REQUEST * 3) + masked(CLOSE, struct.pack(">H", 4000) + b"done"))
        assert [connection.receive() for _ in range(3)] == [OK] * 3
        assert connection.close_code() == 4000
    with hand_made(address) as connection:
        connection.write(masked(CLOSE))
        assert connection.close_code() is None
    with open_websocket(address) as websocket:
        websocket.close(1001, "leaving")
        assert websocket.protocol.close_rcvd is not None
        assert websocket.protocol.close_rcvd.code == 1001


def test_shutdown(start_server: StartServer) -> None:
    """Idle and busy clients receive status 8 as a message, a close frame, and the end of the connection."""
    server = start_server()
    with (
        WebSocketConnection.as_root(server.websocket_address) as idle,
        HandMade(server.websocket_address) as young,
    ):
        server.process.send_signal(signal.SIGTERM)
        assert idle.receive() == Reply(Status.DISCONNECTED)
        with pytest.raises(ConnectionClosed) as closed:
            idle.receive()
        cause = closed.value.__cause__
        assert isinstance(cause, websockets.exceptions.ConnectionClosed)
        assert cause.rcvd is not None
        assert cause.rcvd.code == 1001
        assert young.until(b"\r\n\r\n").startswith(b"HTTP/1.1 503 ")
    assert server.wait(30) == 0


# ---- integration with the server


def test_client_listings(address: str) -> None:
    """Listings show the transport of each client."""
    with WebSocketConnection.as_root(address) as root:
        reader = Reader(root.ok(Code.GET_ME))
        _client, _user, transport = reader.take("IIB")
        assert transport == WEBSOCKET
        host, port = root.websocket.local_address[:2]
        assert reader.str32() == f"{host}:{port}"


def test_no_listener(start_server: StartServer) -> None:
    """The listener can be switched off."""
    server = start_server({"WEBSOCKET_ENABLED": "false"})
    with RawConnection.as_root(server.address) as root:
        assert root.is_alive()
    assert "websocket   not listening" in server.log.read_text()


def test_a_message_is_the_same_by_either_listener(shared_server: ServerProcess, address: str, stream: str) -> None:
    """Messages sent over one transport are read over the other, on any shard; a connection that moves between shards
    stays a WebSocket.
    """
    with WebSocketConnection.as_root(address) as websocket, RawConnection.as_root(shared_server.address) as plain:
        plain.create_topic(stream, partitions=8)
        for partition in range(8):
            for number in range(40):
                websocket.send(stream, "t", partition, b"%d" % number)
            expected = [b"%d" % number for number in range(40)]
            assert plain.poll(stream, "t", partition, Strategy.FIRST).payloads == expected
            assert websocket.poll(stream, "t", partition, Strategy.FIRST).payloads == expected


def test_pings_without_answers(server: ServerProcess) -> None:
    """The server stops reading from a peer that does not read its pongs, and keeps little memory for them."""
    before = server.memory_bytes()
    with hand_made(server.websocket_address) as deaf, hand_made(server.websocket_address) as other:
        deaf.socket.settimeout(1)
        with pytest.raises(TimeoutError):
            deaf.write(masked(PING, bytes(125)) * 1_000_000)
        assert other.request(Code.PING) == OK
        assert server.memory_bytes() - before < 32_000_000


@pytest.mark.long
def test_pings_are_no_heartbeats(start_server: StartServer) -> None:
    """WebSocket pings do not count as heartbeats: a client that sends nothing else becomes stale."""
    server = start_server({"HEARTBEAT_ENABLED": "true", "HEARTBEAT_INTERVAL": "6 s"})
    with hand_made(server.websocket_address) as silent, RawConnection.as_root(server.address) as living:
        host, port = silent.socket.getsockname()

        def is_alone() -> bool:
            assert living.is_alive()
            silent.write(masked(PING))
            return f"{host}:{port}".encode() not in living.ok(Code.GET_CLIENTS)

        assert not is_alone()
        eventually("the end of the silent one", is_alone)
        assert silent.socket.recv(2)[0] == 0x80 | PONG, "its connection goes on"


async def test_the_official_client(shared_server: ServerProcess, address: str, stream: str) -> None:
    """The official client connects by its connection string; its other features are tested over TCP."""
    client = IggyClient.from_connection_string(f"iggy+ws://{USERNAME}:{PASSWORD}@{address}")
    await client.connect()
    await client.create_stream(stream)
    await client.create_topic(stream, "t", 1)
    texts = [b"x" * size for size in (1, 1_000, 100_000, 5 * MIB)]
    for text in texts:
        await client.send_messages(stream, "t", 0, [SendMessage(text)])
    polled = await client.poll_messages(stream, "t", 0, PollingStrategy.First(), 10, auto_commit=True)
    assert [message.payload() for message in polled] == texts
    with RawConnection.as_root(shared_server.address) as root:
        assert root.poll(stream, "t", 0, Strategy.FIRST).payloads == texts
