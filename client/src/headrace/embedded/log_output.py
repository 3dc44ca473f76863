"""Log output of the whole process: console format on a terminal, or JSON lines."""

from __future__ import annotations

import logging
import sys

import structlog

from headrace.embedded.config import LoggingConfig
from headrace_gateway.observability.correlation import Correlation


def configure(config: LoggingConfig) -> None:
    """Send every record of the process to standard error.

    Called once by the process's main program; a server embedded in another program does not configure logging.
    """
    as_console = config.format == "console" or (config.format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=not as_console),
    ]
    # Tracebacks are plain: the rich form would print local variables, including passwords.
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if as_console
        else [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(Correlation())
    logging.basicConfig(level=config.level.upper(), handlers=[handler], force=True)
