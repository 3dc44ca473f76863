"""`headrace ping`."""

from __future__ import annotations

import statistics
import time
from typing import Annotated

import typer

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, ServerOption
from headrace.connection import connected


def ping(
    server: ServerOption = DEFAULT_SERVER,
    count: Annotated[
        int,
        typer.Option(
            "--count",
            "-c",
            min=1,
            help="Number of pings. After several, the minimum, median and maximum round trip follow.",
        ),
    ] = 1,
) -> None:
    """Check that a server responds, without a login."""
    round_trips_ms = []
    with connected(server, None) as client:
        for _ in range(count):
            started = time.perf_counter()
            client.ping()
            round_trips_ms.append((time.perf_counter() - started) * 1e3)
            output.stdout().print(f"{server} responded in {round_trips_ms[-1]:.3f} ms")
    if count > 1:
        shortest, median, longest = min(round_trips_ms), statistics.median(round_trips_ms), max(round_trips_ms)
        output.stdout().print(f"minimum {shortest:.3f} ms, median {median:.3f} ms, maximum {longest:.3f} ms")
