"""CON-13: several batches in flight. Whatever is killed, no record is lost, and a topic has the order of its source."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg
import pytest

import headrace
from tests.connectors.process import Connectors, until
from tests.connectors.test_commits import SHORT_TIMEOUT, cdc, has_snapshot, messages, polling, stored
from tests.sdk.proxy import Proxy

IN_FLIGHT = "batches_in_flight = 4\n"
EXACTLY_ONCE = f'{IN_FLIGHT}guarantee = "exactly_once"\n'
POINTS = ("before-saving", "before-committing", "third-save", "after-third-save")
IN_TRANSACTIONS = tuple(f"{when}-transaction-{n}" for when in ("before", "after") for n in (1, 3))


@pytest.fixture
def rows(database: psycopg.Connection) -> psycopg.Connection:
    """A table with ten rows."""
    database.execute("CREATE TABLE rows (id int PRIMARY KEY, done bool)")
    database.execute("INSERT INTO rows SELECT generate_series(1, 10)")
    return database


def source(kind: str, url: str, stream: str) -> str:
    """A source with small batches."""
    if kind == "cdc":
        return cdc(url, stream, batch_size=2)
    return polling(url, stream, 'cursor_column = "id"').replace("batch_size = 4", "batch_size = 2")


def add(rows: psycopg.Connection, numbers: range) -> None:
    """Add rows, each in a transaction of its own."""
    for number in numbers:
        rows.execute("INSERT INTO rows (id) VALUES (%s)", (number,))


def add_until_killed(connectors: Connectors, rows: psycopg.Connection) -> int:
    """Add a row at each look at the process until it has killed itself; return the number of rows.

    Without the pauses of `until`, a busy machine would have tens of thousands of rows before the kill.
    """
    number = 10

    def has_ended() -> bool:
        nonlocal number
        number += 1
        add(rows, range(number, number + 1))
        return connectors.has_ended

    until(has_ended)
    assert connectors.wait() == -9
    return number


def first_ones(found: Iterable[tuple[int, *tuple[Any, ...]]]) -> list[int]:
    """Row ids in the order in which they came first."""
    return list(dict.fromkeys(row for row, *_ in found))


@pytest.mark.long(but=1)
@pytest.mark.parametrize(("kind", "point"), [*(("cdc", point) for point in POINTS), ("cursor", "third-save")])
def test_nothing_is_lost_with_batches_in_flight(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    kind: str,
    point: str,
) -> None:
    """CON-70, CON-71: what comes again after a kill begins at a batch whose state was not saved."""
    connectors.run(source(kind, database_url, stream) + IN_FLIGHT, fault=(point,))
    number = add_until_killed(connectors, rows)
    connectors.run()
    add(rows, range(number + 1, number + 6))
    until(lambda: {row for row, _ in messages(client, stream)} == set(range(1, number + 6)))
    payloads = [(json.loads(one.payload), one.id) for one in stored(client, stream)]
    # A row of a second snapshot comes again as a change, which is another record.
    found = [(payload.get("row", payload)["id"], payload.get("op"), identifier) for payload, identifier in payloads]
    assert len(set(found)) == len({(row, operation) for row, operation, _ in found}), "repeated with another id"
    assert first_ones(found) == list(range(1, number + 6))


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("kind", "point"),
    [*(("cdc", point) for point in ("before-committing", *IN_TRANSACTIONS)), ("cursor", "after-transaction-3")],
)
def test_every_row_is_stored_once_and_in_order_with_batches_in_flight(
    client: headrace.Client,
    connectors: Connectors,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
    kind: str,
    point: str,
) -> None:
    """CON-71: with transactions, whatever is killed."""
    connectors.run(source(kind, database_url, stream) + EXACTLY_ONCE, fault=(point,))
    number = add_until_killed(connectors, rows)
    connectors.run()
    add(rows, range(number + 1, number + 6))
    until(lambda: len(messages(client, stream)) >= number + 5)
    assert [row for row, _ in messages(client, stream)] == list(range(1, number + 6))


@pytest.mark.long
def test_the_oldest_batch_in_flight_can_be_given_up(
    client: headrace.Client,
    connectors: Connectors,
    proxy: Proxy,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
) -> None:
    """CON-70: the server is out of reach; one change is given up, and those behind it arrive when it is back."""
    connectors.run(cdc(database_url, stream, batch_size=1) + IN_FLIGHT + SHORT_TIMEOUT)
    until(lambda: {row for row, _ in messages(client, stream)} == set(range(1, 11)))
    # The changes alone are to be pending.
    until(lambda: has_snapshot(connectors))
    proxy.stall()
    add(rows, range(11, 15))
    connectors.becomes("a", "degraded")
    answer = connectors.post("/sources/a/cdc/abandon-batch")
    assert answer["state"] == "running"
    assert answer["abandoned"] is not None
    proxy.stall(is_stalled=False)
    add(rows, range(15, 17))
    until(lambda: {12, 13, 14, 15, 16} <= {row for row, _ in messages(client, stream)})
    slot = "SELECT confirmed_flush_lsn >= %s::pg_lsn FROM pg_replication_slots WHERE database = current_database()"
    assert rows.execute(slot, (answer["abandoned"],)).fetchone() == (True,)


@pytest.mark.long
def test_an_outage_of_the_server_keeps_the_order(
    client: headrace.Client,
    connectors: Connectors,
    proxy: Proxy,
    rows: psycopg.Connection,
    database_url: str,
    stream: str,
) -> None:
    """CON-71: batches that fail are read again from the oldest one on."""
    connectors.run(source("cdc", database_url, stream) + EXACTLY_ONCE + SHORT_TIMEOUT)
    until(lambda: {row for row, _ in messages(client, stream)} == set(range(1, 11)))
    for turn in range(2):
        proxy.stall()
        add(rows, range(11 + turn * 10, 21 + turn * 10))
        connectors.becomes("a", "degraded")
        proxy.stall(is_stalled=False)
        connectors.becomes("a", "running")
    until(lambda: {row for row, _ in messages(client, stream)} == set(range(1, 31)))
    found = messages(client, stream)
    assert first_ones(found) == list(range(1, 31))
    assert max(Counter(row for row, _ in found).values()) == 1


def test_a_process_of_its_own_has_batches_in_flight(
    client: headrace.Client, connectors: Connectors, rows: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-70: its states are saved by the parent."""
    pipeline = source("cursor", database_url, stream).replace(
        "[sources.a]\n", '[sources.a]\nisolation = "process"\n', 1
    )
    connectors.run(pipeline + IN_FLIGHT)
    until(lambda: len(messages(client, stream)) == 10)
    assert connectors.stop() == 0
    add(rows, range(11, 15))
    connectors.run()
    until(lambda: [row for row, _ in messages(client, stream)] == list(range(1, 15)))
