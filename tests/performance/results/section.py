"""Results of a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.performance.loads.measurement import Measurement
from tests.performance.results.metrics import Metric


@dataclass(frozen=True, slots=True)
class Column:
    """One number of every run."""

    heading: str
    pick: Callable[[Measurement], float | None]
    digits: int


MB_PER_SECOND = Column("MB/s", lambda run: run.mb_per_second, 0)
REQUESTS_PER_SECOND = Column("requests/s", lambda run: run.requests_per_second, 0)
MEAN = Column("mean ms", lambda run: run.mean_millis, 3)
P50 = Column("p50 ms", lambda run: run.p50_millis, 3)
P99 = Column("p99 ms", lambda run: run.p99_millis, 3)
CPU_PER_GB = Column("CPU s/GB", lambda run: run.cpu_seconds_per_gb, 2)
CPU_PER_REQUEST = Column("CPU us/request", lambda run: run.cpu_micros_per_request, 1)
CLIENT_CPU_PER_GB = Column("client CPU s/GB", lambda run: run.client_cpu_seconds_per_gb, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Results of one case: its runs, a row per candidate, and the derived numbers."""

    name: str
    title: str
    columns: Sequence[Column] = ()
    samples: Mapping[str, Sequence[Measurement]] = field(default_factory=dict)
    """Runs of each round, by row."""
    metrics: Sequence[Metric] = ()
    notes: Sequence[str] = ()
