"""The example `examples/orders`, as its page says: webhook, topic, workers, dead letters, table."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

import headrace
from tests.connectors.process import until
from tests.ports import free_port
from tests.sdk.conftest import url_of
from tests.server_process import PASSWORD, USERNAME, ServerProcess
from tests.site import documents
from tests.site.documents import ROOT
from tests.site.scripts import outputs, script_of, substituted, unexpected
from tests.site.test_blocks import run

PAGE = documents.read(Path("examples/orders/README.md"))
EXAMPLE = ROOT / "examples/orders"


@pytest.mark.long
@pytest.mark.timeout(200)
def test_the_blocks_of_the_page_work(server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = {
        "127.0.0.1:8090": server.address,
        "127.0.0.1:8092": server.websocket_address,
        "127.0.0.1:3000": server.http_address,
        "127.0.0.1:8094": server.grpc_address,
        "127.0.0.1:8101": server.pipelines_address,
        "127.0.0.1:8120": f"127.0.0.1:{free_port()}",
        "127.0.0.1:8121": f"127.0.0.1:{free_port()}",
    }
    # The programs name fixed ports, so those that run here are copies.
    copy = tmp_path / "copy/orders"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file in copy.iterdir():
        file.write_text(substituted(file.read_text(encoding="utf-8"), addresses), encoding="utf-8")
    script = script_of(PAGE, addresses).replace("examples/orders", str(copy))
    status, printed = run(script, tmp_path, addresses, {})
    logs = "".join(path.read_text() for path in (tmp_path / "work").glob("*.log"))
    assert status == 0, printed + logs
    for block in PAGE.blocks:
        if block.is_run and block.language == "console":
            missing = unexpected(block, outputs(PAGE, printed)[block.line], addresses)
            assert missing is None, f"{block.place}: not printed: {missing}\n{printed}"
    assert "8 orders were sent again" in printed
    assert printed.count("still wrong: ") == 2
    with headrace.connect(url_of(server.address)) as client:
        reasons = Counter(
            letter.headers["x-dead-letter-exception"]
            for letter in client.read("shop", "orders-dead", count=1000)
            if letter.headers is not None
        )
    assert reasons["billing.UnknownArticle"] == 8
    # Later ones may be under way when the workers are stopped.
    assert reasons["msgspec.ValidationError"] >= 2


@contextmanager
def worker(server: ServerProcess, directory: Path, name: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A worker whose files are in a directory; yields the process and its log."""
    log = directory / name
    variables = {"HEADRACE_SERVER": server.address, "HEADRACE_USERNAME": USERNAME, "HEADRACE_PASSWORD": PASSWORD}
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, str(EXAMPLE / "worker.py")],
            cwd=directory,
            env=os.environ | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            until(lambda: "ready" in log.read_text())
            yield process, log
        finally:
            process.kill()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[headrace.Client]:
    """A client of a server with the topic of the example."""
    with headrace.connect(url_of(server.address)) as client:
        client.create_stream("shop")
        client.create_topic("shop", "orders", partitions=1)
        yield client


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """The table, with a price for tea."""
    subprocess.run([sys.executable, str(EXAMPLE / "price.py"), "tea=250"], cwd=tmp_path, check=True)
    with closing(sqlite3.connect(tmp_path / "orders.db", isolation_level=None)) as database:
        yield database


def billed(database: sqlite3.Connection) -> list[tuple[int, int]]:
    """Number and cents of the orders in the table."""
    return database.execute("SELECT number, cents FROM orders ORDER BY number").fetchall()


def test_a_worker_tries_again_while_the_table_is_locked(
    server: ServerProcess, client: headrace.Client, database: sqlite3.Connection, tmp_path: Path
) -> None:
    with worker(server, tmp_path, "worker.log") as (process, log):
        database.execute("BEGIN IMMEDIATE")
        with client.producer("shop", "orders") as producer:
            producer.send(b'{"number": 1, "customer": "anna", "article": "tea", "count": 2}')
        until(lambda: "trying again" in log.read_text())
        assert billed(database) == []
        database.execute("COMMIT")
        until(lambda: billed(database) == [(1, 500)])
        process.terminate()
        assert process.wait(60) == 0
    assert "stopped" in log.read_text()
    assert client.topics("shop")[0].name == "orders"
    assert len(client.topics("shop")) == 1, "there is no letter"


def test_an_order_that_comes_twice_is_billed_once_and_wrong_ones_do_not_stop_the_partition(
    server: ServerProcess, client: headrace.Client, database: sqlite3.Connection, tmp_path: Path
) -> None:
    payloads = [
        b'{"number": 1, "customer": "anna", "article": "tea", "count": 2}',
        b"no JSON",
        b'{"number": 2, "customer": "anna", "article": "tea", "count": 0}',
        b'{"number": 1, "customer": "anna", "article": "tea", "count": 2}',
        b'{"number": 3, "customer": "anna", "article": "tea", "count": 1}',
    ]
    with worker(server, tmp_path, "killed.log") as (process, _):
        with client.producer("shop", "orders") as producer:
            producer.send_many(payloads, partition=0)
        until(lambda: billed(database) == [(1, 500), (3, 250)])
        process.kill()
    with worker(server, tmp_path, "next.log") as (process, log):
        with client.producer("shop", "orders") as producer:
            producer.send(b'{"number": 4, "customer": "ben", "article": "tea", "count": 1}')
        until(lambda: billed(database) == [(1, 500), (3, 250), (4, 250)])
        process.terminate()
        assert process.wait(60) == 0, log.read_text()
    letters = client.read("shop", "orders-dead")
    assert {letter.payload for letter in letters} == {payloads[1], payloads[2]}
