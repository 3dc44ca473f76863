"""CON-46: each connector has a page and an example, and every example does what its comment says."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace_connectors.plugins.discovery import Plugins
from tests.connectors.process import until
from tests.forked_process import ForkedProcess
from tests.influxdb import PASSWORD as INFLUXDB_PASSWORD
from tests.influxdb import USERNAME as INFLUXDB_USERNAME
from tests.influxdb import influxdb
from tests.opensearch import opensearch
from tests.ports import free_port
from tests.postgresql import postgresql
from tests.sdk.conftest import url_of
from tests.server_process import PASSWORD, USERNAME, ServerProcess
from tests.site.documents import ROOT

STREAM = "gallery"
PORTS = ("127.0.0.1:8086", "127.0.0.1:8120", "127.0.0.1:8121")
"""Addresses that the examples name."""


def load() -> Any:
    """Module that reads the examples; pages are made with it."""
    path = ROOT / "docs/site/reference/connector_examples.py"
    specification = importlib.util.spec_from_file_location("connector_examples", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


EXAMPLES = load().examples()


def substituted(text: str, addresses: dict[str, str]) -> str:
    """A text with other addresses."""
    for usual, address in addresses.items():
        text = text.replace(usual, address)
    return text


@pytest.fixture
def variables(shared_server: ServerProcess) -> Iterator[dict[str, str]]:
    """Variables of the examples' environment; their stream is deleted."""
    with headrace.connect(url_of(shared_server.address)) as client:

        def clean() -> None:
            for stream in client.streams():
                if stream.name == STREAM:
                    client.delete_stream(STREAM)

        clean()
        yield {"HEADRACE_SERVER": shared_server.address, "HEADRACE_USERNAME": USERNAME, "HEADRACE_PASSWORD": PASSWORD}
        clean()


@pytest.mark.long(but=3)
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.kind}-{example.name}")
def test_an_example_does_what_its_comment_says(
    example: Any, variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = {usual: f"127.0.0.1:{free_port()}" for usual in PORTS}
    file = tmp_path / example.path.name
    file.write_text(substituted(example.path.read_text(encoding="utf-8"), addresses), encoding="utf-8")
    log = tmp_path / "log"
    environment = dict(os.environ) | variables

    def commands(lines: list[str], *, check: bool) -> int:
        script = substituted("\n".join(lines), addresses)
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=False
        )
        assert not check or done.returncode == 0, done.stderr.decode() + log.read_text()
        return done.returncode

    with ExitStack() as stack:
        if "DATABASE_URL" in example.path.read_text(encoding="utf-8"):
            server = stack.enter_context(postgresql())
            address = f"{server['PGUSER']}@{server['PGHOST']}:{server['PGPORT']}/{server['PGDATABASE']}"
            environment["DATABASE_URL"] = f"postgresql://{address}"
        if "OPENSEARCH_URL" in example.path.read_text(encoding="utf-8"):
            (tmp_path / "opensearch").mkdir()
            environment["OPENSEARCH_URL"] = stack.enter_context(opensearch(tmp_path / "opensearch")).url
        if "INFLUXDB_URL" in example.path.read_text(encoding="utf-8"):
            (tmp_path / "influxdb").mkdir()
            environment["INFLUXDB_URL"] = stack.enter_context(influxdb(tmp_path / "influxdb", "1.6")).url
            environment |= {"INFLUXDB_USERNAME": INFLUXDB_USERNAME, "INFLUXDB_PASSWORD": INFLUXDB_PASSWORD}
        output = stack.enter_context(log.open("wb"))
        commands(example.before, check=True)
        # A forked process starts in the directory of the test.
        monkeypatch.chdir(tmp_path)
        process = ForkedProcess("headrace_connectors", [str(file)], environment=environment, output=output.fileno())
        try:
            until(lambda: "connectors run: " in log.read_text() or process.poll() is not None)
            commands(example.then, check=True)
            for text in example.shows:
                until(lambda text=text: text in log.read_text() or process.poll() is not None)
                assert text in log.read_text()
            if example.check:
                until(lambda: commands(example.check, check=False) == 0 or process.poll() is not None)
                commands(example.check, check=True)
        finally:
            process.kill()
            process.wait()


def test_every_connector_has_an_example_and_a_page(site: Path) -> None:
    plugins = {
        (one.kind.removesuffix("s"), one.name)
        for one in Plugins().installed()
        if one.distribution == "headrace" and one.kind in ("sources", "sinks")
    }
    assert {(example.kind, example.name) for example in EXAMPLES} == plugins
    for example in EXAMPLES:
        assert example.shows or example.check, example.path
        page = site / f"connectors/{example.kind}-{example.name}.md"
        assert example.text.rstrip("\n") in page.read_text(encoding="utf-8")
