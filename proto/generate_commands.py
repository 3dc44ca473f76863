"""Module ``headrace_proto.commands`` and the page about commands, made of ``proto/commands.toml``, their registry.

``proto/generate.py`` writes the module, and the build of the site has the page. The Rust enumeration comes from the
same registry, by ``core/crates/wire/build``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import NotRequired, TypedDict

EXTENSIONS_FROM = 10_000
ATTRIBUTES = {
    "tickets": "Holders of a ticket may send it; if it names a consumer, only one outside of groups.",
    "carries-messages": "The payload has the limit of messages instead of that of other requests.",
    "while-watching": "Allowed while the connection watches partitions.",
    "statistics": "The response contains statistics, which a gateway gathers from the nodes first.",
    "may-be-missing": "The response has an empty payload if the object does not exist.",
    "audited": "The audit trail records it with its caller.",
    "binary-only": "No other API has an equivalent.",
    "read-only": "The request to a partition changes nothing, so it is sent again after a lost connection.",
    "large-response": "The response may be large: the user's share of memory has to have room for it first.",
    "shard": "The shard answers it with its connections, buffers or links.",
}
SERVERS = {
    "all": "Every server.",
    "partition-nodes": "Partition nodes, which accept tickets.",
    "gateways": "Servers at which users log in: gateways and embedded servers.",
    "ticket-issuers": "Gateways and embedded servers that have a key to sign tickets.",
}


class Entry(TypedDict):
    """One command of the registry."""

    code: int
    name: str
    payload: NotRequired[str]
    response: NotRequired[str]
    family: str
    permission: str
    attributes: NotRequired[list[str]]
    served_by: NotRequired[str]
    partition: NotRequired[str]
    description: str


_MODULE = '''\
"""Commands of the binary protocol. Made by proto/generate.py from proto/commands.toml."""
# ruff: noqa: E501

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Final

EXTENSIONS_FROM: Final = {extensions_from}
"""The first code of the commands that the Iggy protocol (0.8) does not have."""


class Attribute(StrEnum):
    """Property of a command."""

{attributes}


class ServedBy(StrEnum):
    """Servers that announce and serve a command."""

{servers}


class CommandCode(IntEnum):
    """The number of a command. A peer may send numbers that are not defined here."""

{members}

    @property
    def is_extension(self) -> bool:
        """Return whether the Iggy protocol (0.8) does not have the command."""
        return self >= EXTENSIONS_FROM


@dataclass(frozen=True, slots=True)
class CommandInfo:
    """One entry of the registry.

    Attributes:
        code: The code.
        name: The name in ``CamelCase``, unique.
        permission: The permission that allows the command; ``login`` if any user may send it, ``none`` if no login is
            needed.
        attributes: Properties of the command.
        served_by: Servers that announce and serve the command.
    """

    code: CommandCode
    name: str
    permission: str
    attributes: frozenset[Attribute]
    served_by: ServedBy

    @property
    def is_public(self) -> bool:
        """Return whether the command needs no login."""
        return self.permission == "none"


# fmt: off
_ROWS = (
{rows}
)
# fmt: on

REGISTRY: Mapping[CommandCode, CommandInfo] = MappingProxyType(
    {{row[0]: CommandInfo(row[0], row[1], row[2], frozenset(row[3]), row[4]) for row in _ROWS}}
)
"""Every command, by ascending code."""


def commands_with(attribute: Attribute) -> frozenset[CommandCode]:
    """Return the commands that have this attribute."""
    return frozenset(code for code, info in REGISTRY.items() if attribute in info.attributes)
'''

_DOCUMENT = """\
# Commands of the binary protocol

Made from `proto/commands.toml`. Commands below {extensions_from} are those of the Iggy protocol
(0.8); the others are extensions, whose payloads [protocol-extensions.md](protocol-extensions.md) describes. Permission
`login` means any user, and `none` that no login is needed. With `or owner`, users need no permission for what they
have made. `server`, the permission `read_servers`, includes settings, logs and the whole audit trail.

| attribute | meaning |
| --- | --- |
{attributes}

