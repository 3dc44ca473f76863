"""Log records of a service process: for people on a terminal, or as JSON lines that say which process wrote them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, Literal

from headrace_settings.section import Section

# What every record has; anything else was given as `extra`.
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FOR_PEOPLE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class LoggingSettings(Section):
    """``[logging]``."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important records that are still written."""
    format: Literal["auto", "console", "json"] = "auto"
    """`console` is for people, `json` one object per line, `auto` the former on a terminal and else the latter."""


class JsonLines(logging.Formatter):
    """One JSON object for each record, in the form that the gateway's log has."""

    def __init__(self, **process: str | int) -> None:
        """Describe the process.

        Args:
            process: What every line says of it: `replica`, or `node`.
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


def configure(config: LoggingSettings, **process: str | int) -> None:
    """Send every record of the process to standard error.

    Args:
        config: Which ones, and how.
        process: What every JSON line says of the process.
    """
    handler = logging.StreamHandler(sys.stderr)
    as_console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    handler.setFormatter(logging.Formatter(_FOR_PEOPLE) if as_console else JsonLines(**process))
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
