"""`headrace stats`."""

from __future__ import annotations

from typing import Any

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in

_SHOWN = (
    "process_id",
    "cpu_usage_percent",
    "total_cpu_usage_percent",
    "memory_usage_bytes",
    "total_memory_bytes",
    "available_memory_bytes",
    "run_time_micros",
    "start_time_micros",
    "read_bytes",
    "written_bytes",
    "messages_size_bytes",
    "streams_count",
    "topics_count",
    "partitions_count",
    "segments_count",
    "messages_count",
    "clients_count",
    "consumer_groups_count",
    "hostname",
    "os_name",
    "os_version",
    "kernel_version",
    "server_version",
    "threads_count",
    "free_disk_space_bytes",
    "total_disk_space_bytes",
)
"""Statistics to print, in this order."""


def stats(
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show the statistics of a server."""
    with logged_in(server, username, password) as client:
        found = client.stats()
    values: dict[str, Any] = {name: getattr(found, name) for name in _SHOWN}
    if as_json:
        output.print_json(values)
        return
    output.print_table(("statistic", "value"), [(_label(name), _shown(name, values[name])) for name in values])


def _label(name: str) -> str:
    return name.removesuffix("_micros").removesuffix("_bytes").replace("_", " ")


def _shown(name: str, value: Any) -> str:
    if name.endswith("_micros"):
        return f"{value / 1_000_000:,.1f} s" if name.startswith("run_time") else output.moment(value)
    if name.endswith(("_bytes", "_space")) or "memory" in name:
        return output.size(value)
    if name.endswith(("cpu_usage", "_percent")):
        return f"{value:.1f} %"
    return f"{value:,}" if name.endswith("_count") else str(value)
