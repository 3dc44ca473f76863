"""Destinations from columns and tables."""

import pytest

from headrace_connectors.contract import Destination, InvalidRecord, Record
from headrace_connectors.pipeline_file.models import Routing
from headrace_connectors.routing.columns import NO_PARTITION, ColumnRouter

COLUMNS = {"stream_column": "s", "topic_column": "t", "default_stream": "ds", "default_topic": "dt"}


def routed(payload, table=None, **settings):
    record = Record(payload, table=table)
    ColumnRouter(Routing(**settings)).route(record)
    return record


def test_columns_name_stream_and_topic():
    assert routed({"s": "a", "t": "b"}, **COLUMNS).destination == Destination("a", "b")
    assert routed({"s": 1, "t": 2}, **COLUMNS).destination == Destination("1", "2")


@pytest.mark.parametrize("payload", [{"s": None, "t": None}, {}, {"s": "", "t": ""}, b"opaque", None])
def test_missing_values_have_the_default(payload):
    assert routed(payload, **COLUMNS).destination == Destination("ds", "dt")


def test_columns_can_be_nested():
    settings = {"topic_column": "row.type", "default_stream": "s", "default_topic": "d"}
    assert routed({"row": {"type": "x"}}, **settings).destination == Destination("s", "x")


def test_the_table_names_the_destination():
    settings = {"by_table": {"public.a": {"stream": "s", "topic": "a"}}}
    assert routed({}, table="public.a", **settings).destination == Destination("s", "a")
    assert routed({}, table="public.b", **settings).destination is None
    defaults = {**settings, "default_stream": "s", "default_topic": "rest"}
    assert routed({}, table="public.b", **defaults).destination == Destination("s", "rest")


@pytest.mark.parametrize(
    ("encoding", "value", "key", "partition"),
    [
        ("bytes", "anna", b"anna", None),
        ("bytes", 7, b"7", None),
        ("bytes", b"\x00", b"\x00", None),
        ("key_u32", 7, b"\x07\x00\x00\x00", None),
        ("partition_id", 3, None, 3),
        ("partition_id", "3", None, NO_PARTITION),
        ("partition_id", True, None, NO_PARTITION),
        ("partition_id", -2, None, NO_PARTITION),
        *[(encoding, None, None, None) for encoding in ("bytes", "key_u32", "partition_id")],
    ],
)
def test_keys_are_encoded(encoding, value, key, partition):
    settings = {**COLUMNS, "partition_key_column": "k", "partition_key_encoding": encoding}
    found = routed({"k": value}, **settings).destination
    assert (found.key, found.partition) == (key, partition)


@pytest.mark.parametrize("value", [-1, 2**32, "7", True, 1.5])
def test_a_number_of_32_bits_is_checked(value):
    with pytest.raises(InvalidRecord, match="is not a whole number from 0 to 4294967295"):
        routed({"k": value}, **COLUMNS, partition_key_column="k", partition_key_encoding="key_u32")


def test_routing_columns_can_be_left_out():
    payload = {"t": "x", "row": {"k": 1, "v": 2}}
    settings = {"topic_column": "t", "default_stream": "s", "default_topic": "d", "partition_key_column": "row.k"}
    assert routed(payload, **settings, strip_routing_columns=True).payload == {"row": {"v": 2}}
    assert payload == {"t": "x", "row": {"k": 1, "v": 2}}
    assert routed(payload, **settings).payload == payload
