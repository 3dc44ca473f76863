"""CON-43: the line protocol of InfluxDB: examples, what it refuses, and properties."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace_connectors.sources.influxdb import line_protocol
from headrace_connectors.sources.influxdb.line_protocol import LineProtocolError, Point, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m f=1", Point("m", {}, {"f": 1.0}, None)),
        (
            "m,b=2,a=1 f=1i,g=2u,h=t,i=FALSE 5",
            Point("m", {"a": "1", "b": "2"}, {"f": 1, "g": 2, "h": True, "i": False}, 5),
        ),
        (r"a\,b\ c,k\=1=v\,\ x f\ 1=-1.5e3 -7", Point("a,b c", {"k=1": "v, x"}, {"f 1": -1500.0}, -7)),
        (r'm f="a \"b\" \\ \n, x=1" 1', Point("m", {}, {"f": 'a "b" \\ \\n, x=1'}, 1)),
        ('m f="two\nlines",g=.5', Point("m", {}, {"f": "two\nlines", "g": 0.5}, None)),
        (r"m\a\ b,t\x=C:\y f=+2. 9223372036854775807", Point(r"m\a b", {r"t\x": r"C:\y"}, {"f": 2.0}, 2**63 - 1)),
        ("grün,ö=ü ä=1", Point("grün", {"ö": "ü"}, {"ä": 1.0}, None)),
        ("# a comment\n\n  \n m   f=1   1  \r\n#end", Point("m", {}, {"f": 1.0}, 1)),
        ('m f=""', Point("m", {}, {"f": ""}, None)),
        ("m f=-9223372036854775808i,g=18446744073709551615u", Point("m", {}, {"f": -(2**63), "g": 2**64 - 1}, None)),
    ],
)
def test_lines(text, expected):
    (point,) = parse(text.encode())
    assert point == expected
    assert [type(value) for value in point.fields.values()] == [type(value) for value in expected.fields.values()]


@pytest.mark.parametrize(
    ("precision", "expected"), [("s", 10**9), ("ms", 10**6), ("u", 1000), ("n", 1), ("h", 3600 * 10**9)]
)
def test_timestamps_are_in_nanoseconds(precision, expected):
    assert parse(b"m f=1 1", precision)[0].timestamp_ns == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("m", "there are no fields"),
        ("m ", "the name of a field is missing"),
        (",a=1 f=1", "the measurement is missing"),
        ("m, f=1", "the name of a tag is missing"),
        ("m,a f=1", "the tag 'a' has no value"),
        ("m,a= f=1", "the tag 'a' has no value"),
        ("m,a=1,a=2 f=1", "the tag 'a' is there twice"),
        ("m f", "the field 'f' has no value"),
        ("m f=", "the field 'f' has no value"),
        ("m f=x", "is neither a number"),
        ("m f=1.5i", "is neither a number"),
        ("m f=-1u", "the field 'f' is out of range"),
        ("m f=9223372036854775808i", "is out of range"),
        ("m f=NaN", "is neither a number"),
        ("m f=1e999", "is neither a number"),
        ("m f=0x10", "is neither a number"),
        ("m f=\u0661", "is neither a number"),
        ('m f="x', "has no end"),
        ('m f="x"y', "something follows the fields"),
        ("m f=1 x", "the timestamp is not a whole number"),
        ("m f=1 1 2", "something follows the timestamp"),
        ("m f=1 9223372036854775808", "out of range in this precision"),
        ("m f=1,", "the name of a field is missing"),
    ],
)  # fmt: skip
def test_a_line_that_is_wrong_is_named(line, reason):
    with pytest.raises(LineProtocolError, match=reason) as caught:
        parse(f"good f=1\n# comment\n{line}\nother f=1".encode())
    assert caught.value.line == 3
    assert str(caught.value).startswith("line 3: ")


def test_bytes_that_are_not_utf_8_are_named():
    with pytest.raises(LineProtocolError, match="line 2: it is not UTF-8"):
        parse(b"m f=1\nm\xff f=1")


def escaped(text: str, characters: str) -> str:
    return "".join(f"\\{character}" if character in characters else character for character in text)


# A backslash before a separator or at an end cannot be written, as the reference says.
NAME = st.text(st.characters(exclude_characters="\\\n\r", exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUE = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
POINT = st.builds(
    lambda measurement, tags, fields, at: Point(measurement, dict(sorted(tags.items())), fields, at),
    NAME.filter(lambda name: not name.startswith(("#", "\t"))),
    st.dictionaries(NAME, NAME, max_size=3),
    st.dictionaries(NAME, VALUE, min_size=1, max_size=4),
    st.none() | st.integers(-(2**63), 2**63 - 1),
)


def written(point: Point) -> str:
    def value(one) -> str:
        if isinstance(one, str):
            return '"' + escaped(one, '"\\') + '"'
        return f"{one}i" if type(one) is int else repr(one)

    tags = "".join(f",{escaped(name, ',= ')}={escaped(text, ',= ')}" for name, text in point.tags.items())
    fields = ",".join(f"{escaped(name, ',= ')}={value(one)}" for name, one in point.fields.items())
    end = "" if point.timestamp_ns is None else f" {point.timestamp_ns}"
    return f"{escaped(point.measurement, ', ')}{tags} {fields}{end}"


@given(st.lists(POINT, max_size=4), st.sampled_from(["\n", "\n\n", "\n# comment\n"]))
def test_points_that_are_written_are_read(points, separator):
    assert parse(separator.join(map(written, points)).encode()) == points


@given(st.binary(max_size=60) | st.text('m,= f"\\\n1i#', max_size=60).map(str.encode))
@example(b'm f="\\')
@example(b"\\")
@example(b"m,a=\\ f=1")
def test_anything_is_read_or_refused(body):
    try:
        points = parse(body)
    except LineProtocolError as error:
        points, line = [], error.line
    else:
        line = 1
    assert 1 <= line <= body.count(b"\n") + 1
    assert all(point.measurement and point.fields for point in points)
    assert parse("\n".join(map(written, points)).encode()) == points or b"\\" in body


@given(
    st.text('m,t= f="\\1.i5-e\r\n#', max_size=60)
    | st.lists(POINT, max_size=3).map(lambda points: "\n".join(map(written, points)))
)
@example("m,t=1,t=1 f=1")
@example('m "f="1,2",g=t\r\nm f=1\r 1')
@example("m f=1e999 1\nm f=1 9223372036854775808")
def test_lines_are_read_in_one_step_as_they_are_part_by_part(text):
    def outcome():
        try:
            return parse(text.encode())
        except LineProtocolError as error:
            return str(error)

    at_once = outcome()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(line_protocol._Parser, "_plain_point", lambda _: None)
        assert outcome() == at_once