| served by | servers |
| --- | --- |
{servers}
"""


def read_registry(path: Path) -> list[Entry]:
    """Return the entries of the registry, by ascending code.

    Raises:
        ValueError: An entry has other fields or types than it should, an unknown attribute or kind of server, or a code
            or name that is out of order or used before.
    """
    with path.open("rb") as file:
        entries = tomllib.load(file)["command"]
    required = {"code": int, "name": str, "family": str, "permission": str, "description": str}
    types = required | {"payload": str, "response": str, "attributes": list, "served_by": str, "partition": str}
    names: set[str] = set()
    last_code = 0
    for entry in entries:
        if not required.keys() <= entry.keys() <= types.keys() or any(
            type(value) is not types[field] for field, value in entry.items()
        ):
            raise ValueError(f"{entry}: an entry has the fields {', '.join(required)}, and may have the others")
        if entry["code"] <= last_code:
            raise ValueError(f"{entry['code']}: codes ascend without repetition")
        if entry["name"] in names or not re.fullmatch(r"([A-Z][a-z0-9]+)+", entry["name"]):
            raise ValueError(f"{entry['name']}: a name is CamelCase and used once")
        if not set(entry.get("attributes", ())) <= ATTRIBUTES.keys():
            raise ValueError(f"{entry['code']}: unknown attribute among {entry['attributes']}")
        if entry.get("served_by", "all") not in SERVERS:
            raise ValueError(f"{entry['code']}: unknown servers {entry['served_by']}")
        if "partition" not in entry and "read-only" in entry.get("attributes", ()):
            raise ValueError(f"{entry['code']}: only a request to a partition is read-only")
        last_code = entry["code"]
        names.add(entry["name"])
    return list(entries)


def module(entries: list[Entry]) -> str:
    """Return the text of the Python module."""
    return _MODULE.format(
        extensions_from=f"{EXTENSIONS_FROM:_}",
        attributes=_enumeration(ATTRIBUTES),
        servers=_enumeration(SERVERS),
        members="\n".join(
            f'    {_constant(entry["name"])} = {entry["code"]}\n    """{entry["description"]}"""' for entry in entries
        ),
        rows="\n".join(f"    {_row(entry)}," for entry in entries),
    )


def document(entries: list[Entry]) -> str:
    """Return the text of the document: a table for each family, in the order of their first commands."""
    parts = [
        _DOCUMENT.format(extensions_from=EXTENSIONS_FROM, attributes=_table_of(ATTRIBUTES), servers=_table_of(SERVERS))
    ]
    for family in dict.fromkeys(entry["family"] for entry in entries):
        rows = "\n".join(
            f"| {entry['code']} | `{entry['name']}` | {entry['description']} | {entry['permission']} "
            f"| {', '.join(entry.get('attributes', ()))} | {entry.get('served_by', 'all')} |"
            for entry in entries
            if entry["family"] == family
        )
        parts.append(
            f"## {family.capitalize()}\n\n| code | command | meaning | permission | attributes | served by |\n"
            f"| --- | --- | --- | --- | --- | --- |\n{rows}\n"
        )
    return "\n".join(parts)


def _row(entry: Entry) -> str:
    code = f"CommandCode.{_constant(entry['name'])}"
    attributes = "".join(f"Attribute.{_member(name)}, " for name in entry.get("attributes", ())).rstrip()
    served_by = f"ServedBy.{_member(entry.get('served_by', 'all'))}"
    return f'({code}, "{entry["name"]}", "{entry["permission"]}", ({attributes}), {served_by})'


def _enumeration(values: dict[str, str]) -> str:
    return "\n".join(f'    {_member(value)} = "{value}"\n    """{meaning}"""' for value, meaning in values.items())


def _table_of(values: dict[str, str]) -> str:
    return "\n".join(f"| {value} | {meaning} |" for value, meaning in values.items())


def _member(value: str) -> str:
    return value.replace("-", "_").upper()


def _constant(name: str) -> str:
    """Convert ``PollMessages`` to ``POLL_MESSAGES``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
