"""JSON schemas of what commands print with `--output json`: `python -m headrace.cli.schemas DIRECTORY` writes them."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from headrace.cli import documents, operating_documents
from headrace.cli.group_progress import Lag
from headrace_embedded.audit_trail import Event

DOCUMENTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "stream-create": documents.StreamDocument,
        "stream-list": list[documents.StreamDocument],
        "stream-show": documents.StreamDocument,
        "topic-create": documents.TopicDocument,
        "topic-list": list[documents.ListedTopicDocument],
        "topic-list-stream": list[documents.TopicDocument],
        "topic-show": documents.ShownTopicDocument,
        "topic-update": documents.TopicDocument,
        "group-create": documents.GroupDocument,
        "group-list": list[documents.ListedGroupDocument],
        "group-show": documents.ShownGroupDocument,
        "group-lag": Lag,
        "group-reset": list[documents.ResetDocument],
        "poll": documents.MessageDocument,
        "user-create": documents.UserDocument,
        "user-list": list[documents.UserDocument],
        "user-show": documents.ShownUserDocument,
        "quota-list": list[documents.QuotaDocument],
        "quota-show": documents.QuotaDocument,
        "token-create": documents.TokenDocument,
        "token-list": list[documents.TokenDocument],
        "client-list": list[documents.ClientDocument],
        "context-list": list[documents.ContextDocument],
        "context-show": documents.ContextDocument,
        "cluster-status": operating_documents.ClusterDocument,
        "metadata-status": list[operating_documents.ReplicaStatusDocument],
        "metadata-members": list[operating_documents.MetadataMemberDocument],
        "metadata-nodes": list[operating_documents.MetadataNodeDocument],
        "metadata-log": list[operating_documents.LogEntryDocument],
        "metadata-log-directory": list[operating_documents.JournalRecordDocument],
        "audit": Event,
        "bench": operating_documents.BenchDocument,
        "bench-baseline": operating_documents.ComparisonDocument,
        "fsck": operating_documents.FilesDocument,
        "doctor": list[documents.CheckDocument],
        "stats": documents.StatsDocument,
        # Documents of commands that other packages bring.
        **{name: kind for point in entry_points(group="headrace.documents") for name, kind in point.load().items()},
    }
)
"""Type of the document that each command prints."""
_LINE_LENGTH: Final = 120


def schema(name: str) -> dict[str, Any]:
    """Return the schema of a command's document."""
    found = msgspec.json.schema(DOCUMENTS[name])
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **found}


def write(directory: Path) -> None:
    """Write all schemas, a file for each command, and remove those of commands that are gone."""
    directory.mkdir(exist_ok=True)
    for name in DOCUMENTS:
        (directory / f"{name}.json").write_text(_text(schema(name)) + "\n", encoding="utf-8")
    for path in directory.glob("*.json"):
        if path.stem not in DOCUMENTS:
            path.unlink()


def _text(value: Any, indent: str = "", taken: int = 0) -> str:
    """Return JSON with a line for each value that fits into one, so that a changed field is a changed line.

    Args:
        value: The value.
        indent: White space before its lines.
        taken: Number of characters before it in its first line.
    """
    line = json.dumps(value)
    if not isinstance(value, dict | list) or len(indent) + taken + len(line) < _LINE_LENGTH:
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        keys = {key: json.dumps(key) for key in value}
        items = [f"{keys[key]}: {_text(part, inner, len(keys[key]) + 2)}" for key, part in value.items()]
        return "\n".join(["{", ",\n".join(f"{inner}{item}" for item in items), f"{indent}}}"])
    if all(isinstance(part, str) for part in value):
        names = ", ".join(map(json.dumps, value))
        lines = textwrap.wrap(names, _LINE_LENGTH, initial_indent=inner, subsequent_indent=inner)
        return "\n".join(["[", *lines, f"{indent}]"])
    return "\n".join(["[", ",\n".join(f"{inner}{_text(part, inner)}" for part in value), f"{indent}]"])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
