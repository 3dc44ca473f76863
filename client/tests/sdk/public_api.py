"""The public interface of the SDK as text: every name, with the signature that users see.

`python client/tests/sdk/public_api.py > client/tests/sdk/public_api.txt` records a change of it.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import sys
from collections.abc import Iterator
from typing import Any

import headrace
import headrace.aio


def lines() -> Iterator[str]:
    """Describe all public names, in the order of the alphabet."""
    for module in (headrace, headrace.aio):
        for name in sorted(module.__all__):
            yield from _described(f"{module.__name__}.{name}", getattr(module, name))


def _described(path: str, value: Any) -> Iterator[str]:
    if not isinstance(value, type):
        yield f"{path}{_signature(value)}" if callable(value) else f"{path} = {value!r}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    # Classes of the native module have no constructor for users, and its stub is checked elsewhere.
    is_native = value.__module__ == "headrace_core"
    yield f"class {path}({bases})"
    if is_native or issubclass(value, enum.Enum):
        yield from (f"    {path}.{name}" for name in _members(value))
        return
    fields = getattr(value, "__dataclass_fields__", {})
    for name in _members(value):
        member = inspect.getattr_static(value, name)
        if name in fields:
            default = fields[name].default
            is_required = default is dataclasses.MISSING
            yield f"    {path}.{name}: {fields[name].type}{'' if is_required else f' = {default!r}'}"
        elif isinstance(member, property):
            yield f"    {path}.{name} -> {inspect.signature(member.fget or len).return_annotation}"  # a property
        elif callable(member):
            kind = "async " if inspect.iscoroutinefunction(member) else ""
            yield f"    {kind}{path}.{name}{_signature(member)}"
        else:
            yield f"    {path}.{name}"


def _members(value: type) -> list[str]:
    inherited = {name for base in value.__mro__ if base.__module__ == "builtins" for name in dir(base)}
    return sorted(name for name in dir(value) if not name.startswith("_") and name not in inherited)


def _signature(value: Any) -> str:
    return str(inspect.signature(value))


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines())
