"""Every row of the protocol's table of bad input: the response, and the state of the connection afterwards (GW-1, GW-2,
GW-9). Payloads of each kind over every transport; how a transport carries frames is tested over each.
"""

from __future__ import annotations

import random
import socket
import struct

import pytest

from tests.compatibility.conftest import Connect, Listener
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.compatibility.protocol.websocket import BINARY, HandMade, WebSocketConnection, masked
from tests.server_process import PASSWORD, USERNAME, ServerProcess

every_transport = pytest.mark.parametrize("transport", ["tcp", "websocket"], indirect=True)

CONTROL_PAYLOAD_BYTES_MAX = 10 * 1024 * 1024
OK = Reply(Status.OK)


def refused(connection: RawConnection, status: Status, code: int, payload: bytes = b"") -> None:
    """Check that a request is refused with this status and that the connection stays usable."""
    assert connection.status(code, payload) == status
    assert connection.is_alive()


# ---- the frame


@every_transport
@pytest.mark.parametrize("length", range(4))
def test_a_length_below_four(connect: Connect, length: int) -> None:
    """Eight header bytes are consumed, the status is 3, the connection stays open."""
    connection = connect()
    connection.write(struct.pack("<II", length, Code.PING) + frames.request(Code.PING))
    assert connection.receive() == Reply(Status.INVALID_COMMAND)
    assert connection.receive() == OK


