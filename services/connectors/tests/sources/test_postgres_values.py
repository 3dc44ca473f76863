"""Values of PostgreSQL from their texts."""

from __future__ import annotations

import pytest
from tests.connectors.standalone.changes import cdc_sources, polled

from headrace_connectors.sources.postgres.values import of_oid, of_type_name

JSON, JSONB = 114, 3802


@pytest.mark.parametrize(
    "text",
    [r'{"t": "cut \ud83d"}', '{"n": 1e400}', "1" * 5001, "[" * 2000 + "]" * 2000],
    ids=["half a character", "large number", "many digits", "deep"],
)
def test_json_that_has_no_value_stays_text(text):
    assert of_oid(text, JSON) == of_oid(text, JSONB) == of_type_name(text, "json") == text


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
    assert rows == [{"id": 1, "j": text}, {"id": 2, "j": text}]
