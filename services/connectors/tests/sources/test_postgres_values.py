"""Values of PostgreSQL from their texts."""

from __future__ import annotations

import pytest
from tests.connectors.standalone.changes import cdc_sources, polled

from headrace_connectors.codecs.plain import JsonCodec
from headrace_connectors.contract import Settings
from headrace_connectors.json_values import JsonEncoder
from headrace_connectors.sources.postgres.values import of_oid, of_type_name

JSON, JSONB = 114, 3802


@pytest.mark.parametrize(
    "text",
    [r'{"t": "cut \ud83d"}', '{"n": 1e400}', "1" * 5001, "[" * 2000 + "]" * 2000],
    ids=["half a character", "large number", "many digits", "deep"],
)
def test_json_of_the_server_is_passed_on(text):
    """Regression: one that cannot be read here was a text in JSON, and a string in a copy of the table."""
    for value in (of_oid(text, JSON), of_oid(text, JSONB), of_type_name(text, "json")):
        assert JsonEncoder().encode({"j": value}) == f'{{"j":{text.replace(": ", ":")}}}'.encode() or (
            JsonEncoder().encode({"j": value}) == f'{{"j":{text}}}'.encode()
        )


def test_other_json_is_a_value():
    assert of_oid('{"a": [1, null]}', JSONB) == of_type_name('{"a": [1, null]}', "json") == {"a": [1, None]}


async def test_such_a_row_is_in_the_snapshot_and_in_the_changes(database, database_url):
    text = r'{"t": "cut \ud83d"}'
    database.execute("CREATE TABLE a (id int PRIMARY KEY, j json)")
    database.execute("INSERT INTO a VALUES (1, %s)", [text])
    async with cdc_sources(database_url, tables=["public.a"], snapshot="initial") as opened:
        source = await opened()
        rows = [record.payload["row"] for record in (await polled(source)).records]
        await source.commit()
        # The end of the snapshot.
        await polled(source)
        await source.commit()
        database.execute("INSERT INTO a VALUES (2, %s)", [text])
        rows += [record.payload["row"] for record in (await polled(source)).records]
    encoded = [JsonCodec(Settings()).encode(row).decode() for row in rows]
    assert encoded == [f'{{"id":{number},"j":{text}}}' for number in (1, 2)]
