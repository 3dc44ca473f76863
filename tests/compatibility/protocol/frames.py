"""Independent, hand-written encoder of the binary protocol: a second opinion on what the server implements.

It shares no code with the product. Layouts and numbers come from the protocol's description.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from tests.compatibility.protocol.codes import Strategy
from tests.rights import GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS

NEVER = UNLIMITED = 2**64 - 1
MESSAGE_HEADER_BYTES = 64


def u8(value: int) -> bytes:
    return struct.pack("<B", value)


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def request(code: int, payload: bytes = b"") -> bytes:
    """Encode a complete request frame."""
    return u32(4 + len(payload)) + u32(code) + payload


# ---- primitives


def name(text: str | bytes) -> bytes:
    """Encode `Name` or `Pass`: one byte of length, then the bytes."""
    raw = text.encode() if isinstance(text, str) else text
    return u8(len(raw)) + raw


def str32(text: str) -> bytes:
    raw = text.encode()
    return u32(len(raw)) + raw


def ident(identifier: int | str) -> bytes:
    """Encode an identifier: an `int` is numeric, a `str` is a name, even one of digits."""
    return b"\x01\x04" + u32(identifier) if isinstance(identifier, int) else b"\x02" + name(identifier)


def consumer(identifier: int | str, *, group: bool = False) -> bytes:
    return u8(2 if group else 1) + ident(identifier)


def opt_partition(partition: int | None) -> bytes:
    return b"\x00" + u32(0) if partition is None else b"\x01" + u32(partition)


BALANCED = b"\x01\x00"


def to_partition(partition: int) -> bytes:
    return b"\x02\x04" + u32(partition)


def by_key(key: bytes) -> bytes:
    return b"\x03" + name(key)


# ---- requests


def login(username: str | bytes, password: str | bytes) -> bytes:
    return name(username) + name(password) + str32("1.0.0") + str32("")


def create_topic(
    stream: int | str,
    topic: str,
    partitions: int = 1,
    *,
    compression: int = 1,
    expiry: int = 0,
    size: int = 0,
    replication: int = 0,
) -> bytes:
    settings = struct.pack("<IBQQB", partitions, compression, expiry, size, replication)
    return ident(stream) + settings + name(topic)


def update_topic(
    stream: int | str,
    topic: int | str,
    new_name: str,
    *,
    compression: int = 1,
    expiry: int = 0,
    size: int = 0,
    replication: int = 0,
) -> bytes:
    return ident(stream) + ident(topic) + struct.pack("<BQQB", compression, expiry, size, replication) + name(new_name)


def poll(
    stream: int | str,
    topic: int | str,
    partition: int | None,
    strategy: Strategy,
    value: int = 0,
    count: int = 100,
    *,
    auto_commit: bool = False,
    who: bytes = consumer(1),
) -> bytes:
    destination = who + ident(stream) + ident(topic) + opt_partition(partition)
    return destination + struct.pack("<BQIB", strategy, value, count, auto_commit)


def consumer_offset(
    stream: int | str, topic: int | str, partition: int | None, offset: int | None = None, *, who: bytes = consumer(1)
) -> bytes:
    """Encode a consumer offset request: get and delete without `offset`, store with it."""
    path = who + ident(stream) + ident(topic) + opt_partition(partition)
    return path if offset is None else path + u64(offset)


def message(
    payload: bytes,
    headers: bytes = b"",
    *,
    message_id: int = 0,
    origin: int = 0,
    offset: int = 0,
    reserved: int = 0,
    payload_length: int | None = None,
    headers_length: int | None = None,
) -> bytes:
    """Encode a message as a client sends it; the lengths are correct unless given."""
    lengths = (
        len(headers) if headers_length is None else headers_length,
        len(payload) if payload_length is None else payload_length,
    )
    fixed = u64(0) + message_id.to_bytes(16, "little") + struct.pack("<QQQ", offset, 0, origin)
    return fixed + struct.pack("<IIQ", *lengths, reserved) + payload + headers


def indexes_of(messages: Iterable[bytes]) -> bytes:
    """Encode one index entry per message, which contains only the position of the message's end."""
    end, entries = 0, b""
    for raw in messages:
        end += len(raw)
        entries += struct.pack("<IIQ", 0, end, 0)
    return entries


def send(
    stream: int | str,
    topic: int | str,
    partitioning: bytes,
    messages: Sequence[bytes],
    *,
    indexes: bytes | None = None,
    count: int | None = None,
) -> bytes:
    metadata = ident(stream) + ident(topic) + partitioning + u32(len(messages) if count is None else count)
    entries = indexes_of(messages) if indexes is None else indexes
    return u32(len(metadata)) + metadata + entries + b"".join(messages)


# ---- permissions


def _flags(rights: Iterable[str], known: Sequence[str]) -> bytes:
    chosen = set(rights)
    assert chosen <= set(known), chosen - set(known)
    return bytes(right in chosen for right in known)


def permissions(
    rights: Iterable[str] = (),
    *,
    streams: dict[int, Iterable[str]] | None = None,
    topics: dict[tuple[int, int], Iterable[str]] | None = None,
) -> bytes:
    """Encode `Permissions`: global rights, rights per stream id, rights per stream and topic id."""
    per_stream = {stream: set(chosen) for stream, chosen in (streams or {}).items()}
    for stream, _ in topics or {}:
        per_stream.setdefault(stream, set())
    out = _flags(rights, GLOBAL_RIGHTS) + u8(bool(per_stream))
    for place, stream in enumerate(sorted(per_stream), 1):
        out += u32(stream) + _flags(per_stream[stream], STREAM_RIGHTS)
        below = sorted((topic, chosen) for (of, topic), chosen in (topics or {}).items() if of == stream)
        out += u8(bool(below))
        for nth, (topic, chosen) in enumerate(below, 1):
            out += u32(topic) + _flags(chosen, TOPIC_RIGHTS) + u8(nth < len(below))
        out += u8(place < len(per_stream))
    return out


def opt_permissions(record: bytes | None) -> bytes:
    return b"\x00" if record is None else b"\x01" + u32(len(record)) + record


def create_user(username: str, password: str, record: bytes | None = None, *, status: int = 1) -> bytes:
    return name(username) + name(password) + u8(status) + opt_permissions(record)
