"""CON-44: codecs: what is encoded is decoded, and bytes that are wrong are refused with the reason."""

from __future__ import annotations

import base64
import functools
import json
import math
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, struct_pb2, timestamp_pb2
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.codecs.arrow import ArrowCodec
from headrace_connectors.codecs.avro import AvroCodec, AvroSettings
from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.codecs.protobuf import ProtobufCodec, ProtobufSettings
from headrace_connectors.contract import Codec, InvalidRecord, Settings
from headrace_connectors.json_values import HugeNumber, Number
from headrace_settings import SettingsError

SOURCE = '[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\ncodec = "CODEC"\n[sources.a.codec_settings]\n'
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"], "default": None},
        {"name": "prices", "type": {"type": "array", "items": "double"}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}], "default": None},
        {"name": "raw", "type": "bytes"},
    ],
}
DEEP = functools.reduce(lambda value, _: [value], range(2000), [])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def moment(micros: int) -> datetime:
    """Time since 1970."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


ORDERS = st.fixed_dictionaries(
    {
        "id": st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | TEXT,
        "prices": st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=3),
        "at": st.none() | st.integers(0, 2**51).map(moment),
        "raw": st.binary(max_size=5),
    }
)


@pytest.fixture(scope="module")
def schema(tmp_path_factory):
    """File with the schema in Avro."""
    path = tmp_path_factory.mktemp("avro") / "order.avsc"
    path.write_text(json.dumps(AVRO), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def avro(schema) -> Codec:
    return AvroCodec(AvroSettings(schema_file=schema))


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory):
    """Set of descriptors with the message `shop.Order`."""
    file = descriptor_pb2.FileDescriptorProto(
        name="shop.proto", package="shop", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    message = file.message_type.add(name="Order")
    kinds = descriptor_pb2.FieldDescriptorProto
    for number, (name, kind, label) in enumerate(
        [
            ("id", kinds.TYPE_INT64, kinds.LABEL_OPTIONAL),
            ("customer_name", kinds.TYPE_STRING, kinds.LABEL_OPTIONAL),
            ("prices", kinds.TYPE_DOUBLE, kinds.LABEL_REPEATED),
            ("raw", kinds.TYPE_BYTES, kinds.LABEL_OPTIONAL),
            ("at", kinds.TYPE_MESSAGE, kinds.LABEL_OPTIONAL),
        ],
        start=1,
    ):
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if kind == kinds.TYPE_MESSAGE:
            field.type_name = ".google.protobuf.Timestamp"
    found = descriptor_pb2.FileDescriptorSet()
    timestamp_pb2.DESCRIPTOR.CopyToProto(found.file.add())
    found.file.append(file)
    path = tmp_path_factory.mktemp("protobuf") / "shop.binpb"
    path.write_bytes(found.SerializeToString())
    return path


@pytest.fixture(scope="module")
def protobuf(descriptors) -> Codec:
    return ProtobufCodec(ProtobufSettings(descriptor_set=descriptors, message="shop.Order"))


arrow = ArrowCodec(Settings())


@given(ORDERS)
def test_avro_is_read_as_it_was_written(avro, order):
    encoded = avro.encode(order)
    assert avro.decode(encoded) == order
    assert avro.encode(encoded) == encoded


@given(ORDERS)
def test_protobuf_is_read_as_it_was_written(protobuf, order):
    payload = {"id": order["id"], "prices": order["prices"], "raw": order["raw"], "customer_name": order["name"]}
    encoded = protobuf.encode({**payload, "at": order["at"]})
    decoded = protobuf.decode(encoded)
    assert int(decoded.get("id", 0)) == order["id"]
    assert decoded.get("customer_name", "") == (order["name"] or "")
    assert [float(price) for price in decoded.get("prices", [])] == order["prices"]
    assert base64.b64decode(decoded.get("raw", "")) == order["raw"]
    assert ("at" in decoded) == (order["at"] is not None)
    assert protobuf.encode(decoded) == encoded == protobuf.encode(encoded)


@given(st.lists(ORDERS, max_size=4))
def test_arrow_is_read_as_it_was_written(orders):
    rows = [{**order, "prices": [*order["prices"], 1.5]} for order in orders]
    encoded = arrow.encode(rows)
    assert arrow.decode(encoded) == rows
    assert arrow.encode(encoded) == encoded


@given(st.binary(max_size=64))
def test_other_bytes_are_refused_or_read(avro, protobuf, data):
    for codec in (avro, protobuf, arrow):
        try:
            decoded = codec.decode(data)
        except InvalidRecord as error:
            decoded = str(error)
        assert decoded is not None


@given(st.data())
def test_damaged_bytes_do_no_harm(avro, protobuf, data):
    order = data.draw(ORDERS)
    place, value = data.draw(st.integers(0, 10_000)), data.draw(st.integers(0, 255))
    valid = {key: order[key] for key in ("id", "prices", "raw")}
    for codec, payload in ((avro, order), (protobuf, valid), (arrow, [{"id": 1, "name": "a"}] * 3)):
        damaged = bytearray(codec.encode(payload) or b"\0")
        damaged[place % len(damaged)] = value
        try:
            decoded = codec.decode(bytes(damaged))
        except InvalidRecord as error:
            decoded = str(error)
        assert decoded is not None


@pytest.mark.parametrize("name", ["avro", "protobuf"])
def test_a_number_of_json_is_the_nearest_double(request, name):
    codec = request.getfixturevalue(name)
    prices = [Number("1.50"), Number("0.12345678901234567890"), 2.5]
    order = {"id": 1, "prices": prices, "raw": b""}
    assert codec.decode(codec.encode(order))["prices"] == list(map(float, prices))


@pytest.mark.parametrize(
    ("name", "payload", "message"),
    [
        ("avro", {"id": "x", "prices": [], "raw": b""}, "the payload is not of the Avro schema"),
        ("avro", {"id": 1, "prices": [], "raw": b"", "more": 1}, "the payload is not of the Avro schema"),
        ("avro", {"id": 1}, "the payload is not of the Avro schema"),
        ("avro", b"", "the payload is not of the Avro schema"),
        ("protobuf", {"id": "x"}, "the payload is no shop.Order"),
        ("protobuf", {"more": 1}, "the payload is no shop.Order"),
        ("protobuf", {"prices": [10**400]}, "the payload is no shop.Order"),
        ("protobuf", {"prices": DEEP}, "the payload is no shop.Order"),
        ("json", DEEP, "the payload has no form in JSON"),
        ("protobuf", [1], "the payload is no shop.Order"),
        ("protobuf", {"id": object()}, "the payload is no shop.Order"),
        ("protobuf", b"\xff", "the payload is no shop.Order"),
        ("avro", {"id": 1, "prices": [HugeNumber("1e400")], "raw": b""}, "the payload is not of the Avro schema"),
        ("protobuf", {"prices": [HugeNumber("1e400")]}, "the payload is no shop.Order"),
        ("arrow", [{"a": HugeNumber("1e400")}], "the rows have no form in Arrow"),
        ("json", {"a": None, "b": [float("nan")]}, "the payload has no form in JSON: JSON has no number nan"),
        ("arrow", [1], "a row is a int, not an object"),
        ("arrow", [{"a": 1}, {"a": "x"}], "the rows have no form in Arrow"),
        ("arrow", b"no stream", "the payload is no Arrow stream"),
    ],
)
def test_payloads_that_are_refused(request, name, payload, message):
    codec = {"arrow": arrow, "json": JsonCodec(Settings())}.get(name) or request.getfixturevalue(name)
    with pytest.raises(InvalidRecord, match=message):
        codec.encode(payload)


@pytest.mark.parametrize("encoded", [b"{", b'"\xff"', b"[" * 2000, b"1e", b"1" * 5000])
def test_bytes_that_are_not_json(encoded):
    with pytest.raises(InvalidRecord, match="the payload is not JSON"):
        JsonCodec(Settings()).decode(encoded)


def test_bytes_after_the_value_are_refused(avro):
    encoded = avro.encode({"id": 1, "name": None, "prices": [math.pi], "at": None, "raw": b"x"})
    with pytest.raises(InvalidRecord, match="1 bytes follow the value"):
        avro.decode(encoded + b"\0")


def test_a_compiled_module_and_other_types():
    codec = ProtobufCodec(ProtobufSettings(module="google.protobuf.struct_pb2", message="google.protobuf.Struct"))
    encoded = codec.encode({"at": datetime(2026, 1, 1, tzinfo=UTC), "n": Decimal("1.5")})
    assert codec.decode(encoded) == {"at": "2026-01-01T00:00:00Z", "n": "1.5"}
    assert struct_pb2.Struct.FromString(encoded).fields["n"].string_value == "1.5"


def test_released_schemas_can_be_used():
    """A set of descriptors as `buf build` makes it."""
    path = Path(__file__).parents[4] / "proto/released.binpb"
    codec = ProtobufCodec(ProtobufSettings(descriptor_set=str(path), message="headrace.catalog.v1.Stream"))
    assert codec.decode(b"") == {}


@pytest.mark.parametrize(
    ("codec", "text", "message"),
    [
        ("avro", "", "schema_file: is not set and has no default"),
        ("avro", 'schema_file = "/missing"', "cannot be read: No such file"),
        ("avro", 'schema_file = "BAD"', "is no Avro schema"),
        ("protobuf", 'message = "a.B"', "names its schema once: set descriptor_set, or module"),
        ("protobuf", 'message = "a.B"\nmodule = "no_such_pb2"', "module no_such_pb2 cannot be imported"),
        ("protobuf", 'message = "a.B"\nmodule = "google.protobuf.struct_pb2"', "has no message 'a.B'"),
        ("protobuf", 'message = "a.B"\ndescriptor_set = "/missing"', "cannot be read: No such file"),
        ("protobuf", 'message = "a.B"\ndescriptor_set = "BAD"', "is no set of descriptors with all imports"),
        ("arrow", "x = 1", "x: unknown setting"),
    ],
)
def test_settings_are_checked(parse, tmp_path, codec, text, message):
    (tmp_path / "bad").write_bytes(b"\xff{}")
    with pytest.raises(SettingsError) as caught:
        parse(SOURCE.replace("CODEC", codec) + text.replace("BAD", str(tmp_path / "bad")) + "\n")
    assert message in str(caught.value)
    assert "sources.a.codec_settings" in str(caught.value)
