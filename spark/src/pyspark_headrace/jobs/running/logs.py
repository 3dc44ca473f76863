"""Log of a job on stderr: lines for a terminal, JSON otherwise. stdout is reserved for the report."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger, Processor


class _OfLibrary(logging.Handler):
    """Forward log records of the data source in this process."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        self._log.log(record.levelno, record.getMessage(), logger=record.name)


@contextmanager
def logging_to_stderr(level: str, **of_job: Any) -> Iterator[FilteringBoundLogger]:
    """Create the logger of a run.

    Args:
        level: Minimum level.
        of_job: Fields of every line.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    last: Processor = (
        structlog.dev.ConsoleRenderer()
        if sys.stderr.isatty()
        else structlog.processors.JSONRenderer(ensure_ascii=False, default=str)
    )
    log: FilteringBoundLogger = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
    ).bind(**of_job)
    library = logging.getLogger("pyspark_headrace")
    handler = _OfLibrary(log)
    before = library.level
    library.addHandler(handler)
    library.setLevel(number)
    try:
        yield log
    finally:
        library.setLevel(before)
        library.removeHandler(handler)
