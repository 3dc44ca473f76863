"""Log records of a process: text for a terminal, or JSON lines that identify the process."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal

from headrace_chassis.correlation import Correlation
from headrace_settings import Section

# Attributes of every record; all others were given as `extra`.
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_CONSOLE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LoggingSettings(Section):
    """Log output: ``[logging]`` of services, ``[system.logging]`` of the embedded server."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log records that are written."""
    format: Literal["auto", "console", "json"] = "auto"
    """Format of log records: `console` is text, `json` one object per line, `auto` is `console` on a terminal and
    `json` otherwise.
    """


class ConsoleLines(logging.Formatter):
    """Format records as text, with additional fields after the message."""

    def __init__(self) -> None:
        super().__init__(_CONSOLE)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Render one record without its traceback."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return super().formatMessage(record) + fields


class JsonLines(logging.Formatter):
    """Format records as JSON objects, one per line."""

    def __init__(self, **process: str | int) -> None:
        """Set the fields that identify the process.

        Args:
            process: Fields of every line: `replica`, or `node`.
        """
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        line: dict[str, Any] = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, tz=UTC).isoformat().replace("+00:00", "Z"),
        }
        line |= self._process
        line |= _fields(record)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(config: LoggingSettings, **process: str | int) -> None:
    """Send every record of the process to standard error.

    Called once by the process's main program; a server embedded in another program does not configure logging.

    Args:
        config: Level and format.
        process: Fields of every JSON line that identify the process.
    """
    handler = logging.StreamHandler(sys.stderr)
    as_console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    handler.setFormatter(ConsoleLines() if as_console else JsonLines(**process))
    handler.addFilter(Correlation())
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}
