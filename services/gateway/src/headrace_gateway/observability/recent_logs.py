"""Ring buffer of the process's newest log records."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from headrace_chassis.correlation import Correlation

_TEXT_MAX: Final = 8 * 1024
# Attributes of every record; any other attribute was given as `extra`.
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FORMATTER: Final = logging.Formatter()


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record."""

    sequence: int
    """Sequence number within this process, from 1."""
    timestamp: int
    """Microseconds since the Unix epoch."""
    level: str
    """``debug``, ``info``, ``warning`` or ``error``."""
    logger: str
    message: str
    fields: dict[str, str | int | float | bool | None]
    exception: str | None
    """A traceback."""


class RecentLogs(logging.Handler):
    """A ring of records: the oldest is dropped when it is full. The level of the loggers applies before it."""

    def __init__(self, count_max: int) -> None:
        """Create an empty ring.

        Args:
            count_max: Capacity in records.
        """
        super().__init__()
        self.addFilter(Correlation())
        self._records: deque[LogRecord] = deque(maxlen=count_max)
        self._guard = threading.Lock()
        self._last = 0

    @property
    def last(self) -> int:
        """Sequence number of the newest record; 0 if there never was one."""
        return self._last

    @property
    def oldest(self) -> int:
        """Sequence number of the oldest record; of the next one if the ring is empty."""
        with self._guard:
            return self._records[0].sequence if self._records else self._last + 1

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Collect records for the duration of a ``with`` block."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)

    def after(self, sequence: int, *, count: int, level: int = logging.NOTSET) -> list[LogRecord]:
        """Return the oldest records after a sequence number with at least this level, in order.

        Args:
            sequence: Last known sequence number. 0: return the newest records.
            count: Maximum number of records.
            level: Minimum level, numbered as in `logging`.
        """
        with self._guard:
            records = list(self._records)
        found = [
            record
            for record in records
            if record.sequence > sequence and logging.getLevelNamesMapping()[record.level.upper()] >= level
        ]
        return found[:count] if sequence else found[-count:]

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record."""
        try:
            message = record.getMessage()
        except Exception:  # noqa: BLE001 - a wrong format string must not hurt whoever logs
            message = str(record.msg)
        exception = _FORMATTER.formatException(record.exc_info) if record.exc_info else record.exc_text
        fields = {name: _plain(value) for name, value in vars(record).items() if name not in _PLAIN}
        with self._guard:
            self._last += 1
            self._records.append(
                LogRecord(
                    sequence=self._last,
                    timestamp=int(record.created * 1_000_000),
                    level=_level(record.levelno),
                    logger=record.name,
                    message=message[:_TEXT_MAX],
                    fields=fields,
                    # The end of a traceback contains the cause.
                    exception=exception[-_TEXT_MAX:] if exception else None,
                )
            )


def _level(number: int) -> str:
    if number >= logging.ERROR:
        return "error"
    if number >= logging.WARNING:
        return "warning"
    return "info" if number >= logging.INFO else "debug"


def _plain(value: Any) -> str | int | float | bool | None:
    return value if isinstance(value, int | float | None) else str(value)[:_TEXT_MAX]
