"""Print the dashboard for Grafana, which is made from the list of panels below.

    python3 compose/dashboards/build.py > headrace.json

It needs nothing but Python. Grafana asks for the data source when the file is imported.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any, Final

_COLUMNS: Final = 24
_HEIGHT: Final = 8
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_RATE: Final = "$__rate_interval"
_JOB: Final = 'job=~"$job"'


@dataclass(frozen=True)
class Panel:
    """One panel: a graph or a single value."""

    title: str
    says: str
    """Description of the panel."""
    queries: tuple[tuple[str, str], ...]
    """PromQL queries with the legends of their series."""
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8


def rate(metric: str, by: str = "", selector: str = "") -> str:
    """Per-second rate of a counter."""
    labels = f"{_JOB},{selector}" if selector else _JOB
    total = f"sum by ({by})" if by else "sum"
    return f"{total} (rate({metric}{{{labels}}}[{_RATE}]))"


def quantile(share: float, metric: str, by: str = "", selector: str = "") -> str:
    """Quantile of a histogram."""
    labels = f"{_JOB},{selector}" if selector else _JOB
    group = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, sum by ({group}) (rate({metric}_bucket{{{labels}}}[{_RATE}])))"


def gauge(metric: str, by: str = "") -> str:
    """Current value of a gauge."""
    total = f"sum by ({by})" if by else "sum"
    return f"{total} ({metric}{{{_JOB}}})"


COMMANDS: Final = "headrace_command_duration_seconds"
HTTP: Final = "headrace_http_request_duration_seconds"
METADATA: Final = "headrace_metadata"
CONNECTOR: Final = "headrace_connector"

ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "At a glance",
        (
            Panel(
                "Messages in",
                "Appended and acknowledged.",
                ((rate("headrace_appended_messages_total"), ""),),
                "cps",
                "stat",
                4,
            ),
            Panel(
                "Messages out", "Given to consumers.", ((rate("headrace_polled_messages_total"), ""),), "cps", "stat", 4
            ),
            Panel(
                "Clients",
                "Connections of the binary protocol.",
                ((gauge("headrace_connections"), ""),),
                "short",
                "stat",
                4,
            ),
            Panel(
                "Lag",
                "Messages that consumer groups have not processed.",
                ((gauge("headrace_consumer_group_lag_messages"), ""),),
                "short",
                "stat",
                4,
            ),
            Panel(
                "Oldest unread",
                "Age of the oldest message that some group has not processed.",
                ((f"max (headrace_consumer_group_lag_seconds{{{_JOB}}})", ""),),
                "s",
                "stat",
                4,
            ),
            Panel(
                "Refused",
                "Answers other than success.",
                ((rate("headrace_command_refusals_total"), ""),),
                "cps",
                "stat",
                4,
            ),
        ),
    ),
    (
        "Messages",
        (
            Panel(
                "Messages",
                "In: acknowledged. Out: given to consumers.",
                ((rate("headrace_appended_messages_total"), "in"), (rate("headrace_polled_messages_total"), "out")),
                "cps",
            ),
            Panel(
                "Bytes",
                "Of the requests that append, and of the messages that are read.",
                ((rate("headrace_appended_bytes_total"), "in"), (rate("headrace_polled_bytes_total"), "out")),
                "Bps",
            ),
            Panel(
                "Network",
                "All bytes of connections, without encryption.",
                ((rate("headrace_received_bytes_total"), "received"), (rate("headrace_sent_bytes_total"), "sent")),
                "Bps",
            ),
        ),
    ),
    (
        "Commands",
        (
            Panel("Commands", "Answers per second.", ((rate(f"{COMMANDS}_count", "command"), "{{command}}"),), "cps"),
            Panel(
                "Latency of sending",
                "From the start of the request in the server to its acknowledgement.",
                tuple(
                    (quantile(share, COMMANDS, selector='command="SendMessages"'), f"p{share * 100:g}")
                    for share in (0.5, 0.95, 0.99)
                ),
                "s",
            ),
            Panel(
                "Latency of reading",
                "Polls, and reads that wait are not among them.",
                tuple(
                    (quantile(share, COMMANDS, selector='command="PollMessages"'), f"p{share * 100:g}")
                    for share in (0.5, 0.95, 0.99)
                ),
                "s",
            ),
            Panel(
                "Slowest commands",
                "99 of 100 answers are quicker.",
                ((quantile(0.99, COMMANDS, "command"), "{{command}}"),),
                "s",
                width=12,
            ),
            Panel(
                "Refusals",
                "By the name of the status.",
                ((rate("headrace_command_refusals_total", "name"), "{{name}}"),),
                "cps",
                width=12,
            ),
        ),
    ),
    (
        "Consumer groups",
        (
            Panel(
                "Lag in messages",
                "Messages behind the stored offsets.",
                (
                    (
                        gauge("headrace_consumer_group_lag_messages", "stream, topic, group"),
                        "{{stream}}/{{topic}} {{group}}",
                    ),
                ),
                "short",
            ),
            Panel(
                "Lag in seconds",
                "Age of the oldest message that was not processed.",
                (
                    (
                        f"max by (stream, topic, group) (headrace_consumer_group_lag_seconds{{{_JOB}}})",
                        "{{stream}}/{{topic}} {{group}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Members",
                "And groups whose lag is not shown, as there are too many.",
                (
                    (
                        gauge("headrace_consumer_group_members", "stream, topic, group"),
                        "{{stream}}/{{topic}} {{group}}",
                    ),
                    (gauge("headrace_consumer_group_lag_omitted_groups"), "not shown"),
                ),
                "short",
            ),
        ),
    ),
    (
        "Listeners",
        (
            Panel(
                "Connections",
                "By what clients are connected by.",
                (
                    (gauge("headrace_connections", "transport"), "{{transport}}"),
                    (gauge("headrace_listener_connections", "listener"), "encrypted: {{listener}}"),
                ),
            ),
            Panel(
                "HTTP requests",
                "By route.",
                ((rate(f"{HTTP}_count", "method, route"), "{{method}} {{route}}"),),
                "reqps",
            ),
            Panel(
                "Latency of HTTP",
                "From the first byte of a request to the last of its answer.",
                tuple((quantile(share, HTTP), f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)),
                "s",
            ),
            Panel(
                "New connections",
                "Those of the server with itself included.",
                (
                    (rate("headrace_accepted_connections_total"), "accepted"),
                    (rate("headrace_listener_handshakes_total", "listener"), "handshakes: {{listener}}"),
                ),
                "cps",
                width=12,
            ),
            Panel(
                "Handshakes that failed",
                "By listener and reason.",
                ((rate("headrace_listener_failures_total", "listener, reason"), "{{listener}}: {{reason}}"),),
                "cps",
                width=12,
            ),
        ),
    ),
    (
        "Resources",
        (
            Panel(
                "Memory pool",
                "What does not fit waits.",
                (
                    (gauge("headrace_node_pool_in_use_bytes"), "in use"),
                    (gauge("headrace_node_pool_cached_bytes"), "kept for the next use"),
                    (gauge("headrace_node_pool_capacity_bytes"), "budget"),
                ),
                "bytes",
            ),
            Panel(
                "Memory by purpose",
                "Caches (tail, read_ahead) give back what is needed.",
                ((f"sum by (purpose) (headrace_memory_bytes{{{_JOB}}})", "{{purpose}}"),),
                "bytes",
            ),
            Panel(
                "Mailboxes",
                "Messages that wait for a shard; 4096 are the most.",
                ((f"max by (shard) (headrace_shard_mailbox_messages{{{_JOB}}})", "shard {{shard}}"),),
            ),
            Panel(
                "Process", "Memory, and cores in use.", ((gauge("process_resident_memory_bytes"), "memory"),), "bytes"
            ),
            Panel("Cores", "Of the whole process.", ((rate("process_cpu_seconds_total"), "cores"),), width=8),
            Panel(
                "Partitions",
                "Owned by the shards, and those that still recover.",
                (
                    (gauge("headrace_shard_partitions"), "partitions"),
                    (gauge("headrace_shard_recovering"), "recovering"),
                ),
                width=8,
            ),
            Panel(
                "Lost records",
                "Log events and traces that were not collected in time.",
                (
                    (rate("headrace_node_events_dropped"), "log events"),
                    (rate("headrace_traces_dropped_total"), "traces"),
                ),
                "cps",
                width=8,
            ),
        ),
    ),
    (
        "Connectors",
        (
            Panel(
                "Records",
                "Stored in topics by sources, and written by sinks.",
                (
                    (rate(f"{CONNECTOR}_messages_routed_total", "connector_key"), "{{connector_key}} stored"),
                    (rate(f"{CONNECTOR}_records_written_total", "connector_key"), "{{connector_key}} written"),
                ),
                "cps",
            ),
            Panel(
                "State",
                "Of each connector where it runs; those in standby run in another process.",
                (
                    (
                        f'max by (connector_key, state) ({CONNECTOR}_state{{{_JOB},state!="standby"}}) > 0',
                        "{{connector_key}} {{state}}",
                    ),
                ),
            ),
            Panel(
                "Failures in a row",
                "Since the last committed batch; it is zero while all goes well.",
                (
                    (
                        f"max by (connector_key) ({CONNECTOR}_consecutive_failures{{{_JOB}}})",
                        "{{connector_key}}",
                    ),
                ),
            ),
            Panel(
                "Invalid and refused",
                "Records that could not be read, routed or written, dead letters, and records without a place to go.",
                (
                    (rate(f"{CONNECTOR}_records_invalid_total", "connector_key"), "{{connector_key}} invalid"),
                    (rate(f"{CONNECTOR}_dead_letters_total", "connector_key"), "{{connector_key}} dead letters"),
                    (
                        rate(f"{CONNECTOR}_destinations_rejected_total", "connector_key, reason"),
                        "{{connector_key}} {{reason}}",
                    ),
                    (
                        rate(f"{CONNECTOR}_routing_unmatched_total", "connector_key, action"),
                        "{{connector_key}} without a destination: {{action}}",
                    ),
                ),
                "cps",
            ),
            Panel(
                "Destinations",
                "Topics in use, and those that are refused for a while because they keep failing.",
                (
                    (gauge(f"{CONNECTOR}_destinations_active", "connector_key"), "{{connector_key}} in use"),
                    (gauge(f"{CONNECTOR}_destination_circuit_open", "connector_key"), "{{connector_key}} refused"),
                ),
            ),
            Panel(
                "First use of a destination",
                "Time to look it up or to create it.",
                tuple(
                    (quantile(share, f"{CONNECTOR}_destination_create_latency_seconds"), f"p{share * 100:g}")
                    for share in (0.5, 0.99)
                ),
                "s",
            ),
        ),
    ),
    (
        "Metadata",
        (
            Panel(
                "Operations",
                "The log of the metadata: written, committed, applied.",
                (
                    (f"max by (instance) ({METADATA}_op{{{_JOB}}})", "op {{instance}}"),
                    (f"max by (instance) ({METADATA}_commit{{{_JOB}}})", "commit {{instance}}"),
                    (f"max by (instance) ({METADATA}_applied{{{_JOB}}})", "applied {{instance}}"),
                ),
            ),
            Panel(
                "View",
                "A step is a change of the primary.",
                (
                    (f"max by (instance) ({METADATA}_view{{{_JOB}}})", "{{instance}}"),
                    (rate(f"{METADATA}_view_changes_total"), "changes"),
                ),
            ),
            Panel(
                "Role",
                "Who orders the commands.",
                ((f"max by (instance, role) ({METADATA}_role{{{_JOB}}}) > 0", "{{instance}} {{role}}"),),
            ),
            Panel(
                "Group commit",
                "Mean time of a write with its sync, by replica.",
                (
                    (
                        (
                            f"sum by (instance) (rate({METADATA}_storage_commit_ns{{{_JOB}}}[{_RATE}])) / 1e9 / "
                            f"sum by (instance) (rate({METADATA}_storage_group_commits{{{_JOB}}}[{_RATE}]))"
                        ),
                        "{{instance}}",
                    ),
                ),
                "s",
            ),
            Panel(
                "Commands and reads",
                "Applied, read, refused.",
                (
                    (rate(f"{METADATA}_applied_commands_total"), "applied"),
                    (rate(f"{METADATA}_reads_total"), "reads"),
                    (rate(f"{METADATA}_refused_total"), "refused"),
                ),
                "cps",
            ),
            Panel(
                "Checkpoints and sessions",
                "Snapshots taken, and callers with a session.",
                (
                    (gauge(f"{METADATA}_storage_checkpoints", "instance"), "checkpoints {{instance}}"),
                    (f"max ({METADATA}_sessions{{{_JOB}}})", "sessions"),
                ),
            ),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """Build the dashboard model for Grafana."""
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS:
        place = {"h": 1, "w": _COLUMNS, "x": 0, "y": top}
        panels.append(
            {"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}
        )
        top += 1
        left = 0
        for panel in row:
            height = _HEIGHT // 2 if panel.kind == "stat" else _HEIGHT
            if left + panel.width > _COLUMNS:
                left, top = 0, top + height
            panels.append(_panel(panel, len(panels) + 1, {"h": height, "w": panel.width, "x": left, "y": top}))
            left += panel.width
        top += height
    return {
        "uid": "headrace",
        "title": "Headrace",
        "description": "Messages, commands, consumer groups, listeners, resources, connectors, metadata.",
        "tags": ["headrace"],
        "timezone": "browser",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource_variable(), _job_variable()]},
        "annotations": {"list": []},
        "links": [],
        "panels": panels,
    }


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {"refId": chr(ord("A") + index), "datasource": _DATASOURCE, "expr": query, "legendFormat": legend or "__auto"}
        for index, (query, legend) in enumerate(panel.queries)
    ]
    options: dict[str, Any] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False}, "colorMode": "none"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "datasource": _DATASOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": options,
        "targets": targets,
    }


def _datasource_variable() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source", "hide": 0}


def _job_variable() -> dict[str, Any]:
    query = "label_values(process_resident_memory_bytes, job)"
    return {
        "name": "job",
        "type": "query",
        "label": "Job",
        "datasource": _DATASOURCE,
        "query": {"query": query, "refId": "job"},
        "definition": query,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "refresh": 2,
        "hide": 0,
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    json.dump(dashboard(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
