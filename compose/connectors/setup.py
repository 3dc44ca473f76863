"""Make what the connectors of the example need, as far as it is missing, as the owner of the cluster and the database.

These are a user with its permissions, streams and topics, a database with tables, and a role that may use them.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import psycopg
from psycopg import sql

import headrace
from headrace_core import GlobalPermissions, Permissions, StreamPermissions

KEYS = Path("/run/keys")
USER = "connectors"
DATABASE = "shop"
LEASES = "headrace-connectors"
TABLES = """
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, item text NOT NULL, cents bigint NOT NULL, sent bool
);
CREATE TABLE IF NOT EXISTS shop.order_copies (id bigint PRIMARY KEY, item text, cents bigint);
CREATE TABLE IF NOT EXISTS shop.headrace_offsets (
    sink text, stream text, topic text, partition bigint, next_offset numeric(20) NOT NULL DEFAULT 0,
    PRIMARY KEY (sink, stream, topic, partition)
);
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA shop TO connectors;
GRANT SELECT ON shop.orders TO connectors;
GRANT UPDATE (sent) ON shop.orders TO connectors;
GRANT SELECT, INSERT, UPDATE ON shop.order_copies, shop.headrace_offsets TO connectors;
"""


def secret(name: str) -> str:
    """Return the contents of a file with a secret."""
    return (KEYS / name).read_text(encoding="utf-8").strip()


def topics() -> None:
    """Make the user, and what it may use: two streams, and nothing else."""
    with headrace.connect(
        "headrace://gateway-0:8090,gateway-1:8090", username="iggy", password=secret("root-password")
    ) as client:
        for stream in (DATABASE, LEASES):
            with contextlib.suppress(headrace.AlreadyExists):
                client.create_stream(stream)
        with contextlib.suppress(headrace.AlreadyExists):
            client.create_topic(DATABASE, "orders", partitions=2)
        with contextlib.suppress(headrace.AlreadyExists):
            client.create_topic(LEASES, DATABASE, message_expiry="never", max_size_bytes=4 << 30)
        rights = StreamPermissions(read_topics=True, poll_messages=True, send_messages=True)
        permissions = Permissions(
            everywhere=GlobalPermissions(),
            streams={client.stream(stream).id: rights for stream in (DATABASE, LEASES)},
        )
        with contextlib.suppress(headrace.AlreadyExists):
            client.create_user(USER, secret("connectors-password"))
        client.set_permissions(USER, permissions)


def tables() -> None:
    """Make the role, and the tables of the example."""
    address = "host=postgres user=headrace sslmode=verify-full sslrootcert=/run/keys/authority.pem"
    with psycopg.connect(
        address, dbname="postgres", password=secret("postgres-password"), autocommit=True
    ) as connection:
        name = sql.Identifier(USER)
        if connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (USER,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE ROLE {}").format(name))
        password = sql.Literal(secret("connectors-database-password"))
        connection.execute(sql.SQL("ALTER ROLE {} LOGIN NOSUPERUSER PASSWORD {}").format(name, password))
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
    with psycopg.connect(address, dbname=DATABASE, password=secret("postgres-password")) as connection:
        connection.execute(TABLES)


if __name__ == "__main__":
    topics()
    tables()
