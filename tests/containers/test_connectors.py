"""CON-53: the connectors containers share their work, and each is taken over when it is killed, under load."""

from __future__ import annotations

import json
import statistics
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headrace
from tests.containers.cluster import CONNECTORS, GATEWAYS, Containers, docker, wait_until
from tests.containers.load import Entrance

TAKEOVER_SECONDS = 10.0
"""Maximum time until the connectors of a container that was killed run again: the median, as a disk may stand still."""
COMPLETE_SECONDS = 60.0
"""Maximum time until everything has caught up, on a loaded machine."""
ROWS = 100
"""Number of rows of a statement of the load."""
STATUS = (
    "import json,urllib.request as u;"
    "h={'Authorization':'Bearer '+open('/run/keys/token').read()};"
    "r=u.Request('http://127.0.0.1:8120/connectors',headers=h);"
    "print(u.urlopen(r,timeout=10).read().decode())"
)


def sql(cluster: Containers, statement: str) -> str:
    """Execute a statement as the owner of the database."""
    psql = "PGPASSWORD=$(< /run/keys/password) psql --host /tmp --username headrace --dbname shop -qtA"
    return cluster.inside("postgres", f'{psql} --command "{statement}"').strip()


def insert(cluster: Containers, count: int) -> None:
    sql(cluster, f"INSERT INTO shop.orders (item, cents) SELECT 'item ' || n, n FROM generate_series(1, {count}) n")


def status(cluster: Containers, service: str) -> dict[str, dict[str, Any]]:
    """Status of the connectors, by name, as one container sees it."""
    return {one["key"]: one for one in json.loads(cluster.inside(service, f'python -c "{STATUS}"'))}


def running(cluster: Containers, service: str) -> set[str]:
    return {key for key, one in status(cluster, service).items() if one["state"] == "running"}


def missing(cluster: Containers) -> int:
    """Number of rows that are not in the other table yet, or differ there."""
    return int(
        sql(cluster, "SELECT count(*) FROM (SELECT id, item, cents FROM shop.orders EXCEPT TABLE shop.order_copies)")
    )


def wait_complete(cluster: Containers, *, why: str) -> float:
    began = time.monotonic()
    wait_until(
        lambda: missing(cluster) == 0,
        COMPLETE_SECONDS,
        lambda: f"{why}: {missing(cluster)} rows are missing\n{cluster.logs(*CONNECTORS)}",
    )
    return time.monotonic() - began


class Load(threading.Thread):
    """Inserts rows all the time; those of a statement that fails may be there or not, as the table says."""

    def __init__(self, cluster: Containers) -> None:
        super().__init__(name="rows", daemon=True)
        self.inserted = 0
        """Number of rows that the database has acknowledged."""
        self.failures = 0
        self._cluster = cluster
        self._may_go_on = threading.Event()

    def run(self) -> None:
        while not self._may_go_on.is_set():
            try:
                insert(self._cluster, ROWS)
            except AssertionError:
                # The database is away.
                self.failures += 1
            else:
                self.inserted += ROWS

    @contextmanager
    def running(self) -> Iterator[Load]:
        """Insert for the duration of a ``with`` block."""
        self.start()
        try:
            self.wait_progress()
            yield self
            self.wait_progress()
        finally:
            self._may_go_on.set()
            self.join(60)

    def wait_progress(self) -> None:
        """Wait until further rows are in the table."""
        before = self.inserted
        wait_until(lambda: self.inserted > before, COMPLETE_SECONDS, lambda: f"{self.failures} statements failed")


@pytest.fixture
def written(cluster: Containers) -> Iterator[None]:
    """A table `shop.writes` with each write of the sink that was committed."""
    sql(cluster, "CREATE TABLE shop.writes (id bigint)")
    body = "'BEGIN INSERT INTO shop.writes VALUES (NEW.id); RETURN NULL; END'"
    sql(cluster, f"CREATE FUNCTION shop.note() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS {body}")
    event = "AFTER INSERT OR UPDATE ON shop.order_copies FOR EACH ROW"
    sql(cluster, f"CREATE TRIGGER note {event} EXECUTE FUNCTION shop.note()")
    yield
    sql(cluster, "DROP TRIGGER note ON shop.order_copies; DROP FUNCTION shop.note(); DROP TABLE shop.writes")


