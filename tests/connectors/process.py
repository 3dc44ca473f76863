"""The connectors as a process of their own, for tests."""

from __future__ import annotations

import json
import os
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from tests.forked_process import ForkedProcess
from tests.ports import free_port

Value = TypeVar("Value")
_POLL_SECONDS = 0.02


def until(condition: Callable[[], Value], seconds: float = 60.0) -> Value:
    """Wait until a condition holds, and return its value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition did not become true in time"
        time.sleep(_POLL_SECONDS)
    return value


def is_suspended(pid: int) -> bool:
    """Return True if a process is stopped by a signal."""
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


class Connectors:
    """A process with the connectors of a pipeline file; it can be stopped, killed and started again."""

    def __init__(self, directory: Path, server_url: str) -> None:
        self.directory = directory
        self.file = directory / "pipeline.toml"
        self.log = directory / "connectors.log"
        self.state = directory / "state"
        self.token: str | None = None
        """Token of the HTTP interface, which accepts changes if it is set."""
        self.url = f"http://127.0.0.1:{free_port()}"
        self.server_url = server_url
        self._process: ForkedProcess | None = None

    def write(self, pipeline: str) -> None:
        """Write the pipeline file; the server, the addresses and the directories are added."""
        address = self.url.removeprefix("http://")
        top = f'[server]\nurl = "{self.server_url}"\n[http]\naddress = "{address}"\n'
        if self.token is not None:
            top += f'token = "{self.token}"\n[http.configuration]\nenabled = true\n'
        top += '[runtime]\nstate_directory = "state"\n'
        self.file.write_text(top + pipeline, encoding="utf-8")

    def run(
        self,
        pipeline: str | None = None,
        *,
        fault: Sequence[str] = (),
        is_waiting: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process and wait until its HTTP interface answers, or it has ended.

        Args:
            pipeline: The pipeline file; None: as it is.
            fault: A fault point of `tests.connectors.faults` and its arguments.
            is_waiting: Wait for the HTTP interface.
            environment: More variables, for connectors in processes of their own.
        """
        if pipeline is not None:
            self.write(pipeline)
        module = "tests.connectors.faults" if fault else "headrace_connectors"
        with self.log.open("ab") as log:
            self._process = ForkedProcess(
                module,
                [*fault, str(self.file)],
                environment=os.environ | dict(environment or {}),
                output=log.fileno(),
            )
        if is_waiting:
            until(lambda: self.has_ended or self.answers)

    @property
    def pid(self) -> int:
        """Id of the process."""
        assert self._process is not None
        return self._process.pid

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._process is not None:
            self._process.send_signal(number)

    @property
    def has_ended(self) -> bool:
        """True if the process has ended."""
        return self._process is None or self._process.poll() is not None

    @property
    def answers(self) -> bool:
        """True if the HTTP interface answers."""
        try:
            self.get("/live")
        except OSError:
            return False
        return True

    def get(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Any:
        """Call the HTTP interface; return the JSON of its answer."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token is not None:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        encoded = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, encoded, sent, method=method)
        with urllib.request.urlopen(request, timeout=60) as response:
            text = response.read().decode()
            return json.loads(text) if "json" in response.headers["Content-Type"] else text

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        """Call the HTTP interface to change something."""
        return self.get(path, "POST", body, **headers)

    def refused(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> dict[str, Any]:
        """Call the HTTP interface, which refuses it; return the problem document."""
        with pytest.raises(urllib.error.HTTPError) as caught:
            self.get(path, method, body, **headers)
        assert caught.value.headers["Content-Type"].startswith("application/problem+json")
        problem: dict[str, Any] = json.loads(caught.value.read())
        assert problem["status"] == caught.value.code
        return problem

    def status(self, key: str) -> dict[str, Any]:
        """Status of a connector."""
        found: dict[str, Any] = self.get(f"/connectors/{key}")
        return found

    def becomes(self, key: str, state: str, seconds: float = 60.0) -> dict[str, Any]:
        """Wait for a state of a connector; return its status."""
        try:
            return until(lambda: found if (found := self.status(key))["state"] == state else None, seconds)
        except AssertionError:
            raise AssertionError(f"{key} did not become {state}: {self.status(key)}\n{self.tail()}") from None

    def metric(self, name: str, **labels: str) -> float:
        """Value of a metric."""
        for line in self.get("/metrics").splitlines():
            if line.startswith(f"{name}{{") and all(f'{label}="{value}"' in line for label, value in labels.items()):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"there is no {name} with {labels}")

    def wait(self, seconds: float = 60.0) -> int:
        """Wait for the end; return the exit status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def stop(self) -> int:
        """Ask the process to stop; return its exit status."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def tail(self) -> str:
        """End of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-6000:] if self.log.exists() else ""
