"""Connectors in the foreground: log records, and the progress of each connector below them."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.cli import output
from headrace.cli.errors import CommandError
from headrace.sdk.errors import HeadraceError
from headrace_chassis import log_output
from headrace_chassis.errors import StartRefused
from headrace_chassis.log_output import LoggingSettings
from headrace_chassis.process import serve
from headrace_connectors.app import RunningConnectors, running
from headrace_connectors.contract import ConnectorError
from headrace_connectors.garbage_collection import loaded_objects_frozen
from headrace_connectors.pipeline_file.pipeline import Pipeline
from headrace_connectors.runtime.connector import Connector

_COLOURS = {"running": "green", "degraded": "yellow", "error": "red"}


class _Seen(NamedTuple):
    at: float
    records_count: int
    per_second: float


class Progress:
    """State, records and records per second of connectors, as lines that are drawn again and again.

    Args:
        clock: A monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._connectors: Callable[[], Iterable[Connector]] = tuple
        self._seen: dict[str, _Seen] = {}

    def show(self, connectors: Callable[[], Iterable[Connector]]) -> None:
        """Show these connectors from now on; they may change over HTTP."""
        self._connectors = connectors

    def lines(self) -> Table:
        """Return a line for each connector; the rate is that since the call before."""
        table = Table.grid(padding=(0, 2))
        for justify in ("left", "left", "right", "right"):
            table.add_column(justify=justify)
        now = self._clock()
        for connector in self._connectors():
            status = connector.status
            rate = self._rate(connector.key, status.records_count, now)
            table.add_row(
                Text(connector.key),
                Text(status.state, style=_COLOURS.get(status.state, "")),
                f"{status.records_count:,} records",
                f"{rate:,.0f}/s",
            )
        return table

    def _rate(self, key: str, records_count: int, now: float) -> float:
        seen = self._seen.get(key)
        if seen is None or records_count < seen.records_count:
            rate = 0.0
        elif now <= seen.at:
            return seen.per_second
        else:
            rate = (records_count - seen.records_count) / (now - seen.at)
        self._seen[key] = _Seen(now, records_count, rate)
        return rate


def run(pipeline: Pipeline) -> None:
    """Run the connectors until the process is asked to stop.

    Raises:
        CommandError: They cannot start.
    """
    progress = Progress()
    console = output.stderr()

    def on_started(connectors: RunningConnectors) -> None:
        connectors.log_addresses()
        progress.show(lambda: connectors.supervisor.connectors)

    with contextlib.ExitStack() as stack:
        if console.is_terminal:
            # It takes the place of standard error, so that log records are written above the lines.
            stack.enter_context(
                Live(get_renderable=progress.lines, console=console, refresh_per_second=1, transient=True)
            )
        log_output.configure(LoggingSettings())
        try:
            with loaded_objects_frozen():
                asyncio.run(serve(running(pipeline), on_started=on_started))
        except HeadraceError as error:
            where = f"{pipeline.file} has the address and the user in [server]"
            raise CommandError(f"cannot start: {error}; {where}") from error
        except (StartRefused, ConnectorError, OSError) as error:
            raise CommandError(f"cannot start: {error}") from error
