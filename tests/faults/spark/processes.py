"""What belongs to one life of a driver: every process of its session, by what it is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

_DRIVER: Final = b"org.apache.spark.deploy.SparkSubmit"
_EXECUTOR: Final = b"org.apache.spark.executor.CoarseGrainedExecutorBackend"
_READER: Final = b"pyspark.sql.streaming.python_streaming_source_runner"
"""Where a query of a stream asks what is new."""
_PYTHON: Final = b".daemon\0pyspark."
"""Spark's daemon, or that of the data source, and the processes that it forks: planners, those who commit, workers."""


@dataclass(frozen=True, slots=True)
class Processes:
    """As they are at one moment."""

    everybody: tuple[int, ...]
    driver: tuple[int, ...]
    """Its virtual machine; none while it is being started."""
    executors: tuple[int, ...]
    """Theirs."""
    planners: tuple[int, ...]
    """Python beside the driver, which asks where topics are, plans and commits."""
    workers: tuple[int, ...]
    """Python beside the executors, which reads and writes."""


def of_session(session: int) -> Processes:
    """Those of a session; whatever Spark starts stays in that of the script."""
    found = {number: entry for number, entry in _everybody().items() if entry.session == session}
    driver = _with(found, _DRIVER)
    executors = _with(found, _EXECUTOR)
    forked = _forked(found)
    readers = tuple(number for number in _with(found, _READER) if found[number].parent in driver)
    return Processes(
        tuple(found),
        driver,
        executors,
        readers + tuple(number for number, above in forked.items() if above in driver),
        tuple(number for number, above in forked.items() if above in executors),
    )


def planners_below(process: int) -> list[tuple[str, int]]:
    """Python beside the driver that a process has started: what each is for, and its number."""
    found = _everybody()
    driver = [number for number in _with(found, _DRIVER) if found[number].parent == process]
    forked = [number for number, above in _forked(found).items() if above in driver]
    readers = [number for number in _with(found, _READER) if found[number].parent in driver]
    return [
        (found[number].command.rstrip(b"\0").rpartition(b"\0")[2].rpartition(b".")[2].decode(), number)
        for number in (*readers, *forked)
    ]


def kill(numbers: Iterable[int]) -> None:
    """End these at once (SIGKILL), those of them that are still there."""
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


class _Entry(NamedTuple):
    parent: int
    session: int
    command: bytes


def _everybody() -> dict[int, _Entry]:
    found: dict[int, _Entry] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            # Behind the name of the program, which may contain anything: fields 3, 4 and 6 of proc(5).
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                found[int(entry.name)] = _Entry(int(fields[1]), int(fields[3]), (entry / "cmdline").read_bytes())
    return found


def _forked(found: Mapping[int, _Entry]) -> dict[int, int]:
    """Those whom a daemon of Python has made, and who has started that."""
    daemons = _with(found, _PYTHON)
    return {number: found[found[number].parent].parent for number in daemons if found[number].parent in daemons}


def _with(found: Mapping[int, _Entry], word: bytes) -> tuple[int, ...]:
    return tuple(number for number, entry in found.items() if word in entry.command)
