"""Python modules of every ``.proto`` file below ``proto/headrace``, as ``proto/generate.py`` writes them.

Two things are done to the compiler's output. Imports are moved from ``headrace`` (which is the import name of the
client library) to ``headrace_proto``; the names inside the descriptors stay, as other languages and gRPC reflection see
those. And each package gets an ``__init__.py`` that names its messages, so that users write ``from
headrace_proto.catalog.v1 import Topic``.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Final

from google.protobuf import descriptor_pb2

# The package has no type information; the type checker reports this under one of two codes.
from grpc_tools import protoc  # type: ignore[import-untyped,import-not-found,unused-ignore]

PLUGINS: Final = {"protoc-gen-mypy": "main", "protoc-gen-mypy_grpc": "grpc"}
"""Functions of `mypy_protobuf.main` by the names of the plugins."""

# Matches `from headrace.catalog.v1 import ...` and `import headrace.catalog.v1...`, but not strings: the names inside
# descriptors stay.
_IMPORT = re.compile(r"^(from|import) headrace\.", flags=re.MULTILINE)


def generate(proto_directory: Path) -> dict[Path, str]:
    """Return the contents of every module by its path below the package directory.

    Raises:
        SystemExit: The compiler refused a file; the reason was written to standard error.
    """
    sources = sorted(str(path.relative_to(proto_directory)) for path in proto_directory.glob("headrace/**/*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        descriptors = Path(directory) / "descriptors.binpb"
        status = protoc.main(
            [
                "protoc",
                f"--proto_path={proto_directory}",
                *(f"--plugin={name}={_plugin(Path(directory), name)}" for name in PLUGINS),
                f"--python_out={directory}",
                f"--mypy_out=quiet:{directory}",
                f"--grpc_python_out={directory}",
                f"--mypy_grpc_out=quiet:{directory}",
                f"--descriptor_set_out={descriptors}",
                *sources,
            ]
        )
        if status != 0:
            raise SystemExit(status)
        described = descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes())
        files = {
            path.relative_to(Path(directory) / "headrace"): _IMPORT.sub(
                r"\1 headrace_proto.", path.read_text(encoding="utf-8")
            )
            for path in _compiled(Path(directory), described)
        }
        return files | _package_modules(described)


def _compiled(directory: Path, descriptors: descriptor_pb2.FileDescriptorSet) -> list[Path]:
    """Return what the compiler wrote, without the empty gRPC modules that it makes of files without a service."""
    with_services = {str(Path(file.name).with_suffix("")) for file in descriptors.file if file.service}
    grpc_modules = [
        path
        for path in directory.rglob("*_pb2_grpc.py*")
        if str(path.relative_to(directory)).partition("_pb2_grpc")[0] in with_services
    ]
    return sorted([*directory.rglob("*_pb2.py*"), *grpc_modules])


def _package_modules(descriptors: descriptor_pb2.FileDescriptorSet) -> dict[Path, str]:
    """Return an ``__init__.py`` for every package and for the directories above it."""
    names: dict[Path, dict[str, list[str]]] = {}
    for file in descriptors.file:
        path = Path(file.name).relative_to("headrace")
        module = f"headrace_proto.{'.'.join(path.parent.parts)}.{path.stem}_pb2"
        names.setdefault(path.parent, {})[module] = sorted(
            [message.name for message in file.message_type]
            + [enum.name for enum in file.enum_type]
            + [value.name for enum in file.enum_type for value in enum.value],
            key=_import_order,
        )

    contents: dict[Path, str] = {}
    for directory, modules in names.items():
        package = ".".join(("headrace", *directory.parts))
        above = package.rpartition(".")[0]
        contents[directory.parent / "__init__.py"] = f'"""Versions of ``{above}``. Made by proto/generate.py."""\n'
        lines = [f'"""Messages of ``{package}``. Made by proto/generate.py."""', ""]
        for module, listed in sorted(modules.items()):
            lines += [f"from {module} import (", *(f"    {name}," for name in listed), ")"]
        exported = sorted((name for listed in modules.values() for name in listed), key=_import_order)
        lines += ["", "__all__ = [", *(f'    "{name}",' for name in exported), "]", ""]
        contents[directory / "__init__.py"] = "\n".join(lines)
    return contents


def _import_order(name: str) -> tuple[bool, str]:
    """Sort key of imports: constants before types, as the linter requires."""
    return not name.isupper(), name


def _plugin(directory: Path, name: str) -> Path:
    """Write a program that is a plugin of the compiler, and return its path.

    The programs of the package need not be where this interpreter has its own: in an environment that is made for one
    build, for example.
    """
    plugin = directory / name
    code = f"from mypy_protobuf.main import {PLUGINS[name]} as run; run()"
    plugin.write_text(f"#!/bin/sh\nexec {shlex.join([sys.executable, '-c', code])}\n", encoding="utf-8")
    plugin.chmod(0o755)
    return plugin
