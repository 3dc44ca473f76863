"""A year of flights through the official client, and back, byte for byte: `make demo`.

Every row of the table becomes a message, every carrier a partition. The messages are read back by offset, by
timestamp and by `next`, and compared with what was sent. With `--kill` the server is killed in the middle, again
and again. Exits with 0 when everything is as it was sent, with 1 when anything is not.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from apache_iggy import IggyClient
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace_core import Client, CoreError
from tests.journeys.deployment.outages import Link, Outages
from tests.journeys.flights.passes import PASSES_COUNT, Difference, InFlight, Journey, Pass
from tests.journeys.flights.rows import ROWS_COUNT, read_flights
from tests.official_quic import quic_clients
from tests.server_process import PASSWORD, USERNAME, ServerDidNotStart, ServerProcess

DEFAULT_KILLS = 6
TRANSPORTS = ("tcp", "websocket", "quic")
PERCENTILES = (50, 95, 99, 99.9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of the command line."""

    server: str | None
    transport: str
    username: str
    password: str
    rows: int
    batch: int
    connections: int
    kills: int
    seed: int


@dataclass(frozen=True, slots=True)
class Summary:
    """Results of the run."""

    passes: tuple[Pass, ...]
    in_flight: InFlight
    kills_count: int


def parse(argv: Sequence[str]) -> Options:
    """The options in `argv`; wrong ones end the program with status 2."""
    parser = argparse.ArgumentParser(
        prog="make demo", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--server", metavar="HOST:PORT", help="a running server; without it one is started")
    parser.add_argument(
        "--transport", choices=TRANSPORTS, default="tcp", help="what the official client connects by [%(default)s]"
    )
    parser.add_argument("--username", default=os.environ.get("HEADRACE_USERNAME", USERNAME))
    parser.add_argument("--password", default=os.environ.get("HEADRACE_PASSWORD", PASSWORD))
    parser.add_argument("--rows", type=int, default=ROWS_COUNT, help="only the first rows of the table")
    parser.add_argument("--batch", type=int, default=100, help="messages of one request to send")
    parser.add_argument("--connections", type=int, default=4, help="clients that work at the same time")
    parser.add_argument(
        "--kill",
        dest="kills",
        metavar="TIMES",
        nargs="?",
        type=int,
        const=DEFAULT_KILLS,
        default=0,
        help=f"kill the server so many times ({DEFAULT_KILLS}) while messages are sent and read",
    )
    parser.add_argument("--seed", type=int, default=int(time.time()), help="decides when it is killed")
    options = Options(**vars(parser.parse_args(argv)))
    if options.kills and options.server:
        parser.error("only a server that is started here can be killed: leave out --server or --kill")
    if options.kills and options.transport != "tcp":
        # Over other transports the client logs in by itself, and it also retries batches that a kill may have stored.
        parser.error("--kill: only over tcp does the official client repeat nothing by itself")
    if options.server and options.transport == "quic":
        # The QUIC clients are created with a client of another listener of the same server.
        parser.error("--transport quic: only with a server that is started here: leave out --server")
    if not 1 <= options.rows <= ROWS_COUNT:
        parser.error(f"--rows: 1 to {ROWS_COUNT}")
    if min(options.batch, options.connections) < 1:
        parser.error("--batch and --connections: at least 1")
    return options


async def dialer(address: str, server: ServerProcess | None, options: Options) -> Callable[[], IggyClient]:
    """Create a factory of official clients."""
    credentials = f"{options.username}:{options.password}"
    if options.transport == "websocket":
        string = f"iggy+ws://{credentials}@{address}"
        return lambda: IggyClient.from_connection_string(string)
    if server is not None and options.transport == "quic":
        string = f"iggy+quic://{credentials}@{server.quic_address}"
        made = await quic_clients(f"iggy+tcp://{credentials}@{address}", string, options.connections)
        return made.pop
    return lambda: IggyClient(address)


async def travel(address: str, server: ServerProcess | None, options: Options, console: Console) -> Summary:
    """The whole journey.

    Raises:
        Difference: Something is not as it was sent.
    """
    flights = read_flights(options.rows)
    outages = None
    if server is not None and options.kills:
        outages = Outages(server, options.kills, options.seed, PASSES_COUNT * flights.rows_count)
    dial = await dialer(address, server, options)
    links = [
        Link(dial, options.username, options.password, outages)
        for _ in range(min(options.connections, len(flights.rows)))
    ]
    with _progress(console) as progress:
        task = TaskID(0)

        def progressed(messages_count: int) -> None:
            progress.advance(task, messages_count)
            if outages is not None:
                outages.progressed(messages_count)

        def connect_native() -> Client:
            client = Client.connect(address, transport="websocket" if options.transport == "websocket" else "tcp")
            client.login(options.username, options.password)
            return client

        # A server of its own is empty; on one that runs already each journey needs a name that no other took.
        stream = "flights" if server is not None else f"flights-{time.strftime('%Y%m%d')}-{secrets.token_hex(4)}"
        journey = Journey(
            flights,
            links,
            stream,
            batch_count=options.batch,
            progressed=progressed,
            connect_native=connect_native,
        )
        await journey.create()
        passes = []
        for name, run in (
            ("send", journey.send),
            ("by offset", journey.read_by_offset),
            ("by timestamp", journey.read_by_timestamp),
            ("next, auto-commit", journey.read_next_auto_commit),
            ("next, stored", journey.read_next_stored),
        ):
            task = progress.add_task(name, total=flights.rows_count)
            passes.append(await run())
    # The official client's threads touch Python objects a moment longer: a process that ends meanwhile aborts.
    await asyncio.sleep(0.1)
    for measured in passes:
        if measured.messages_count != flights.rows_count:
            raise Difference(f"{measured.name}: {measured.messages_count} messages of {flights.rows_count}")
    return Summary(tuple(passes), journey.in_flight, outages.kills_count if outages is not None else 0)


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<17}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )


