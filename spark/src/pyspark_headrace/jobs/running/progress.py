"""Progress of a job on stderr: an updated line on a terminal, log lines otherwise."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from structlog.typing import FilteringBoundLogger

_LINE_SECONDS: Final = 10.0
"""Minimum interval between two log lines."""


class Progress:
    """Progress display of a job."""

    def __init__(self, log: FilteringBoundLogger, title: str) -> None:
        """Create the display.

        Args:
            log: Logger used if stderr is not a terminal.
            title: Prefix of the line on a terminal.
        """
        self._log = log
        self._title = title
        self._bar: Bar | None = None
        self._task: Any = None
        self._said_at: float | None = None

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Update the progress. May be called at any frequency.

        Args:
            text: Text for users.
            done: Amount of completed work, if known.
            total: Total amount.
        """
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._title}: {text}", completed=done or 0.0, total=total)
            return
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _LINE_SECONDS:
            self._said_at = now
            metrics = {"done": done, "total": total}
            self._log.info(text, **{name: value for name, value in metrics.items() if value is not None})

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console  # noqa: PLC0415 - for people only
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(self._title, total=None)
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
