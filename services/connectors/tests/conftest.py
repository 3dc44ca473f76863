"""Servers and files that the tests of connectors share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.postgresql import postgresql

from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.plugins.discovery import Plugins

_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """Address of a PostgreSQL server, without a database."""
    with postgresql() as environment:
        yield f"postgresql://{environment['PGUSER']}@{environment['PGHOST']}:{environment['PGPORT']}"


@pytest.fixture
def database(postgresql_server: str) -> Iterator[psycopg.Connection]:
    """A connection to an empty database of this test."""
    name = f"d{next(_numbers)}"
    with psycopg.connect(f"{postgresql_server}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with psycopg.connect(f"{postgresql_server}/{name}", autocommit=True) as connection:
        yield connection
        # A server has ten slots only.
        connection.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            "WHERE database = current_database() AND NOT active"
        )


@pytest.fixture
def database_url(postgresql_server: str, database: psycopg.Connection) -> str:
    """Address of this test's database."""
    return f"{postgresql_server}/{database.info.dbname}"


@pytest.fixture
def parse(tmp_path: Path):
    """Check the text of a pipeline file."""

    def parse(text: str, **environment: str):
        return parse_pipeline(tmp_path / "pipeline.toml", text, Plugins(), environment)

    return parse
