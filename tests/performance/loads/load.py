"""Loads on one topic, by the native load generator of `headrace bench`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import headrace_core
from tests.performance.loads.measurement import Measurement, from_report
from tests.server_process import PASSWORD, USERNAME

STREAM = TOPIC = "bench"
"""Names of the stream and of its only topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load: operation, connections, sizes and duration."""

    mode: str
    """`produce` to append, `consume` to read stored messages."""
    connections: int = 4
    """Number of connections; connection n works on partition n."""
    message_size_bytes: int
    messages_per_batch: int
    amount: Mapping[str, float]
    """`{"bytes": ...}` of all connections together, or `{"seconds": ...}`."""
    warm_up_seconds: float
    transport: str = "tcp"
    """`tcp` or `websocket`."""
    default_sockets: bool = False
    """Write as the official client does: Nagle's algorithm on, the header of a large frame first."""


@dataclass(frozen=True, slots=True)
class Target:
    """Server processes and addresses of a load."""

    address: str
    pid: int
    others: tuple[int, ...] = ()
    """Further processes that take part in the responses."""
    ticket: str | None = None
    """Ticket for the address, if it is a partition node's."""
    catalog_address: str | None = None
    """Address for lookups of streams and topics; `None` if it is the same address."""


def run_native(load: Load, target: Target) -> Measurement:
    """Run a load through the native client."""
    config: dict[str, Any] = {
        "address": target.address,
        "transport": load.transport,
        "username": USERNAME,
        "password": PASSWORD,
        "mode": load.mode,
        "producers": load.connections,
        "consumers": load.connections,
        "stream": STREAM,
        "topic": TOPIC,
        "setup": "existing",
        "message_size_bytes": load.message_size_bytes,
        "messages_per_batch": load.messages_per_batch,
        "amount": load.amount,
        "warm_up_seconds": load.warm_up_seconds,
        "no_delay": not load.default_sockets,
        "header_first": load.default_sockets,
        "server_pids": [target.pid, *target.others],
        "ticket": target.ticket,
        "catalog_address": target.catalog_address,
    }
    report = json.loads(headrace_core.bench_run(json.dumps(config)))
    group = report["producers"] if load.mode == "produce" else report["consumers"]
    return from_report(group, report["server_cpu"], report["client_cpu"])
