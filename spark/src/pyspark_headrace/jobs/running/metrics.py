"""Metrics of a job for Prometheus. Imported only by a running job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, Self

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

_PREFIX: Final = "headrace_job_"
_LABELS: Final = ("job", "name")
_BUCKETS: Final = (0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 1800)


class Metrics:
    """Metrics with the labels `job` and `name`."""

    def __init__(self, job: str, name: str) -> None:
        """Create the metrics.

        Args:
            job: Job.
            name: Name of this instance of the job.
        """
        self.registry: Final = CollectorRegistry()
        self._own = (job, name)
        self._more: dict[str, Counter | Gauge] = {}
        self._lag = Gauge(
            _PREFIX + "lag_messages",
            "Existing messages that are not read yet.",
            (*_LABELS, "topic", "partition"),
            registry=self.registry,
        )
        self._lag_seconds = self.gauge("lag_seconds", "Minimum age of the oldest of them.")
        self._batch = Histogram(
            _PREFIX + "batch_seconds",
            "Duration of a micro-batch.",
            _LABELS,
            registry=self.registry,
            buckets=_BUCKETS,
        ).labels(*self._own)
        self._rows = self.counter("rows", "Messages that were read.")
        self._bytes = self.counter("bytes", "Bytes of them, where the job knows.")
        self._close: Callable[[], None] | None = None

    def counter(self, name: str, about: str) -> Counter:
        """Return the counter ``headrace_job_<name>_total`` of the job; the same object for the same name."""
        if name not in self._more:
            self._more[name] = Counter(_PREFIX + name, about, _LABELS, registry=self.registry).labels(*self._own)
        found = self._more[name]
        assert isinstance(found, Counter)  # noqa: S101 - one name is one figure
        return found

    def gauge(self, name: str, about: str) -> Gauge:
        """Return the gauge ``headrace_job_<name>`` of the job; the same object for the same name."""
        if name not in self._more:
            self._more[name] = Gauge(_PREFIX + name, about, _LABELS, registry=self.registry).labels(*self._own)
        found = self._more[name]
        assert isinstance(found, Gauge)  # noqa: S101 - one name is one figure
        return found

    def batch(self, seconds: float) -> None:
        """Record a completed micro-batch."""
        self._batch.observe(seconds)

    def add(self, *, rows: int = 0, bytes: int = 0) -> None:  # noqa: A002 - what it is
        """Add rows and bytes that were read."""
        self._rows.inc(rows)
        self._bytes.inc(bytes)

    def lag(self, messages: Mapping[tuple[str, int], int], seconds: float) -> None:
        """Set the lag of the job.

        Args:
            messages: Unread messages by topic (``stream/topic``) and partition.
            seconds: Lower bound of the age of the oldest unread message.
        """
        for (topic, partition), count in messages.items():
            self._lag.labels(*self._own, topic, str(partition)).set(count)
        self._lag_seconds.set(seconds)

    def listen(self, host: str, port: int) -> str:
        """Serve the metrics over HTTP until `close`.

        Args:
            host: Local host name or address.
            port: Port; 0 selects a free one.

        Returns:
            URL of the metrics.

        Raises:
            OSError: The address cannot be bound.
        """
        server, thread = start_http_server(port, host, self.registry)

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        self._close = close
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{server.server_port}/metrics"

    def close(self) -> None:
        """Stop serving the metrics."""
        if self._close is not None:
            self._close()
            self._close = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
