"""Processes of one driver's session, by role."""

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
"""Command line of the Python process that plans a streaming query."""
_PYTHON: Final = b".daemon\0pyspark."
"""Command line of Spark's or the data source's daemon and the processes it forks: planners, committers, workers."""


@dataclass(frozen=True, slots=True)
class Processes:
    """Processes at one moment."""

    all_of_them: tuple[int, ...]
    driver: tuple[int, ...]
    """Virtual machine of the driver; empty while it is starting."""
    executors: tuple[int, ...]
    """Virtual machines of the executors."""
    planners: tuple[int, ...]
    """Python processes of the driver, which look up topics, plan and commit."""
    workers: tuple[int, ...]
    """Python processes of the executors, which read and write."""


def of_session(session: int) -> Processes:
    """Find the processes of a session; everything Spark starts stays in the session of the script."""
    found = {number: entry for number, entry in _all_processes().items() if entry.session == session}
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
    """Return role and process id of the Python processes that a driver has started."""
    found = _all_processes()
    driver = [number for number in _with(found, _DRIVER) if found[number].parent == process]
    forked = [number for number, above in _forked(found).items() if above in driver]
    readers = [number for number in _with(found, _READER) if found[number].parent in driver]
    return [
        (found[number].command.rstrip(b"\0").rpartition(b"\0")[2].rpartition(b".")[2].decode(), number)
        for number in (*readers, *forked)
    ]


def kill(numbers: Iterable[int]) -> None:
    """Kill these processes (SIGKILL) if they still exist."""
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


class _Entry(NamedTuple):
    parent: int
    session: int
    command: bytes


def _all_processes() -> dict[int, _Entry]:
    found: dict[int, _Entry] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            # Fields 3, 4 and 6 of proc(5) follow the name of the program, which may contain any character.
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] != "Z":
                found[int(entry.name)] = _Entry(int(fields[1]), int(fields[3]), (entry / "cmdline").read_bytes())
    return found


def _forked(found: Mapping[int, _Entry]) -> dict[int, int]:
    """Map each process forked by a Python daemon to the process that started the daemon."""
    daemons = _with(found, _PYTHON)
    return {number: found[found[number].parent].parent for number in daemons if found[number].parent in daemons}


def _with(found: Mapping[int, _Entry], word: bytes) -> tuple[int, ...]:
    return tuple(number for number, entry in found.items() if word in entry.command)
