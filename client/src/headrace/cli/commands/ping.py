"""`headrace ping`."""

from __future__ import annotations

import statistics
import time

import click

from headrace.cli.options.server_options import with_server
from headrace.cli.parameters import COUNT
from headrace.cli.servers.target import Target


@click.command("ping")
@with_server
@click.option(
    "--count",
    "-c",
    type=COUNT,
    default=1,
    show_default=True,
    help="Number of pings. After several, the minimum, median and maximum round trip follow.",
)
def app(target: Target, count: int) -> None:
    """Check that a server responds, without a login."""
    round_trips_ms = []
    with target.connected_without_login() as client:
        for _ in range(count):
            started = time.perf_counter()
            client.ping()
            round_trips_ms.append((time.perf_counter() - started) * 1e3)
            click.echo(f"{target.address} responded in {round_trips_ms[-1]:.3f} ms")
    if count > 1:
        shortest, median, longest = min(round_trips_ms), statistics.median(round_trips_ms), max(round_trips_ms)
        click.echo(f"minimum {shortest:.3f} ms, median {median:.3f} ms, maximum {longest:.3f} ms")
