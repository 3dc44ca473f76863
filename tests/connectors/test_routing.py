"""Destinations of records, in whole pipelines: PostgreSQL or a webhook, connectors, a server."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psutil
import psycopg
import pytest

import headrace
from tests.connectors.process import Connectors, until
from tests.ports import free_port

FAST = '[sources.a.delivery]\nbackoff_min = "5 ms"\nbackoff_max = "20 ms"\ncommit_failure_threshold = 3\n'
DROP = '[sources.a.admission]\non_admission_failure = "drop"\n'


def payloads(client: headrace.Client, stream: str, topic: str) -> list[Any]:
    """Payloads of a topic, in the order of partitions; none if it does not exist."""
    try:
        found = client.topic(stream, topic)
    except headrace.NotFound:
        return []
    return [
        json.loads(message.payload)
        for partition in range(found.partitions_count)
        for message in client.read(stream, topic, partition=partition, count=10_000)
    ]


def ids(client: headrace.Client, stream: str, topic: str) -> list[int]:
    """Column `id` of the rows in a topic."""
    return [payload["id"] for payload in payloads(client, stream, topic)]


@pytest.fixture
def events(database: psycopg.Connection) -> psycopg.Connection:
    """A table of events of three types."""
    database.execute("CREATE TABLE events (id serial PRIMARY KEY, kind text, customer text, place int, body jsonb)")
    return database


def polling(url: str, routing: str, settings: str = 'cursor_column = "id"') -> str:
    """A pipeline that polls the table of events."""
    return (
        f'[sources.a]\nplugin = "postgres"\n[sources.a.settings]\nurl = "{url}"\ntable = "public.events"\n'
        f'poll_interval = "10 ms"\n{settings}\n[sources.a.routing]\n{routing}\n'
    ) + FAST


def test_a_source_without_routing_writes_to_its_topic(
    client: headrace.Client, connectors: Connectors, stream: str
) -> None:
    """CON-1: sources with one topic work as before; a restart continues."""
    pipeline = (
        f'[sources.a]\nplugin = "random"\nstream = "{stream}"\ntopic = "orders"\n'
        '[sources.a.settings]\ninterval = "1 ms"\nbatch_size = 5\ncount = 20\n'
    )
    connectors.run(pipeline)
    until(lambda: len(ids(client, stream, "orders")) == 20)
    assert connectors.stop() == 0
    connectors.run(pipeline.replace("count = 20", "count = 30"))
    until(lambda: len(ids(client, stream, "orders")) == 30)
    assert ids(client, stream, "orders") == list(range(30))


def test_points_without_routing_go_to_their_topic(client: headrace.Client, connectors: Connectors, stream: str) -> None:
    """CON-1: of all measurements, and answered when they are stored."""
    port = free_port()
    connectors.run(
        f'[sources.a]\nplugin = "influxdb"\nstream = "{stream}"\ntopic = "points"\n'
        f'[sources.a.settings]\naddress = "127.0.0.1:{port}"\n'
    )
    connectors.becomes("a", "running")
    lines = b"".join(b"m%d,host=a value=%d %d\n" % (number % 3, number, number) for number in range(9))
    request = urllib.request.Request(f"http://127.0.0.1:{port}/write?db=shop", data=lines, method="POST")
    with urllib.request.urlopen(request, timeout=60) as response:
        assert response.status == 204
    found = [(point["measurement"], point["fields"]["value"]) for point in payloads(client, stream, "points")]
    assert found == [(f"m{number % 3}", number) for number in range(9)]


def test_columns_route_rows_to_topics(
    client: headrace.Client, connectors: Connectors, events: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-2: three types of events arrive in three topics, and the rest in the default."""
    for kind in ("paid", "sent", "returned", None):
        events.execute("INSERT INTO events (kind) SELECT %s FROM generate_series(1, 5)", (kind,))
    routing = (
        f'topic_column = "kind"\ndefault_stream = "{stream}"\ndefault_topic = "rest"\nstrip_routing_columns = true'
    )
    connectors.run(polling(database_url, routing))
    expected = {
        "paid": [1, 2, 3, 4, 5],
        "sent": [6, 7, 8, 9, 10],
        "returned": [11, 12, 13, 14, 15],
        "rest": [16, 17, 18, 19, 20],
    }
    until(lambda: {topic: ids(client, stream, topic) for topic in expected} == expected)
    assert "kind" not in payloads(client, stream, "paid")[0]
    # Messages can be read before their answer has arrived.
    until(lambda: connectors.metric("iggy_connector_messages_routed_total", connector_key="a") == 20)
    assert connectors.metric("headrace_connector_destinations_active", connector_key="a") == 4
    destinations = connectors.get("/connectors/a/destinations")
    assert {(one["topic"], one["circuit"], one["messages_count"]) for one in destinations} == {
        (topic, "closed", 5) for topic in expected
    }


