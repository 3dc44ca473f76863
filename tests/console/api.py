"""Server operations that journeys need outside the console."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Sequence
from typing import Any

from tests.server_process import PASSWORD, USERNAME


class Api:
    """The HTTP interface, as root."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._token: str | None = None
        answer = self("POST", "/users/login", {"username": USERNAME, "password": PASSWORD})
        self._token = answer["access_token"]["token"]

    def __call__(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Any:
        """Send a request that must succeed and return its response."""
        headers = {"Content-Type": "application/json"} if body is not None else {}
        if token or self._token:
            headers["Authorization"] = f"Bearer {token or self._token}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def topic(self, stream: str, topic: str = "orders", *, partitions: int = 1) -> str:
        """Create a stream with a topic in it; the path of the topic."""
        self("POST", "/streams", {"name": stream})
        self("POST", f"/streams/{stream}/topics", {"name": topic, "partitions_count": partitions})
        return f"/streams/{stream}/topics/{topic}"

    def send(self, topic: str, payloads: Sequence[bytes], *, partition: int = 0) -> None:
        """Append messages to a partition."""
        value = base64.b64encode(partition.to_bytes(4, "little")).decode()
        messages = [{"payload": base64.b64encode(payload).decode()} for payload in payloads]
        body = {"partitioning": {"kind": "partition_id", "value": value}, "messages": messages}
        self("POST", f"{topic}/messages", body)
