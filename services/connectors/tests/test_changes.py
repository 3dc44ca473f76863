"""Decoding of PostgreSQL's changes: lines of test_decoding, and messages of pgoutput."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.sources.postgres.changes import Change, MalformedChange, parse_lsn, print_lsn
from headrace_connectors.sources.postgres.pgoutput import Decoder
from headrace_connectors.sources.postgres.test_decoding import parse_change, transactions


@given(st.integers(0, 2**64 - 1))
def test_positions_are_printed_and_read(lsn):
    assert parse_lsn(print_lsn(lsn)) == lsn


@pytest.mark.parametrize(
    ("line", "change"),
    [
        (
            "table public.a: INSERT: id[integer]:1 name[text]:'it''s' ok[boolean]:true none[text]:null",
            Change("insert", "public.a", {"id": 1, "name": "it's", "ok": True, "none": None}, None),
        ),
        (
            "table public.a: INSERT: n[numeric]:12.50 j[jsonb]:'{\"a\": [1]}' t[text[]]:'{a,b}' b[bit varying]:B'101'",
            Change("insert", "public.a", {"n": "12.50", "j": {"a": [1]}, "t": "{a,b}", "b": "101"}, None),
        ),
        (
            "table public.a: UPDATE: old-key: id[integer]:1 new-tuple: id[integer]:2 big[text]:unchanged-toast-datum",
            Change("update", "public.a", {"id": 2}, {"id": 1}),
        ),
        ("table public.a: DELETE: id[integer]:1", Change("delete", "public.a", None, {"id": 1})),
        ("table public.a: DELETE: (no-tuple-data)", Change("delete", "public.a", None, None)),
        (
            'table "My ""S"""."T.1": INSERT: "a b"[character varying]:\'x\'',
            Change("insert", 'My "S".T.1', {"a b": "x"}, None),
        ),
        (
            "table public.a: INSERT: t[text]:'null' u[text]:'x: new-tuple: y[text]:''z'''",
            Change("insert", "public.a", {"t": "null", "u": "x: new-tuple: y[text]:'z'"}, None),
        ),
        ("table public.a: TRUNCATE: (no-flags)", Change("truncate", "public.a", None, None)),
    ],
)
def test_lines_of_test_decoding(line, change):
    assert parse_change(line) == [change]


def test_one_line_can_truncate_several_tables():
    found = parse_change("table public.a, public.b: TRUNCATE: restart_seqs cascade")
    assert [change.table for change in found] == ["public.a", "public.b"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "public.a: INSERT: id[integer]:1",
        "table public.a: INSERT: id[integer]:",
        "table public.a: INSERT: id:1",
        "table a: INSERT: id[integer]:1",
    ],
)
def test_other_lines_are_refused(line):
    with pytest.raises(MalformedChange):
        parse_change(line)


def test_transactions_end_with_their_commit():
    lines = [
        (10, 7, "BEGIN 7"),
        (10, 7, "table public.a: INSERT: id[integer]:1"),
        (30, 7, "COMMIT 7"),
        (20, 8, "BEGIN 8"),
        (20, 8, "table public.a: INSERT: id[integer]:2"),
    ]
    (found,) = transactions(lines)
    assert (found.xid, found.end_lsn, [change.row for change in found.changes]) == (7, 30, [{"id": 1}])


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        parse_change("table public.a: " + text)
    except (MalformedChange, ValueError):
        return


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_any_messages_are_read_or_refused(messages):
    relation = (
        b"R" + struct.pack(">I", 5) + b"public\0a\0d" + struct.pack(">H", 1) + b"\1id\0" + struct.pack(">II", 23, 0)
    )
    try:
        list(Decoder().transactions([relation, *messages]))
    except (MalformedChange, ValueError):
        return


def test_a_change_of_an_unknown_table_is_refused():
    with pytest.raises(MalformedChange, match="which was not described"):
        list(Decoder().transactions([b"I" + struct.pack(">I", 9) + b"N"]))