@pytest.mark.parametrize("decoder", ["test_decoding", "pgoutput"])
def test_tables_route_changes_to_topics(
    client: headrace.Client,
    connectors: Connectors,
    database: psycopg.Connection,
    database_url: str,
    stream: str,
    decoder: str,
) -> None:
    """CON-2, CON-6: changes of two tables arrive in two topics, and the slot moves in the commit alone."""
    database.execute("CREATE TABLE orders (id int PRIMARY KEY)")
    database.execute("CREATE TABLE items (id int PRIMARY KEY)")
    pipeline = (
        f'[sources.a]\nplugin = "postgres_cdc"\n[sources.a.settings]\nurl = "{database_url}"\nslot = "slot_{decoder}"\n'
        f'tables = ["public.orders", "public.items"]\ndecoder = "{decoder}"\npoll_interval = "10 ms"\n'
        "[sources.a.routing]\n"
        f'by_table."public.orders" = {{ stream = "{stream}", topic = "orders" }}\n'
        f'by_table."public.items" = {{ stream = "{stream}", topic = "items" }}\n{FAST}'
    )
    connectors.run(pipeline)
    connectors.becomes("a", "running")
    slot = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
    until(lambda: connectors.status("a")["batches_count"] >= 1)
    before = database.execute(slot, (f"slot_{decoder}",)).fetchone()
    with database.transaction():
        database.execute("INSERT INTO orders SELECT generate_series(1, 50)")
        database.execute("INSERT INTO items SELECT generate_series(1, 70)")

    def rows(topic: str) -> list[int]:
        return [payload["row"]["id"] for payload in payloads(client, stream, topic)]

    until(lambda: rows("orders") == list(range(1, 51)) and rows("items") == list(range(1, 71)))
    until(lambda: database.execute(slot, (f"slot_{decoder}",)).fetchone() != before)
    assert connectors.stop() == 0

    moved = database.execute(slot, (f"slot_{decoder}",)).fetchone()
    database.execute("INSERT INTO orders VALUES (51)")
    connectors.run(fault=("before-committing",))
    assert connectors.wait() == -9
    assert rows("orders") == list(range(1, 52)), "stored, and the state is saved"
    assert database.execute(slot, (f"slot_{decoder}",)).fetchone() == moved, "only the commit moves the slot"
    connectors.run()
    until(lambda: database.execute(slot, (f"slot_{decoder}",)).fetchone() != moved)
    assert rows("orders") == list(range(1, 52))


