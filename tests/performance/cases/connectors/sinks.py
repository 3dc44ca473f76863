"""Sinks that need nothing but this machine's files and an HTTP server."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Final

from tests.performance.cases.connectors.runs import BATCH, ONE_BY_ONE, Measurements, Runs, unique
from tests.ports import free_port

_ALONE: Final = {"sqlite": 500, "parquet": 200, "delta": 50, "http": 1000, "stdout": 2000}
"""Messages that are written one by one, by sink."""


class Sinks(Measurements):
    """Messages into files, requests and lines."""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs)
        self._port = free_port()

    def turns(self) -> Mapping[str, Callable[[], Mapping[str, float]]]:
        """Return the measurements."""
        found: dict[str, Callable[[], Mapping[str, float]]] = {}
        for plugin, alone in _ALONE.items():
            name = f"sink {plugin}"
            found[name] = partial(self._written, name, plugin, None, BATCH)
            found[name + ONE_BY_ONE] = partial(self._written, name + ONE_BY_ONE, plugin, alone, 1)
        return found

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """Start the HTTP server. The sink tries again until it listens."""
        command = [sys.executable, "-m", "tests.performance.loads.http_receiver", str(self._port)]
        with subprocess.Popen(command) as server:
            try:
                yield
            finally:
                server.kill()

    def _written(self, name: str, plugin: str, count: int | None, batch: int) -> Mapping[str, float]:
        return {name: self.runs.sink(plugin, self._settings(plugin), count=count, batch=batch)}

    def _settings(self, plugin: str) -> str:
        path = self.runs.directory / unique(plugin)
        match plugin:
            case "http":
                return f'url = "http://127.0.0.1:{self._port}/"\n'
            case "stdout":
                return ""
            case "sqlite":
                with closing(sqlite3.connect(path)) as database:
                    database.execute("CREATE TABLE copies (id int, topic text, name text, amount int)")
                return f'path = "{path}"\ntable = "copies"\n'
        return f'path = "{path}"\n'
