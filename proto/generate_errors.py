"""Module ``headrace_proto.errors``, made of ``proto/errors.toml``, the registry of status codes.

``proto/generate.py`` writes it. The Rust constants come from the same registry, by
``core/crates/wire/build/status.rs``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TypedDict

ORIGINS = {
    "wire": "A server, in normal operation.",
    "wire-internal": "A server, when its disk or internals fail.",
    "startup": "A server that cannot start.",
    "http": "The HTTP interface only.",
    "client": "Client libraries only.",
    "never": "None: the entry only reserves the number.",
}


class Entry(TypedDict):
    """One status code of the registry."""

    code: int
    name: str
    origin: str
    retryable: bool
    description: str


_MODULE = '''\
"""Status codes of the binary protocol. Made by proto/generate.py from proto/errors.toml."""
# ruff: noqa: E501

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType


class Origin(StrEnum):
    """Producer of a status."""

{origins}


class Status(IntEnum):
    """The number at the start of every response: 0 is success.

    A peer may send numbers that are not defined here; ``find`` takes any.
    """

    OK = 0
{members}


@dataclass(frozen=True, slots=True)
class StatusInfo:
    """One entry of the registry.

    Attributes:
        status: The code.
        name: The name in ``CamelCase``, unique.
        origin: Producer of the status.
        retryable: The unchanged request may succeed when it is repeated, after connecting and logging in again where
            needed.
        description: What happened, as one sentence for people.
    """

    status: Status
    name: str
    origin: Origin
    retryable: bool
    description: str


# fmt: off
_ROWS = (
{rows}
)
# fmt: on

REGISTRY: Mapping[Status, StatusInfo] = MappingProxyType({{row[0]: StatusInfo(*row) for row in _ROWS}})
"""Every defined code, ascending; success is not among them."""


def find(code: int) -> StatusInfo | None:
    """Return the registry's entry for ``code``; ``None`` for success and for codes that are not defined."""
    try:
        return REGISTRY.get(Status(code))
    except ValueError:
        return None
'''


def read_registry(path: Path) -> list[Entry]:
    """Return the entries of the registry, by ascending code.

    Raises:
        ValueError: An entry has other fields or types than it should, an unknown origin, or a code or name that is out
            of order or used before.
    """
    with path.open("rb") as file:
        entries = tomllib.load(file)["status"]
    fields = Entry.__annotations__.keys()
    types = {"code": int, "name": str, "origin": str, "retryable": bool, "description": str}
    names: set[str] = set()
    last_code = 0
    for entry in entries:
        if entry.keys() != fields or any(type(entry[field]) is not types[field] for field in fields):
            raise ValueError(f"{entry}: an entry has the fields {', '.join(types)}")
        if entry["code"] <= last_code:
            raise ValueError(f"{entry['code']}: codes ascend without repetition")
        if entry["name"] in names or not re.fullmatch(r"([A-Z][a-z0-9]+)+", entry["name"]):
            raise ValueError(f"{entry['name']}: a name is CamelCase and used once")
        if entry["origin"] not in ORIGINS:
            raise ValueError(f"{entry['code']}: unknown origin {entry['origin']}")
        last_code = entry["code"]
        names.add(entry["name"])
    return list(entries)


def generate(entries: list[Entry]) -> str:
    """Return the text of the module."""
    return _MODULE.format(
        origins="\n".join(
            f'    {_constant(origin.title().replace("-", ""))} = "{origin}"\n    """{meaning}"""'
            for origin, meaning in ORIGINS.items()
        ),
        members="\n".join(f"    {_constant(entry['name'])} = {entry['code']}" for entry in entries),
        rows="\n".join(f"    {_row(entry)}," for entry in entries),
    )


def _row(entry: Entry) -> str:
    status = f"Status.{_constant(entry['name'])}"
    origin = f"Origin.{_constant(entry['origin'].title().replace('-', ''))}"
    return f"({status}, {_text(entry['name'])}, {origin}, {entry['retryable']}, {_text(entry['description'])})"


def _constant(name: str) -> str:
    """Convert ``InvalidCommand`` to ``INVALID_COMMAND``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
