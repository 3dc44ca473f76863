"""Runs of one connector in a process of its own, and what measurements of connectors have in common."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import headrace
from tests.performance.workbench import Workbench
from tests.server_process import PASSWORD, USERNAME, ServerProcess

BATCH: Final = 5000
"""Rows of a batch, unless a connector allows fewer."""
DESTINATIONS: Final = 50
"""Topics beside `t` in the stream that a source writes to."""
ONE_BY_ONE: Final = ", one row at a time"
"""End of the name of a measurement in which each message is sent, or written, by itself."""
SINGLE: Final = 'stream = "STREAM"\ntopic = "t"'
"""Destination of a source: one topic."""
_ROOT: Final = Path(__file__).resolve().parents[4]
_numbers = itertools.count()


def unique(prefix: str) -> str:
    """Return a name that no other run has."""
    return f"{prefix}{next(_numbers)}"


def row(number: int) -> dict[str, Any]:
    """Return a row of about 100 B as JSON."""
    return {"id": number, "topic": "t", "name": f"customer {number:032}", "amount": number}


class LeftOut(Exception):
    """Measurements that cannot run here; the text says what is missing."""


class Measurements(ABC):
    """Measurements that need the same surroundings.

    Args:
        runs: Runs connectors.
    """

    def __init__(self, runs: Runs) -> None:
        self.runs = runs

    @abstractmethod
    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements by name; one may measure several numbers.

        Numbers are rows per second, or requests per second if their name ends with `requests`.
        """

    @abstractmethod
    def prepared(self) -> AbstractContextManager[None]:
        """Set up what the measurements need, for a ``with`` block around all rounds.

        Raises:
            LeftOut: It cannot be had here.
        """


class Runs:
    """Runs connectors, each in a process of its own.

    Args:
        bench: The run of the benchmark.
        server: The server with the topics.
        rows: Rows of a measurement.
    """

    def __init__(self, bench: Workbench, server: ServerProcess, rows: int) -> None:
        self.directory = bench.directory
        self.rows = rows
        self._server = server

    def fill(self) -> None:
        """Fill the topic that sinks read."""
        with self._client() as client:
            client.create_stream("filled")
            client.create_topic("filled", "t")
            with client.producer("filled", "t") as producer:
                for number in range(self.rows):
                    producer.send(json.dumps(row(number)).encode())
                producer.flush()

    def source(self, plugin: str, settings: str, count: int, *, place: str = SINGLE, one_by_one: bool = False) -> float:
        """Run a source until `count` records are stored; return records per second.

        Args:
            plugin: Name of the plugin.
            settings: Lines of its settings, and further tables.
            count: Number of records.
            place: Lines with the destination, in the stream `STREAM`.
            one_by_one: True: each message is sent and awaited by itself.
        """
        return self._with_stream(plugin, settings, place, count, "--one-by-one" * one_by_one)

    def endpoint(
        self, plugin: str, settings: str, request: bytes, requests: int, records: int, *, one_by_one: bool = False
    ) -> float:
        """Run a source that receives requests until all are answered; return requests per second.

        Args:
            plugin: Name of the plugin.
            settings: Lines of its settings.
            request: A whole request; `PORT` in the settings is a free port.
            requests: Number of requests.
            records: Number of records of all requests.
            one_by_one: True: each message is sent and awaited by itself.
        """
        file = self.directory / unique("request")
        file.write_bytes(request)
        own = ("--request", str(file), "--requests", str(requests), "--one-by-one" * one_by_one)
        return self._with_stream(plugin, settings, SINGLE, records, *own)

    def sink(self, plugin: str, settings: str, *, count: int | None = None, batch: int = BATCH) -> float:
        """Run a sink until `count` messages are written, all if not given; return messages per second.

        Args:
            plugin: Name of the plugin.
            settings: Lines of its settings.
            count: Number of messages.
            batch: Messages of a batch: each is written, flushed, and its offset stored.
        """
        shared = f'stream = "filled"\ntopic = "t"\ngroup = "{unique("g")}"\nbatch_size = {batch}'
        pipeline = f'[sinks.a]\nplugin = "{plugin}"\n{shared}\n[sinks.a.settings]\n{settings}'
        return self._rate(pipeline, self.rows if count is None else count)

    def _with_stream(self, plugin: str, settings: str, place: str, count: int, *options: str) -> float:
        stream = unique("s")
        with self._client() as client:
            client.create_stream(stream)
            for topic in ("t", *(f"t{number}" for number in range(DESTINATIONS))):
                client.create_topic(stream, topic)
        pipeline = f'[sources.a]\nplugin = "{plugin}"\n{place}\n[sources.a.settings]\n{settings}'
        try:
            return self._rate(pipeline.replace("STREAM", stream), count, *options)
        finally:
            with self._client() as client:
                client.delete_stream(stream)

    def _rate(self, pipeline: str, count: int, *options: str) -> float:
        directory = self.directory / unique("connector")
        directory.mkdir()
        file = directory / "pipeline.toml"
        server = f'url = "headrace://{self._server.address}"\nusername = "{USERNAME}"\npassword = "{PASSWORD}"\n'
        top = f'[server]\n{server}[http]\naddress = "127.0.0.1:0"\n[runtime]\nstate_directory = "state"\n'
        file.write_text(top + pipeline, encoding="utf-8")
        result_file = directory / "result.json"
        program = "tests.performance.loads.connector_load"
        command = [sys.executable, "-m", program, str(file), str(count), str(result_file)]
        with (directory / "output").open("wb") as output:
            given = [option for option in options if option]
            done = subprocess.run([*command, *given], cwd=_ROOT, stdout=output, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise AssertionError(done.stderr.decode(errors="replace"))
        result: dict[str, float] = json.loads(result_file.read_bytes())
        return result["count"] / result["seconds"]

    def _client(self) -> headrace.Client:
        return headrace.connect(self._server.address, username=USERNAME, password=PASSWORD)
