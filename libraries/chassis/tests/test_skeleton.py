"""A service of at most 120 lines has health, metrics, logs, TLS and settings, as a process of its own."""

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from headrace_chassis.signals import FORCED_EXIT_STATUS

SKELETON = Path(__file__).with_name("skeleton.py")
WAIT_SECONDS = 60


class Process:
    """The skeleton as a process, with its log as records."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.chain, self.key = directory / "certificate.pem", directory / "key.pem"
        self.certificate = self.renew()
        own = {"LISTEN_CERT_FILE": str(self.chain), "LISTEN_KEY_FILE": str(self.key), **settings}
        self._process = subprocess.Popen(
            [sys.executable, SKELETON],
            env=os.environ | {f"HEADRACE_SKELETON_{name}": value for name, value in own.items()},
            stderr=subprocess.PIPE,
            text=True,
        )

    def renew(self) -> str:
        """Write a new certificate; return it."""
        issued = trustme.CA().issue_cert("127.0.0.1")
        issued.private_key_pem.write_to_path(self.key)
        issued.cert_chain_pems[0].write_to_path(self.chain)
        return self.chain.read_text()

    def logged(self, event: str) -> dict[str, str]:
        """Read the log until a record begins with this text; return the record."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            record: dict[str, str] = json.loads(line)
            if record["event"].startswith(event):
                return record
        raise AssertionError(f"the process has ended with {self._process.wait()}, without {event!r} in its log")

    def send(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the end; return the exit status."""
        return self._process.wait(WAIT_SECONDS)

    def kill(self) -> None:
        """End the process, if it runs."""
        with self._process:
            self._process.kill()


@contextmanager
def process(directory: Path, **settings: str) -> Iterator[Process]:
    started = Process(directory, **settings)
    try:
        yield started
    finally:
        started.kill()


def page(address: str, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://{address}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def certificate_of(address: str) -> str:
    host, _, port = address.rpartition(":")
    return ssl.get_server_certificate((host, int(port)))


def test_the_skeleton_is_short() -> None:
    assert len(SKELETON.read_text(encoding="utf-8").splitlines()) <= 120


def test_a_service_answers_supervisors_reloads_its_certificate_and_stops(tmp_path: Path) -> None:
    with process(tmp_path) as service:
        starting = service.logged("starting")
        assert (starting["level"], starting["service"]) == ("info", "skeleton")
        http, grpc = starting["http"], service.logged("serving")["grpc"]
        assert page(http, "/live") == page(http, "/health") == (200, '{"status": "ok"}')
        assert page(http, "/metrics")[0] == 401
        status, metrics = page(http, "/metrics", Authorization="Bearer t")
        assert status == 200
        assert "headrace_skeleton_ready 1.0" in metrics
        assert "process_cpu_seconds_total" in metrics
        assert page(http, "/elsewhere")[0] == 404

        assert certificate_of(grpc) == service.certificate
        renewed = service.renew()
        service.send(signal.SIGUSR1)
        service.logged("listen: certificate replaced by that of")
        assert certificate_of(grpc) == renewed

        service.send(signal.SIGTERM)
        service.logged("stopping")
        assert service.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_during_the_start_is_heeded(tmp_path: Path, number: int) -> None:
    with process(tmp_path, START_TIME="1 h") as service:
        http = service.logged("starting")["http"]
        assert page(http, "/live") == (200, '{"status": "starting"}')
        assert page(http, "/health") == (503, '{"status": "starting"}')
        service.send(number)
        service.logged("shutdown requested during startup")
        assert service.wait() == 0


def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    with process(tmp_path, STOP_TIME="1 h") as service:
        service.logged("serving")
        service.send(signal.SIGTERM)
        service.logged("stopping")
        service.send(signal.SIGTERM)
        assert service.wait() == FORCED_EXIT_STATUS


def test_a_certificate_that_is_missing_refuses_the_start(tmp_path: Path) -> None:
    with process(tmp_path, LISTEN_CERT_FILE=str(tmp_path / "missing.pem"), LOGGING_LEVEL="error") as service:
        assert service.wait() == 1
