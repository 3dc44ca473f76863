"""Messages straight from and to JSON: the forms of the HTTP interface (GW-4), read and written by native code."""

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compatibility.protocol import frames

import headrace_core as core
from headrace_core import CodecError

NOW = 1_700_000_000_000_000
KINDS = ("raw", "string", "bool", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16", "uint32", "uint64")


def b64(raw):
    return base64.b64encode(raw).decode()


def header_bytes(pairs):
    out = b""
    for (key_kind, key), (value_kind, value) in pairs:
        out += struct.pack("<BI", KINDS.index(key_kind) + 1, len(key)) + key
        out += struct.pack("<BI", KINDS.index(value_kind) + 1, len(value)) + value
    return out


def header_json(pairs):
    return [
        {"key": {"kind": key_kind, "value": b64(key)}, "value": {"kind": value_kind, "value": b64(value)}}
        for (key_kind, key), (value_kind, value) in pairs
    ]


fields = st.one_of(
    st.tuples(st.just("raw"), st.binary(min_size=1, max_size=255)),
    st.tuples(st.just("string"), st.text(min_size=1, max_size=60).map(str.encode)),
    st.tuples(st.just("uint32"), st.binary(min_size=4, max_size=4)),
    st.tuples(st.just("int128"), st.binary(min_size=16, max_size=16)),
)
messages = st.fixed_dictionaries(
    {
        "id": st.one_of(st.just(0), st.integers(0, 2**64 - 1), st.integers(0, 2**128 - 1)),
        "payload": st.binary(min_size=1, max_size=200),
        "headers": st.lists(st.tuples(fields, fields), max_size=3),
    }
)
partitionings = st.one_of(
    st.just(("balanced", b"", frames.BALANCED)),
    st.integers(0, 2**32 - 1).map(lambda n: ("partition_id", frames.u32(n), frames.to_partition(n))),
    st.binary(min_size=1, max_size=255).map(lambda key: ("messages_key", key, frames.by_key(key))),
)


@given(st.lists(messages, min_size=1, max_size=5), partitionings, st.booleans())
def test_json_becomes_the_same_batch(batch, partitioning, as_text):
    kind, value, partitioning_bytes = partitioning
    body = {
        "messages": [
            {
                "id": str(message["id"]) if as_text else message["id"],
                "payload": b64(message["payload"]),
                "user_headers": header_json(message["headers"]) or None,
            }
            for message in batch
        ],
        "partitioning": {"kind": kind, "value": b64(value)},
    }
    code, payload = core.encode_send_messages_json(
        json.dumps(body).encode(), stream="s", topic=7, origin_timestamp_micros=NOW
    )
    expected = [
        frames.message(message["payload"], header_bytes(message["headers"]), message_id=message["id"], origin=NOW)
        for message in batch
    ]
    assert (code, payload) == (101, frames.send("s", 7, partitioning_bytes, expected))


@given(st.lists(messages, max_size=5), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.booleans())
def test_polled_messages_become_json(batch, partition, current, as_text):
    raw = [
        frames.message(m["payload"], header_bytes(m["headers"]), message_id=m["id"], origin=NOW, offset=n)
        for n, m in enumerate(batch)
    ]
    answer = struct.pack("<IQI", partition, current, len(raw)) + b"".join(raw)

    def number(value):
        return str(value) if as_text else value

    assert json.loads(core.polled_json(answer, numbers_as_text=as_text)) == {
        "partition_id": partition,
        "current_offset": number(current),
        "count": len(batch),
        "messages": [
            {
                "header": {
                    "checksum": number(0),
                    "id": number(m["id"]),
                    "offset": number(n),
                    "timestamp": number(0),
                    "origin_timestamp": number(NOW),
                    "user_headers_length": len(header_bytes(m["headers"])),
                    "payload_length": len(m["payload"]),
                    "reserved": 0,
                },
                "payload": b64(m["payload"]),
                "user_headers": header_json(m["headers"]),
            }
            for n, m in enumerate(batch)
        ],
    }


def body(*, partitioning='{"kind": "balanced", "value": ""}', messages='[{"payload": "eA=="}]', more=""):
    return f'{{"partitioning": {partitioning}, "messages": {messages}{more}}}'.encode()


def encode(raw, **arguments):
    return core.encode_send_messages_json(raw, stream=1, topic=1, **arguments)[1]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        (str(2**128 - 1), 2**128 - 1),
        ('"17"', 17),
        ('"af362865-042c-4000-8000-0000000000FF"', 0xAF362865_042C_4000_8000_0000000000FF),
        ('"af362865042c40008000000000000001"', 0xAF362865_042C_4000_8000_000000000001),
        ("17.0", 17),
        ("1.7E1", 17),
        ("-0.0", 0),
        ("null", 0),
    ],
)
def test_forms_of_an_id(text, number):
    payload = encode(body(messages=f'[{{"id": {text}, "payload": "eA=="}}]'))
    assert payload == frames.send(1, 1, frames.BALANCED, [frames.message(b"x", message_id=number)])


def test_headers_that_a_client_has_encrypted_stay_as_they_are():
    payload = encode(body(messages=f'[{{"payload": "eA==", "user_headers": "{b64(b"scrambled")}"}}]'))
    raw = frames.message(b"x", b"scrambled")
    assert payload == frames.send(1, 1, frames.BALANCED, [raw])
    shown = json.loads(core.polled_json(struct.pack("<IQI", 0, 0, 1) + raw))
    assert shown["messages"][0]["user_headers"] == b64(b"scrambled")


