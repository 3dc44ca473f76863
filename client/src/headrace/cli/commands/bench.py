"""`headrace bench`."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TransferSpeedColumn

import headrace_core
from headrace.cli import output
from headrace.cli.bench_report import print_comparison, print_report
from headrace.cli.null_listener import null_listener
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, credentials
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


def bench(
    mode: Annotated[Mode, typer.Argument(help="produce, consume (existing messages), or both at once.")] = Mode.PRODUCE,
    producers: Annotated[int, typer.Option("--producers", min=1, help="Number of producing connections.")] = 4,
    consumers: Annotated[int, typer.Option("--consumers", min=1, help="Number of consuming connections.")] = 4,
    stream: Annotated[str, typer.Option(help="Name of the stream; created if it does not exist.")] = "bench",
    topic: Annotated[str, typer.Option(help="Name of the topic; created if it does not exist.")] = "bench",
    partitions: Annotated[
        int,
        typer.Option(min=0, max=1000, help="Partitions of the topic, if it is created; 0 means one per connection."),
    ] = 0,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the stream and create it again first.")] = False,
    keep: Annotated[bool, typer.Option("--keep/--delete", help="Keep or delete the stream afterwards.")] = True,
    balanced: Annotated[
        bool,
        typer.Option(
            "--balanced/--pinned", help="Let the server choose partitions, or pin each producer to one partition."
        ),
    ] = False,
    message_size: Annotated[
        Size, typer.Option(parser=Size.from_setting, metavar="SIZE", help="Payload size of each message.")
    ] = Size(1000),  # noqa: B008 - frozen
    batch: Annotated[int, typer.Option("--batch", "-b", min=1, help="Messages per request.")] = 1000,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Requests that each connection sends.")] = 1000,
    amount: Annotated[
        Size | None,
        typer.Option(
            parser=Size.from_setting, metavar="SIZE", help="Total payload of all connections, in place of --count."
        ),
    ] = None,
    time: Annotated[
        Duration | None,
        typer.Option(
            parser=Duration.from_setting, metavar="DURATION", help="Duration of the measurement, in place of --count."
        ),
    ] = None,
    window: Annotated[
        int, typer.Option(min=1, max=1024, help="Maximum number of requests in flight per producer.")
    ] = 1,
    warm_up: Annotated[
        Duration,
        typer.Option(parser=Duration.from_setting, metavar="DURATION", help="Warm-up time before measuring."),
    ] = Duration(1_000_000),  # noqa: B008 - frozen
    rate_limit: Annotated[
        Size | None,
        typer.Option(
            parser=Size.from_setting, metavar="SIZE", help="Limit of the payload per second of all producers together."
        ),
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check offsets and checksums of consumed messages.")] = False,
    baseline: Annotated[
        Baseline, typer.Option(help="null: first run the same load against a listener that discards its input.")
    ] = Baseline.NONE,
    transport: Annotated[
        Transport, typer.Option(help="Transport. With websocket, --server must be the WebSocket listener's address.")
    ] = Transport.TCP,
    server_pid: Annotated[
        int | None,
        typer.Option(
            help="Process id of the server, to measure its CPU time. (default: as reported by a server on this machine)"
        ),
    ] = None,
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Measure the throughput, latency percentiles and CPU time per GB of a server."""
    name, secret = credentials(username, password)
    config: dict[str, Any] = {
        "address": server,
        "transport": transport,
        "username": name,
        "password": secret,
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
        "server_pids": [server_pid] if server_pid else _server_pids(server, transport, name, secret),
    }
    null = None
    if baseline is Baseline.NULL:
        with null_listener(message_size_bytes=message_size.bytes, messages_per_poll=batch) as (address, pid):
            null = _run(
                config | {"address": address, "transport": Transport.TCP, "server_pids": [pid], "verify": False},
                "null listener",
            )
    report = _run(config, "server")
    if as_json:
        output.print_json({"server": report, "null": null} if null else report)
    elif null:
        print_comparison(report, null)
    else:
        print_report(report)


def _amount(count: int, amount: Size | None, time: Duration | None) -> dict[str, int | float]:
    if amount is not None and time is not None:
        raise typer.BadParameter("--amount and --time exclude each other")
    if amount is not None:
        return {"bytes": amount.bytes}
    return {"seconds": time.seconds} if time is not None else {"batches": count}


def _server_pids(server: str, transport: Transport, username: str, password: str) -> list[int]:
    """Return the process id of the server, if the server runs on this machine."""
    host = server.removeprefix("tls://").partition("?")[0].rpartition(":")[0].strip("[]")
    if host not in {"127.0.0.1", "::1", "localhost"}:
        return []
    client = headrace_core.Client.connect(server, transport=transport)
    try:
        client.login(username, password)
        pid = client.stats().process_id
        return [pid] if pid else []
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
