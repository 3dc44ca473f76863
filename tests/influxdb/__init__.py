"""InfluxDB servers for tests; `.ci/influxdb` gets them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tests.ports import free_port

USERNAME, PASSWORD = "headrace", "a-secret"
_PROGRAMS = {
    # Debian's.
    "1.6": Path("/usr/bin/influxd"),
    # With `/api/v2/query`, as version 2.
    "1.8": Path(__file__).resolve().parents[2] / ".cache" / "influxdb" / "v1.8.10" / "influxd",
}
_START_SECONDS = 60.0
_POLL_SECONDS = 0.05
_SETTINGS = """reporting-disabled = true
bind-address = "127.0.0.1:{control}"
[meta]
dir = "{directory}/meta"
[data]
dir = "{directory}/data"
wal-dir = "{directory}/wal"
query-log-enabled = false
[monitor]
store-enabled = false
[http]
bind-address = "127.0.0.1:{port}"
auth-enabled = true
flux-enabled = true
log-enabled = false
"""


class InfluxDb:
    """A server, and requests to it as its administrator."""

    def __init__(self, url: str) -> None:
        self.url = url

    def statement(self, text: str) -> Any:
        """Run a statement of InfluxQL; return the document of the answer."""
        return json.loads(self._post("/query", {"q": text}, b""))

    def create(self, database: str) -> None:
        """Create a database."""
        self.statement(f'CREATE DATABASE "{database}"')

    def write(self, database: str, *lines: str, policy: str = "") -> None:
        """Write lines of the line protocol, with times in nanoseconds."""
        self._post("/write", {"db": database, "rp": policy}, "\n".join(lines).encode())

    def _post(self, path: str, parameters: dict[str, str], body: bytes) -> bytes:
        given = {**parameters, "u": USERNAME, "p": PASSWORD}
        url = f"{self.url}{path}?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(urllib.request.Request(url, body, method="POST"), timeout=30) as response:
            content: bytes = response.read()
            return content


def is_there(version: Literal["1.6", "1.8"]) -> bool:
    """Return whether a server of this version is installed."""
    return _PROGRAMS[version].exists()


@contextmanager
def influxdb(directory: Path, version: Literal["1.6", "1.8"]) -> Generator[InfluxDb]:
    """Run an empty server during a ``with`` block.

    Args:
        directory: Empty directory for its files.
        version: 1.8 answers queries in Flux, too.
    """
    assert is_there(version), f"there is no InfluxDB {version}: `.ci/influxdb` gets it"
    port = free_port()
    file = directory / "influxdb.conf"
    file.write_text(_SETTINGS.format(directory=directory, port=port, control=free_port()), encoding="utf-8")
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [_PROGRAMS[version], "-config", file],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        server = InfluxDb(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(server):
            is_late = process.poll() is not None or time.monotonic() > deadline
            assert not is_late, log.read_text(errors="replace")[-4000:]
            time.sleep(_POLL_SECONDS)
        yield server
    finally:
        process.kill()
        process.wait()


def _answers(server: InfluxDb) -> bool:
    with contextlib.suppress(OSError, urllib.error.URLError):
        # The first user may be created without a login.
        return "error" not in server.statement(f"CREATE USER {USERNAME} WITH PASSWORD '{PASSWORD}' WITH ALL PRIVILEGES")
    return False
