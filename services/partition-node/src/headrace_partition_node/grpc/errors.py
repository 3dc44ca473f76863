"""Errors of calls: a gRPC code, and the status common to all protocols."""

from __future__ import annotations

import logging
from typing import Any, NoReturn

from grpc import aio

from headrace_chassis.grpc.status import Refused, code_of, end_call, status_metadata
from headrace_node.connections.sessions import SessionLost
from headrace_proto.errors import Status

_log = logging.getLogger(__name__)


async def refuse(context: aio.ServicerContext[Any, Any], error: Exception) -> NoReturn:
    """End a call because of an exception; unexpected exceptions are logged and not disclosed to the caller."""
    match error:
        case aio.AbortError() | aio.InternalError():
            # The call has its status, or the connection ended before a response was sent: the library ends the call.
            raise error
        case Refused():
            status, reason = error.status, str(error)
        case SessionLost():
            status, reason = error.code, str(error)
        case _:
            _log.error("call failed", exc_info=error)
            status, reason = Status.ERROR, "the node failed; see its log"
    await end_call(context, code_of(status), reason, status_metadata(status))
