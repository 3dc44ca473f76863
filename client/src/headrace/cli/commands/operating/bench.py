"""`headrace bench`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

import headrace_core
from headrace.cli import output
from headrace.cli.asking import confirm, counted, with_yes
from headrace.cli.bench_report import print_comparison, print_report
from headrace.cli.null_listener import null_listener
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.parameters import COUNT, DURATION, SIZE, WholeNumber
from headrace.cli.servers.resolving import candidates
from headrace.cli.servers.target import Target
from headrace.connection import Credentials, Ticket, Token
from headrace_core import decode_stream, encode_get_stream
from headrace_settings import Duration, Size


class Mode(StrEnum):
    """Producers, consumers, or both."""

    PRODUCE = "produce"
    CONSUME = "consume"
    BOTH = "both"


class Transport(StrEnum):
    """Transport of the requests."""

    TCP = "tcp"
    WEBSOCKET = "websocket"


class Baseline(StrEnum):
    """Baseline for the comparison."""

    NONE = "none"
    NULL = "null"


@click.command("bench")
@click.argument("mode", type=click.Choice([mode.value for mode in Mode]), default=Mode.PRODUCE.value)
@click.option("--producers", type=COUNT, default=4, show_default=True, help="Number of producing connections.")
@click.option("--consumers", type=COUNT, default=4, show_default=True, help="Number of consuming connections.")
@click.option("--stream", default="bench", show_default=True, help="Name of the stream; created if it does not exist.")
@click.option("--topic", default="bench", show_default=True, help="Name of the topic; created if it does not exist.")
@click.option(
    "--partitions",
    type=WholeNumber(0, 1000),
    default=0,
    show_default=True,
    help="Partitions of the topic, if it is created; 0 means one per connection.",
)
@click.option("--fresh", is_flag=True, help="Delete the stream and create it again first.")
@click.option("--keep/--delete", default=True, show_default=True, help="Keep or delete the stream afterwards.")
@click.option(
    "--balanced/--pinned",
    default=False,
    help="Let the server choose partitions, or pin each producer to one partition.  [default: pinned]",
)
@click.option("--message-size", type=SIZE, default="1000", show_default=True, help="Payload size of each message.")
@click.option("--batch", "-b", type=COUNT, default=1000, show_default=True, help="Messages per request.")
@click.option("--count", "-n", type=COUNT, default=1000, show_default=True, help="Requests that each connection sends.")
@click.option("--amount", type=SIZE, help="Total payload of all connections, in place of --count.")
@click.option("--time", type=DURATION, help="Duration of the measurement, in place of --count.")
@click.option(
    "--window",
    type=WholeNumber(1, 1024),
    default=1,
    show_default=True,
    help="Maximum number of requests in flight per producer.",
)
@click.option("--warm-up", type=DURATION, default="1 s", show_default=True, help="Warm-up time before measuring.")
@click.option("--rate-limit", type=SIZE, help="Limit of the payload per second of all producers together.")
@click.option("--verify", is_flag=True, help="Check offsets and checksums of consumed messages.")
@click.option(
    "--baseline",
    type=click.Choice([baseline.value for baseline in Baseline]),
    default=Baseline.NONE.value,
    show_default=True,
    help="null: first run the same load against a listener that discards its input.",
)
@click.option(
    "--transport",
    type=click.Choice([transport.value for transport in Transport]),
    default=Transport.TCP.value,
    show_default=True,
    help="Transport. With websocket, --server must be the WebSocket listener's address.",
)
@click.option(
    "--server-pid",
    type=COUNT,
    help="Process id of the server, to measure its CPU time.  [default: as reported by a server on this machine]",
)
@with_yes
@with_target
@with_form
def app(
    target: Target,
    form: Form,
    mode: str,
    producers: int,
    consumers: int,
    stream: str,
    topic: str,
    partitions: int,
    fresh: bool,
    keep: bool,
    balanced: bool,
    message_size: Size,
    batch: int,
    count: int,
    amount: Size | None,
    time: Duration | None,
    window: int,
    warm_up: Duration,
    rate_limit: Size | None,
    verify: bool,
    baseline: str,
    transport: str,
    server_pid: int | None,
    yes: bool,
) -> None:
    """Measure the throughput, latency percentiles and CPU time per GB of a server.

    MODE is produce (the default), consume (existing messages), or both at once. With --fresh or --delete it asks if the
    stream exists before.
    """
    credentials = target.credentials()
    if isinstance(credentials, Ticket):
        raise click.UsageError("the load generator looks up topics, which no ticket allows: give a user or a token")
    server = target.address
    if (fresh or not keep) and not yes:
        _confirm_deletion(server, transport, credentials, stream)
    config: dict[str, Any] = {
        "address": server,
        "transport": transport,
        **_login(credentials),
        "mode": mode,
        "producers": producers,
        "consumers": consumers,
        "stream": stream,
        "topic": topic,
        "partitions": partitions,
        "setup": "recreate" if fresh else "create_missing",
        "delete_afterwards": not keep,
        "placement": "balanced" if balanced else "pinned",
        "message_size_bytes": message_size.bytes,
        "messages_per_batch": batch,
        "amount": _amount(count, amount, time),
        "window": window,
        "warm_up_seconds": warm_up.seconds,
        "rate_limit_bytes_per_second": rate_limit.bytes if rate_limit else None,
        "verify": verify,
        "server_pids": [server_pid] if server_pid else _server_pids(server, transport, credentials),
    }
    null = None
    if baseline == Baseline.NULL:
        with null_listener(message_size_bytes=message_size.bytes, messages_per_poll=batch) as (address, pid):
            null = _run(
                config | {"address": address, "transport": Transport.TCP, "server_pids": [pid], "verify": False},
                "null listener",
            )
    report = _run(config, "server")
    if keep:
        output.say(
            f"stream {stream!r} stays, with its messages: headrace stream delete {stream}, or --delete next time"
        )
    output.show(
        form,
        {"server": report, "null": null} if null else report,
        lambda: print_comparison(report, null) if null else print_report(report),
    )


def _amount(count: int, amount: Size | None, time: Duration | None) -> dict[str, int | float]:
    if amount is not None and time is not None:
        raise click.UsageError("--amount and --time exclude each other")
    if amount is not None:
        return {"bytes": amount.bytes}
    return {"seconds": time.seconds} if time is not None else {"batches": count}


def _login(credentials: Credentials | Token) -> dict[str, str]:
    if isinstance(credentials, Token):
        return {"token": credentials.text}
    return {"username": credentials.username, "password": credentials.password}


def _server_pids(server: str, transport: str, credentials: Credentials | Token) -> list[int]:
    """Return the process id of the server, if the server runs on this machine."""
    host = server.removeprefix("tls://").partition("?")[0].rpartition(":")[0].strip("[]")
    if host not in {"127.0.0.1", "::1", "localhost"}:
        return []
    with _logged_in(server, transport, credentials) as client:
        stats = client.stats()
    # A container has the same addresses, and processes with other ids.
    is_here = stats.process_id and stats.hostname == socket.gethostname()
    return [stats.process_id] if is_here else []


def _confirm_deletion(server: str, transport: str, credentials: Credentials | Token, stream: str) -> None:
    """Ask before the load generator deletes a stream that it has not created."""
    # The load generator takes digits for a name, too.
    (name,) = candidates(f"name:{stream}")
    with _logged_in(server, transport, credentials) as client:
        found = decode_stream(client.request(*encode_get_stream(stream=name)))
    if found is not None:
        contents = f"{counted(found.topics_count, 'topic')} and {counted(found.messages_count, 'message')}"
        confirm(f"delete stream {found.name!r} with {contents}", yes=False)


@contextmanager
def _logged_in(server: str, transport: str, credentials: Credentials | Token) -> Iterator[headrace_core.Client]:
    client = headrace_core.Client.connect(server, transport=transport)
    try:
        if isinstance(credentials, Token):
            client.login_with_token(credentials.text)
        else:
            client.login(*credentials)
        yield client
    finally:
        client.close()


def _run(config: dict[str, Any], what: str) -> dict[str, Any]:
    console = output.stderr()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task(what, total=None)

        def show(counters_json: str) -> bool:
            counters = json.loads(counters_json)
            progress.update(
                task,
                description=f"{what}: {counters['phase']}",
                total=counters["expected_bytes"],
                completed=counters["produced_bytes"] + counters["consumed_bytes"],
            )
            return True

        report: dict[str, Any] = json.loads(headrace_core.bench_run(json.dumps(config), show))
    return report
