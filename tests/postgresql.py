"""A PostgreSQL server for tests, from the distribution's package; `.ci/postgresql` installs it."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tests.ports import free_port

USER = "headrace"
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


@contextmanager
def postgresql() -> Generator[dict[str, str]]:
    """Run an empty server during a ``with`` block; the value is what libpq's variables have to be."""
    where = programs()
    # The server refuses to run as root, and another user may not enter the directories of tests.
    owner = pwd.getpwnam("postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name)
    directory = Path(tempfile.mkdtemp(prefix="headrace-postgresql-"))
    os.chown(directory, owner.pw_uid, owner.pw_gid)
    data, port = directory / "data", free_port()

    def run(program: str, *arguments: str) -> None:
        subprocess.run(
            [where / program, "--pgdata", data, *arguments],
            check=True,
            cwd=directory,
            user=owner.pw_uid,
            group=owner.pw_gid,
            extra_groups=[],
            stdin=subprocess.DEVNULL,
            # A file: a pipe would stay open in the server.
            stdout=log,
            stderr=log,
        )

    with (directory / "log").open("wb") as log:
        try:
            run("initdb", "--auth", "trust", "--username", USER, "--no-sync", "--encoding", "UTF8")
            settings = {
                "listen_addresses": "127.0.0.1",
                "port": port,
                "unix_socket_directories": directory,
                "fsync": "off",
                # For clients that read changes from the write-ahead log.
                "wal_level": "logical",
            }
            options = " ".join(f"-c {name}={value}" for name, value in settings.items())
            run("pg_ctl", "start", "--wait", "--silent", "--options", options)
            try:
                yield {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": USER, "PGDATABASE": "postgres"}
            finally:
                run("pg_ctl", "stop", "--wait", "--silent", "--mode", "immediate")
        except subprocess.CalledProcessError as error:
            raise AssertionError(f"{error}\n{(directory / 'log').read_text(errors='replace')}") from error
        finally:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def postgresql_address() -> Generator[str]:
    """Run an empty server during a ``with`` block; the value is its address, without a database."""
    with postgresql() as environment:
        yield f"postgresql://{environment['PGUSER']}@{environment['PGHOST']}:{environment['PGPORT']}"


@contextmanager
def empty_database(server: str) -> Generator[psycopg.Connection]:
    """Connect to a new database of a server during a ``with`` block. Its replication slots are dropped at the end."""
    name = f"d{next(_numbers)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as administration:
        administration.execute(f"CREATE DATABASE {name}")
        with psycopg.connect(f"{server}/{name}", autocommit=True) as connection:
            yield connection
        # A server has ten slots only. Processes of the test may run still, and would use theirs again.
        administration.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        administration.execute(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s", (name,)
        )
        administration.execute(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,)
        )
