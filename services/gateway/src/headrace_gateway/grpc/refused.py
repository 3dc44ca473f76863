"""How calls are refused: a code of gRPC, the status that every door has, and details that libraries know to read."""

from __future__ import annotations

import logging
import math
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo  # type: ignore[import-untyped]
from google.rpc.status_pb2 import Status as Details  # type: ignore[import-untyped]
from grpc import aio

import headrace_core
from headrace_gateway.refusals import Kind, kind_of
from headrace_gateway.sessions import SessionLost
from headrace_proto.errors import Status, find

STATUS_METADATA: Final = "headrace-status"
"""The trailing metadata with the number of a status."""
STATUS_NAME_METADATA: Final = "headrace-status-name"
"""The trailing metadata with its name."""
DETAILS_METADATA: Final = "grpc-status-details-bin"
"""The trailing metadata with a ``google.rpc.Status``, where libraries look for it."""
DOMAIN: Final = "headrace"
"""Of the reasons in ``google.rpc.ErrorInfo``."""

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
_log = logging.getLogger(__name__)


class Refused(Exception):
    """A call that ends with a status."""

    def __init__(self, status: int, reason: str | None = None, *, retry_after_seconds: float = 0.0) -> None:
        """Describe the refusal.

        Args:
            status: A code of ``proto/errors.toml``.
            reason: For people; without one, what the status means.
            retry_after_seconds: When it is worth another try; 0: that is not known.
        """
        info = find(status)
        super().__init__(reason or (info.description if info else f"status {status}"))
        self.status = status
        self.retry_after_seconds = retry_after_seconds


async def refuse(context: aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """End a call because of an exception; what nobody expected goes to the log, and not to the caller."""
    retry_after_seconds = 0.0
    is_in_doubt = True
    match error:
        case aio.AbortError():
            raise error
        case Refused():
            status, reason = error.status, str(error)
            retry_after_seconds = error.retry_after_seconds
            is_in_doubt = status != Status.TOO_MANY_WAITS
        case headrace_core.CodecError():
            status = error.code
            reason = f"{error.field}: {error}" if error.field else str(error)
        case SessionLost():
            status, reason, is_in_doubt = error.code, str(error), error.is_in_doubt
        case _:
            _log.error("a call failed", exc_info=error)
            status, reason = Status.ERROR, "the server has failed; its log says how"
    code = _CODES[kind_of(status)]
    about = {"status": str(int(status))}
    if code is grpc.StatusCode.UNAVAILABLE:
        about["in_doubt"] = "true" if is_in_doubt else "false"
    await context.abort(code, reason, _trailer(code, status, reason, about, retry_after_seconds))
    raise AssertionError("an aborted call has ended")


def _trailer(
    code: grpc.StatusCode, status: int, reason: str, about: dict[str, str], retry_after_seconds: float
) -> tuple[tuple[str, str | bytes], ...]:
    info = find(status)
    name = info.name if info else "unknown"
    details = Details(code=code.value[0], message=reason)
    details.details.add().Pack(ErrorInfo(reason=name, domain=DOMAIN, metadata=about))
    if retry_after_seconds > 0:
        details.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=max(1, math.ceil(retry_after_seconds)))))
    return (
        (STATUS_METADATA, str(int(status))),
        (STATUS_NAME_METADATA, name),
        (DETAILS_METADATA, details.SerializeToString()),
    )