def post(address: str, body: bytes, **headers: str) -> tuple[int, Any]:
    """Send a request to a webhook; return the status and the answer."""
    request = urllib.request.Request(address, data=body, headers={"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_a_mapping_routes_what_a_webhook_receives(client: headrace.Client, connectors: Connectors, stream: str) -> None:
    """CON-3: a nested field is looked up in the mapping of the configuration server; the default catches the rest."""
    port = free_port()
    mapping = "".join(
        f'{kind} = {{ stream = "{stream}", topic = "{kind}" }}\n' for kind in ("paid", "sent", "returned")
    )
    connectors.run(
        f'[mappings.events]\n{mapping}[sources.a]\nplugin = "webhook"\n'
        f'[sources.a.settings]\naddress = "127.0.0.1:{port}"\n'
        f'[sources.a.transforms.route]\ntopic_field = "event.type"\nmapping_url = "{connectors.url}/mappings/events"\n'
        f'default = {{ stream = "{stream}", topic = "rest" }}\n'
    )
    connectors.becomes("a", "running")
    address = f"http://127.0.0.1:{port}/"
    for number, kind in enumerate(("paid", "sent", "returned", "lost")):
        body = json.dumps([{"id": number * 10 + n, "event": {"type": kind}} for n in range(3)]).encode()
        assert post(address, body) == (200, {"stored": 3})
    assert post(address, b'{"id": 99}') == (200, {"stored": 1})
    found = {topic: sorted(ids(client, stream, topic)) for topic in ("paid", "sent", "returned", "rest")}
    assert found == {"paid": [0, 1, 2], "sent": [10, 11, 12], "returned": [20, 21, 22], "rest": [30, 31, 32, 99]}
    assert post(address, b"{")[0] == 400


def test_partition_ids_out_of_range_are_refused_and_others_are_sent(
    client: headrace.Client, connectors: Connectors, events: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-2, CON-8: a bad id neither holds up its topic nor counts as a failure of it."""
    for place in (0, 1, 99, 3, None):
        events.execute("INSERT INTO events (place) VALUES (%s)", (place,))
    routing = (
        f'default_stream = "{stream}"\ndefault_topic = "t"\npartition_key_column = "place"\n'
        'partition_key_encoding = "partition_id"'
    )
    connectors.run(polling(database_url, routing) + "[sources.a.topic_defaults]\npartitions_count = 4\n" + DROP)
    until(lambda: len(ids(client, stream, "t")) == 4)
    places = {
        partition: [json.loads(message.payload)["place"] for message in client.read(stream, "t", partition=partition)]
        for partition in range(4)
    }
    assert (0 in places[0], 1 in places[1], 3 in places[3]) == (True, True, True)
    labels = {"connector_key": "a", "reason": "partition_id_out_of_range"}
    assert connectors.metric("iggy_connector_destinations_rejected_total", **labels) == 1
    assert connectors.metric("iggy_connector_destination_circuit_open", connector_key="a") == 0
    assert connectors.get("/connectors/a/destinations")[0]["last_error"] is None


def test_a_missing_key_lets_the_server_choose(
    client: headrace.Client, connectors: Connectors, events: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-2: rows without a value in the key column are stored, and nothing counts as refused."""
    for customer in ("anna", None, "anna", None):
        events.execute("INSERT INTO events (customer) VALUES (%s)", (customer,))
    routing = f'default_stream = "{stream}"\ndefault_topic = "t"\npartition_key_column = "customer"'
    connectors.run(polling(database_url, routing) + "[sources.a.topic_defaults]\npartitions_count = 4\n")
    until(lambda: sorted(ids(client, stream, "t")) == [1, 2, 3, 4])
    anna = [
        partition
        for partition in range(4)
        for message in client.read(stream, "t", partition=partition)
        if message.key == b"anna"
    ]
    assert len(anna) == 2
    assert len(set(anna)) == 1
    for reason in ("cap", "unknown", "partition_id_out_of_range"):
        assert connectors.metric("iggy_connector_destinations_rejected_total", connector_key="a", reason=reason) == 0


@pytest.mark.parametrize("mode", ["open", "allowlist", "denylist"])
@pytest.mark.parametrize("policy", ["drop", "error"])
def test_a_destination_beyond_the_cap_follows_the_policy(
    client: headrace.Client,
    connectors: Connectors,
    events: psycopg.Connection,
    database_url: str,
    stream: str,
    mode: str,
    policy: str,
) -> None:
    """CON-8: with two destinations allowed the third is dropped, or holds up the source, whatever the mode."""
    for kind in ("a", "b", "c"):
        events.execute("INSERT INTO events (kind) VALUES (%s)", (kind,))
    routing = f'topic_column = "kind"\ndefault_stream = "{stream}"\ndefault_topic = "rest"'
    admission = f'[sources.a.admission]\nmax_destinations = 2\non_admission_failure = "{policy}"\nmode = "{mode}"\n'
    if mode == "allowlist":
        admission += f'allow = [{{ stream = "{stream}", topic = "*" }}]\n'
    elif mode == "denylist":
        admission += f'deny = [{{ stream = "{stream}", topic = "secret" }}]\n'
    connectors.run(polling(database_url, routing) + admission)
    if policy == "drop":
        until(lambda: ids(client, stream, "a") == [1] and ids(client, stream, "b") == [2])
        until(lambda: connectors.status("a")["batches_count"] == 1)
        assert connectors.metric("iggy_connector_destinations_rejected_total", connector_key="a", reason="cap") == 1
    else:
        status = connectors.becomes("a", "degraded")
        assert (status["error_code"], status["records_count"]) == ("not_admitted", 0)
        assert "max_destinations" in status["last_error"]
        assert ids(client, stream, "a") == []
    assert "c" not in [topic.name for topic in client.topics(stream)]


@pytest.mark.long
def test_a_hundred_thousand_destinations_are_bounded(
    client: headrace.Client, connectors: Connectors, events: psycopg.Connection, database_url: str, stream: str
) -> None:
    """CON-9: as many values in the column leave series, destinations and memory as they were with a few."""
    routing = f'topic_column = "kind"\ndefault_stream = "{stream}"\ndefault_topic = "rest"'
    settings = 'cursor_column = "id"\nbatch_size = 5000'
    limit = DROP + "max_destinations = 20\n"
    connectors.run(polling(database_url, routing, settings) + limit)

    def refused() -> float:
        labels = {"connector_key": "a", "reason": "cap"}
        return connectors.metric("headrace_connector_destinations_rejected_total", **labels)

    def insert(first: int, last: int) -> None:
        events.execute(
            "INSERT INTO events (kind) SELECT 'kind-' || n FROM generate_series(%s::int, %s::int) n", (first, last)
        )
        until(lambda: refused() == last - 20, 240)

    def series() -> int:
        # The lag has its own after the first sample, whatever is inserted.
        return sum("_lag{" not in line for line in connectors.get("/metrics").splitlines())

    insert(1, 20_000)
    before = series()
    memory = psutil.Process(connectors.pid).memory_info().rss
    insert(20_001, 100_000)
    assert series() == before
    assert len(connectors.get("/connectors/a/destinations")) == 20
    assert len(client.topics(stream)) == 20
    assert connectors.metric("headrace_connector_destinations_active", connector_key="a") == 20
    assert len(json.dumps(connectors.status("a"))) < 20_000
    assert psutil.Process(connectors.pid).memory_info().rss - memory < 20e6


@pytest.fixture
def writer(client: headrace.Client, stream: str) -> Iterator[str]:
    """A user who may write to one topic of the stream and not to the other."""
    name = f"u{free_port()}"
    client.create_stream(stream)
    topics = {topic: client.create_topic(stream, topic).id for topic in ("open", "closed")}
    permissions = headrace.Permissions(
        everywhere=headrace.GlobalPermissions(),
        streams={
            client.stream(stream).id: headrace.StreamPermissions(
                read_stream=True,
                read_topics=True,
                topics={topics["open"]: headrace.TopicPermissions(send_messages=True, read_topic=True)},
            )
        },
    )
    client.create_user(name, "password", permissions=permissions)
    yield name
    client.delete_user(name)


def test_a_destination_that_keeps_failing_is_refused_alone(
    client: headrace.Client,
    connectors: Connectors,
    events: psycopg.Connection,
    database_url: str,
    stream: str,
    writer: str,
) -> None:
    """CON-8: its circuit opens, the traffic to others goes on, and it closes when the reason is gone."""
    routing = f'topic_column = "kind"\ndefault_stream = "{stream}"\ndefault_topic = "open"'
    pipeline = (
        polling(database_url, routing)
        + '[sources.a.circuit_breaker]\nfailure_threshold = 3\ncool_down = "1 s"\n'
        + DROP
    )
    connectors.write(pipeline)
    text = connectors.file.read_text(encoding="utf-8")
    connectors.file.write_text(text.replace("iggy:iggy@", f"{writer}:password@"), encoding="utf-8")
    connectors.run()
    events.execute("INSERT INTO events (kind) VALUES ('closed'), ('open')")
    until(lambda: connectors.metric("iggy_connector_destination_circuit_open", connector_key="a") == 1)
    until(lambda: 2 in ids(client, stream, "open"))
    labels = {"connector_key": "a", "reason": "circuit_open"}
    until(lambda: connectors.metric("iggy_connector_destinations_rejected_total", **labels) >= 1)
    (closed,) = (one for one in connectors.get("/connectors/a/destinations") if one["topic"] == "closed")
    assert (closed["circuit"], closed["messages_count"]) != ("closed", 1)
    client.set_permissions(
        writer, headrace.Permissions(everywhere=headrace.GlobalPermissions(send_messages=True, read_topics=True))
    )
    until(lambda: connectors.metric("iggy_connector_destination_circuit_open", connector_key="a") == 0)
    events.execute("INSERT INTO events (kind) VALUES ('closed')")
    until(lambda: ids(client, stream, "closed") == [3])
    until(
        lambda: (
            {(one["topic"], one["circuit"]) for one in connectors.get("/connectors/a/destinations")}
            >= {("closed", "closed")}
        )
    )
