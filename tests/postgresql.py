"""A PostgreSQL server for tests, from the distribution's package; `.ci/postgresql` installs it."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.ports import free_port

USER = "headrace"
_END_SECONDS = 60.0
_numbers = itertools.count()


class PostgresqlMissing(Exception):
    """No server is installed."""


def programs() -> Path:
    """Return the directory of the newest server's programs.

    Raises:
        PostgresqlMissing: No server is installed.
    """
    # Debian has a directory for each version, and none of them in PATH; others have them in PATH.
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if (in_path := shutil.which("initdb")) is not None:
        return Path(in_path).parent
    raise PostgresqlMissing("there is no initdb: `.ci/postgresql` installs PostgreSQL")


class PostgresqlServer:
    """An empty server, which can crash and start again. `close` removes it."""

    def __init__(self) -> None:
        self._programs = programs()
        # The server refuses to run as root, and another user may not enter the directories of tests.
        self._owner = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
        self._directory = Path(tempfile.mkdtemp(prefix="headrace-postgresql-"))
        os.chown(self._directory, self._owner.pw_uid, self._owner.pw_gid)
        self.port = free_port()
        try:
            self._run("initdb", "--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8")
        except AssertionError:
            self.close()
            raise

    def start(self) -> None:
        """Start it, and wait until it accepts connections."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self._directory,
            "fsync": "off",
            # For clients that read changes from the write-ahead log.
            "wal_level": "logical",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self._run("pg_ctl", "start", "--wait", "--silent", "--options", options)

    def crash(self) -> None:
        """End it at once: the next start recovers from the log."""
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode", "immediate")

    def stop(self) -> None:
        """Shut it down when it has sent what its replication connections need."""
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode", "fast")

    def close(self) -> None:
        """Remove its data; it has ended."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        log = self._directory / "log"
        try:
            # A file: a pipe would stay open in the server.
            with log.open("ab") as output:
                subprocess.run(
                    [self._programs / program, "--pgdata", self._directory / "data", *arguments],
                    check=True,
                    cwd=self._directory,
                    user=self._owner.pw_uid,
                    group=self._owner.pw_gid,
                    extra_groups=[],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                )
        except subprocess.CalledProcessError as error:
            raise AssertionError(f"{error}\n{log.read_text(errors='replace')}") from error


@contextmanager
def postgresql() -> Generator[dict[str, str]]:
    """Run an empty server during a ``with`` block; the value is what libpq's variables have to be."""
    server = PostgresqlServer()
    try:
        server.start()
        try:
            yield {"PGHOST": "127.0.0.1", "PGPORT": str(server.port), "PGUSER": USER, "PGDATABASE": "postgres"}
        finally:
            server.crash()
    finally:
        server.close()


@contextmanager
def postgresql_address() -> Generator[str]:
    """Run an empty server during a ``with`` block; the value is its address, without a database."""
    with postgresql() as environment:
        yield f"postgresql://{environment['PGUSER']}@{environment['PGHOST']}:{environment['PGPORT']}"


@contextmanager
def empty_database(server: str) -> Generator[psycopg.Connection]:
    """Connect to a new database of a server during a ``with`` block; the end drops it and its replication slots."""
    name = f"d{next(_numbers)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as administration:
        # Copying the files of the template takes half of the time of copying it through the write-ahead log.
        strategy = "STRATEGY FILE_COPY" if administration.info.server_version >= 150000 else ""
        administration.execute(f"CREATE DATABASE {name} {strategy}")
        with psycopg.connect(f"{server}/{name}", autocommit=True) as connection:
            yield connection
        # A server has ten slots only. Processes of the test may run still, and would use theirs again.
        administration.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        deadline = time.monotonic() + _END_SECONDS
        while not _slots_are_dropped(administration, name):
            assert time.monotonic() < deadline, f"a process keeps a replication slot of {name}"
        # Each database is 300 files: those of a hundred tests would have to be removed at the end, in one go.
        administration.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _slots_are_dropped(administration: psycopg.Connection, database: str) -> bool:
    administration.execute(
        "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (database,)
    )
    try:
        administration.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (database,)
        )
    except psycopg.errors.ObjectInUse:
        # A connection that was being opened when connections were forbidden is not among the activities at once.
        return False
    return True


@pytest.fixture(scope="session")
def postgresql_server() -> Generator[str]:
    """Address of a PostgreSQL server, without a database."""
    with postgresql_address() as address:
        yield address


@pytest.fixture
def database(postgresql_server: str) -> Generator[psycopg.Connection]:
    """A connection to an empty database of this test."""
    with empty_database(postgresql_server) as connection:
        yield connection


@pytest.fixture
def database_url(postgresql_server: str, database: psycopg.Connection) -> str:
    """Address of this test's database."""
    return f"{postgresql_server}/{database.info.dbname}"
