"""An HTTP application whose shard answers when a test lets it."""

import asyncio
from types import SimpleNamespace

import pytest

from headrace_gateway.access.tokens import Bearer
from headrace_gateway.connectors.client import ConnectorsClient
from headrace_gateway.connectors.config import ConnectorsConfig
from headrace_gateway.http.application import Application
from headrace_gateway.http.call import HttpServices
from headrace_gateway.http.config import HttpConfig
from headrace_gateway.http.idempotency import IdempotencyKeys
from headrace_node.connections.sessions import Response
from headrace_proto.errors import Status
from headrace_settings import Size


class SilentSessions:
    """Sessions of a shard that does not answer until `gate` is set."""

    def __init__(self):
        self.gate = asyncio.Event()
        self.asked = 0

    async def call(self, user_id, code, payload=b"", *, admit=None):
        self.asked += 1
        await self.gate.wait()
        return Response(Status.OK, b"")


class Tokens:
    """Each token is the number of its user."""

    async def identify(self, text):
        return Bearer(text, int(text), "", 2**40, None, None)


@pytest.fixture
def sessions():
    return SilentSessions()


@pytest.fixture
def connectors():
    return ConnectorsClient(ConnectorsConfig(url="http://127.0.0.1:1"))


@pytest.fixture
def application(sessions, connectors):
    nothing = SimpleNamespace(received=lambda: None, answered=lambda *_: None, refused=lambda _: None)
    needed = {
        "config": HttpConfig(max_bodies_size=Size.parse("4 MiB")),
        "sessions": sessions,
        "tokens": Tokens(),
        "logins": SimpleNamespace(audit=None),
        "metrics": nothing,
        "clock": lambda: 0,
        "console": SimpleNamespace(paths=()),
        "connectors": connectors,
        "idempotency": IdempotencyKeys(count_max=10, ttl_seconds=60, now=lambda: 0),
    }
    others = ("members", "waits", "turns", "logs", "settings", "history", "cluster", "member_ids")
    return Application(HttpServices(**needed, **dict.fromkeys(others)))
