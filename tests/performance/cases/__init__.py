"""Benchmark cases, one per file or package; that of other logs is in `rivals`."""

from collections.abc import Callable, Mapping

from tests.performance.cases import (
    browsers,
    cluster,
    commits,
    encryption,
    fetch,
    frames,
    large,
    links,
    long_poll,
    memory,
    metadata,
    peaks,
    small,
    spark,
    spark_memory,
    startup,
    websocket,
)
from tests.performance.cases.connectors import case as connectors
from tests.performance.cases.sdk import clients, scan
from tests.performance.results.section import Section
from tests.performance.rivals import case as rivals
from tests.performance.workbench import Workbench

RUN: Mapping[str, Callable[[Workbench], Section]] = {
    "large": large.run,
    "small": small.run,
    "frames": frames.run,
    "fsync": commits.run,
    "websocket": websocket.run,
    "peaks": peaks.run,
    "tls": encryption.run,
    "cluster": cluster.run,
    "links": links.run,
    "fetch": fetch.run,
    "memory": memory.run,
    "metadata": metadata.run,
    "startup": startup.run,
    "waiting": long_poll.run,
    "browsers": browsers.run,
    "sdk": clients.run,
    "connectors": connectors.run,
    "rivals": rivals.run,
    "scan": scan.run,
    "spark": spark.run,
    "spark-memory": spark_memory.run,
}
