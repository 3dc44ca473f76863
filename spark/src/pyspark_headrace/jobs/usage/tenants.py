"""Ownership of topics by tenants."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.usage.tally import Place


@dataclass(frozen=True)
class Tenants:
    """Assignment of topics to tenants. Without a file every stream is a tenant."""

    patterns: Mapping[str, Sequence[str]] | None = None
    """Patterns of ``stream/topic`` by tenant."""

    def of(self, place: Place) -> str | None:
        """Return the tenant of a topic; None if it has none.

        Raises:
            ArgumentError: The topic matches two tenants.
        """
        if self.patterns is None:
            return place.stream
        found = [
            tenant
            for tenant, patterns in self.patterns.items()
            if any(fnmatchcase(place.title, pattern) for pattern in patterns)
        ]
        if len(found) > 1:
            raise ArgumentError(f"--tenants: {place.title} is of {' and of '.join(found)}")
        return found[0] if found else None


def tenants_of(path: Path) -> Tenants:
    """Read a tenant file, TOML or JSON: a table `tenants` with lists of patterns.

    Raises:
        ArgumentError: The file cannot be read, or is invalid.
    """
    value = _table_of(path)
    tenants = value.get("tenants")
    if value.keys() != {"tenants"} or not isinstance(tenants, dict) or not tenants:
        raise ArgumentError(f'--tenants {path}: a table tenants is needed, like tenants.acme = ["acme/*"]')
    for tenant, patterns in tenants.items():
        is_list = isinstance(patterns, list) and bool(patterns)
        if not tenant or not is_list or not all(isinstance(pattern, str) and "/" in pattern for pattern in patterns):
            raise ArgumentError(f"--tenants {path}: {tenant} needs a list of patterns like acme/* (stream/topic)")
    return Tenants(tenants)


def _table_of(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        value = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"--tenants {path}: {error}") from None
    if not isinstance(value, dict):
        raise ArgumentError(f"--tenants {path}: this is no table")
    return value
