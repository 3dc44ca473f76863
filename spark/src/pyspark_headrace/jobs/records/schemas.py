"""Schema files for values."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from pyspark_headrace.jobs.records.sql import said
from pyspark_headrace.jobs.running.arguments import ArgumentError


def read_schema(path: str) -> StructType:
    """Read the columns from Spark SQL DDL or from Spark's JSON. Requires a session.

    Args:
        path: Path of the file, as given with ``--schema``.

    Raises:
        ArgumentError: The file does not exist or is not a schema.
    """
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
        found = StructType.fromJson(json.loads(text)) if text.startswith("{") else StructType.fromDDL(text)
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"--schema {path}: {error}") from error
    except PySparkException as error:
        raise ArgumentError(f"--schema {path}: {said(error)}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArgumentError(f"--schema {path}: it is not a schema: {error}") from error
    if not isinstance(found, StructType) or not found.fields:
        raise ArgumentError(f"--schema {path}: the schema has no columns")
    lowered = [name.lower() for name in found.fieldNames()]
    twice = sorted({name for name in lowered if lowered.count(name) > 1})
    if twice:
        # Spark could distinguish them neither in SQL nor in files.
        raise ArgumentError(f"--schema {path}: several columns are named {', '.join(twice)}")
    _check(found, path, "")
    return found


def required(schema: StructType, above: str = "") -> list[tuple[str, str]]:
    """Return the mandatory members.

    Returns:
        Path of each member, in backticks, and path of the enclosing object, which may be missing itself; empty for the
        value.
    """
    found = []
    for field in schema.fields:
        path = f"{above}.{quoted(field.name)}" if above else quoted(field.name)
        if not field.nullable:
            found.append((path, above))
        if isinstance(field.dataType, StructType):
            found += required(field.dataType, path)
    return found


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return "`" + name.replace("`", "``") + "`"


def _check(kind: DataType, path: str, where: str) -> None:
    """Check that NOT NULL occurs only where the decoder enforces it."""
    if isinstance(kind, StructType):
        for field in kind.fields:
            _check(field.dataType, path, f"{where}.{field.name}" if where else field.name)
    elif isinstance(kind, (ArrayType, MapType)):
        inside = [kind.elementType] if isinstance(kind, ArrayType) else [kind.keyType, kind.valueType]
        has_null = kind.containsNull if isinstance(kind, ArrayType) else kind.valueContainsNull
        if not has_null or any(_is_strict(part) for part in inside):
            raise ArgumentError(f"--schema {path}: {where}: what is inside of lists and maps cannot be NOT NULL")


def _is_strict(kind: DataType) -> bool:
    match kind:
        case StructType():
            return any(not field.nullable or _is_strict(field.dataType) for field in kind.fields)
        case ArrayType():
            return not kind.containsNull or _is_strict(kind.elementType)
        case MapType():
            return not kind.valueContainsNull or _is_strict(kind.valueType)
        case _:
            return False
