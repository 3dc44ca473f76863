"""OpenAPI 3.1 description of the HTTP interface, generated from its endpoints."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import msgspec

from headrace_connectors.http.endpoints import JSON, TEXT, Endpoint
from headrace_connectors.http.models import ProblemAnswer

_PROBLEM: Final = "application/problem+json"
_REFERENCE: Final = "#/components/schemas/{name}"
_REASONS: Final = {
    400: "The body is not JSON.",
    401: "The header `Authorization` has not the token.",
    403: "The pipeline file does not allow changes, or a web page calls without a token.",
    404: "There is no such connector, mapping or version.",
    409: "The state does not permit it, or another process has made a change at the same time.",
    412: "The state is not the one that the change is meant for.",
    413: "The body is too large, or a group has no space for it.",
    422: "The body has another form, or the configuration is not valid: `problems` has each mistake.",
    429: "Too many wrong tokens have come from the address of the caller: `Retry-After` has the seconds to wait.",
    503: "The topic of the group cannot be reached, the disk takes no change, or the process is not ready; try again.",
}
_INTRODUCTION: Final = """\
State of the connectors of a process, and changes of their configuration. The token of `http.token` goes into the header
`Authorization: Bearer`. Refusals are problem documents (RFC 9457) with a stable `code`.
"""


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Describe endpoints."""
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in endpoints:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    types = [ProblemAnswer, *(kind for endpoint in endpoints for kind in _types(endpoint))]
    # Types without a name, such as lists, have their structures among the components.
    _, components = msgspec.json.schema_components(types, ref_template=_REFERENCE)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace connectors",
            "version": version("headrace"),
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _types(endpoint: Endpoint) -> list[Any]:
    return [one for one in (endpoint.answer, endpoint.body, *endpoint.other_answers.values()) if one is not None]


def _schema(kind: Any) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
    return schema


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    summary, _, rest = endpoint.text.partition("\n")
    operation: dict[str, Any] = {
        "operationId": endpoint.name,
        "summary": summary,
        "responses": _responses(endpoint),
        "security": [] if endpoint.is_public else [{"bearer": []}],
    }
    if rest.strip():
        operation["description"] = " ".join(rest.split())
    if parameters := _parameters(endpoint):
        operation["parameters"] = parameters
    if endpoint.body is not None:
        content = {JSON: {"schema": _schema(endpoint.body)}}
        operation["requestBody"] = {"required": endpoint.is_body_needed, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    number = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
    name_ = {"type": "string", "minLength": 1, "maxLength": 100}
    found = [
        {"name": name, "in": "path", "required": True, "schema": number if name == "number" else name_}
        for name in endpoint.path_names
    ]
    for place, texts in (("query", endpoint.query), ("header", endpoint.headers)):
        for name, text in texts.items():
            schema = {"type": "boolean"} if name == "check" else {"type": "string"}
            found.append({"name": name, "in": place, "required": False, "schema": schema, "description": text})
    return found


def _responses(endpoint: Endpoint) -> dict[str, Any]:
    responses: dict[str, Any] = {str(endpoint.status): _success(endpoint.status, endpoint.answer, is_text=True)}
    for status, answer in endpoint.other_answers.items():
        responses[str(status)] = _success(status, answer)
    # Another name than localhost, and a page that a browser shows, are refused without a token.
    statuses = {*endpoint.errors, *(() if endpoint.is_public else (401, 403, 429))}
    if endpoint.body is not None:
        statuses |= {400, 413, 422}
    for status in sorted(statuses):
        content = {_PROBLEM: {"schema": _schema(ProblemAnswer)}}
        responses.setdefault(str(status), {"description": _REASONS[status], "content": content})
    return responses


def _success(status: int, answer: Any, *, is_text: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"description": f"{HTTPStatus(status).phrase}."}
    if answer is not None:
        found["content"] = {JSON: {"schema": _schema(answer)}}
    elif is_text:
        found["content"] = {TEXT: {"schema": {"type": "string"}}}
    return found
