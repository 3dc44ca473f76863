"""Reference of the HTTP interface, from its OpenAPI description."""

from __future__ import annotations

import json
from typing import Any, Final

from tables import cell, code, prose

INTRODUCTION: Final = """\
# HTTP operations

Made from the OpenAPI description, which a server has at `/openapi.json` and, for people, at `/docs`.
[HTTP](../http.md) shows how they are used.

{about}
Operations that need a token answer `401` without one; *public* ones need none. Every operation may answer `429`
(too much at once: try again after `Retry-After` seconds), `500` and `503`.

| status | meaning |
| --- | --- |
"""
EVERYWHERE: Final = ("401", "429", "500", "503")


def kind_of(schema: dict[str, Any]) -> str:
    """Return a schema in words, as Markdown that may be a cell of a table."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(map(kind_of, alternatives)))
    if "const" in schema:
        return code(json.dumps(schema["const"]))
    if "enum" in schema:
        return "one of " + ", ".join(code(json.dumps(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        return "list of " + kind_of(schema.get("items", {}))
    if schema.get("type") == "object" and isinstance(inner := schema.get("additionalProperties"), dict):
        return "object with values: " + kind_of(inner)
    kinds = schema.get("type", "any")
    return (" or ".join(kinds) if isinstance(kinds, list) else str(kinds)) + limits_of(schema)


def limits_of(schema: dict[str, Any]) -> str:
    """Return the limits of a number, a text or a list, in brackets."""
    found = []
    unit = "" if "minimum" in schema or "maximum" in schema else " characters"
    lowest, highest = schema.get("minimum", schema.get("minLength")), schema.get("maximum", schema.get("maxLength"))
    if lowest is not None and highest is not None:
        found.append(f"{lowest} to {highest}{unit}")
    elif lowest is not None:
        found.append(f"at least {lowest}{unit}")
    elif highest is not None:
        found.append(f"at most {highest}{unit}")
    if encoding := schema.get("contentEncoding"):
        found.append(encoding)
    return f" ({', '.join(found)})" if found else ""


def default_of(schema: dict[str, Any]) -> str:
    """Return the default of a field, as code; empty if there is none, or it is null."""
    return code(json.dumps(schema["default"])) if schema.get("default") is not None else ""


def fields(schema: dict[str, Any]) -> str:
    """Return the table of the fields of an object."""
    required = set(schema.get("required", ()))
    rows = [
        f"| {code(name)}{'' if name in required else ' (optional)'} | {kind_of(field)} | {default_of(field)} | "
        f"{cell(prose(field.get('description', '')))} |\n"
        for name, field in schema.get("properties", {}).items()
    ]
    return "| field | type | default | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows) if rows else ""


def parameters(operation: dict[str, Any]) -> str:
    """Return the table of the parameters of an operation."""
    rows = [
        f"| {code(found['name'])}{'' if found['required'] else ' (optional)'} | {found['in']} | "
        f"{kind_of(found['schema'])} | {default_of(found['schema'])} | {cell(prose(found.get('description', '')))} |\n"
        for found in operation.get("parameters", ())
    ]
    head = "| parameter | in | type | default | meaning |\n| --- | --- | --- | --- | --- |\n"
    return head + "".join(rows) if rows else ""


def bodies(content: dict[str, Any]) -> str:
    """Return the media types and types of a body."""
    return "; ".join(f"{code(media_type)}: {kind_of(found.get('schema', {}))}" for media_type, found in content.items())


def operation_section(method: str, path: str, operation: dict[str, Any]) -> str:
    """Return the section of an operation."""
    public = "" if operation["security"] else " *Public.*"
    parts = [f"### {method.upper()} {path}\n", f"{prose(operation['summary'])}{public}\n"]
    if "description" in operation:
        parts.append(prose(operation["description"]).strip() + "\n")
    if table := parameters(operation):
        parts.append(table)
    if "requestBody" in operation:
        parts.append(f"Body: {bodies(operation['requestBody']['content'])}\n")
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            parts.append(f"Answer: `{status}`, {bodies(answer.get('content', {})) or 'without a body'}\n")
    refusals = [status for status in operation["responses"] if status[0] != "2" and status not in EVERYWHERE]
    if refusals:
        parts.append(f"Other statuses: {', '.join(f'`{status}`' for status in refusals)}\n")
    return "\n".join(parts)


def render(openapi: dict[str, Any]) -> str:
    """Return the page."""
    operations = [
        (method, path, operation) for path, methods in openapi["paths"].items() for method, operation in methods.items()
    ]
    statuses: dict[str, str] = {}
    for _, _, operation in operations:
        for status, answer in operation["responses"].items():
            if not status.startswith("2"):
                statuses[status] = answer["description"]
    parts = [INTRODUCTION.format(about=openapi["info"]["description"])]
    parts += [f"| {status} | {cell(prose(meaning))} |\n" for status, meaning in sorted(statuses.items())]
    for tag in openapi["tags"]:
        parts.append(f"\n## {tag['name'][:1].upper()}{tag['name'][1:]}\n")
        parts += [f"\n{operation_section(*found)}" for found in operations if tag["name"] in found[2]["tags"]]
    parts.append("\n## Types\n")
    for name, schema in sorted(openapi["components"]["schemas"].items()):
        about = prose(schema.get("description", "")).strip()
        body = fields(schema) or f"{kind_of(schema)}\n"
        parts.append(f"\n### {name}\n\n" + (f"{about}\n\n" if about else "") + body)
    return "".join(parts)
