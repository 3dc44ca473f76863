"""`headrace stats`."""

from __future__ import annotations

from typing import Any, Final

import click

from headrace.cli import output
from headrace.cli.options.server_options import with_target
from headrace.cli.output import Form, with_form
from headrace.cli.servers.target import Target
from headrace_core import __version__

_SHOWN: Final = {
    "process_id": "process id",
    "cpu_usage_percent": "CPU of the server",
    "total_cpu_usage_percent": "CPU of the machine",
    "memory_usage_bytes": "memory of the server",
    "total_memory_bytes": "memory of the machine",
    "available_memory_bytes": "available memory",
    "run_time_micros": "running for",
    "start_time_micros": "started",
    "read_bytes": "read",
    "written_bytes": "written",
    "messages_size_bytes": "size of messages",
    "streams_count": "streams",
    "topics_count": "topics",
    "partitions_count": "partitions",
    "segments_count": "segments",
    "messages_count": "messages",
    "clients_count": "clients",
    "consumer_groups_count": "consumer groups",
    "hostname": "host",
    "os_name": "operating system",
    "os_version": "its version",
    "kernel_version": "kernel",
    "server_version": "protocol (release of Iggy)",
    "threads_count": "threads",
    "free_disk_space_bytes": "free disk space",
    "total_disk_space_bytes": "disk space",
}
"""Statistics to print, in this order, with their labels."""


@click.command("stats")
@with_target
@with_form
def app(target: Target, form: Form) -> None:
    """Show the statistics of a server."""
    with target.connected() as client:
        found = client.stats()
    values: dict[str, Any] = {name: getattr(found, name) for name in _SHOWN}
    output.show(
        form,
        {**values, "start_time": output.timestamp(found.start_time_micros)},
        lambda: output.print_table(
            ("statistic", "value"),
            [
                *((label, _shown(name, values[name])) for name, label in _SHOWN.items()),
                ("headrace (this command)", __version__),
            ],
        ),
    )


def _shown(name: str, value: Any) -> str:
    if name.endswith("_micros"):
        return f"{value / 1_000_000:,.1f} s" if name.startswith("run_time") else output.date(value)
    if name.endswith("_bytes"):
        return output.size(value)
    if name.endswith("_percent"):
        return f"{value:.1f} %"
    return f"{value:,}" if name.endswith("_count") else str(value)
