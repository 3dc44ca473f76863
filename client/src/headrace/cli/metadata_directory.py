"""Offline commands of `headrace metadata`, which read a replica's data directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.cli import output
from headrace.cli.output import Form
from headrace_core import inspect_replica


def print_records(directory: Path, first: int, count: int, form: Form) -> None:
    """Print entries of the journal, oldest first.

    Args:
        directory: Data directory of the replica, or of a server that contains one.
        first: Op of the first entry; 0 for the oldest.
        count: Maximum number of entries.
        form: Form of the output.
    """
    records = _inspect(directory, first, count)["records"]
    output.show(
        form,
        records,
        lambda: output.print_table(
            ("op", "view", "time", "operation", "commands", "bytes", "verdict"),
            (
                (
                    record["op"],
                    record["view"],
                    output.moment(record["timestamp_ns"] // 1000),
                    record["operation"],
                    record["commands"],
                    record["bytes"],
                    record["verdict"],
                )
                for record in records
            ),
        ),
    )


def verify_directory(directory: Path) -> int:
    """Check every file and print the result; return the exit status, 1 if a file is damaged."""
    report = _inspect(directory, 0, 0)
    superblock = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in report["superblock"].items())
    output.stdout().print(f"superblock: {superblock}", markup=False)
    _print_files("checkpoint", ("file", "op", "bytes", "verdict"), report["checkpoints"])
    _print_files("journal", ("file", "first_op", "last_op", "bytes", "verdict"), report["files"])
    for problem in report["problems"]:
        output.stderr().print(problem, markup=False, style="bold red")
    if not report["problems"]:
        output.stdout().print("all files are intact")
    return 1 if report["problems"] else 0


def _print_files(what: str, fields: Sequence[str], files: Sequence[dict[str, Any]]) -> None:
    if files:
        headings = (what, *(field.replace("_", " ") for field in fields[1:]))
        output.print_table(headings, ([file[field] for field in fields] for file in files))


def _inspect(directory: Path, first: int, count: int) -> dict[str, Any]:
    # A server's data directory contains its replica under this name.
    within = directory / "metadata"
    report: dict[str, Any] = json.loads(inspect_replica(str(within if within.is_dir() else directory), first, count))
    return report
