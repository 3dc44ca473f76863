"""Annotation of log records with the request id they belong to."""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from typing import Final

from headrace_proto.trace_context import REQUEST

REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("request id", default=None)
"""Id of the request that the current task serves."""

_REQUEST_IDS: Final = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)


def request_id_of(given: str) -> str:
    """Return the id given by the caller, or a new one if the given id is not safe to log."""
    return given if _REQUEST_IDS.fullmatch(given) else secrets.token_hex(8)


class Correlation(logging.Filter):
    """Adds ``request_id``, and ``trace_id`` for sampled requests. Passes every record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Annotate one record."""
        request_id, recorded = REQUEST_ID.get(), REQUEST.get()
        if request_id is not None and not hasattr(record, "request_id"):
            record.request_id = request_id
        if recorded is not None:
            record.trace_id = f"{recorded.context.trace_id:032x}"
        return True
