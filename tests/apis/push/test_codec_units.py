"""Request formats, frames, batches and credit in isolation, including malformed input (GW-5)."""

from __future__ import annotations

import json
import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from headrace_gateway.push import forms, frames
from headrace_gateway.push.connections.limits import Counted, Pace
from headrace_gateway.push.feeds.batches import Batch
from headrace_gateway.push.frames import Epoch, Place, Selection
from headrace_gateway.push.subscriptions.credit import Credit
from headrace_gateway.push.subscriptions.filters import _equals
from tests.property_runs import bounded

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(max_size=12), values, max_size=4),
    max_leaves=12,
)
SUBSCRIBE: dict[str, Any] = {
    "type": "subscribe",
    "id": 1,
    "subscription": 1,
    "topics": [{"stream": "s", "topic": 0, "start": {"kind": "first"}, "positions": []}],
    "consumer": {"id": "c"},
    "filter": {"headers": [{"name": "h", "equals": 1}], "key": "k"},
    "credit": {"messages": 1, "bytes": 1},
}
PRODUCE: dict[str, Any] = {
    "type": "produce",
    "id": 1,
    "stream": 0,
    "topic": 0,
    "partitioning": {"kind": "partition_id", "value": 1},
    "messages": [{"payload": "eA==", "id": 5, "headers": None}],
}


def decoded(text: str) -> object:
    """Decode a text, or report that it is invalid; any other exception fails the test."""
    try:
        return forms.decode(text)
    except (forms.Malformed, forms.NotUnderstood) as error:
        return error


@given(st.text())
@bounded(300)
def test_any_text(text: str) -> None:
    decoded(text)


@given(JSON_VALUES)
@bounded(300)
def test_any_json(value: object) -> None:
    decoded(json.dumps(value))


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """A request in which one field has another value or is missing."""
    request = json.loads(json.dumps(draw(st.sampled_from([SUBSCRIBE, PRODUCE]))))
    target: Any = request
    while True:
        keys = list(target) if isinstance(target, dict) else range(len(target))
        key = draw(st.sampled_from(list(keys)))
        inner = target[key]
        if isinstance(inner, dict | list) and inner and draw(st.booleans()):
            target = inner
            continue
        if draw(st.booleans()):
            del target[key]
        else:
            target[key] = draw(JSON_VALUES)
        return dict(request)


@given(damaged())
@bounded(500)
def test_almost_a_request(request: dict[str, Any]) -> None:
    found = decoded(json.dumps(request))
    if request.get("id") == 1 and not isinstance(request["id"], bool | float):
        assert not isinstance(found, forms.NotUnderstood)


@given(st.binary(max_size=64))
@bounded(300)
def test_any_binary_frame(frame: bytes) -> None:
    try:
        request_id, payload = frames.decode_produce(frame)
    except ValueError:
        assert len(frame) < 8 or frame[:4] != b"\x01\0\0\0"
    else:
        assert b"\x01\0\0\0" + request_id.to_bytes(4, "little") + payload == frame


def polled(first: int, sizes: list[tuple[int, int]]) -> bytes:
    """A poll response with messages whose payloads and headers have these sizes."""
    messages = b"".join(
        struct.pack("<QQQQQQIIQ", number, 0, 0, first + number, 0, 0, headers, payload, 0)
        + b"p" * payload
        + b"h" * headers
        for number, (payload, headers) in enumerate(sizes)
    )
    return struct.pack("<IQI", 0, first + len(sizes) - 1, len(sizes)) + messages


SIZES = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 50)), min_size=1, max_size=30)


@given(SIZES, st.integers(0, 2**40), st.data())
@bounded(300)
def test_what_a_credit_pays_for(sizes: list[tuple[int, int]], first: int, data: st.DataObject) -> None:
    batch = Batch(polled(first, sizes))
    assert (batch.first, batch.end, len(batch)) == (first, first + len(sizes), len(sizes))
    start = data.draw(st.integers(0, len(sizes) - 1))
    credit = Credit(messages_max=1000, bytes_max=100_000)
    credit.add(data.draw(st.integers(1, 40)), data.draw(st.integers(1, 5000)))
    end = batch.fitting(start, credit.messages, credit.bytes)
    # The specification, message by message.
    expected = start
    messages, size_bytes = credit.messages, credit.bytes
    while expected < len(sizes) and messages > 0 and size_bytes > 0:
        messages -= 1
        size_bytes -= 64 + sum(sizes[expected])
        expected += 1
    assert end == expected > start
    credit.take(end - start, batch.span_bytes(start, end))
    assert (credit.messages, credit.bytes) == (messages, size_bytes)


@given(SIZES, st.data())
@bounded(100)
def test_any_choice_of_messages(sizes: list[tuple[int, int]], data: st.DataObject) -> None:
    raw = polled(7, sizes)
    batch = Batch(raw)
    chosen = sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1))))
    selection = Selection(batch, chosen, 99, 0)
    frame = frames.binary_messages(5, Place(1, 2, 3), Epoch(2**64 - 1, 4), selection)
    assert frame[:48] == struct.pack("<B3xIIIIIQQQ", 1, 5, 1, 2, 3, len(chosen), 2**64 - 1, 4, 99)
    assert frame[48:] == b"".join(bytes(batch.raw(index, index + 1)) for index in chosen)
    text = json.loads(frames.json_messages(5, Place(1, 2, 3), Epoch(2**64 - 1, 4), selection))
    assert [message["offset"] for message in text["messages"]] == [7 + index for index in chosen]


def test_limits() -> None:
    counted = Counted(2)
    assert [counted.take("a"), counted.take("a"), counted.take("a"), counted.take("b")] == [True, True, False, True]
    counted.give_back("a")
    assert counted.take("a")
    now = [0.0]
    pace = Pace(10, lambda: now[0])
    assert [pace.take() for _ in range(21)] == [True] * 20 + [False]
    now[0] += 0.5
    assert [pace.take() for _ in range(6)] == [True] * 5 + [False]
    assert all(Pace(0, lambda: 0.0).take() for _ in range(1000))


KINDS = ["raw", "string", "bool", *(f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64, 128))]


@given(
    st.sampled_from([*KINDS, "float32", "float64"]),
    st.binary(min_size=1, max_size=255),
    st.booleans() | st.integers() | st.floats() | st.text(),
)
@bounded(300)
def test_any_header_can_be_compared(kind: str, value: bytes, wanted: bool | float | str) -> None:
    assert _equals((kind, value), wanted) in {True, False}


def test_floats_of_another_length_equal_no_number() -> None:
    """Regression: one such message, which any sender can store, closed the connection."""
    for kind in ("float32", "float64"):
        assert not _equals((kind, b"\0"), 0.5)
        assert not _equals((kind, b"\0" * 255), 0)
    assert _equals(("float32", struct.pack("<f", 0.1)), 0.1)
