"""Servers and files that the tests of connectors share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.postgresql import empty_database, postgresql_address

from headrace_connectors.pipeline_file.pipeline import parse_pipeline
from headrace_connectors.plugins.discovery import Plugins


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """Address of a PostgreSQL server, without a database."""
    with postgresql_address() as address:
        yield address


@pytest.fixture
def database(postgresql_server: str) -> Iterator[psycopg.Connection]:
    """A connection to an empty database of this test."""
    with empty_database(postgresql_server) as connection:
        yield connection


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
