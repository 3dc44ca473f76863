"""The tutorial on databases works as it is typed: from a table to topics, and to Parquet files."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connectors.process import until
from tests.ports import free_port
from tests.server_process import ServerProcess
from tests.site import documents
from tests.site.documents import ROOT

PAGE = documents.read(Path("docs/tutorials/database.md"))
PIPELINE = "cat > pipeline.toml"
SECONDS = 300
"""Time that a newcomer needs at most."""


def typed(marker: str) -> str:
    """The block of the tutorial that contains `marker`."""
    (block,) = [block.code for block in PAGE.blocks if marker in block.code]
    return block


class Reader:
    """A reader who types in one directory. Only addresses differ, as the usual ports may be taken here."""

    def __init__(self, directory: Path, database_url: str, server: ServerProcess) -> None:
        self.directory = directory
        http = f"127.0.0.1:{free_port()}"
        self._here = {
            "postgresql://postgres@127.0.0.1/postgres": database_url,
            "127.0.0.1:8090": server.address,
            "[server]\n": f'[http]\naddress = "{http}"\n\n[server]\n',
        }
        self.environment = os.environ | {
            "PATH": f"{ROOT / '.venv/bin'}:{os.environ['PATH']}",
            "DATABASE_URL": database_url,
            "HEADRACE_CONNECTORS_URL": f"http://{http}",
        }

    def start(self, script: str) -> subprocess.Popen[str]:
        """Start what is typed."""
        for usual, here in self._here.items():
            script = script.replace(usual, here)
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, script: str) -> str:
        """Run what is typed; return what is printed."""
        process = self.start(script)
        printed = process.communicate(timeout=120)[0]
        assert process.returncode == 0, printed
        return printed


@pytest.fixture
def reader(tmp_path: Path, database_url: str, server: ServerProcess) -> Reader:
    """A reader in an empty directory."""
    return Reader(tmp_path, database_url, server)


@pytest.fixture
def running(reader: Reader) -> Iterator[subprocess.Popen[str]]:
    """The connectors, in another terminal, after the table and the file were made."""
    reader.run(typed("CREATE TABLE events"))
    tried = reader.run(typed(PIPELINE))
    assert "pipeline.toml is valid: 1 source (events), 1 sink (files)" in tried
    assert "events/payment" in tried
    assert "the topic events/refund does not exist yet: it is read when a source has created it" in tried
    process = reader.start(typed("headrace connect run"))
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_table_goes_to_topics_and_to_files(reader: Reader, running: subprocess.Popen[str]) -> None:
    """CON-94: every block as it is written, within five minutes, and the same after a stop."""
    began = time.monotonic()

    def files() -> int:
        return len(list(reader.directory.glob("events/stream=events/*/*/*.parquet")))

    # A slow machine may write a topic to more than one file.
    until(lambda: running.poll() is not None or files() >= 3)
    assert reader.run(typed("headrace connect status")).count("running") == 2

    def counted() -> bool:
        words = [line.split() for line in reader.run(typed("import polars")).splitlines()]
        return all(
            any({topic, count} <= set(line) for line in words)
            for topic, count in (("order", "1001"), ("payment", "1000"), ("refund", "1000"))
        )

    until(counted)
    os.killpg(running.pid, signal.SIGINT)
    output = running.communicate(timeout=60)[0]
    assert running.returncode == 0, output
    assert "Traceback" not in output
    assert time.monotonic() - began < SECONDS
