"""SPK-1, SPK-2: a node connection breaks, is slow or stalls during a query: each row once, or a precise error."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from outputs import payloads
from place import Place
from proxy import Proxy
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from queries import WAIT_SECONDS, stream
from tests.compatibility.protocol.raw import eventually
from tests.server_process import ServerProcess


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, Proxy]]:
    """A server, and a proxy in front of its partitions that all clients use."""
    server = ServerProcess(tmp_path_factory.mktemp("server") / "data", {"DURABILITY": "fsync"})
    with Proxy(server.pipelines_address) as proxy:
        server.settings["PIPELINES_ADVERTISED"] = proxy.address
        with server:
            yield server, proxy


@pytest.fixture
def server(proxied: tuple[ServerProcess, Proxy]) -> ServerProcess:
    return proxied[0]


@pytest.fixture
def proxy(proxied: tuple[ServerProcess, Proxy]) -> Proxy:
    return proxied[1]


class Trouble(threading.Thread):
    """Disturbs connections while a query runs: breaks them, holds responses back, pauses."""

    def __init__(self, proxy: Proxy, moments: random.Random) -> None:
        super().__init__(daemon=True)
        self.cuts = 0
        self._proxy = proxy
        self._moments = moments
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(self._moments.uniform(0.1, 0.6)):
            self._proxy.cut()
            self.cuts += 1
            if self._moments.random() < 0.5:
                self._proxy.may_forward.clear()
                self._is_over.wait(1.0)
                self._proxy.may_forward.set()

    def end(self) -> None:
        self._is_over.set()
        self.join()


@pytest.mark.long
def test_a_way_that_breaks_and_stands_still(spark: SparkSession, place: Place, proxy: Proxy, tmp_path: Path) -> None:
    place.topic("a", 3000, 3000, prefix="." * 200)
    place.topic("out", 0, 0)
    expected = Counter(f"{'.' * 200}{part}:{number}".encode() for part in range(2) for number in range(3000))
    # The stall timeout expires before the stall ends.
    retries = {"retry.max": "40", "retry.intervalMs": "20"}
    given = {"subscribe": "a", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "1500", "fetchBytes": "16k"}
    frame = stream(spark, place, **given, fetchTimeoutMs="400", **retries).select("value")

    def begin(**more: str) -> StreamingQuery:
        options = place.options(topic="out", batchBytes="16k", appendTimeoutMs="400") | retries | more
        writer = frame.writeStream.format("headrace").options(**options)
        return writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()

    def through() -> int:
        return len(list((tmp_path / "cp/commits").glob("[0-9]*")))

    # Permanent stall, which is reported.
    proxy.may_forward.clear()
    frame = stream(spark, place, **given, fetchTimeoutMs="200", retry_max="1").select("value")
    query = begin()
    with pytest.raises(StreamingQueryException, match=r"(StalledError|UnreachableError): .*a, partition [01]"):
        query.awaitTermination(int(WAIT_SECONDS))
    proxy.may_forward.set()
    assert payloads(place) == Counter()
    assert through() == 0

    frame = stream(spark, place, **given, fetchTimeoutMs="400", **retries).select("value")
    seed = random.randrange(2**32)
    trouble = Trouble(proxy, random.Random(seed))
    query = begin()
    trouble.start()
    try:
        eventually("two micro-batches are through", lambda: through() >= 2 or query.exception(), timeout_seconds=150)
        trouble.end()
        proxy.delay_seconds = 0.002
        assert query.awaitTermination(int(WAIT_SECONDS)), "the query does not end"
    finally:
        trouble.end()
        proxy.delay_seconds = 0.0
        query.stop()
    assert trouble.cuts >= 2
    eventually("everything that is committed can be read", lambda: payloads(place).total() >= expected.total())
    assert payloads(place) == expected, f"seed {seed}"