@pytest.mark.parametrize("code", [0, 2, 99, 103, 606, 60_000, 2**32 - 1])
@pytest.mark.parametrize("size", [0, 7, 100_000])
def test_an_unknown_code(connect: Connect, code: int, size: int) -> None:
    """The payload is read, the status is 3, the connection stays open."""
    connection = connect()
    # A server that took the payload for frames would answer these pings.
    payload = (frames.request(Code.PING) * (size // 8 + 1))[:size]
    refused(connection, Status.INVALID_COMMAND, code, payload)


@every_transport
@pytest.mark.parametrize("logged_in", [True, False])
def test_a_control_payload_over_10_mib(connect: Connect, root: RawConnection, logged_in: bool) -> None:
    """The status is 3; the payload is drained and not taken for frames, as the reference server does (quirk Q1)."""
    connection = root if logged_in else connect()
    payload = frames.request(Code.PING) * (CONTROL_PAYLOAD_BYTES_MAX // 8 + 1)
    refused(connection, Status.INVALID_COMMAND, Code.PING, payload)
    refused(connection, Status.INVALID_COMMAND, Code.GET_STREAMS, payload)


@every_transport
def test_a_control_payload_of_10_mib(root: RawConnection, stream: str) -> None:
    """The limit itself is allowed; bytes after a valid payload are ignored."""
    payload = frames.name(stream).ljust(CONTROL_PAYLOAD_BYTES_MAX, b"\0")
    root.ok(Code.CREATE_STREAM, payload)
    assert root.ok(Code.GET_STREAM, frames.ident(stream))


@every_transport
def test_a_send_beyond_the_limit_of_the_server(shared_server: ServerProcess, root: RawConnection) -> None:
    """A send beyond the configured limit is refused like every other request, and the connection stays open."""
    config = shared_server.current_config()
    assert config is not None
    chunk = bytes(1 << 20)
    size = 256 * len(chunk) + 1
    root.write(struct.pack("<II", 4 + size, Code.SEND_MESSAGES))
    for _ in range(256):
        root.write(chunk)
    root.write(b"\0")
    assert root.receive() == Reply(Status.INVALID_COMMAND)
    assert root.is_alive()


# ---- the payload

UNDECODABLE = {
    "empty": (Code.CREATE_STREAM, b""),
    "name cut": (Code.CREATE_STREAM, b"\x05abcd"),
    "name is not UTF-8": (Code.CREATE_STREAM, b"\x02\xff\xfe"),
    "identifier cut": (Code.GET_STREAM, b"\x01\x04\x00\x00"),
    "identifier kind 0": (Code.GET_STREAM, b"\x00\x04" + frames.u32(0)),
    "identifier kind 3": (Code.GET_STREAM, b"\x03\x04" + frames.u32(0)),
    "identifier is not UTF-8": (Code.GET_STREAM, b"\x02\x01\xff"),
    "user name is not UTF-8": (Code.LOGIN_USER, frames.login(b"\xff\xff\xff", "secret")),
    "login without context": (Code.LOGIN_USER, frames.name("iggy") + frames.name("iggy") + frames.str32("1")),
    "consumer kind 0": (Code.GET_CONSUMER_OFFSET, b"\x00" + frames.consumer_offset(0, 0, 0)[1:]),
    "consumer kind 3": (Code.POLL_MESSAGES, b"\x03" + frames.poll(0, 0, 0, Strategy.FIRST)[1:]),
    "polling kind 6": (Code.POLL_MESSAGES, frames.poll(0, 0, 0, 6)),  # type: ignore[arg-type]
    "polling kind 0": (Code.POLL_MESSAGES, frames.poll(0, 0, 0, 0)),  # type: ignore[arg-type]
    "token cut": (Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN, b"\x44abc"),
}
# Decodable payloads with a value unknown to the command: only authorized callers learn that the value is unknown.
UNKNOWN_VALUES = {
    "compression 0": (Code.CREATE_TOPIC, frames.create_topic(0, "t", compression=0)),
    "compression 3": (Code.CREATE_TOPIC, frames.create_topic(0, "t", compression=3)),
    "compression 9 in an update": (Code.UPDATE_TOPIC, frames.update_topic(0, 0, "t", compression=9)),
    "user status 3": (Code.CREATE_USER, frames.create_user("somebody", "secret", status=3)),
    "user status 0 in an update": (Code.UPDATE_USER, frames.ident("somebody") + b"\x00\x01\x00"),
    "snapshot compression 0": (Code.GET_SNAPSHOT, b"\x00\x01\x01"),
    "snapshot type 7": (Code.GET_SNAPSHOT, b"\x01\x01\x07"),
    "snapshot of everything and more": (Code.GET_SNAPSHOT, b"\x01\x02\x64\x01"),
}
ILL_FORMED = {
    "stream without a name": (Code.CREATE_STREAM, b"\x00"),
    "topic without a name": (Code.CREATE_TOPIC, frames.create_topic(0, "")),
    "user without a name": (Code.CREATE_USER, frames.create_user("", "secret")),
    "login without a name": (Code.LOGIN_USER, frames.login("", "secret")),
    "token without a name": (Code.CREATE_PERSONAL_ACCESS_TOKEN, b"\x00" + frames.u64(0)),
    "numeric identifier of 3 bytes": (Code.GET_STREAM, b"\x01\x03\x00\x00\x00"),
    "numeric identifier of 8 bytes": (Code.DELETE_STREAM, b"\x01\x08" + frames.u64(0)),
    "numeric identifier of no bytes": (Code.GET_STREAM, b"\x01\x00"),
    "named identifier without a name": (Code.GET_TOPICS, b"\x02\x00"),
    "permissions shorter than they say": (
        Code.CREATE_USER,
        frames.create_user("somebody", "secret")[:-1] + b"\x01" + frames.u32(12) + frames.permissions() + b"\0",
    ),
    "permissions longer than they say": (
        Code.UPDATE_PERMISSIONS,
        frames.ident("somebody") + b"\x01" + frames.u32(10) + frames.permissions(),
    ),
}


@pytest.mark.parametrize(("code", "payload"), UNDECODABLE.values(), ids=UNDECODABLE)
@pytest.mark.parametrize("logged_in", [True, False])
def test_a_payload_that_cannot_be_decoded(
    connect: Connect, root: RawConnection, code: Code, payload: bytes, logged_in: bool
) -> None:
    """The status is 3, the connection stays open. Decoding precedes the check of the login."""
    refused(root if logged_in else connect(), Status.INVALID_COMMAND, code, payload)


@pytest.mark.parametrize(("code", "payload"), UNKNOWN_VALUES.values(), ids=UNKNOWN_VALUES)
def test_an_unknown_value(connect: Connect, root: RawConnection, code: Code, payload: bytes) -> None:
    """The status is 3, the connection stays open. Without a login the status is 40: these values are validated after
    it.
    """
    refused(root, Status.INVALID_COMMAND, code, payload)
    refused(connect(), Status.UNAUTHENTICATED, code, payload)


@pytest.mark.parametrize(("code", "payload"), ILL_FORMED.values(), ids=ILL_FORMED)
@pytest.mark.parametrize("logged_in", [True, False])
def test_a_payload_of_the_wrong_structure(
    connect: Connect, root: RawConnection, code: Code, payload: bytes, logged_in: bool
) -> None:
    """The status is 4, the connection stays open. Decoding precedes the check of the login."""
    refused(root if logged_in else connect(), Status.INVALID_FORMAT, code, payload)


VALID = {
    Code.GET_SNAPSHOT: b"\x01\x01\x04",
    Code.GET_CLIENT: frames.u32(1),
    Code.GET_USER: frames.ident("iggy"),
    Code.CREATE_USER: frames.create_user("cut-short", "secret", frames.permissions(["read_users"], streams={1: []})),
    Code.DELETE_USER: frames.ident("nobody"),
    Code.UPDATE_USER: frames.ident("nobody") + b"\x01" + frames.name("somebody") + b"\x01\x01",
    Code.UPDATE_PERMISSIONS: frames.ident("nobody") + frames.opt_permissions(frames.permissions()),
    Code.CHANGE_PASSWORD: frames.ident("nobody") + frames.name("secret") + frames.name("secrets"),
    Code.LOGIN_USER: frames.login("nobody", "secret"),
    Code.CREATE_PERSONAL_ACCESS_TOKEN: frames.name("token") + frames.u64(0),
    Code.DELETE_PERSONAL_ACCESS_TOKEN: frames.name("token"),
    Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN: frames.name("token"),
    Code.POLL_MESSAGES: frames.poll("s", "t", 0, Strategy.FIRST),
    Code.FLUSH_UNSAVED_BUFFER: frames.ident("s") + frames.ident("t") + frames.u32(0) + b"\x01",
    Code.GET_CONSUMER_OFFSET: frames.consumer_offset("s", "t", 0),
    Code.STORE_CONSUMER_OFFSET: frames.consumer_offset("s", "t", 0, 1),
    Code.DELETE_CONSUMER_OFFSET: frames.consumer_offset("s", "t", 0),
    Code.GET_STREAM: frames.ident("s"),
    Code.CREATE_STREAM: frames.name("cut-short"),
    Code.DELETE_STREAM: frames.ident("s"),
    Code.UPDATE_STREAM: frames.ident("s") + frames.name("n"),
    Code.PURGE_STREAM: frames.ident("s"),
    Code.GET_TOPIC: frames.ident("s") + frames.ident("t"),
    Code.GET_TOPICS: frames.ident("s"),
    Code.CREATE_TOPIC: frames.create_topic("s", "t"),
    Code.DELETE_TOPIC: frames.ident("s") + frames.ident("t"),
    Code.UPDATE_TOPIC: frames.update_topic("s", "t", "n"),
    Code.PURGE_TOPIC: frames.ident("s") + frames.ident("t"),
    Code.CREATE_PARTITIONS: frames.ident("s") + frames.ident("t") + frames.u32(1),
    Code.DELETE_PARTITIONS: frames.ident("s") + frames.ident("t") + frames.u32(1),
    Code.DELETE_SEGMENTS: frames.ident("s") + frames.ident("t") + frames.u32(0) + frames.u32(1),
    Code.GET_CONSUMER_GROUP: frames.ident("s") + frames.ident("t") + frames.ident("g"),
    Code.GET_CONSUMER_GROUPS: frames.ident("s") + frames.ident("t"),
    Code.CREATE_CONSUMER_GROUP: frames.ident("s") + frames.ident("t") + frames.name("g"),
    Code.DELETE_CONSUMER_GROUP: frames.ident("s") + frames.ident("t") + frames.ident("g"),
    Code.JOIN_CONSUMER_GROUP: frames.ident("s") + frames.ident("t") + frames.ident("g"),
    Code.LEAVE_CONSUMER_GROUP: frames.ident("s") + frames.ident("t") + frames.ident("g"),
}
WITHOUT_PAYLOAD = (
    Code.GET_STATS,
    Code.GET_CLUSTER_METADATA,
    Code.GET_ME,
    Code.GET_CLIENTS,
    Code.GET_USERS,
    Code.LOGOUT_USER,
    Code.GET_PERSONAL_ACCESS_TOKENS,
    Code.GET_STREAMS,
)
BEFORE_LOGIN = (Code.PING, Code.LOGIN_USER, Code.LOGIN_WITH_PERSONAL_ACCESS_TOKEN)


@pytest.mark.parametrize(("code", "payload"), VALID.items(), ids=[code.name for code in VALID])
def test_a_request_cut_short_anywhere(root: RawConnection, code: Code, payload: bytes) -> None:
    """A truncated request is refused with 3, or with 4 where an earlier rule is broken, wherever it is cut."""
    for length in range(len(payload)):
        root.send_frame(code, payload[:length])
    statuses = {root.receive().status for _ in payload}
    assert statuses <= {Status.INVALID_COMMAND, Status.INVALID_FORMAT}
    assert root.is_alive()


@pytest.mark.parametrize("code", [*VALID, *WITHOUT_PAYLOAD, Code.SEND_MESSAGES], ids=lambda code: code.name)
def test_what_needs_a_login(connect: Connect, code: Code) -> None:
    """The status is 40, the connection stays open."""
    if code in BEFORE_LOGIN:
        return
    refused(connect(), Status.UNAUTHENTICATED, code, VALID.get(code, b""))


@every_transport
def test_a_refusal_of_each_kind(connect: Connect, root: RawConnection, stream: str) -> None:
    """One payload of each kind over every transport: what it means is read behind the transport."""
    for size in (0, 100_000):
        refused(connect(), Status.INVALID_COMMAND, 60_000, frames.request(Code.PING) * (size // 8))
    refused(root, Status.INVALID_COMMAND, *UNDECODABLE["name cut"])
    refused(root, Status.INVALID_COMMAND, *UNKNOWN_VALUES["compression 3"])
    refused(root, Status.INVALID_FORMAT, *ILL_FORMED["stream without a name"])
    refused(connect(), Status.UNAUTHENTICATED, Code.GET_STREAMS)
    root.ok(Code.CREATE_STREAM, frames.name(stream) + b"padding")


@every_transport
def test_sends_check_the_login_first(connect: Connect) -> None:
    """Decoding precedes the login check for every command except sends of any size."""
    refused(connect(), Status.UNAUTHENTICATED, Code.SEND_MESSAGES, b"\xff")
    refused(connect(), Status.UNAUTHENTICATED, Code.SEND_MESSAGES, bytes(3_000_000))


@pytest.mark.parametrize("padding", [b"\0", b"\0" * 100, b"\xff" * 7])
def test_bytes_behind_a_valid_payload(root: RawConnection, stream: str, padding: bytes) -> None:
    """Trailing bytes are ignored and the request is executed: some official clients pad their requests."""
    root.ok(Code.CREATE_STREAM, frames.name(stream) + padding)
    root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t") + padding)
    root.ok(Code.GET_STREAMS, padding)
    root.ok(Code.PING, padding)
    root.ok(Code.GET_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", 0) + padding)
    assert root.ok(Code.GET_STREAM, frames.ident(stream) + padding)


@every_transport
def test_extra_bytes_in_the_metadata_of_a_send(root: RawConnection, stream: str) -> None:
    """Extra bytes within the declared length of the metadata are skipped."""
    root.create_topic(stream)
    message = frames.message(b"m")
    metadata = frames.ident(stream) + frames.ident("t") + frames.to_partition(0) + frames.u32(1) + b"more"
    payload = frames.u32(len(metadata)) + metadata + frames.indexes_of([message]) + message
    assert root.status(Code.SEND_MESSAGES, payload) == Status.OK
    assert root.poll(stream, "t", 0, Strategy.FIRST).payloads == [b"m"]


# ---- the stream of bytes


@every_transport
def test_pipelined_requests_are_answered_in_order(root: RawConnection, stream: str) -> None:
    """The n-th response belongs to the n-th request, whichever shard answers it (SHARD-9)."""
    root.create_topic(stream, partitions=4)
    requests, expected = [], []
    for number in range(300):
        messages = [frames.message(b"%d" % number)]
        for code, payload, status in (
            (Code.SEND_MESSAGES, frames.send(stream, "t", frames.to_partition(number % 4), messages), Status.OK),
            (Code.GET_STREAM, frames.ident(stream), Status.OK),
            (Code.GET_STREAM, b"\x07", Status.INVALID_COMMAND),
            (
                Code.SEND_MESSAGES,
                frames.send(stream, "t", frames.to_partition(4), messages),
                Status.PARTITION_NOT_FOUND,
            ),
            (60_000, b"?", Status.INVALID_COMMAND),
            (Code.DELETE_STREAM, frames.ident("no such stream"), Status.STREAM_NOT_FOUND),
            (Code.PING, b"", Status.OK),
        ):
            requests.append(frames.request(code, payload))
            expected.append(status)
    root.write(b"".join(requests))
    assert [root.receive().status for _ in expected] == expected
    for partition in range(4):
        payloads = root.poll(stream, "t", partition, Strategy.FIRST, count=1000).payloads
        assert payloads == [b"%d" % number for number in range(300) if number % 4 == partition]


@every_transport
def test_a_client_that_sends_byte_by_byte(connect: Connect, stream: str) -> None:
    """The server accepts frames cut at any byte."""
    connection = connect()
    for data in (
        frames.request(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD)),
        frames.request(Code.CREATE_STREAM, frames.name(stream)),
        frames.request(Code.CREATE_TOPIC, frames.create_topic(stream, "t")),
        frames.request(
            Code.SEND_MESSAGES, frames.send(stream, "t", frames.BALANCED, [frames.message(b"slow", b"headers")])
        ),
    ):
        for byte in data:
            connection.write(bytes([byte]))
        assert connection.receive().status == Status.OK
    (message,) = connection.poll(stream, "t", 0, Strategy.FIRST).messages
    assert (message.payload, message.headers) == (b"slow", b"headers")


@every_transport
@pytest.mark.parametrize(
    "part",
    [
        frames.request(Code.PING)[:3],
        frames.request(Code.PING)[:7],
        frames.request(Code.CREATE_STREAM, frames.name("never"))[:-1],
        frames.u32(50_000_000) + frames.u32(Code.SEND_MESSAGES) + bytes(100_000),
    ],
    ids=["length", "header", "payload", "large payload"],
)
@pytest.mark.parametrize("end", ["close", "reset", "half-close"])
def test_half_a_frame_and_then_nothing(listener: Listener, root: RawConnection, part: bytes, end: str) -> None:
    """The connection is dropped without a response and leaves the registry; nothing is executed."""
    kind, address = listener
    with kind.as_root(address) as connection:
        me = connection.ok(Code.GET_ME)[:4]
        connection.write(part)
        if end == "half-close":
            connection.socket.shutdown(socket.SHUT_WR)
            assert connection.wait_closed()
        elif end == "reset":
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    eventually("leaving the registry", lambda: root.ok(Code.GET_CLIENT, me) == b"")
    assert root.ok(Code.GET_STREAM, frames.ident("never")) == b""


@every_transport
def test_a_client_that_does_not_read(
    shared_server: ServerProcess, listener: Listener, root: RawConnection, stream: str
) -> None:
    """Responses that a client does not read stall its own connection, not the server (back-pressure, SHARD-5)."""
    kind, address = listener
    root.create_topic(stream)
    root.send(stream, "t", 0, *[bytes(1000)] * 1000)
    memory_before = shared_server.memory_bytes()
    poll = frames.request(Code.POLL_MESSAGES, frames.poll(stream, "t", 0, Strategy.FIRST, count=1000))
    if kind is WebSocketConnection:
        poll = masked(BINARY, poll)
        kind = HandMade
    with kind.as_root(address) as deaf:
        deaf.socket.settimeout(0.5)
        with pytest.raises(TimeoutError):
            deaf.socket.sendall(poll * 1_000_000)
        assert root.is_alive()
        assert shared_server.memory_bytes() - memory_before < 64_000_000


@every_transport
@pytest.mark.parametrize("seed", range(5))
def test_noise(listener: Listener, seed: int) -> None:
    """Random bytes: every frame gets exactly one response, and the server keeps running."""
    random_source = random.Random(seed)
    codes = [*Code, 0, 7, 60_000]
    codes.remove(Code.LOGOUT_USER)
    frames_sent = []
    for _ in range(200):
        code = random_source.choice(codes)
        payload = bytearray(VALID.get(code, b"") if code in VALID and random_source.random() < 0.7 else b"")
        for _ in range(random_source.randrange(4)):
            if payload:
                payload[random_source.randrange(len(payload))] = random_source.randrange(256)
        payload += random_source.randbytes(random_source.randrange(30))
        frames_sent.append(frames.request(code, bytes(payload)))
    kind, address = listener
    with kind.as_root(address) as connection:
        connection.write(b"".join(frames_sent))
        for _ in frames_sent:
            connection.receive(may_explain=True)
        assert connection.is_alive()
