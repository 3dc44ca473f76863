"""HTML page of the API description: one file, no scripts, no external resources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from headrace_gateway.http.description.schemas import sample, type_text
from headrace_gateway.http.description.style import STYLE


def page_of(document: dict[str, Any]) -> str:
    """Return the page."""
    info, components = document["info"], document["components"]["schemas"]
    tags = [tag["name"] for tag in document["tags"]]
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])} HTTP API</title><style>{STYLE}</style></head><body>",
        f'<nav aria-label="Sections"><a class=brand href="/">{escape(info["title"])}</a>',
        *(f'<a href="#{_anchor(tag)}">{escape(tag)}</a>' for tag in [*tags, "schemas"]),
        f"</nav><main><h1>HTTP API <span class=badge>{escape(info['version'])}</span></h1>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].strip().split("\n\n")),
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>',
    ]
    for tag in tags:
        parts.append(f'<h2 id="{_anchor(tag)}">{escape(tag)}</h2>')
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag in operation["tags"]:
                    parts += _operation(method, path, operation, components)
    parts.append("<h2 id=section-schemas>schemas</h2>")
    for name, schema in sorted(components.items()):
        # A browser opens the element around the target of a link.
        parts.append(
            f"<details><summary><code>{escape(name)}</code></summary>"
            f'<div id="{escape(name)}">{_schema(schema)}</div></details>'
        )
    parts.append("</main></body></html>")
    return "\n".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any], components: dict[str, Any]) -> list[str]:
    login = "" if operation["security"] else " <span class=badge>no token needed</span>"
    parts = [
        f"<details><summary><span class='method {method}'>{method.upper()}</span> <code>{escape(path)}</code>",
        f"<span class=summary>{_text(operation['summary'])}</span>{login}</summary>",
        f'<div id="{escape(operation["operationId"])}">',
    ]
    if "description" in operation:
        parts.append(f"<p>{_text(operation['description'])}</p>")
    if "parameters" in operation:
        rows = (
            (
                f"<code>{escape(parameter['name'])}</code>{_required(parameter['required'])}",
                escape(parameter["in"]),
                type_text(parameter["schema"]),
                _text(parameter.get("description", "")),
            )
            for parameter in operation["parameters"]
        )
        parts.append(_table(("parameter", "in", "type", ""), rows))
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h3>Body: {escape(media_type)}</h3>{_schema(content['schema'])}")
    parts.append(f"<h3>Call</h3><pre>{escape(_call(method, path, operation, components))}</pre>")
    answers = (
        (escape(status), f"{_text(response['description'])}{_content(status, response)}")
        for status, response in operation["responses"].items()
    )
    parts.append(_table(("status", "meaning"), answers))
    return [*parts, "</div></details>"]


def _content(status: str, response: dict[str, Any]) -> str:
    """Return the body of a success; refusals all have the same."""
    if not status.startswith("2"):
        return ""
    return "".join(f" {_schema(entry['schema'])}" for entry in response.get("content", {}).values())


def _call(method: str, path: str, operation: dict[str, Any], components: dict[str, Any]) -> str:
    """Return a command that calls an operation."""
    parts = ["curl"] if method == "get" else [f"curl -X {method.upper()}"]
    if operation["security"]:
        parts.append('-H "Authorization: Bearer $TOKEN"')
    required = [
        parameter["name"]
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query" and parameter["required"]
    ]
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        body = json.dumps(sample(content["application/json"]["schema"], components))
        parts.append(f"--json '{body}'")
    elif content:
        parts.append(f"-H 'Content-Type: {next(iter(content))}' --data-binary @FILE")
    query = "?" + "&".join(f"{name}=..." for name in required) if required else ""
    # Braces are ranges for curl.
    place = path.replace("{", "<").replace("}", ">")
    parts.append(f'"$SERVER{place}{query}"')
    return " ".join(parts)


def _schema(schema: dict[str, Any]) -> str:
    """Return the fields of an object, or the type of any other value."""
    if "properties" not in schema:
        return f"<p>{type_text(schema)}</p>"
    required = schema.get("required", ())
    rows = (
        (
            f"<code>{escape(name)}</code>{_required(name in required)}",
            type_text(field),
            _text(_description(field)),
        )
        for name, field in schema["properties"].items()
    )
    about = f"<p>{_text(schema['description'])}</p>" if "description" in schema else ""
    return about + _table(("field", "type", ""), rows)


def _description(field: dict[str, Any]) -> str:
    text: str = field.get("description", "")
    if "default" in field and field["default"] is not None:
        text += f"{' ' if text else ''}Default: `{json.dumps(field['default'])}`."
    return text


def _required(is_required: bool) -> str:
    return " <span class=badge>required</span>" if is_required else ""


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{title}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class=frame><table><tr>{head}</tr>{body}</table></div>"


def _anchor(tag: str) -> str:
    return f"section-{escape(tag.replace(' ', '-'))}"


def _text(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
