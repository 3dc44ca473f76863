"""Types of PostgreSQL, with values as the server writes them: the rows of the table of values."""

from __future__ import annotations

from typing import NamedTuple

PREPARATION = """
CREATE TYPE mood AS ENUM ('sad', 'it''s "ok"');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN exact AS numeric;
CREATE DOMAIN small AS int CHECK (value < 100);
CREATE DOMAIN body AS jsonb
"""
ODD_SETTINGS = {
    "datestyle": "SQL, DMY",
    "intervalstyle": "sql_standard",
    "bytea_output": "escape",
    "extra_float_digits": "0",
    "timezone": "Asia/Kathmandu",
    "xmloption": "document",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
}
"""Settings of the database, which change the text of values in sessions that do not set their own."""


class Kind(NamedTuple):
    """A type, and how its values arrive."""

    type: str
    values: tuple[str, ...]
    form: str = "text"
    """Form in a payload: `text` as the server writes it, `number`, `bool` or `json`."""
    column: str = "string"
    """Type of the column of Parquet and Delta."""


KINDS = (
    Kind("smallint", ("-32768", "7"), "number", "int64"),
    Kind("integer", ("2147483647", "0"), "number", "int64"),
    Kind("bigint", ("9223372036854775807", "-9007199254740993"), "number", "int64"),
    Kind("oid", ("4294967295",), "number", "int64"),
    Kind("real", ("0.1", "1e+20", "NaN", "-Infinity"), "number"),
    Kind("double precision", ("0.1", "123456789.12345679", "1e-300", "Infinity"), "number"),
    Kind("numeric", ("0.12345678901234567890", "90071992547409.93", "1.50", "NaN")),
    Kind("numeric(20,2)", ("12345678901234.56", "1.00")),
    Kind("money", ("$1,234.56",)),
    Kind("boolean", ("true", "false"), "bool", "bool"),
    Kind("text", ('it\'s "a\\b",{} NULL', "", "naïve 😀 \t\n", "007")),
    Kind("character varying(40)", ("1234567890123456", "%s")),
    Kind("character(8)", ("ab      ",)),
    Kind("name", ("select",)),
    Kind('"char"', ("x",)),
    Kind("bytea", (r"\x00ff27", r"\x")),
    Kind("date", ("2024-03-05", "infinity", "0044-03-15 BC")),
    Kind("date", ("2024-03-05", "0001-01-01", "9999-12-31"), column="date"),
    Kind("time without time zone", ("23:59:59.000001", "24:00:00")),
    Kind("time with time zone", ("23:59:59+05:45",)),
    Kind("timestamp without time zone", ("2024-03-05 10:10:55.5", "-infinity", "294276-12-31 23:59:59")),
    Kind("timestamp without time zone", ("2024-03-05 10:10:55.5", "0001-01-01 00:00:00"), column="timestamp"),
    Kind(
        "timestamp with time zone", ("2024-03-05 10:10:55.123456+05:45", "infinity", "0044-03-15 12:00:00+05:41:16 BC")
    ),
    Kind("timestamp with time zone", ("2024-03-05 10:10:55.123456+05:45",), column="timestamp"),
    Kind("interval", ("1 mon", "-1 mons +1 day -00:00:01.5", "1 year 2 mons -3 days")),
    Kind("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",)),
    Kind("json", ('{"a":1e400}', "[0.10, 12345678901234567890123]", '"x"'), "json", "json"),
    Kind("jsonb", ('{"d": 0.12345678901234567890}', "[1.50, null, true]", "7"), "json", "json"),
    Kind("xml", ("<a>1</a>", "text &amp; more")),
    Kind("bit(5)", ("10101",)),
    Kind("bit varying", ("1", "")),
    Kind("inet", ("10.0.0.1", "10.0.0.0/8")),
    Kind("cidr", ("10.0.0.0/8",)),
    Kind("macaddr", ("08:00:2b:01:02:03",)),
    Kind("macaddr8", ("08:00:2b:01:02:03:04:05",)),
    Kind("point", ("(0.1,-2)",)),
    Kind("line", ("{1,2,3}",)),
    Kind("lseg", ("[(1,2),(3,4)]",)),
    Kind("path", ("((1,2),(3,4))",)),
    Kind("polygon", ("((1,2),(3,4),(5,6))",)),
    Kind("circle", ("<(1,2),3>",)),
    Kind("tsvector", ("'a':1 'b''c':2",)),
    Kind("tsquery", ("'a' & 'b'",)),
    Kind("int4range", ("[1,5)", "empty")),
    Kind("numrange", ("(,0.10]",)),
    Kind("daterange", ("[2024-03-05,2024-04-01)",)),
    Kind("tstzrange", ('["2024-03-05 10:10:55+05:45",)',)),
    Kind("int4multirange", ("{[1,5),[7,9)}",)),
    Kind("pg_lsn", ("16/B374D848",)),
    Kind("jsonpath", ('$."a"',)),
    Kind("mood", ('it\'s "ok"', "sad")),
    Kind("pair", ('(1,"a ""b"", c")', "(,)")),
    Kind("exact", ("12345678901234.56",)),
    Kind("small", ("7",)),
    Kind("body", ('{"d": 1.50}',)),
)
EACH = tuple(
    next(kind for kind in KINDS if kind.type == name)
    for name in (
        "bigint", "double precision", "numeric", "boolean", "text", "bytea", "timestamp with time zone", "interval",
        "json", "jsonb", "exact",
    )
)  # fmt: skip
"""One type of each form, for the quick test."""
