"""HTML page of the API description: one file, no scripts, no external resources."""

from __future__ import annotations

import json
import re
from html import escape
from typing import Any, Final

_STYLE: Final = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid #8884; border-radius: 4px; }
details { border-bottom: 1px solid #8884; padding: 0.4rem 0; }
summary { cursor: pointer; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0; vertical-align: top; }
"""


def page_of(document: dict[str, Any]) -> str:
    """Return the page."""
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>{escape(info['title'])} HTTP API</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}: HTTP API</h1>",
        *(f"<p>{_text(paragraph)}</p>" for paragraph in info["description"].strip().split("\n\n")),
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>',
    ]
    for tag in document["tags"]:
        parts.append(f"<h2>{escape(tag['name'])}</h2>")
        for path, methods in document["paths"].items():
            for method, operation in methods.items():
                if tag["name"] in operation["tags"]:
                    parts += _operation(method, path, operation)
    parts.append("<h2>Schemas</h2>")
    for name, schema in sorted(document["components"]["schemas"].items()):
        parts.append(
            f"<details id={escape(name)}><summary><code>{escape(name)}</code></summary>{_json(schema)}</details>"
        )
    parts.append("</body></html>")
    return "\n".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> list[str]:
    login = "" if operation["security"] else " <em>(no token needed)</em>"
    parts = [
        (
            f"<details id={escape(operation['operationId'])}><summary><span class=method>{method.upper()}</span> "
            f"<code>{escape(path)}</code> {_text(operation['summary'])}{login}</summary>"
        )
    ]
    if "description" in operation:
        parts.append(f"<p>{_text(operation['description'])}</p>")
    if "parameters" in operation:
        parts.append("<table><tr><th>parameter</th><th>in</th><th>schema</th><th></th></tr>")
        parts += [
            f"<tr><td><code>{escape(parameter['name'])}</code>{' *' if parameter['required'] else ''}</td>"
            f"<td>{parameter['in']}</td><td><code>{escape(json.dumps(parameter['schema']))}</code></td>"
            f"<td>{_text(parameter.get('description', ''))}</td></tr>"
            for parameter in operation["parameters"]
        ]
        parts.append("</table>")
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body <code>{escape(media_type)}</code></p>{_json(content['schema'])}")
    parts.append("<table><tr><th>status</th><th></th></tr>")
    for status, response in operation["responses"].items():
        content = "".join(
            f" {_json(entry['schema'])}" for entry in response.get("content", {}).values() if status.startswith("2")
        )
        parts.append(f"<tr><td>{status}</td><td>{_text(response['description'])}{content}</td></tr>")
    return [*parts, "</table></details>"]


def _json(schema: dict[str, Any]) -> str:
    if set(schema) == {"$ref"}:
        name = schema["$ref"].rpartition("/")[2]
        return f'<p><a href="#{escape(name)}"><code>{escape(name)}</code></a></p>'
    return f"<pre>{escape(json.dumps(schema, indent=2))}</pre>"


def _text(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