def assert_nothing_twice(cluster: Containers, entrance: Entrance) -> tuple[int, int]:
    """Each message was written at most once, and every row is there; returns the numbers of writes and of messages.

    The source may have sent a row twice, as two messages: that is how often it may be written.
    """
    wait_complete(cluster, why="at the end")
    with headrace.connect(
        f"headrace://{entrance.address}", username=entrance.username, password=entrance.password
    ) as client:
        partitions = client.topic("shop", "orders").partitions
        messages = Counter(
            json.loads(message.payload)["id"]
            for partition in partitions
            for message in client.read("shop", "orders", partition=partition.id, count=10_000_000)
        )
    rows = sql(cluster, "SELECT id, count(*) FROM shop.writes GROUP BY id").splitlines()
    writes = {int(number): int(count) for number, count in (row.split("|") for row in rows)}
    assert writes
    twice = {number: count for number, count in writes.items() if count > messages[number]}
    assert not twice
    return sum(writes.values()), messages.total()


def is_shared(cluster: Containers) -> bool:
    """Return whether each of them runs one connector."""
    one, two = (running(cluster, service) for service in CONNECTORS)
    return len(one) == len(two) == 1 and one != two


def holder(cluster: Containers, connector: str) -> str:
    """Return the container that runs a connector."""
    return next(service for service in CONNECTORS if connector in running(cluster, service))


def copied(cluster: Containers) -> int:
    return int(sql(cluster, "SELECT coalesce(max(id), 0) FROM shop.order_copies"))


def test_each_container_is_killed_under_load(
    cluster: Containers, entrance: Entrance, written: None, show: list[str]
) -> None:
    """CON-98: rows that are inserted after the kill arrive within 10 s; none is lost, and none is written twice."""
    wait_until(lambda: is_shared(cluster), COMPLETE_SECONDS, lambda: cluster.logs(*CONNECTORS))
    load = Load(cluster)
    takeovers: list[float] = []
    with load.running():
        for chosen in (*CONNECTORS, "order-copies"):
            killed = chosen if chosen in CONNECTORS else holder(cluster, chosen)
            left = next(service for service in CONNECTORS if service != killed)
            held = running(cluster, killed)
            began = time.monotonic()
            docker("kill", cluster.container(killed))
            load.wait_progress()
            newest = int(sql(cluster, "SELECT max(id) FROM shop.orders"))
            wait_until(
                lambda newest=newest: copied(cluster) >= newest,  # type: ignore[misc]
                COMPLETE_SECONDS,
                lambda: cluster.logs(*CONNECTORS),
            )
            seconds = time.monotonic() - began
            assert len(running(cluster, left)) == 2
            show.append(f"{killed} was killed with {', '.join(held)}: rows arrive again {seconds:.1f} s later")
            takeovers.append(seconds)
            docker("start", cluster.container(killed))
            cluster.wait_healthy(killed)
            wait_until(lambda: is_shared(cluster), COMPLETE_SECONDS, lambda: cluster.logs(*CONNECTORS))
    assert statistics.median(takeovers) < TAKEOVER_SECONDS
    writes, messages = assert_nothing_twice(cluster, entrance)
    show.append(f"{load.inserted} rows inserted meanwhile, {writes} written, {messages} messages in all")


def test_the_database_is_restarted_under_load(
    cluster: Containers, entrance: Entrance, written: None, show: list[str]
) -> None:
    """CON-98: connectors try until it is back; every row arrives, and none is written twice."""
    load = Load(cluster)
    with load.running():
        cluster.restart("postgres")
        cluster.wait_healthy("postgres")
        load.wait_progress()
        began = time.monotonic()
        newest = int(sql(cluster, "SELECT max(id) FROM shop.orders"))
        wait_until(lambda: copied(cluster) >= newest, COMPLETE_SECONDS, lambda: cluster.logs(*CONNECTORS))
        show.append(f"PostgreSQL was restarted: rows arrive {time.monotonic() - began:.1f} s after it was back")
    assert load.failures, "the load has noticed the restart"
    assert_nothing_twice(cluster, entrance)
    for service in CONNECTORS:
        assert not any(one["state"] == "error" for one in status(cluster, service).values())


