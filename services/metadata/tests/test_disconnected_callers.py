"""Refusals of calls whose callers have disconnected (CTL-2)."""

import asyncio
from typing import Any

import pytest
from grpc import aio

from headrace_metadata.api import _refusing
from headrace_metadata.errors import OutcomeUnknownError


class Disconnected:
    """Context of a call whose connection has ended: no status can be sent."""

    async def abort(self, *_arguments: Any) -> None:
        raise aio.InternalError("Failed execute_batch")


@_refusing
async def propose(_service: Any, _request: Any, _context: Any) -> None:
    raise OutcomeUnknownError("another primary was chosen")


async def test_a_refusal_without_a_caller_ends_like_a_cancelled_call() -> None:
    with pytest.raises(asyncio.CancelledError):
        await propose(None, None, Disconnected())
