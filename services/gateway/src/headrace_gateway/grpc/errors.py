"""Errors of calls: a gRPC code, the status common to all protocols, and details that client libraries understand."""

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
from headrace_chassis.grpc.status import Refused, code_of, end_call, name_of, status_metadata
from headrace_gateway.ports import NoAnswer
from headrace_node.connections.sessions import SessionLost
from headrace_proto.errors import Status

DETAILS_METADATA: Final = "grpc-status-details-bin"
"""Trailing metadata key of the ``google.rpc.Status``, as client libraries expect it."""
DOMAIN: Final = "headrace"
"""Domain of the reasons in ``google.rpc.ErrorInfo``."""

_log = logging.getLogger(__name__)


async def refuse(context: aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """End a call because of an exception; unexpected exceptions are logged and not disclosed to the caller."""
    retry_after_seconds = 0.0
    is_in_doubt = True
    match error:
        case aio.AbortError() | aio.InternalError():
            # The call has its status, or the connection ended before a response was sent: the library ends the call.
            raise error
        case Refused():
            status, reason = error.status, str(error)
            retry_after_seconds = error.retry_after_seconds
            is_in_doubt = status != Status.TOO_MANY_WAITS
        case headrace_core.CodecError():
            status = error.code
            reason = f"{error.field}: {error}" if error.field else str(error)
        case SessionLost() | NoAnswer():
            status, reason, is_in_doubt = error.code, str(error), error.is_in_doubt
        case _:
            _log.error("call failed", exc_info=error)
            status, reason = Status.ERROR, "the server failed; see its log"
    code = code_of(status)
    about = {"status": str(int(status))}
    if code is grpc.StatusCode.UNAVAILABLE:
        about["in_doubt"] = "true" if is_in_doubt else "false"
    await end_call(context, code, reason, _trailer(code, status, reason, about, retry_after_seconds))


def _trailer(
    code: grpc.StatusCode, status: int, reason: str, about: dict[str, str], retry_after_seconds: float
) -> tuple[tuple[str, str | bytes], ...]:
    details = Details(code=code.value[0], message=reason)
    details.details.add().Pack(ErrorInfo(reason=name_of(status), domain=DOMAIN, metadata=about))
    if retry_after_seconds > 0:
        details.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=max(1, math.ceil(retry_after_seconds)))))
    return (*status_metadata(status), (DETAILS_METADATA, details.SerializeToString()))