def asked(cluster: Containers, gateway: str, path: str, body: object = None, token: str | None = None) -> Any:
    """Call the HTTP API of one gateway; return the JSON of its answer."""
    headers = {"Content-Type": "application/json"} | ({} if token is None else {"Authorization": f"Bearer {token}"})
    encoded = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{cluster.address(gateway)}:3000{path}", encoded, headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_each_gateway_shows_the_connectors(cluster: Containers, entrance: Entrance) -> None:
    """CON-97: both gateways show where each connector runs, also when a container is away, to those who may see it."""
    wait_until(lambda: is_shared(cluster), COMPLETE_SECONDS, lambda: cluster.logs(*CONNECTORS))
    # A destination is shown once something was written to it.
    insert(cluster, 1)
    wait_complete(cluster, why="no load")
    root = {"username": entrance.username, "password": entrance.password}
    tokens = {gateway: asked(cluster, gateway, "/users/login", root)["access_token"]["token"] for gateway in GATEWAYS}

    def places(gateway: str) -> dict[str, tuple[str, str]]:
        found = asked(cluster, gateway, "/connectors", token=tokens[gateway])
        return {one["key"]: (one["state"], one["runs_in"].split(":")[0]) for one in found}

    for gateway in GATEWAYS:
        found = places(gateway)
        assert set(found) == {"orders", "order-copies"}
        assert {state for state, _ in found.values()} == {"running"}
        assert {place for _, place in found.values()} == set(CONNECTORS)
        destinations = asked(cluster, gateway, "/connectors/orders/destinations", token=tokens[gateway])
        assert [(one["stream"], one["topic"]) for one in destinations] == [("shop", "orders")]
    docker("kill", cluster.container("connectors-0"))
    for gateway in GATEWAYS:
        expected = dict.fromkeys(("orders", "order-copies"), ("running", "connectors-1"))
        wait_until(
            lambda gateway=gateway, expected=expected: places(gateway) == expected,  # type: ignore[misc]
            COMPLETE_SECONDS,
            lambda gateway=gateway: str(places(gateway)),  # type: ignore[misc]
        )
    docker("start", cluster.container("connectors-0"))
    cluster.wait_healthy("connectors-0")


def test_tokens_open_what_they_are_for(cluster: Containers) -> None:
    """CON-97: Prometheus has a token for metrics alone; that of the connectors is with them and the gateways."""
    probe = (
        "import sys,urllib.request as u,urllib.error as e\n"
        "for path in ('metrics', 'connectors'):\n"
        "    r=u.Request('http://127.0.0.1:8120/'+path,headers={'Authorization':'Bearer '+sys.argv[1]})\n"
        "    try: print(u.urlopen(r,timeout=10).status)\n"
        "    except e.HTTPError as error: print(error.code)\n"
    )
    token = cluster.inside("prometheus", "cat /run/keys/connectors-token").strip()
    assert cluster.inside("connectors-0", f'python -c "{probe}" {token}').split() == ["200", "401"]
    of_gateways = {cluster.inside(gateway, "cat /run/keys/connectors-token").strip() for gateway in GATEWAYS}
    assert of_gateways == {cluster.inside("connectors-0", "cat /run/keys/token").strip()}
    assert token not in of_gateways


def test_its_user_and_its_role_may_do_no_more_than_is_needed(cluster: Containers) -> None:
    """Other streams and other tables are refused."""
    roles = "SELECT rolsuper, rolcreatedb, rolcreaterole, rolreplication FROM pg_roles WHERE rolname = 'connectors'"
    assert sql(cluster, roles) == "f|f|f|f"
    assert sql(cluster, "SELECT has_table_privilege('connectors', 'shop.orders', 'DELETE')") == "f"
    assert sql(cluster, "SELECT has_schema_privilege('connectors', 'shop', 'CREATE')") == "f"
    program = (
        "import headrace\n"
        "with headrace.connect('headrace://gateway-0:8090', username='connectors', "
        "password=open('/run/keys/password').read().strip()) as client:\n"
        "    for call in (lambda: client.create_stream('x'), client.users, lambda: client.delete_stream('shop')):\n"
        "        try:\n"
        "            call()\n"
        "        except headrace.HeadraceError as error:\n"
        "            print(type(error).__name__)\n"
    )
    printed = cluster.inside("connectors-0", f'python -c "{program}"')
    assert printed.split() == ["PermissionDenied"] * 3
