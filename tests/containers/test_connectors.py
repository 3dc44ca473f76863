"""CON-53: the connectors containers share their work, and each is taken over when it is killed, under load."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.containers.cluster import CONNECTORS, Containers, docker, wait_until

TAKEOVER_SECONDS = 60.0
"""Maximum time until everything runs again and has caught up, on a loaded machine."""
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


def insert(cluster: Containers, count: int = 200) -> None:
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
        TAKEOVER_SECONDS,
        lambda: f"{why}: {missing(cluster)} rows are missing\n{cluster.logs(*CONNECTORS)}",
    )
    return time.monotonic() - began


def test_each_container_is_killed_and_every_row_arrives(cluster: Containers, show: list[str]) -> None:
    """Both share the connectors; the one that is left runs all, until the other is back."""

    def is_shared() -> bool:
        one, two = (running(cluster, service) for service in CONNECTORS)
        return len(one) == len(two) == 1 and one != two

    wait_until(is_shared, TAKEOVER_SECONDS, lambda: cluster.logs(*CONNECTORS))
    insert(cluster)
    wait_complete(cluster, why="at first")
    for killed, left in (CONNECTORS, CONNECTORS[::-1]):
        insert(cluster)
        docker("kill", cluster.container(killed))
        insert(cluster)
        began = time.monotonic()
        wait_until(
            lambda left=left: len(running(cluster, left)) == 2,  # type: ignore[misc]
            TAKEOVER_SECONDS,
            lambda: cluster.logs(*CONNECTORS),
        )
        show.append(f"{left} runs everything {time.monotonic() - began:.1f} s after {killed} was killed")
        insert(cluster)
        wait_complete(cluster, why=f"{killed} was killed")
        docker("start", cluster.container(killed))
        cluster.wait_healthy(killed)
        wait_until(is_shared, TAKEOVER_SECONDS, lambda: cluster.logs(*CONNECTORS))


def test_the_database_is_restarted_under_load(cluster: Containers, show: list[str]) -> None:
    """Connectors try until it is back; every row arrives."""
    insert(cluster)
    cluster.restart("postgres")
    cluster.wait_healthy("postgres")
    insert(cluster)
    show.append(f"complete {wait_complete(cluster, why='PostgreSQL was restarted'):.1f} s after PostgreSQL was back")
    for service in CONNECTORS:
        assert not any(one["state"] == "error" for one in status(cluster, service).values())


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
