"""How far a job is, on stderr: a line that changes on a terminal, lines of the log elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from structlog.typing import FilteringBoundLogger

_LINE_SECONDS: Final = 10.0
"""Between two lines of the log."""


class Progress:
    """Says how far a job is."""

    def __init__(self, log: FilteringBoundLogger, title: str) -> None:
        """Describe the job.

        Args:
            log: Where lines go, if nobody sits there.
            title: Stands before what is said on a terminal.
        """
        self._log = log
        self._title = title
        self._bar: Bar | None = None
        self._task: Any = None
        self._said_at: float | None = None

    def update(self, text: str, done: float | None = None, total: float | None = None) -> None:
        """Say where it is; may be called as often as something changes.

        Args:
            text: For people.
            done: How much is through, if that can be told.
            total: How much there is.
        """
        if self._bar is not None:
            self._bar.update(self._task, description=f"{self._title}: {text}", completed=done or 0.0, total=total)
            return
        now = time.monotonic()
        if self._said_at is None or now - self._said_at >= _LINE_SECONDS:
            self._said_at = now
            figures = {"done": done, "total": total}
            self._log.info(text, **{name: value for name, value in figures.items() if value is not None})

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
