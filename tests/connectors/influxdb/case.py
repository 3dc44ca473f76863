"""A database of InfluxDB, and the case of the source that reads it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from headrace_connectors.conformance import SourceCase
from tests.influxdb import PASSWORD, USERNAME, InfluxDb

POLICY = "autogen"
"""Retention policy that databases have."""
_numbers = itertools.count()


class Database:
    """An empty database.

    Args:
        server: The server.
        language: Language that it is read in.
    """

    def __init__(self, server: InfluxDb, language: str) -> None:
        self.server = server
        self.name = f"database-{next(_numbers)}"
        self.language = language
        server.create(self.name)

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return settings of a source that reads it."""
        own: dict[str, Any] = {"url": self.server.url, "poll_interval": "1 ms", "lag": "0 s"}
        if self.language == "flux":
            own |= {"bucket": f"{self.name}/{POLICY}", "token": f"{USERNAME}:{PASSWORD}"}
        else:
            own |= {"database": self.name, "username": USERNAME, "password": PASSWORD}
        return own | more

    def write(self, *lines: str, policy: str = "") -> None:
        """Write lines of the line protocol."""
        self.server.write(self.name, *lines, policy=policy)


class InfluxQueryCase(SourceCase):
    """Points of which two and two have the same time, in two measurements."""

    name = "influxdb_query"

    def __init__(self, server: InfluxDb, language: str) -> None:
        self._database = Database(server, language)
        self._fed = 0

    def settings(self) -> Mapping[str, Any]:
        return self._database.settings(batch_size=2)

    async def feed(self, count: int) -> None:
        # A time that was read does not come back.
        self._fed += self._fed % 2
        numbers = range(self._fed, self._fed + count)
        self._database.write(*(f"m{number % 2} id={number}i {1 + number // 2}" for number in numbers))
        self._fed += count
