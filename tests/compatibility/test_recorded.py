"""Replay of requests that official clients sent to the reference server: the refusals are the same (GW-1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Reader, topic_details
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

RECORDED = Path(__file__).parents[2] / "core/crates/wire/tests/data/classic.jsonl"


@dataclass(frozen=True, slots=True)
class Exchange:
    code: int
    status: int
    request: bytes

    def __str__(self) -> str:
        return f"{self.code}-{self.status}-{self.request.hex()[:24]}"


def refusals(*statuses: int) -> list[Exchange]:
    exchanges = []
    for line in RECORDED.read_text(encoding="ascii").splitlines():
        entry = json.loads(line)
        if entry["status"] in statuses:
            exchanges.append(Exchange(entry["code"], entry["status"], bytes.fromhex(entry["request"])))
    assert exchanges
    return exchanges


# The recording lacks the state that led to a response. These requests need no state, or only the state created here.
WITHOUT_STATE = refusals(
    Status.INVALID_COMMAND,
    Status.RESOURCE_NOT_FOUND,
    Status.INVALID_CREDENTIALS,
    Status.INVALID_USERNAME,
    Status.CANNOT_DELETE_USER,
    Status.STREAM_NOT_FOUND,
)
TWICE = refusals(
    Status.USER_ALREADY_EXISTS,
    Status.STREAM_NAME_ALREADY_EXISTS,
    Status.TOPIC_NAME_ALREADY_EXISTS,
    Status.GROUP_NAME_ALREADY_EXISTS,
)
IN_A_TOPIC = refusals(Status.GROUP_NOT_FOUND, Status.GROUP_MEMBER_NOT_FOUND)
IN_A_STREAM = refusals(Status.TOPIC_NOT_FOUND, Status.INVALID_TOPIC_SIZE, Status.TOO_MANY_PARTITIONS)
LAST_STREAM = 0xF5
"""Highest stream id in the recording."""


@pytest.fixture(scope="module")
def many_streams(shared_server: ServerProcess) -> Iterator[RawConnection]:
    """Connection to a server with streams of every recorded number."""
    with RawConnection.as_root(shared_server.address) as connection:
        for number in range(LAST_STREAM + 1):
            connection.ok(Code.CREATE_STREAM, frames.name(f"stream {number}"))
        yield connection


@pytest.mark.parametrize("exchange", refusals(Status.UNAUTHENTICATED), ids=str)
def test_without_a_login(connect: Connect, exchange: Exchange) -> None:
    """The status is 40, and the connection stays open."""
    connection = connect()
    assert connection.status(exchange.code, exchange.request) == exchange.status
    assert connection.is_alive()


@pytest.mark.parametrize("exchange", WITHOUT_STATE, ids=str)
def test_without_any_state(root: RawConnection, exchange: Exchange) -> None:
    """Requests that are refused on any server without the objects they name."""
    if exchange.code == Code.CHANGE_PASSWORD and exchange.status == Status.INVALID_CREDENTIALS:
        # The recorded user exists and the current password is wrong: use the root user here.
        reader = Reader(exchange.request)
        reader.bytes(6)
        exchange = Exchange(exchange.code, exchange.status, frames.ident(0) + reader.bytes(len(exchange.request) - 6))
    assert root.status(exchange.code, exchange.request) == exchange.status
    assert root.is_alive()


def _named_stream(request: bytes) -> str | None:
    kind, length = request[0], request[1]
    return request[2 : 2 + length].decode() if kind == 2 else None


def _make_stream(connection: RawConnection, name: str | None) -> None:
    if name is not None and not connection.ok(Code.GET_STREAM, frames.ident(name)):
        connection.ok(Code.CREATE_STREAM, frames.name(name))


@pytest.mark.parametrize("exchange", IN_A_STREAM, ids=str)
def test_in_a_stream_without_topics(many_streams: RawConnection, exchange: Exchange) -> None:
    """The stream of the request exists, its topic does not."""
    request = exchange.request
    metadata = request[4:] if exchange.code == Code.SEND_MESSAGES else request
    if exchange.code in (Code.DELETE_CONSUMER_OFFSET, Code.POLL_MESSAGES):
        metadata = metadata[3 + metadata[2] :]
    _make_stream(many_streams, _named_stream(metadata))
    assert many_streams.status(exchange.code, request) == exchange.status
    assert many_streams.is_alive()


def _identifier(reader: Reader) -> int | str:
    kind, raw = reader.number("B"), reader.bytes(reader.number("B"))
    return int.from_bytes(raw, "little") if kind == 1 else raw.decode()


def _make_topic(connection: RawConnection, stream: int | str, topic: int | str) -> None:
    """Create the stream and topic if missing; by number, only the first topic of a recorded stream."""
    if isinstance(stream, str):
        _make_stream(connection, stream)
    if not connection.ok(Code.GET_TOPIC, frames.ident(stream) + frames.ident(topic)):
        connection.ok(Code.CREATE_TOPIC, frames.create_topic(stream, topic if isinstance(topic, str) else "first"))


@pytest.mark.parametrize("exchange", IN_A_TOPIC, ids=str)
def test_in_a_topic_without_members(many_streams: RawConnection, exchange: Exchange) -> None:
    """The topic of the request exists. For requests that need a membership, so does the group, without members."""
    request = exchange.request
    of_consumer = exchange.code in (Code.DELETE_CONSUMER_OFFSET, Code.POLL_MESSAGES)
    reader = Reader(request[3 + request[2] :] if of_consumer else request)
    stream, topic = _identifier(reader), _identifier(reader)
    _make_topic(many_streams, stream, topic)
    if exchange.status == Status.GROUP_MEMBER_NOT_FOUND:
        group = _identifier(reader)
        assert isinstance(group, str)
        created = frames.ident(stream) + frames.ident(topic) + frames.name(group)
        many_streams.ok(Code.CREATE_CONSUMER_GROUP, created)
    assert many_streams.status(exchange.code, request) == exchange.status
    assert many_streams.is_alive()


@pytest.mark.parametrize("exchange", TWICE, ids=str)
def test_what_exists_already(many_streams: RawConnection, exchange: Exchange) -> None:
    """The first request creates the object that the second one conflicts with."""
    request = exchange.request
    match exchange.code:
        case Code.CREATE_STREAM | Code.CREATE_USER:
            many_streams.request(exchange.code, request)
        case Code.CREATE_TOPIC:
            _make_stream(many_streams, _named_stream(request))
            many_streams.request(exchange.code, request)
        case Code.CREATE_CONSUMER_GROUP:
            reader = Reader(request)
            _make_topic(many_streams, _identifier(reader), _identifier(reader))
            many_streams.request(exchange.code, request)
        case Code.UPDATE_STREAM:
            many_streams.ok(Code.CREATE_STREAM, request[6:])
        case Code.UPDATE_TOPIC:
            reader = Reader(request)
            reader.number("B")
            stream = reader.bytes(reader.number("B"))
            reader.number("B")
            topic = reader.bytes(reader.number("B"))
            reader.take("BQQB")
            taken = reader.name()
            at: int | str = stream.decode() if request[0] == 2 else int.from_bytes(stream, "little")
            if isinstance(at, str):
                _make_stream(many_streams, at)
            is_named = request[2 + len(stream)] == 2
            for name in (topic.decode() if is_named else "the one to be renamed", taken):
                many_streams.ok(Code.CREATE_TOPIC, frames.create_topic(at, name))
        case Code.UPDATE_USER:
            reader = Reader(request)
            reader.bytes(7)
            for name in ("the one to be renamed", reader.name()):
                many_streams.request(Code.CREATE_USER, frames.create_user(name, "secret"))
    assert many_streams.status(exchange.code, request) == exchange.status
    assert many_streams.is_alive()


# Recorded create, update and get of a topic by an official client, each with "server default" where a setting allows
# it.
UPDATED_TO_DEFAULTS = (260, 295, 239)


def test_an_update_to_the_server_default_is_answered_with_the_server_default(root: RawConnection, stream: str) -> None:
    """After an update the topic reports "server default", as on the reference server, while a topic created with it
    reports the actual default.
    """
    lines = [json.loads(line) for line in RECORDED.read_text(encoding="ascii").splitlines()]
    _, update, get = (lines[number] for number in UPDATED_TO_DEFAULTS)
    reader = Reader(bytes.fromhex(update["request"]))
    _identifier(reader), _identifier(reader)
    compression, *defaults, replication = reader.take("BQQB")
    assert (update["code"], defaults) == (Code.UPDATE_TOPIC, [0, 0])
    recorded, _ = topic_details(bytes.fromhex(get["response"]))
    root.create_topic(stream)
    path = frames.ident(stream) + frames.ident("t")
    created, _ = topic_details(root.ok(Code.GET_TOPIC, path))
    assert (created.expiry, created.max_size) == (2**64 - 1, 2**64 - 1)
    request = frames.update_topic(stream, "t", "t", compression=compression, replication=replication)
    assert root.ok(Code.UPDATE_TOPIC, request) == b""
    updated, _ = topic_details(root.ok(Code.GET_TOPIC, path))
    assert (updated.expiry, updated.max_size) == (recorded.expiry, recorded.max_size) == (0, 0)
    assert updated.replication == recorded.replication == 1
    # A setting updated with an explicit value reports that value again.
    root.ok(Code.UPDATE_TOPIC, frames.update_topic(stream, "t", "t", expiry=10**9, size=2**64 - 1))
    updated, _ = topic_details(root.ok(Code.GET_TOPIC, path))
    assert (updated.expiry, updated.max_size) == (10**9, 2**64 - 1)
