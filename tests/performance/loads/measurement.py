"""Measurement of one run of a load, by any load generator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GB = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One run. Bytes are of user payload; CPU time is that of the measured process, not of the whole machine."""

    requests: int
    payload_bytes: int
    wall_seconds: float
    cpu_seconds: float
    """CPU time of the server, or of the loop measured in its place."""
    client_cpu_seconds: float | None = None
    mean_micros: float | None = None
    p50_micros: float | None = None
    p99_micros: float | None = None

    @property
    def mb_per_second(self) -> float:
        """Return the payload in MB per second."""
        return self.payload_bytes / 1e6 / self.wall_seconds

    @property
    def requests_per_second(self) -> float:
        """Return the requests answered per second."""
        return self.requests / self.wall_seconds

    @property
    def cpu_seconds_per_gb(self) -> float:
        """Return the CPU time for each GB of payload."""
        return self.cpu_seconds / self.payload_bytes * GB

    @property
    def cpu_micros_per_request(self) -> float:
        """Return the CPU time for each request."""
        return self.cpu_seconds / self.requests * 1e6

    @property
    def client_cpu_seconds_per_gb(self) -> float | None:
        """Return the load generator's CPU time for each GB of payload."""
        return None if self.client_cpu_seconds is None else self.client_cpu_seconds / self.payload_bytes * GB

    @property
    def mean_millis(self) -> float | None:
        """Return the mean latency of a request."""
        return None if self.mean_micros is None else self.mean_micros / 1e3

    @property
    def p50_millis(self) -> float | None:
        """Return the median latency."""
        return None if self.p50_micros is None else self.p50_micros / 1e3

    @property
    def p99_millis(self) -> float | None:
        """Return the 99th percentile of the latency."""
        return None if self.p99_micros is None else self.p99_micros / 1e3


def from_report(group: Mapping[str, Any], server_cpu: Mapping[str, Any], client_cpu: Mapping[str, Any]) -> Measurement:
    """Build a measurement from parts of a load generator's report; both generators use the same names."""
    return Measurement(
        requests=group["requests"],
        payload_bytes=group["payload_bytes"],
        wall_seconds=group["wall_seconds"],
        cpu_seconds=_total_seconds(server_cpu),
        client_cpu_seconds=_total_seconds(client_cpu),
        # Not every load generator reports the mean.
        mean_micros=group["latency"].get("mean_micros"),
        p50_micros=group["latency"]["p50_micros"],
        p99_micros=group["latency"]["p99_micros"],
    )


def _total_seconds(cpu: Mapping[str, float]) -> float:
    return cpu["user_seconds"] + cpu["system_seconds"]
