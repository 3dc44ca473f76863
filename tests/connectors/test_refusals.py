"""Refusals of connectors, before they start or instead of starting."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import headrace
from headrace import aio
from headrace_connectors.plugins.discovery import IncompatiblePlugin, Plugins
from tests.connectors.process import Connectors
from tests.ports import free_port


def test_a_plugin_of_another_contract_is_refused_before_its_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CON-10: none of its code runs."""
    (tmp_path / "old_plugin.py").write_text("raise AssertionError('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("old", "old_plugin:Source", "headrace_connectors.v0.sources")
    with pytest.raises(IncompatiblePlugin, match=r"written for version 0 .* has version 1") as caught:
        Plugins([entry]).load("sources", "old")
    assert (caught.value.version, caught.value.expected) == (0, 1)
    assert "old_plugin" not in sys.modules


def test_a_pipeline_with_such_a_plugin_does_not_start(connectors: Connectors, tmp_path: Path) -> None:
    """CON-10: an installed distribution declares its version in its metadata."""
    distribution = tmp_path / "plugins" / "old-1.0.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: old\nVersion: 1.0\n", encoding="utf-8")
    entry_points = "[headrace_connectors.v7.sources]\nold = old_plugin:Source\n"
    (distribution / "entry_points.txt").write_text(entry_points, encoding="utf-8")
    connectors.write('[sources.a]\nplugin = "old"\nstream = "s"\ntopic = "t"\n')
    process = subprocess.run(
        [sys.executable, "-m", "headrace_connectors", "--check", connectors.file],
        env={"PYTHONPATH": str(distribution.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert "plugin 'old' of old is written for version 7" in process.stderr


@pytest.mark.parametrize("option", ["linger", "batch_messages", "in_flight"])
async def test_an_unbound_producer_does_not_send_in_the_background(client: headrace.Client, option: str) -> None:
    """CON-1: it is refused when it is made, for both flavours."""
    with pytest.raises(headrace.InvalidArgument, match=f"{option}: .*in the background needs a topic"):
        client.direct_producer(**{option: 1})
    async with aio.connect("headrace+embedded://") as other:
        with pytest.raises(headrace.InvalidArgument, match="in the background needs a topic"):
            other.direct_producer(**{option: 1})


def test_two_ways_of_routing_are_refused(connectors: Connectors) -> None:
    """CON-3: `routing` and a transform that routes exclude each other, before anything starts."""
    connectors.run(
        '[sources.a]\nplugin = "random"\n[sources.a.routing]\ndefault_stream = "s"\ndefault_topic = "t"\n'
        '[sources.a.transforms.route]\ntopic_field = "x"\nmapping_url = "http://127.0.0.1:1"\n'
    )
    assert connectors.wait() == 2
    assert "sources.a.routing: excludes the transform route" in connectors.tail()
    assert str(connectors.file) in connectors.tail()


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers as its path says: ``/STATUS/BODY``."""

    def do_GET(self) -> None:
        _, status, body = self.path.split("/", 2)
        self.send_response(int(status))
        self.end_headers()
        self.wfile.write(urllib.parse.unquote(body).encode())

    def log_message(self, *arguments: object) -> None:
        """Write nothing."""


@pytest.fixture
def upstream() -> Iterator[str]:
    """A server for mappings that are none."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/500/broken", "answered 500: broken"),
        ("/404/", "answered 404"),
        ("/200/{", "is not a mapping"),
        ("/200/[]", "is not a mapping"),
        ('/200/{"a":{"stream":"s"}}', "is not a mapping"),
        ("/200/{}", "is an empty mapping"),
        (None, "cannot be read"),
    ],
)
def test_without_its_mapping_a_source_does_not_start(
    client: headrace.Client, connectors: Connectors, upstream: str, path: str | None, message: str
) -> None:
    """CON-3: an error of the configuration server is shown; nothing is routed by an empty mapping."""
    url = f"http://127.0.0.1:{free_port()}/" if path is None else upstream + path
    connectors.run(
        f'[sources.a]\nplugin = "webhook"\n[sources.a.settings]\naddress = "127.0.0.1:{free_port()}"\n'
        f"[sources.a.transforms.route]\ntopic_field = \"x\"\nmapping_url = '{url}'\n"
        'default = { stream = "s", topic = "t" }\n'
    )
    status = connectors.becomes("a", "error")
    assert status["error_code"] == "mapping_unavailable"
    assert message in status["last_error"]


def test_the_http_interface_requires_its_token(connectors: Connectors) -> None:
    """All but health is closed."""
    connectors.write('[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\nenabled = false\n')
    text = connectors.file.read_text(encoding="utf-8").replace("[http]\n", '[http]\ntoken = "secret"\n')
    connectors.file.write_text(text, encoding="utf-8")
    connectors.run()
    assert connectors.get("/health") == {"status": "ok"}
    for path in ("/connectors", "/metrics", "/mappings/m", "/connectors/a/destinations"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            connectors.get(path)
        assert (caught.value.code, json.loads(caught.value.read())["code"]) == (401, "unauthorized")
    assert "secret" not in connectors.tail()


def test_a_token_of_metrics_opens_nothing_else(connectors: Connectors) -> None:
    """CON-97: Prometheus cannot stop a connector."""
    connectors.write('[sources.a]\nplugin = "random"\nstream = "s"\ntopic = "t"\nenabled = false\n')
    tokens = '[http]\ntoken = "of-all"\nmetrics_token = "of-metrics"\n'
    text = connectors.file.read_text(encoding="utf-8").replace("[http]\n", tokens)
    connectors.file.write_text(text, encoding="utf-8")
    connectors.run()
    assert "headrace_connector_state" in connectors.get("/metrics", Authorization="Bearer of-metrics")
    assert "headrace_connector_state" in connectors.get("/metrics", Authorization="Bearer of-all")
    for path, method in (("/connectors", "GET"), ("/connectors/a/start", "POST"), ("/metrics/", "GET")):
        refused = connectors.refused(path, method, Authorization="Bearer of-metrics")
        assert (refused["status"], refused["code"]) == (401, "unauthorized")
