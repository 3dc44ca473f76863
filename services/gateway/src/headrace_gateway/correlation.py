"""Marks log records with the request that they were written for."""

from __future__ import annotations

import logging
import re
import secrets
from contextvars import ContextVar
from typing import Final

from headrace_proto.trace_context import REQUEST

REQUEST_ID: Final[ContextVar[str | None]] = ContextVar("request id", default=None)
"""Of the request that the task at hand serves."""

_REQUEST_IDS: Final = re.compile(r"[\w.:/+=-]{1,128}", re.ASCII)


def request_id_of(given: str) -> str:
    """The id that the caller has given, or one of our own where that is none which could stand in a log."""
    return given if _REQUEST_IDS.fullmatch(given) else secrets.token_hex(8)


class Correlation(logging.Filter):
    """Adds ``request_id``, and ``trace_id`` where the request is recorded. Lets every record pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Mark one record."""
        request_id, recorded = REQUEST_ID.get(), REQUEST.get()
        if request_id is not None and not hasattr(record, "request_id"):
            record.request_id = request_id
        if recorded is not None:
            record.trace_id = f"{recorded.context.trace_id:032x}"
        return True