@pytest.mark.parametrize(
    ("raw", "defect", "code", "field"),
    [
        (b"", "syntax", 4, None),
        (b"{", "syntax", 4, None),
        (b"[]", "shape", 4, None),
        (body() + b"x", "syntax", 4, None),
        (body(more=', "other": 1'), "shape", 4, "other"),
        (b'{"messages": []}', "shape", 4, None),
        (body(partitioning='{"kind": "anything", "value": ""}'), "shape", 4, "partitioning.kind"),
        (body(partitioning='{"kind": "balanced", "value": "="}'), "shape", 4, "partitioning.value"),
        (body(partitioning='{"kind": "balanced", "value": "AA=="}'), "value", 3, "partitioning.value"),
        (body(partitioning='{"kind": "partition_id", "value": "AA=="}'), "value", 3, "partitioning.value"),
        (body(partitioning='{"kind": "messages_key", "value": ""}'), "value", 4028, "key"),
        (body(messages="[]"), "value", 4009, "messages"),
        (body(messages='[{"payload": ""}]'), "value", 4025, "messages[0].payload"),
        (body(messages='[{"payload": "eA=="}, {}]'), "shape", 4, "messages[1]"),
        (body(messages='[{"payload": "eA"}]'), "shape", 4, "messages[0].payload"),
        (body(messages='[{"payload": 7}]'), "shape", 4, "messages[0]"),
        (body(messages='[{"payload": "eA==", "id": -1}]'), "shape", 4, "messages[0].id"),
        (body(messages='[{"payload": "eA==", "id": 1.5}]'), "shape", 4, "messages[0].id"),
        (body(messages='[{"payload": "eA==", "id": "+1"}]'), "shape", 4, "messages[0].id"),
        (body(messages=f'[{{"payload": "eA==", "id": {2**128}}}]'), "shape", 4, "messages[0].id"),
        (body(messages='[{"payload": "eA==", "user_headers": 7}]'), "shape", 4, "messages[0].user_headers"),
        (
            body(
                messages='[{"payload": "eA==", "user_headers": [{"key": {"kind": "string", "value": ""}, '
                '"value": {"kind": "raw", "value": "eA=="}}]}]'
            ),
            "value",
            4018,
            "messages[0].user_headers[0].key",
        ),
        (
            body(
                messages='[{"payload": "eA==", "user_headers": [{"key": {"kind": "string", "value": "eA=="}, '
                '"value": {"kind": "uint64", "value": "eA=="}}]}]'
            ),
            "value",
            4019,
            "messages[0].user_headers[0].value",
        ),
    ],
)
def test_defects_are_named_with_their_place(raw, defect, code, field):
    """GW-9."""
    with pytest.raises(CodecError) as raised:
        encode(raw)
    error = raised.value
    assert (error.defect, error.code) == (defect, code)
    if field is not None:
        assert error.field == field
    assert error.position is None or 0 <= error.position <= len(raw)


def test_a_defect_has_a_position():
    raw = body(messages='[{"payload": "eA=="},\n {"payload": "eA==", "id": tru}]')
    with pytest.raises(CodecError) as raised:
        encode(raw)
    assert abs(raised.value.position - raw.index(b"tru")) <= 4


def test_json_is_refused_before_it_becomes_a_batch_that_is_too_large():
    raw = body(messages='[{"payload": "' + b64(bytes(3000)) + '"}]')
    encode(raw, size_bytes_max=3080)
    with pytest.raises(CodecError) as raised:
        encode(raw, size_bytes_max=3079)
    assert (raised.value.defect, raised.value.field) == ("too_large", "messages[0]")


def code_of_defect(call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except CodecError as error:
        return error.code
    return None


@given(st.binary(max_size=300))
def test_any_bytes_are_refused_or_taken(raw):
    for encode_any in (core.encode_send_messages_json, core.encode_send_messages_lines):
        assert code_of_defect(encode_any, raw, stream=1, topic=1) in {None, 3, 4, 4009, 4025, 4028}
    for decode_any in (core.polled_json, core.decode_polled, core.decode_stats, core.decode_user, core.decode_topics):
        assert code_of_defect(decode_any, raw) in {None, 3, 4}


def test_each_line_is_a_message():
    lines = b'{"a": 1}\r\n\n [1, 2] \n"text"'
    _, payload = core.encode_send_messages_lines(lines, stream=1, topic=1, key=b"k", origin_timestamp_micros=NOW)
    expected = [frames.message(raw, origin=NOW) for raw in (b'{"a": 1}', b"[1, 2]", b'"text"')]
    assert payload == frames.send(1, 1, frames.by_key(b"k"), expected)
    with pytest.raises(CodecError, match="line 2: it is not JSON") as raised:
        core.encode_send_messages_lines(b"1\n{\n", stream=1, topic=1)
    assert (raised.value.defect, raised.value.position) == ("syntax", 2)
    with pytest.raises(CodecError) as raised:
        core.encode_send_messages_lines(b"\n\n", stream=1, topic=1)
    assert raised.value.code == 4009
