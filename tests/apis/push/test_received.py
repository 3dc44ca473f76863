"""Decoding and limits of what clients send, including violations of the protocol (GW-5)."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_gateway.push.connections.received import (
    FIRST_MESSAGE_BYTES_MAX,
    Control,
    End,
    Item,
    Limits,
    Opcode,
    Received,
)
from tests.apis.push.client_frames import frame
from tests.property_runs import bounded

MESSAGE_BYTES_MAX = 100_000


class Connection:
    """A connection without a transport. It records whether reading is paused."""

    def __init__(self, *, is_compressed: bool = False) -> None:
        self.is_paused = False
        self.received = Received(self, Limits(message_bytes=MESSAGE_BYTES_MAX), is_compressed=is_compressed)

    def pause_reading(self) -> None:
        assert not self.is_paused
        self.is_paused = True

    def resume_reading(self) -> None:
        assert self.is_paused
        self.is_paused = False

    def taken(self) -> list[Item]:
        """Everything that has been queued."""
        items = []
        while (item := _at_once(self.received)) is not None:
            items.append(item)
        return items


def _at_once(received: Received) -> Item | None:
    """The next item; None if none is queued."""
    waiting = received.next()
    try:
        waiting.send(None)
    except StopIteration as stop:
        return stop.value
    waiting.close()
    return None


def cut(data: st.DataObject, whole: bytes) -> list[bytes]:
    places = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    return [whole[start:end] for start, end in zip([0, *places], [*places, len(whole)], strict=True)]


def deflated(message: bytes, compressor: zlib._Compress) -> bytes:
    return (compressor.compress(message) + compressor.flush(zlib.Z_SYNC_FLUSH)).removesuffix(b"\x00\x00\xff\xff")


@given(st.text(max_size=300), st.data())
@bounded(200)
async def test_good_frames_pass_however_they_are_cut(text: str, data: st.DataObject) -> None:
    pieces = cut(data, text.encode())
    whole = frame(9, b"ping") + frame(2, b"\xff" * 200)
    for number, piece in enumerate(pieces):
        whole += frame(1 if number == 0 else 0, piece, last=number == len(pieces) - 1) + frame(10, b"\xff")
    whole += frame(1, text.encode()) + frame(8, b"\x03\xe8bye")
    connection = Connection()
    judged = [connection.received.feed_data(piece) for piece in cut(data, whole) if piece]
    assert judged == [(False, b"")] * (len(judged) - 1) + [(True, b"")]
    pongs = [Control(Opcode.PONG, b"")] * len(pieces)
    others = [Control(Opcode.PING, b"ping"), b"\xff" * 200, text, text, End(1000)]
    taken = connection.taken()
    assert [item for item in taken if item not in pongs] == others
    assert len(taken) == len(others) + len(pongs)


@given(st.text(max_size=100), st.data())
@bounded(200)
async def test_a_text_that_is_none_is_found_out_at_once(text: str, data: st.DataObject) -> None:
    # The rest never arrives: a reader that waits for the rest waits forever.
    end = data.draw(
        st.sampled_from(
            [frame(1, text.encode() + b"\xf8", last=False) + b"\x80", frame(1, text.encode() + b"\xf8" + bytes(9))[:-9]]
        )
    )
    connection = Connection()
    for piece in cut(data, frame(1, b"good") + end):
        connection.received.feed_data(piece)
    assert connection.taken() == ["good", End(1007, 1007)]
    assert connection.received.feed_data(b"more") == (True, b"")


@pytest.mark.parametrize(
    "wrong",
    [
        frame(1, b"x", mask=None),
        frame(8, b"", mask=None),
        frame(1, b"x", compressed=True),
        *(frame(8, struct.pack("!H", code)) for code in (1004, 1005, 1006, 1015)),
    ],
)
async def test_what_a_client_must_not_send(wrong: bytes) -> None:
    connection = Connection()
    connection.received.feed_data(frame(2, b"good") + wrong)
    assert connection.taken() == [b"good", End(1002, 1002)]


async def test_only_the_first_message_has_the_limit_of_logins() -> None:
    for first in (
        frame(2, bytes(FIRST_MESSAGE_BYTES_MAX + 1))[:8],
        frame(2, bytes(FIRST_MESSAGE_BYTES_MAX), last=False) + frame(0, b"x"),
    ):
        connection = Connection()
        connection.received.feed_data(first)
        assert connection.taken() == [End(1009, 1009)]
    connection = Connection()
    messages = [bytes(FIRST_MESSAGE_BYTES_MAX), bytes(50_000)]
    connection.received.feed_data(b"".join(frame(2, message) for message in messages))
    assert connection.taken() == messages
    connection.received.feed_data(frame(2, bytes(60_000), last=False) + frame(0, bytes(60_000))[:8])
    assert connection.taken() == [End(1009, 1009)]


async def test_the_first_message_has_its_limit_when_it_is_decompressed() -> None:
    connection = Connection(is_compressed=True)
    login = deflated(bytes(FIRST_MESSAGE_BYTES_MAX + 1), zlib.compressobj(wbits=-zlib.MAX_WBITS))
    connection.received.feed_data(frame(2, login, compressed=True))
    assert connection.taken() == [End(1009, 1009)]


@pytest.mark.parametrize(("repeated", "burst"), [(frame(9, b""), 100), (frame(0, b"", last=False), 10_000)])
async def test_frames_are_limited_whatever_they_contain(repeated: bytes, burst: int) -> None:
    connection = Connection()
    connection.received.feed_data(frame(1, b"", last=False) + repeated * (burst - 1))
    assert not connection.received.ended.is_set()
    # More are allowed for the time that this takes.
    connection.received.feed_data(repeated * burst)
    assert connection.taken()[-1] == End(1008, 1008)


async def test_compressed_messages() -> None:
    connection = Connection(is_compressed=True)
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    texts = ["login", "x" * 10_000, "\N{EURO SIGN}" * 100, "x" * 10_000]
    for text in texts:
        message = deflated(text.encode(), compressor)
        parts = frame(1, message[:2], last=False, compressed=True) + frame(9, b"") + frame(0, message[2:])
        connection.received.feed_data(parts)
    connection.received.feed_data(frame(1, b"plain"))
    assert [item for item in connection.taken() if not isinstance(item, Control)] == [*texts, "plain"]


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (deflated(bytes(MESSAGE_BYTES_MAX + 1), zlib.compressobj(wbits=-15)), 1009),
        (deflated(b"\xff", zlib.compressobj(wbits=-15)), 1007),
        (b"\xff" * 10, 1002),
    ],
    ids=["expands beyond the limit", "no UTF-8", "no deflate"],
)
async def test_compressed_messages_that_are_refused(payload: bytes, code: int) -> None:
    connection = Connection(is_compressed=True)
    connection.received.feed_data(frame(1, payload, compressed=True))
    assert connection.taken() == [End(code, code)]


async def test_reading_pauses_while_messages_wait() -> None:
    connection = Connection()
    numbers = random.Random(3)
    sent = []
    while not connection.is_paused:
        sent.append(numbers.randbytes(4000))
        connection.received.feed_data(frame(2, sent[-1]))
    assert 100_000 < sum(map(len, sent)) < 200_000
    assert await connection.received.next() == sent.pop(0)
    assert not connection.is_paused
    assert connection.taken() == sent


async def test_messages_are_dropped_while_the_server_closes() -> None:
    connection = Connection()
    while not connection.is_paused:
        connection.received.feed_data(frame(2, bytes(4000)))
    connection.received.discard()
    # Otherwise the close frame of the client would never arrive.
    assert not connection.is_paused
    connection.received.feed_data(frame(2, bytes(200)) * 4000)
    assert not connection.is_paused
    connection.received.feed_data(frame(8, b""))
    assert connection.received.ended.is_set()
    assert connection.taken()[-1] == End(None)


async def test_the_end_of_the_stream() -> None:
    connection = Connection()
    connection.received.feed_data(frame(8, b""))
    connection.received.feed_eof()
    assert connection.taken() == [End(None)]
    connection = Connection()
    connection.received.feed_eof()
    assert connection.taken() == [End(1006)]
