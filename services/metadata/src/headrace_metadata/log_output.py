"""Log records of the service process: for people on a terminal, or as JSON lines that say which replica wrote them."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

from headrace_metadata.config import LoggingSettings

# What every record has; anything else was given as `extra`.
_PLAIN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_FOR_PEOPLE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class JsonLines(logging.Formatter):
    """One JSON object for each record, in the form that the gateway's log has."""

    def __init__(self, *, replica: int) -> None:
        super().__init__()
        self._replica = replica

    def format(self, record: logging.LogRecord) -> str:
        """Render one record."""
        line: dict[str, Any] = {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "timestamp": datetime.fromtimestamp(record.created, tz=UTC).isoformat().replace("+00:00", "Z"),
            "replica": self._replica,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def configure(config: LoggingSettings, *, replica: int) -> None:
    """Send every record of the process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    as_console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    handler.setFormatter(logging.Formatter(_FOR_PEOPLE) if as_console else JsonLines(replica=replica))
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
