"""The whole example: `make example-flights`.

Starts a server if none is running, sends the flights of 2013 to a topic, has Spark count delays by day and airline,
and prints where a page shows them as they come. Ctrl-C stops everything that was started.
"""

from __future__ import annotations

import argparse
import http.client
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from gateway import HTTP_ADDRESS, PASSWORD_VARIABLE, STREAM, Gateway, GatewayError, password
from produce import add_amounts, check_amounts
from serve import PORT
from stopping import on_signals

_HERE = Path(__file__).parent
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_LOOK_SECONDS = 0.1


class PartFailedError(Exception):
    """A required program does not run."""


class Parts:
    """Started programs, each in a process group of its own: Ctrl-C in a terminal reaches only this process."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []

    def start(self, name: str, *command: str, **variables: str) -> None:
        """Start a program."""
        process = subprocess.Popen(  # noqa: S603 - programs of this directory
            [sys.executable, *command],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONUNBUFFERED": "1"} | variables,
            process_group=0,
        )
        self._running.append((name, process))

    def look(self, *may_end: str) -> None:
        """Check that all required programs are running.

        Args:
            may_end: Programs that may end.

        Raises:
            PartFailedError: Another program has ended.
        """
        for name, process in self._running:
            status = process.poll()
            if status is not None and (name not in may_end or status != 0):
                raise PartFailedError(f"{name} has ended with status {status}")

    def until_stopped(self, *may_end: str) -> None:
        """Wait for a stop request.

        Raises:
            PartFailedError: A required program has ended.
        """
        while not self._stop.wait(_LOOK_SECONDS):
            self.look(*may_end)

    def stop(self) -> None:
        """Stop all programs, in reverse order of their start."""
        while self._running:
            _, process = self._running.pop()
            process.terminate()
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options in `argv`; invalid ones end the program with status 2."""
    parser = argparse.ArgumentParser(prog="make example-flights", description=__doc__)
    add_amounts(parser)
    parser.add_argument("--port", type=int, default=PORT, help="of the page [%(default)s]")
    parser.add_argument(
        "--http", metavar="HOST:PORT", default=HTTP_ADDRESS, help="HTTP address of the server [%(default)s]"
    )
    parser.add_argument(
        "--grpc", metavar="HOST:PORT", default="127.0.0.1:8094", help="gRPC address of the server [%(default)s]"
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="where Parquet and checkpoints go, which stay there [a new one in /tmp]",
    )
    options = parser.parse_args(argv)
    check_amounts(parser, options)
    return options


def is_up(address: str) -> bool:
    """Return whether a server answers at the address."""
    connection = http.client.HTTPConnection(address, timeout=5)
    try:
        connection.request("GET", "/ping")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def start_server(parts: Parts, options: argparse.Namespace, data: Path, stop: threading.Event) -> None:
    """Start a server for this example, which allows connections from the page.

    Raises:
        PartFailedError: The server does not start.
    """
    say(f"no server answers at {options.http}: one is started, for as long as this runs")
    parts.start(
        "the server",
        *("-m", "headrace", "up", "--data", str(data)),
        HEADRACE_HTTP_ADDRESS=options.http,
        HEADRACE_GRPC_ADDRESS=options.grpc,
        HEADRACE_PUSH_ALLOWED_ORIGINS=f"[http://127.0.0.1:{options.port}]",
        HEADRACE_ROOT_USERNAME=os.environ["HEADRACE_USERNAME"],
        HEADRACE_ROOT_PASSWORD=os.environ[PASSWORD_VARIABLE],
    )
    deadline = time.monotonic() + _START_SECONDS
    while not stop.wait(_LOOK_SECONDS) and not is_up(options.http):
        parts.look()
        if time.monotonic() > deadline:
            raise PartFailedError(f"the server does not answer after {_START_SECONDS:.0f} s")


def run(options: argparse.Namespace, directory: Path, stop: threading.Event) -> None:
    """Start everything, and wait for the end.

    Raises:
        GatewayError: A running server refuses a request.
        PartFailedError: A required program does not run.
    """
    stream = STREAM
    with ExitStack() as stack:
        parts = Parts(stop)
        stack.callback(parts.stop)
        if is_up(options.http):
            # A new stream, so that existing messages do not interfere.
            stream = f"{STREAM}-{time.strftime('%Y%m%d')}-{secrets.token_hex(4)}"
            say(f"a server answers at {options.http}: the stream is {stream}")
            password()
        else:
            data = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-flights-")), "data")
            # The directory is removed only after the server has ended.
            stack.callback(parts.stop)
            os.environ.setdefault("HEADRACE_USERNAME", "iggy")
            os.environ.setdefault(PASSWORD_VARIABLE, secrets.token_urlsafe(18))
            # The variable belongs to another server; the new server would take it for a setting.
            os.environ.pop("HEADRACE_PASSWORD_FILE", None)
            start_server(parts, options, data, stop)
            say(
                f"its console is at http://{options.http}/, for {os.environ['HEADRACE_USERNAME']} with the password "
                f"{os.environ[PASSWORD_VARIABLE]}"
            )
        if stop.is_set():
            return
        with Gateway(options.http, os.environ.get("HEADRACE_USERNAME", "iggy"), password()) as gateway:
            gateway.make_topics(stream)
        where = ("--http", options.http, "--stream", stream)
        parts.start("the page's server", str(_HERE / "serve.py"), "--port", str(options.port), *where)
        job = ("--servers", options.grpc, "--stream", stream, "--directory", str(directory))
        parts.start("the job", str(_HERE / "delays.py"), *job)
        sending = ("--rate", str(options.rate), "--days", str(options.days))
        parts.start("the sender", str(_HERE / "produce.py"), *sending, *where)
        say(f"the first results come in some seconds; Parquet goes to {directory / 'delays'}; Ctrl-C stops everything")
        parts.until_stopped("the sender")


def say(text: str) -> None:
    """Print a line for the user."""
    sys.stderr.write(f"{text}\n")


def main(argv: Sequence[str]) -> int:
    """Run the example until Ctrl-C; returns the exit status."""
    options = parse(argv)
    stop = on_signals()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="headrace-delays-"))
    try:
        run(options, directory, stop)
    except (GatewayError, PartFailedError) as error:
        say(f"error: {error}")
        return 1
    finally:
        if not options.directory and not (directory / "delays").exists():
            shutil.rmtree(directory, ignore_errors=True)
    say("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
