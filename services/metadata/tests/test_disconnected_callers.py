"""Refusals of calls whose callers have disconnected (CTL-2)."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from grpc import aio

from headrace_metadata.api import MetadataService
from headrace_metadata.applied_state import AppliedState
from headrace_metadata.authentication import SharedSecretInterceptor
from headrace_metadata.errors import OutcomeUnknownError
from headrace_metadata.state_machine import StateMachine
from headrace_metadata.status import ReplicaFacts
from headrace_proto.metadata.v1 import CONSISTENCY_LINEARIZABLE, GetSnapshotRequest, ProposeRequest, ReadRequest

FACTS = ReplicaFacts(cluster_name="headrace", replica=0, members=("a:1",), release="1", started_at_micros=1)
UNKNOWN_CONSISTENCY = 77


class Disconnected:
    """Context of a call whose connection has ended: no status can be sent."""

    async def abort(self, *_arguments: Any) -> None:
        raise aio.InternalError("Failed execute_batch")


class Unsure:
    """A replica that answers nothing, since another primary was chosen."""

    def __init__(self) -> None:
        self.state = AppliedState(StateMachine())

    async def propose(self, _command: Any) -> None:
        raise OutcomeUnknownError("another primary was chosen")

    async def synchronise(self) -> None:
        raise OutcomeUnknownError("another primary was chosen")


async def proposals() -> Any:
    yield ProposeRequest()


def refused(name: str) -> Any:
    """Begin a call that is refused; return its answer, or the next one."""
    service = MetadataService(Unsure(), FACTS, SimpleNamespace(proposed=lambda *_: None))
    context: Any = Disconnected()
    match name:
        case "Propose":
            return service.Propose(ProposeRequest(), context)
        case "ProposeStream":
            return anext(service.ProposeStream(proposals(), context))
        case "GetSnapshot":
            return anext(service.GetSnapshot(GetSnapshotRequest(consistency=CONSISTENCY_LINEARIZABLE), context))
        case "Read":
            return service.Read(ReadRequest(consistency=UNKNOWN_CONSISTENCY), context)
        case _:
            refusal: Any = SharedSecretInterceptor(("a secret",), "headrace")._refusal
            return refusal.stream_stream(None, context)


@pytest.mark.parametrize("name", ["Propose", "ProposeStream", "GetSnapshot", "Read", "without a secret"])
async def test_a_refusal_without_a_caller_ends_like_a_cancelled_call(name: str) -> None:
    with pytest.raises(asyncio.CancelledError):
        await refused(name)
