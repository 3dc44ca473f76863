"""Processes of a group, and what they show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import headrace
from tests.connectors.process import Connectors

LEASE = "30 s"
SHORT_LEASE = "5 s"
"""Lease of a process that is suspended: another one waits for its end."""
CHANGING_LEASE = "9 s"
"""Lease of one that is called besides: a call is answered within a third of the lease, or refused."""


class Group:
    """Processes with the same pipeline file, each with a directory of its own.

    Args:
        directory: Directory for all of them.
        server_url: Address of the server.
        stream: Stream of the test; the topic of the group is in another one beside it.
    """

    def __init__(self, directory: Path, server_url: str, stream: str) -> None:
        self.processes: list[Connectors] = []
        self.stream = stream
        self._directory = directory
        self._server_url = server_url

    def process(self, name: str, server_url: str | None = None) -> Connectors:
        """Make a process; it is not started."""
        (self._directory / name).mkdir()
        made = Connectors(self._directory / name, server_url or self._server_url)
        made.token = "changes"
        self.processes.append(made)
        return made

    def pipeline(self, connectors: str = "", *, lease: str = LEASE) -> str:
        """Pipeline file with these connectors."""
        return f'[sharing]\ngroup = "g"\nstream = "{self.stream}-leases"\nlease = "{lease}"\n{connectors}'

    def source(self, key: str, topic: str) -> str:
        """A source of sample records, in a pipeline file."""
        table = f'[sources.{key}]\nplugin = "random"\nstream = "{self.stream}"\ntopic = "{topic}"\n'
        return f'{table}[sources.{key}.settings]\ninterval = "5 ms"\n'

    def definition(self, topic: str, **more: Any) -> dict[str, Any]:
        """The same over HTTP."""
        settings = {"interval": "5 ms"}
        return {"plugin": "random", "stream": self.stream, "topic": topic, "settings": settings, **more}

    def count(self, client: headrace.Client, topic: str) -> int:
        """Number of messages in a topic."""
        try:
            return client.topic(self.stream, topic).messages_count
        except headrace.HeadraceError:
            return 0


def running(process: Connectors) -> set[str]:
    """Connectors that run in a process."""
    return {one["key"] for one in process.get("/connectors") if one["state"] == "running"}


def state(process: Connectors, key: str) -> str | None:
    """State of a connector in a process; None: it does not know it."""
    return next((str(one["state"]) for one in process.get("/connectors") if one["key"] == key), None)
