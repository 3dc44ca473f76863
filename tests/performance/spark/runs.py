"""CPU time of all processes of a Spark query: the JVM, its Python workers, the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from tests.performance.loads.measurement import Measurement
from tests.performance.results.section import Column


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRun(Measurement):
    """One query. Requests are rows; CPU time is the sum of all processes."""

    jvm_cpu_seconds: float = 0.0
    python_cpu_seconds: float = 0.0
    server_cpu_seconds: float = 0.0
    """CPU time of the server or broker that stores the data."""

    @property
    def rows_per_cpu_second(self) -> float:
        """Return the rows per second of CPU time."""
        return self.requests / self.cpu_seconds if self.cpu_seconds else float("inf")


@dataclass(frozen=True, slots=True)
class _Spent:
    jvm: float
    python: float
    servers: float


class Meter:
    """Measurement of the CPU time of processes during an action."""

    def __init__(self, jvm: psutil.Process | None, servers: Sequence[int] = ()) -> None:
        """Describe the measured processes.

        Args:
            jvm: JVM of Spark, whose child processes are the Python workers. None: measure this process instead.
            servers: Process ids of the servers that store the data.
        """
        self._jvm = jvm
        self._servers = [psutil.Process(pid) for pid in servers]

    def run(self, rows: int, payload_bytes: int, act: Callable[[], object]) -> SparkRun:
        """Measure one action that reads `rows` rows."""
        before, begin = self._spent(), time.perf_counter()
        act()
        wall_seconds, after = time.perf_counter() - begin, self._spent()
        jvm, python, servers = after.jvm - before.jvm, after.python - before.python, after.servers - before.servers
        return SparkRun(
            requests=rows,
            payload_bytes=payload_bytes,
            wall_seconds=wall_seconds,
            cpu_seconds=jvm + python + servers,
            jvm_cpu_seconds=jvm,
            python_cpu_seconds=python,
            server_cpu_seconds=servers,
        )

    def _spent(self) -> _Spent:
        servers = sum(map(_own, self._servers))
        if self._jvm is None:
            return _Spent(0.0, time.process_time(), servers)
        # The parent's counters include the CPU time of ended workers.
        python = _of_ended_children(self._jvm)
        for process in self._jvm.children(recursive=True):
            try:
                python += _own(process) + _of_ended_children(process)
            except psutil.NoSuchProcess:
                continue
        return _Spent(_own(self._jvm), python, servers)


def jvm_of_this_process() -> psutil.Process:
    """Return the JVM that a Spark session has started."""
    (jvm,) = (child for child in psutil.Process().children() if child.name() == "java" and _is_spark(child))
    return jvm


def _is_spark(process: psutil.Process) -> bool:
    return any("SparkSubmit" in argument for argument in process.cmdline())


def _own(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _of_ended_children(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.children_user + times.children_system)


def _micros_per_row(pick: Callable[[SparkRun], float]) -> Callable[[Measurement], float | None]:
    return lambda run: pick(run) / run.requests * 1e6 if isinstance(run, SparkRun) else None


COLUMNS = (
    Column("M rows/s", lambda run: run.requests_per_second / 1e6, 2),
    Column("M rows/CPU s", lambda run: run.requests / run.cpu_seconds / 1e6 if run.cpu_seconds else None, 2),
    Column("CPU us/row", _micros_per_row(lambda run: run.cpu_seconds), 2),
    Column("JVM", _micros_per_row(lambda run: run.jvm_cpu_seconds), 2),
    Column("Python", _micros_per_row(lambda run: run.python_cpu_seconds), 2),
    Column("server", _micros_per_row(lambda run: run.server_cpu_seconds), 2),
    Column("CPU s/GB", lambda run: run.cpu_seconds_per_gb, 2),
)
"""Columns of a table of such runs."""
