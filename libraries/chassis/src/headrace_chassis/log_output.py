"""Log records of a service process: text for a terminal, or JSON lines that identify the process."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal

from headrace_settings import Section

# Attributes of every record; all others were given as `extra`.
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FOR_PEOPLE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LoggingSettings(Section):
    """``[logging]``."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Minimum level of log records that are written."""
    format: Literal["auto", "console", "json"] = "auto"
    """Format of log records: `console` is text, `json` one object per line, `auto` is `console` on a terminal and
    `json` otherwise.
    """


class JsonLines(logging.Formatter):
    """Format records as JSON objects, one per line, in the form of the gateway's log."""

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
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(config: LoggingSettings, *filters: logging.Filter, **process: str | int) -> None:
    """Send every record of the process to standard error.

    Args:
        config: Level and format.
        filters: Annotate each record.
        process: Fields of every JSON line that identify the process.
    """
    handler = logging.StreamHandler(sys.stderr)
    as_console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    handler.setFormatter(logging.Formatter(_FOR_PEOPLE) if as_console else JsonLines(**process))
    for annotate in filters:
        handler.addFilter(annotate)
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
