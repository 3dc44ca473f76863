"""Stub `headrace_core._protocol`: what the native module has from ``proto/layouts.toml``.

``core/crates/python/build`` makes the functions and classes themselves of the same tables.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_NUMBERS = {"u8", "u16", "u32", "u64", "u128", "status"}
_DEFAULTS = {"u64::MAX": "...", "false": "False", "true": "True"}
_KINDS = {
    "f32": "float",
    "bool": "bool",
    "flag": "bool",
    "name": "str",
    "name?": "str | None",
    "password": "str",
    "text": "str",
    "bytes": "bytes",
    "identifier": "int | str",
    "permissions?": "Permissions | None",
    "u32?": "int | None",
    **dict.fromkeys(_NUMBERS, "int"),
}
_COMPOSED = {
    "consumer": ["consumer: int | str = ...", "is_group: bool = False"],
    "polling": ['strategy: Literal["offset", "timestamp", "first", "last", "next"] = "next"', "value: int = 0"],
}

_MODULE = '''\
"""Encoders of commands, and records of responses. Made by proto/generate.py from proto/layouts.toml."""
# ruff: noqa: E501

from collections.abc import Sequence
from typing import Literal, final

from headrace_core import GroupMember, Permissions

{classes}
{encoders}
{decoders}
'''


@dataclass(frozen=True)
class _Field:
    """One line of a layout: `name/alias: kind = default | description`."""

    name: str
    alias: str
    zero_is_none: bool
    kind: str
    default: str | None
    description: str

    @classmethod
    def parse(cls, line: str) -> _Field:
        left, _, description = line.partition(" | ")
        names, _, kind = left.partition(": ")
        kind, _, default = kind.partition(" = ")
        name, _, alias = names.partition("/")
        alias = alias or name
        return cls(name, alias.rstrip("?"), alias.endswith("?"), kind.rstrip("!"), default or None, description)


class _Layouts:
    def __init__(self, tables: dict[str, Any]) -> None:
        self.by_hand = frozenset(tables.pop("by_hand"))
        self._texts = {name: list(values.values()) for name, values in tables.pop("enumerations").items()}
        self.entries = tables
        self.fields = {
            name: [_Field.parse(line) for line in entry["fields"].strip().splitlines()]
            for name, entry in tables.items()
        }

    def classes(self) -> list[str]:
        """Return the text of each record. A list that only the details have is an attribute, too."""
        found = []
        for name, entry in self.entries.items():
            if "record_doc" not in entry:
                continue
            more = [
                field
                for other, details in self.entries.items()
                if other != name and details.get("record") == entry["record"]
                for field in self.fields[other]
                if " by " in field.kind
            ]
            attributes = "".join(
                f'    {field.alias}: {self._kind(field)}\n    """{field.description}"""\n'
                for field in (*self.fields[name], *more)
            )
            found.append(f'@final\nclass {entry["record"]}:\n    """{entry["record_doc"]}"""\n\n{attributes}')
        return found

    def encoder(self, command: dict[str, Any]) -> str:
        """Return the text of the function that encodes a command."""
        payload = command.get("payload", "").partition("<")[0]
        arguments = ", ".join(self._arguments(payload)) if payload else ""
        return (
            f"def encode_{snake_case(command['name'])}({'*, ' if arguments else ''}{arguments}) -> tuple[int, bytes]:\n"
            f'    """Encode `{command["name"]}`: its code, and its payload. {command["description"]}"""\n'
        )

    def decoders(self) -> list[str]:
        """Return the text of each function that decodes a payload."""
        found = []
        for entry in self.entries.values():
            if function := entry.get("decode"):
                record = entry["record"]
                result = {"[": f"list[{record}]"}.get(function[0], record) + (" | None" * function.endswith("?"))
                found.append(f"def decode_{function.strip('[]?')}(payload: bytes) -> {result}: ...")
        return found

    def _arguments(self, payload: str) -> list[str]:
        found = []
        for field in self.fields[payload]:
            if field.kind in self.fields:
                found += self._arguments(field.kind)
            elif field.kind in _COMPOSED:
                found += _COMPOSED[field.kind]
            elif field.kind == "partition?":
                found.append(f"{field.alias}: int | None = None")
            else:
                kind = self._kind(field, "Sequence")
                default = f" = {_DEFAULTS.get(field.default, field.default)}" if field.default else ""
                found.append(f"{field.alias}: {kind}{default}")
        return found

    def _kind(self, field: _Field, sequence: str = "list") -> str:
        kind = field.kind
        if item := re.fullmatch(r"\[(\w+)(?: by .*)?\]", kind):
            return f"{sequence}[{self._item(item[1])}]"
        enumeration = kind.strip("~?")
        if enumeration in self._texts:
            texts = ", ".join(f'"{text}"' for text in self._texts[enumeration])
            return f"Literal[{texts}]" + " | None" * kind.endswith("?")
        return _KINDS[kind] + " | None" * field.zero_is_none

    def _item(self, item: str) -> str:
        if item in _KINDS:
            return _KINDS[item]
        if item not in self.entries:
            return item
        if record := self.entries[item].get("record"):
            return str(record)
        return f"tuple[{', '.join(self._kind(field) for field in self.fields[item])}]"


def snake_case(name: str) -> str:
    """Convert ``PollMessages`` to ``poll_messages``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def module(layouts_path: Path, commands_path: Path) -> str:
    """Return the text of the stub."""
    layouts = _Layouts(tomllib.loads(layouts_path.read_text(encoding="utf-8")))
    commands = tomllib.loads(commands_path.read_text(encoding="utf-8"))["command"]
    encoders = [layouts.encoder(command) for command in commands if command["name"] not in layouts.by_hand]
    return _MODULE.format(
        classes="\n".join(layouts.classes()), encoders="\n".join(encoders), decoders="\n".join(layouts.decoders())
    )
