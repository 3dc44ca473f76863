"""`headrace ping`."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, ServerOption
from headrace.connection import connected


def ping(
    server: ServerOption = DEFAULT_SERVER,
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="Number of pings.")] = 1,
) -> None:
    """Check that a server responds, without a login."""
    with connected(server, None) as client:
        for _ in range(count):
            started = time.perf_counter()
            client.ping()
            output.stdout().print(f"{server} responded in {(time.perf_counter() - started) * 1e3:.3f} ms")
