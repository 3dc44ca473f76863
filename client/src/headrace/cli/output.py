"""Output of results as tables for users, or as JSON for programs."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

U64_MAX = 2**64 - 1

_NUMBER = re.compile(r"[0-9,.]*")
# Control characters that a terminal would interpret; tabs are allowed.
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f]")
# Control characters that JSON need not escape.
_CONTROL_IN_JSON = re.compile(r"[\x7f-\x9f]")


# Width of tables written to a file or a pipe.
_UNBOUNDED_COLUMNS = 10_000


def stdout() -> Console:
    """Return the console for results; plain text if it is not a terminal."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNBOUNDED_COLUMNS
    return console


def stderr() -> Console:
    """Return the console for progress, questions and errors."""
    return Console(stderr=True, soft_wrap=True, highlight=False)


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    document = json.dumps(value, ensure_ascii=False)
    typer.echo(_CONTROL_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", document))


def harmless(text: str) -> str:
    """Return a text with control characters escaped, so that a terminal does not interpret them."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; columns of numbers are right-aligned."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    shown = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        is_number = all(_NUMBER.fullmatch(row[index]) for row in shown)
        table.add_column(column, justify="right" if is_number else "left", no_wrap=True)
    for row in shown:
        table.add_row(*(escape(harmless(cell)) for cell in row))
    stdout().print(table)


def size(size_bytes: float) -> str:
    """Return a size with three digits and a decimal unit."""
    if size_bytes == U64_MAX:
        return "unlimited"
    for unit in ("B", "KB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:,.1f} TB"


def moment(micros: int) -> str:
    """Return microseconds since the epoch as local time."""
    return datetime.datetime.fromtimestamp(micros / 1_000_000).astimezone().isoformat(sep=" ", timespec="milliseconds")
