"""Files that messages are imported from, record by record."""

from __future__ import annotations

import base64
import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from headrace.cli.errors import CommandError
from headrace.cli.messages.json_lines import fields_of
from headrace.cli.transfer.sinks import parts
from headrace.cli.transfer.state import PYARROW_IS_MISSING, FileForm

_BATCH_ROWS = 1000
_PAYLOAD_BYTES_MAX: Final = 64_000_000
_FIELD_CHARACTERS_MAX: Final = (_PAYLOAD_BYTES_MAX + 2) // 3 * 4
"""Length of the largest payload as base64."""


_BOOLS: Final = {"true": True, "false": False, "1": True, "0": False}


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


CONVERSIONS: Final[Mapping[str, Callable[[str], Any]]] = MappingProxyType(
    {"text": str, "int": int, "float": _finite, "bool": lambda text: _BOOLS[text.lower()]}
)
"""Conversions of the texts of CSV, by the name of the type."""


def records(form: FileForm, path: Path, kinds: Mapping[str, str]) -> Iterator[tuple[int, Any]]:
    """Return what `messages.json_lines.message_of` reads, with the number of the line or row, from 1.

    A row of CSV or Parquet without a payload is a message itself: a JSON object of its columns.

    Args:
        form: Form of the file.
        path: The file.
        kinds: Types of columns of CSV.

    Raises:
        CommandError: The file cannot be read, a line is not JSON, or a value does not have its type.
    """
    try:
        match form:
            case FileForm.JSONL:
                yield from _json_lines(path)
            case FileForm.CSV:
                yield from enumerate(map(_from_row, _csv_rows(path, kinds)), 1)
            case FileForm.PARQUET:
                yield from enumerate(map(_from_row, _parquet_rows(path)), 1)
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror or error}") from error


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield number, fields_of(number, line)


def _csv_rows(path: Path, kinds: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    # The module allows 131,072 characters otherwise, less than an export writes. There is one limit for the whole
    # process, and this command reads no other CSV.
    csv.field_size_limit(_FIELD_CHARACTERS_MAX)
    with path.open(encoding="utf-8", newline="") as file:
        try:
            reader = csv.DictReader(file, strict=True)
            names = reader.fieldnames or ()
            for column in kinds:
                if column not in names:
                    raise CommandError(f"--type: {path} has no column {column!r}, but {', '.join(names)}", status=2)
            for row in reader:
                for column, kind in kinds.items():
                    row[column] = _converted(row[column], kind, f"{path}, line {reader.line_num}: {column}")
                yield row
        except (csv.Error, UnicodeDecodeError) as error:
            raise CommandError(f"{path} is not CSV in UTF-8: {error}") from error


def _converted(text: str | None, kind: str, place: str) -> Any:
    if text is None or (text == "" and kind != "text"):
        return None
    try:
        return CONVERSIONS[kind](text)
    except (ValueError, KeyError):
        raise CommandError(f"{place}: {text!r} is no {kind}") from None


def _parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        import pyarrow  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise CommandError(PYARROW_IS_MISSING) from error
    for part in parts(path) if path.is_dir() else [path]:
        try:
            with pyarrow.parquet.ParquetFile(part) as file:
                for batch in file.iter_batches(_BATCH_ROWS):
                    yield from batch.to_pylist()
        except pyarrow.ArrowInvalid as error:
            raise CommandError(f"{part} is not Parquet: {error}") from error


def _from_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as the object of a message."""
    if "payload" not in row and "payload_base64" not in row:
        return {"payload": json.dumps(row, ensure_ascii=False, default=str)}
    fields: dict[str, Any] = {}
    if row.get("payload_base64"):
        fields["payload_base64"] = row["payload_base64"]
    elif isinstance(row.get("payload"), bytes):
        fields["payload_base64"] = base64.b64encode(row["payload"]).decode()
    else:
        fields["payload"] = row.get("payload") or ""
    if row.get("key_base64"):
        fields["key_base64"] = row["key_base64"]
    elif isinstance(row.get("key"), bytes):
        fields["key_base64"] = base64.b64encode(row["key"]).decode()
    elif row.get("key"):
        fields["key"] = row["key"]
    if row.get("partition") not in {None, ""}:
        fields["partition"] = row["partition"]
        with suppress(ValueError):
            fields["partition"] = int(row["partition"])
    if row.get("headers"):
        fields["headers"] = row["headers"]
        with suppress(ValueError, RecursionError):
            fields["headers"] = json.loads(row["headers"])
    if isinstance(row.get("user_headers"), bytes):
        fields["user_headers"] = base64.b64encode(row["user_headers"]).decode()
    elif row.get("user_headers"):
        fields["user_headers"] = row["user_headers"]
    return fields
