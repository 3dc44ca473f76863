"""A time range of a topic as a table: what the server reads and sends for it, as a share of what is stored."""

from __future__ import annotations

import shutil
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

import headrace
from tests.performance.loads.load import STREAM, TOPIC
from tests.performance.options import GB
from tests.performance.results.metrics import Metric, at_most
from tests.performance.results.section import Section
from tests.performance.rounds import Turn, alternate
from tests.performance.workbench import Workbench, create_topic, stop_and_evict
from tests.server_process import PASSWORD, USERNAME, ServerProcess

PARTITIONS = 4
VALUE_BYTES = 100
SHARE = 0.01
"""Part of the messages in the time range."""
_SEND = 1000
_MESSAGE_BYTES = 64 + VALUE_BYTES
_COLUMNS = ("partition", "offset", "timestamp", "value")


class WrongRows(Exception):
    """A scan of a time range gave other rows than a filter of everything."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one result, without the rows: as many as 100 million do not fit into memory."""

    count: int
    offsets: Mapping[int, tuple[int, int]]
    """Number of rows and sum of offsets by partition."""


@dataclass(frozen=True, slots=True)
class _Counters:
    """Counters of the server, in bytes."""

    storage_read: float
    polled: float


def run(bench: Workbench) -> Section:
    """Measure the case."""
    messages = bench.scale.scan_messages
    title = f"a time range of 1 % of {messages:,} messages of {VALUE_BYTES} B in {PARTITIONS} partitions"
    wanted = messages * _MESSAGE_BYTES * 11 // 10 + GB
    free = shutil.disk_usage(bench.directory).free
    if free < wanted:
        note = f"Not measured: {wanted / GB:.0f} GB of free space are wanted, {free / GB:.0f} are there."
        return Section(name="scan", title=title, notes=[note])
    bench.started(f"writing {messages:,} messages")
    with bench.server("scan") as server:
        create_topic(server, PARTITIONS)
        begin = time.perf_counter()
        since, until = _fill(server, messages)
        filling = time.perf_counter() - begin
        samples = alternate({"scan": _turn(bench, server, since, until)}, bench.scale.rounds, bench.started)
        bench.started("reading everything")
        begin = time.perf_counter()
        everything = _summary(server, where=(pc.field("timestamp") >= since) & (pc.field("timestamp") < until))
        full = time.perf_counter() - begin
        if everything != (found := _summary(server, since=since, until=until)):
            raise WrongRows(f"{found} in place of {everything}")
    shutil.rmtree(server.data)
    return Section(
        name="scan",
        title=title,
        metrics=[
            Metric("rows of the time range", (100 * everything.count / messages,), "% of all"),
            Metric("bytes read from files", tuple(samples["read"]), "% of all", at_most(200 * SHARE)),
            Metric("bytes of messages sent", tuple(samples["polled"]), "% of all", at_most(200 * SHARE)),
            Metric("scan of the time range", tuple(samples["seconds"]), "s"),
            Metric("scan of everything, filtered", (full,), "s"),
            Metric("writing", (messages / filling,), "messages/s"),
        ],
        notes=[
            (
                "Each scan follows a start of the server with nothing in the page cache. Both ways gave the same rows, "
                "by number and sum of offsets in each partition."
            )
        ],
    )


def _fill(server: ServerProcess, messages: int) -> tuple[datetime, datetime]:
    """Write messages and return the moments between which `SHARE` of them were appended, half-way."""
    batch = [bytes(VALUE_BYTES)] * _SEND
    sends = -(-messages // _SEND)
    first, last = sends // 2, sends // 2 + max(1, round(sends * SHARE))
    moments = []
    with _client(server) as client, client.producer(STREAM, TOPIC) as producer:
        for number in range(sends):
            if number in {first, last}:
                producer.flush()
                moments.append(datetime.now(UTC))
                # The server's clock has microseconds, too, and batches that follow are of a later one.
                while datetime.now(UTC) - moments[-1] < timedelta(milliseconds=2):
                    pass
            producer.send_many(batch, partition=number % PARTITIONS)
    since, until = moments
    return since, until


def _turn(bench: Workbench, server: ServerProcess, since: datetime, until: datetime) -> Turn[float]:
    def turn() -> Mapping[str, float]:
        stop_and_evict(server)
        server.start()
        with _client(server) as client:
            stored = sum(part.size_bytes for part in client.topic(STREAM, TOPIC).partitions)
        before = _counters(server)
        bench.started("scanning")
        begin = time.perf_counter()
        _summary(server, since=since, until=until)
        seconds = time.perf_counter() - begin
        after = _counters(server)
        return {
            "seconds": seconds,
            "read": 100 * (after.storage_read - before.storage_read) / stored,
            "polled": 100 * (after.polled - before.polled) / stored,
        }

    return turn


def _summary(
    server: ServerProcess,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    where: pc.Expression | None = None,
) -> _Rows:
    count = 0
    offsets: dict[int, tuple[int, int]] = {}
    with _client(server) as client:
        scan = client.scan(STREAM, TOPIC, columns=_COLUMNS, since=since, until=until, where=where)
        for batch in scan.batches():
            if batch.num_rows:
                partition = batch.column("partition")[0].as_py()
                rows, total = offsets.get(partition, (0, 0))
                offsets[partition] = (
                    rows + batch.num_rows,
                    total + pc.sum(batch.column("offset").cast(pa.int64())).as_py(),
                )
                count += batch.num_rows
    return _Rows(count, offsets)


def _client(server: ServerProcess) -> headrace.Client:
    return headrace.connect(f"headrace://{server.address}", username=USERNAME, password=PASSWORD)


def _counters(server: ServerProcess) -> _Counters:
    with urllib.request.urlopen(f"{server.http_url}/metrics") as answer:
        lines = answer.read().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return _Counters(float(values["headrace_storage_read_bytes_total"]), float(values["headrace_polled_bytes_total"]))
