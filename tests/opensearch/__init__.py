"""An OpenSearch server for tests; `.ci/opensearch` fetches it."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.ports import free_port

HOME = Path(__file__).resolve().parents[2] / ".cache" / "opensearch"
_START_SECONDS = 180.0
_POLL_SECONDS = 0.1


class OpenSearch:
    """A server, and requests to it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """Send a request; return the document of the answer."""
        body = None if document is None else json.dumps(document).encode()
        request = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.loads(response.read())

    def documents(self, index: str) -> dict[str, Any]:
        """Documents of an index by id."""
        self.ask("POST", f"/{index}/_refresh")
        hits = self.ask("POST", f"/{index}/_search", {"size": 10_000})["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}


@contextmanager
def opensearch(directory: Path) -> Generator[OpenSearch]:
    """Run an empty server during a ``with`` block.

    Args:
        directory: Empty directory for its files.
    """
    assert HOME.is_dir(), "there is no OpenSearch: `.ci/opensearch` fetches it"
    port = free_port()
    settings = {
        "cluster.name": "tests",
        "discovery.type": "single-node",
        "network.host": "127.0.0.1",
        "http.port": port,
        "transport.port": 0,
        "path.data": str(directory / "data"),
        "path.logs": str(directory / "logs"),
        "cluster.routing.allocation.disk.threshold_enabled": False,
        "indices.id_field_data.enabled": False,
    }
    (directory / "config").mkdir()
    text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in settings.items())
    (directory / "config" / "opensearch.yml").write_text(text, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("log4j2.properties"), directory / "config")
    command = [
        "java",
        "-Xms256m",
        "-Xmx256m",
        "-XX:TieredStopAtLevel=1",
        "-Djava.security.manager=allow",
        # Without native calls the server does not ask who runs it, and starts as root, too.
        "-Djna.nounpack=true",
        f"-Dopensearch.path.home={HOME}",
        f"-Dopensearch.path.conf={directory / 'config'}",
        "-cp",
        f"{HOME / 'lib'}/*",
        "org.opensearch.bootstrap.OpenSearch",
    ]
    log = directory / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        server = OpenSearch(f"http://127.0.0.1:{port}")
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(server):
            is_late = process.poll() is not None or time.monotonic() > deadline
            assert not is_late, log.read_text(errors="replace")[-4000:]
            time.sleep(_POLL_SECONDS)
        yield server
    finally:
        process.kill()
        process.wait()


def _answers(server: OpenSearch) -> bool:
    with contextlib.suppress(OSError, urllib.error.URLError):
        return bool(server.ask("GET", "/_cluster/health?wait_for_status=yellow"))
    return False
