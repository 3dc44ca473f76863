"""Reference of the gRPC services that clients use, from the `.proto` files and their comments."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from grpc_tools import protoc  # type: ignore[import-untyped]
from tables import cell, code, prose

PROTO: Final = Path(__file__).resolve().parents[3] / "proto"
PACKAGES: Final = {
    "headrace.gateway.v1": (
        "Of embedded servers and gateways, on port 8094. [gRPC](../grpc.md) shows how it is used.",
        "headrace/gateway/v1",
    ),
    "headrace.partition.v1": (
        "Of embedded servers and [partition nodes](../partition-node.md), on port 8101, for programs with a ticket.",
        "headrace/partition/v1",
    ),
}
INTRODUCTION: Final = """\
# gRPC services

Made from the `.proto` files in `proto/`. Services among the processes of a cluster are not listed.
Names and numbers are never removed or changed between releases.
"""
Place = tuple[int, ...]
"""Place of a definition in its file, as the compiler numbers it."""

MESSAGES, ENUMS, SERVICES, NESTED_MESSAGES, NESTED_ENUMS = 4, 5, 6, 3, 4


class Comments:
    """Comments of a file, by the places of what they describe."""

    def __init__(self, file: FileDescriptorProto) -> None:
        """Read the comments before each definition."""
        self._texts = {tuple(found.path): found.leading_comments for found in file.source_code_info.location}

    def of(self, *place: int) -> str:
        """Return the comment of a definition as Markdown; empty if there is none."""
        text = self._texts.get(place, "")
        return prose("\n".join(line.removeprefix(" ") for line in text.splitlines())).strip()


def described(directories: Sequence[str]) -> list[FileDescriptorProto]:
    """Compile the files of some directories, with their comments."""
    sources = sorted(str(path) for directory in directories for path in (PROTO / directory).glob("*.proto"))
    with tempfile.TemporaryDirectory() as directory:
        result = Path(directory, "set")
        well_known = str(files("grpc_tools") / "_proto")
        options = [f"-I{PROTO}", f"-I{well_known}", "--include_source_info", f"--descriptor_set_out={result}"]
        if protoc.main(["protoc", *options, *sources]):
            raise ValueError(f"protoc refused {sources}")
        return list(FileDescriptorSet.FromString(result.read_bytes()).file)


def anchor(name: str) -> str:
    """Return the anchor of a definition."""
    return name.replace(".", "").lower()


def reference(name: str, package: str) -> str:
    """Return the name of a type, as a link if it is defined on the page."""
    short = name.removeprefix(f".{package}.")
    return f"[{short}](#{anchor(short)})" if short != name else code(name.lstrip("."))


def kind_of(field: FieldDescriptorProto, package: str) -> str:
    """Return the type of a field."""
    if field.type in {FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_ENUM}:
        kind = reference(field.type_name, package)
    else:
        kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
    return f"list of {kind}" if repeated else f"{kind}, optional" if field.proto3_optional else kind


def message_sections(
    message: DescriptorProto, comments: Comments, place: Place, package: str, outer: str = ""
) -> Iterator[tuple[str, str]]:
    """Yield the names and sections of a message and of the types in it."""
    name = f"{outer}{message.name}"
    rows = []
    for index, field in enumerate(message.field):
        is_choice = field.HasField("oneof_index") and not field.proto3_optional
        choice = f"One of `{message.oneof_decl[field.oneof_index].name}`. " if is_choice else ""
        meaning = cell(choice + comments.of(*place, 2, index))
        rows.append(f"| {field.number} | {code(field.name)} | {kind_of(field, package)} | {meaning} |\n")
    table = (
        "| | field | type | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows) if rows else "It has no fields.\n"
    )
    about = comments.of(*place)
    yield name, f"### {name}\n\n" + (f"{about}\n\n" if about else "") + table
    for index, nested in enumerate(message.nested_type):
        yield from message_sections(nested, comments, (*place, NESTED_MESSAGES, index), package, f"{name}.")
    for index, enumeration in enumerate(message.enum_type):
        yield enum_section(enumeration, comments, (*place, NESTED_ENUMS, index), f"{name}.")


def enum_section(
    enumeration: EnumDescriptorProto, comments: Comments, place: Place, outer: str = ""
) -> tuple[str, str]:
    """Return the name and section of an enumeration."""
    name = f"{outer}{enumeration.name}"
    rows = (
        f"| {value.number} | {code(value.name)} | {cell(comments.of(*place, 2, index))} |\n"
        for index, value in enumerate(enumeration.value)
    )
    about = comments.of(*place)
    table = "| | value | meaning |\n| --- | --- | --- |\n" + "".join(rows)
    return name, f"### {name}\n\n" + (f"{about}\n\n" if about else "") + table


def service_section(service: ServiceDescriptorProto, comments: Comments, place: Place, package: str) -> str:
    """Return the section of a service."""
    rows = []
    for index, method in enumerate(service.method):
        request = ("stream of " if method.client_streaming else "") + reference(method.input_type, package)
        answer = ("stream of " if method.server_streaming else "") + reference(method.output_type, package)
        rows.append(f"| {code(method.name)} | {request} | {answer} | {cell(comments.of(*place, 2, index))} |\n")
    about = comments.of(*place)
    head = "| call | request | answer | meaning |\n| --- | --- | --- | --- |\n"
    return f"### Service {service.name}\n\n" + (f"{about}\n\n" if about else "") + head + "".join(rows)


def render() -> str:
    """Return the page."""
    compiled = described([directory for _, directory in PACKAGES.values()])
    parts = [INTRODUCTION]
    for package, (about, _) in PACKAGES.items():
        services: list[str] = []
        types: list[tuple[str, str]] = []
        for file in compiled:
            if file.package == package:
                comments = Comments(file)
                services += [
                    service_section(found, comments, (SERVICES, index), package)
                    for index, found in enumerate(file.service)
                ]
                for index, message in enumerate(file.message_type):
                    types += message_sections(message, comments, (MESSAGES, index), package)
                types += [enum_section(found, comments, (ENUMS, index)) for index, found in enumerate(file.enum_type)]
        parts += [f"## {package}\n\n{about}\n", *services, *(text for _, text in sorted(types))]
    return "\n".join(parts)
