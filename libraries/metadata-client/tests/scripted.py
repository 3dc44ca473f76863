"""Scripted replicas."""

from grpc import aio

from headrace_metadata_client import Connections
from headrace_proto.metadata.v1 import (
    Command,
    CreateStream,
    OpenSessionResponse,
    ProposeResponse,
    ReadResponse,
    Reply,
)


def create_stream(name):
    return Command(create_stream=CreateStream(name=name))


def fails(code, primary=None):
    trailing = aio.Metadata(*([("headrace-primary", str(primary))] if primary is not None else []))
    return aio.AioRpcError(code, aio.Metadata(), trailing)


class Scripted:
    """A replica that follows a script, one entry per command; afterwards it applies every command."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self.sessions = 0

    async def OpenSession(self, request, **_):  # noqa: N802
        self.sessions += 1
        return OpenSessionResponse(session=self.sessions)

    async def Propose(self, request, **_):  # noqa: N802
        self.asked.append((request.session.session, request.session.number))
        if self.script:
            raise self.script.pop(0)
        return ProposeResponse(reply=Reply())

    async def Read(self, request, **_):  # noqa: N802
        self.asked.append(request)
        if self.script:
            raise self.script.pop(0)
        return ReadResponse(version=7)


def connections(*replicas):
    return Connections(tuple(f"replica-{number}:1" for number in range(len(replicas))), replicas, ())
