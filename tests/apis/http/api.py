"""A thin client of the HTTP API."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from tests.server_process import PASSWORD, USERNAME

PROBLEM = "application/problem+json"


def b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def data(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> int:
        """The stable code of an error response."""
        return int(self.data["id"])


class Api:
    """Requests of one user, or of an unauthenticated client."""

    def __init__(self, session: aiohttp.ClientSession, url: str, token: str | None = None) -> None:
        self.session = session
        self.url = url
        self.token = token

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """Send a request: `body` as JSON, `raw` unchanged."""
        sent = dict(headers or {})
        if token or self.token:
            sent.setdefault("Authorization", f"Bearer {token or self.token}")
        if body is not None:
            raw = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        # The library warns of a large body of plain bytes.
        data = io.BytesIO(raw) if raw is not None and len(raw) > 2**20 else raw
        # Omitted headers must stay omitted: the library adds no defaults.
        async with self.session.request(
            method, self.url + path, data=data, headers=sent, skip_auto_headers=["Content-Type", "Accept"]
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """Send a request that must succeed and return the body of the response."""
        answer = await self(method, path, body, **more)
        assert 200 <= answer.status < 300, (method, path, answer.status, answer.body)
        return answer.data if answer.body else None

    async def login(self, username: str = USERNAME, password: str = PASSWORD) -> Self:
        """Log in and return the same client."""
        identity = await Api(self.session, self.url).ok(
            "POST", "/users/login", {"username": username, "password": password}
        )
        return type(self)(self.session, self.url, identity["access_token"]["token"])

    async def create_topic(self, stream: str, topic: str = "t", partitions: int = 1) -> str:
        """Create a stream with a topic and return the path of the topic."""
        await self.ok("POST", "/streams", {"name": stream})
        await self.ok("POST", f"/streams/{stream}/topics", {"name": topic, "partitions_count": partitions})
        return f"/streams/{stream}/topics/{topic}"

    async def create_user(self, username: str, permissions: dict[str, Any] | None = None) -> Self:
        """Create a user whose password is the user's name, and return a client logged in as that user."""
        user = {"username": username, "password": username, "status": "active", "permissions": permissions}
        await self.ok("POST", "/users", user)
        return await self.login(username, username)


def batch(*payloads: bytes, partition: int | None = None, key: bytes | None = None) -> dict[str, Any]:
    """The body of a request to send messages."""
    partitioning = {"kind": "balanced", "value": ""}
    if partition is not None:
        partitioning = {"kind": "partition_id", "value": b64(partition.to_bytes(4, "little"))}
    elif key is not None:
        partitioning = {"kind": "messages_key", "value": b64(key)}
    return {"partitioning": partitioning, "messages": [{"payload": b64(payload)} for payload in payloads]}


def payloads(polled: dict[str, Any]) -> list[bytes]:
    """Payloads of polled messages."""
    return [base64.b64decode(message["payload"]) for message in polled["messages"]]


NO_RIGHTS = dict.fromkeys(
    (
        "manage_servers",
        "read_servers",
        "manage_users",
        "read_users",
        "manage_streams",
        "read_streams",
        "manage_topics",
        "read_topics",
        "poll_messages",
        "send_messages",
    ),
    False,
)


def rights(*names: str) -> dict[str, Any]:
    """Global permissions."""
    return {"global": NO_RIGHTS | dict.fromkeys(names, True), "streams": None}
