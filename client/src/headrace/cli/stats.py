"""`headrace stats`."""

from __future__ import annotations

import json
from typing import Any

from headrace.cli import output
from headrace.cli.target import DEFAULT_SERVER, PasswordOption, ServerOption, UsernameOption, logged_in


def stats(
    server: ServerOption = DEFAULT_SERVER,
    username: UsernameOption = None,
    password: PasswordOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show the server's statistics."""
    with logged_in(server, username, password) as client:
        values: dict[str, Any] = json.loads(client.stats_json())
    if as_json:
        output.print_json(values)
        return
    output.print_table(("what", "value"), [(_label(name), _shown(name, values[name])) for name in values])


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