def percentile(sorted_values: Sequence[float], percent: float) -> float:
    """The smallest of the values that so many percent of them do not exceed."""
    rank = -(-len(sorted_values) * percent // 100)
    return sorted_values[max(0, int(rank) - 1)]


def summary_table(summary: Summary) -> Table:
    """Throughput and latency of each pass."""
    table = Table(box=None, header_style="bold", pad_edge=False, caption="latency of one request in milliseconds")
    table.add_column("", no_wrap=True)
    for column in ("seconds", "messages/s", "MB/s", "requests", *(f"p{percent}" for percent in PERCENTILES)):
        table.add_column(column, justify="right")
    for measured in summary.passes:
        latencies = sorted(measured.latencies)
        table.add_row(
            measured.name,
            f"{measured.seconds:.2f}",
            f"{measured.messages_count / measured.seconds:,.0f}",
            f"{measured.size_bytes / measured.seconds / 1e6:.1f}",
            f"{len(latencies):,}",
            *(f"{1000 * percentile(latencies, percent):.2f}" for percent in PERCENTILES),
        )
    return table


def main(argv: Sequence[str]) -> int:
    """Run the demonstration; returns the exit status."""
    options = parse(argv)
    console = Console(soft_wrap=True, highlight=False)
    with ExitStack() as stack:
        server = None
        address = options.server
        if address is None:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="headrace-demo-"))
            server = ServerProcess(Path(directory) / "data")
            try:
                stack.enter_context(server)
            except ServerDidNotStart as failure:
                console.print(f"[bold red]the server does not start:[/] {failure}")
                return 1
            address = server.websocket_address if options.transport == "websocket" else server.address
            console.print(f"a server on {address}, data in {directory} until the end")
        if options.kills:
            console.print(f"it will be killed {options.kills} times (--seed {options.seed})")
        try:
            summary = asyncio.run(travel(address, server, options, console))
        except Difference as difference:
            console.print(f"[bold red]not as it was sent:[/] {escape(str(difference))}")
            return 1
        except (RuntimeError, CoreError) as failure:
            console.print(f"[bold red]failed:[/] {escape(str(failure))}")
            if server is not None:
                console.print(server.log_tail(), markup=False)
            return 1
        console.print(summary_table(summary))
        if summary.kills_count:
            in_flight = summary.in_flight
            console.print(
                f"killed {summary.kills_count} times; of the batches in flight {in_flight.stored_whole} were stored "
                f"whole, {in_flight.stored_in_part} in part, {in_flight.not_stored} not at all, none twice"
            )
        console.print(
            f"[bold green]{summary.passes[0].messages_count:,} flights sent, and {len(summary.passes) - 1} times read "
            "back byte for byte and in order.[/]"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
