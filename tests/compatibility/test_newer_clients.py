"""Clients of Iggy 0.9 and later, which frame the protocol in another way: they learn at once what is accepted."""

from __future__ import annotations

import struct
import time

import pytest

from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.compatibility.protocol.websocket import open_websocket
from tests.encryption.quic_caller import calling
from tests.server_process import ServerProcess

SECONDS_MAX = 5.0
"""An answer takes a millisecond; a client that gets none waits for ever. Between them is what a busy machine adds."""
CLIENT = bytes(range(1, 17))
ACCEPTED = 8 << 10
REPLY, EVICTION = 8, 13
INCOMPATIBLE = 14


def request(operation: int, code: int = 0, number: int = 1, body: bytes = b"") -> bytes:
    """A request as the client 0.9.0 sends it."""
    header = bytearray(256)
    struct.pack_into("<I8xB", header, 48, 256 + len(body), 5)
    struct.pack_into("<16s16x8xQB", header, 128, CLIENT, number, operation)
    struct.pack_into("<I", header, 196, code)
    return bytes(header) + body


PING = request(2, Code.PING)
LOGIN = request(1, number=0, body=b"\0\x2c\0\0\x08rust-sdk" + bytes(40))


def check_reply(answer: bytes) -> None:
    assert len(answer) == 256
    assert (answer[60], struct.unpack_from("<I", answer, 48)) == (REPLY, (256,))
    assert (answer[160:176], struct.unpack_from("<QB", answer, 200)) == (CLIENT, (1, 2))


def check_eviction(answer: bytes) -> None:
    assert len(answer) == 256
    assert (answer[60], answer[255]) == (EVICTION, INCOMPATIBLE)
    assert answer[128:144] == CLIENT
    assert struct.unpack_from("<II", answer, 144) == (ACCEPTED, ACCEPTED)


def receive(connection: RawConnection) -> bytes:
    answer = b""
    while len(answer) < 256 and (part := connection.socket.recv(256 - len(answer))):
        answer += part
    return answer


def test_over_tcp(shared_server: ServerProcess) -> None:
    """The answer comes at once, and the log names the client."""
    with RawConnection(shared_server.address) as connection:
        began = time.monotonic()
        connection.write(PING)
        check_reply(receive(connection))
        for _ in range(3):
            connection.write(LOGIN)
            check_eviction(receive(connection))
        assert time.monotonic() - began < SECONDS_MAX
    line = "127.0.0.1 was not let in: its client speaks the protocol of Iggy 0.9 or later"
    eventually(line, lambda: line in shared_server.log_tail(2000))
    (logged,) = (logged for logged in shared_server.log_tail(2000).splitlines() if line in logged)
    assert '"level": "warning"' in logged, "the server itself is well"


def test_over_a_websocket(shared_server: ServerProcess) -> None:
    """Each answer is one message."""
    with open_websocket(shared_server.websocket_address) as websocket:
        for sent, check in ((PING, check_reply), (LOGIN, check_eviction)):
            websocket.send(sent)
            check(websocket.recv(SECONDS_MAX, decode=False))  # type: ignore[arg-type] # bytes: the message is binary


async def test_over_quic(shared_server: ServerProcess) -> None:
    """Each request has a stream of its own."""
    async with calling(shared_server.quic_address) as caller:
        for sent, check in ((PING, check_reply), (LOGIN, check_eviction)):
            check(await caller.exchange(sent))


@pytest.mark.parametrize(
    "data",
    [
        bytes(8),
        PING[:60],
        bytes(60) + b"\5" + bytes(195),
        request(2, Code.PING)[:60] + b"\x08" + bytes(195),
    ],
    ids=["short", "half", "no size", "a reply"],
)
def test_what_only_looks_like_one_is_a_short_frame(shared_server: ServerProcess, data: bytes) -> None:
    """The refusal is that of the protocol of 0.8."""
    with RawConnection(shared_server.address) as connection:
        connection.write(data)
        assert connection.receive().status == Status.INVALID_COMMAND


def test_after_a_login(root: RawConnection) -> None:
    """No client changes its protocol: such bytes are short frames."""
    root.write(bytes(8))
    assert root.receive().status == Status.INVALID_COMMAND
    assert root.is_alive()
