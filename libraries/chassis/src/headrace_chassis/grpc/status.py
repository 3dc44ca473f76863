"""Refusals in gRPC: a code, and in the trailing metadata the status that all APIs share."""

from __future__ import annotations

import asyncio
from typing import Any, Final, NoReturn

import grpc
from grpc import aio

from headrace_chassis.refusals import Kind, kind_of
from headrace_proto.errors import find

STATUS_METADATA: Final = "headrace-status"
"""Key of the trailing metadata with the number of a status."""
STATUS_NAME_METADATA: Final = "headrace-status-name"
"""Key of the trailing metadata with the name of a status."""

_CODES: Final = {
    Kind.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Kind.FORBIDDEN: grpc.StatusCode.PERMISSION_DENIED,
    Kind.NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Kind.EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Kind.EXHAUSTED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Kind.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    Kind.FAILED: grpc.StatusCode.INTERNAL,
    Kind.INVALID: grpc.StatusCode.INVALID_ARGUMENT,
}


class Refused(Exception):
    """Refusal of a call with a status."""

    def __init__(self, status: int, reason: str | None = None, *, retry_after_seconds: float = 0.0) -> None:
        """Describe the refusal.

        Args:
            status: A code of ``proto/errors.toml``.
            reason: Message for the user; without one, the description of the status.
            retry_after_seconds: Time after which a retry may succeed; 0: unknown.
        """
        info = find(status)
        super().__init__(reason or (info.description if info else f"status {status}"))
        self.status = status
        self.retry_after_seconds = retry_after_seconds


def code_of(status: int) -> grpc.StatusCode:
    """Return the gRPC code for a status."""
    return _CODES[kind_of(status)]


def name_of(status: int) -> str:
    """Return the name of a status."""
    info = find(status)
    return info.name if info else "unknown"


def status_metadata(status: int) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return the trailing metadata that names a status."""
    return (STATUS_METADATA, str(int(status))), (STATUS_NAME_METADATA, name_of(status))


async def end_call(
    context: aio.ServicerContext[Any, Any],
    code: grpc.StatusCode,
    reason: str,
    metadata: tuple[tuple[str, str | bytes], ...] = (),
) -> NoReturn:
    """End a call with a status, or like a cancelled call if its caller has disconnected meanwhile.

    Raises:
        AbortError: The status was sent.
        CancelledError: No caller was there to send it to. The error of the library would leave a traceback in the log.
    """
    try:
        await context.abort(code, reason, metadata)
    except aio.InternalError:
        raise asyncio.CancelledError from None
    raise AssertionError("the call was aborted")
