"""OpenAPI 3.1 description of the API, generated from the routes."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Final

import msgspec

from headrace_gateway.http.routes import JSON, Nothing, Raw, Route
from headrace_gateway.json_api.errors import PROBLEM_TYPE, ErrorBody, Problem

_REFERENCE: Final = "#/components/schemas/{name}"
_NUMBERS: Final = frozenset({"partition_id", "client_id"})
_U32: Final = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_REASONS: Final = {
    304: "Not modified since the version in `If-None-Match`.",
    400: "Refused: the URL or the body cannot be read, or a value is not allowed, or the state does not permit it.",
    401: "Unauthenticated: the token is missing, or no longer valid.",
    403: "The user lacks the permission.",
    404: "The resource does not exist.",
    409: "The state does not permit it; only for clients that accept `application/problem+json`, else 400.",
    412: "The state is not the one that the change is meant for.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "The body is JSON, but not of this form.",
    429: "Too much at once: try again after `Retry-After` seconds.",
    500: "The server failed.",
    502: "Another process does not answer, or refuses this server.",
    503: "The server cannot do that now; try again.",
}
_INTRODUCTION: Final = """\
JSON in front of the binary protocol: the same rights, the same checks, the same codes.

Log in first; the token of the answer goes into the header `Authorization: Bearer`. Streams, topics, users and groups
are named by number or by name: what reads as a number of 32 bits is one. Times are microseconds since the Unix epoch,
binary values base64. Refusals are problem documents (RFC 9457): those of `Accept: application/problem+json` have the
statuses that fit best and the stable code of the binary protocol as `code`, all others the statuses that existing
clients expect and that code as `id`.
"""


def document(routes: list[Route]) -> dict[str, Any]:
    """Describe routes."""
    types = {id(kind): kind for route in routes for kind in _types(route)}
    _, components = msgspec.json.schema_components([*types.values(), ErrorBody, Problem], ref_template=_REFERENCE)
    schema_of = _SchemaOf(components)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace",
            "version": version("headrace"),
            "description": _INTRODUCTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
    }


class _SchemaOf:
    """Schemas of types; structures become components."""

    def __init__(self, components: dict[str, Any]) -> None:
        self._components = components
        # Cache: the same few types occur in the answers of all routes, and inspecting a type is slow.
        self._known: dict[int, tuple[Any, dict[str, Any]]] = {}

    def __call__(self, kind: Any) -> dict[str, Any]:
        if isinstance(kind, Raw):
            return kind.schema
        if id(kind) not in self._known:
            (schema,), _ = msgspec.json.schema_components([kind], ref_template=_REFERENCE)
            self._known[id(kind)] = kind, schema
        return self._known[id(kind)][1]

    def properties(self, kind: type[msgspec.Struct]) -> tuple[dict[str, Any], set[str]]:
        """Return the fields of a structure, and the required ones."""
        schema = self._components[kind.__name__]
        return schema["properties"], set(schema.get("required", ()))


def _types(route: Route) -> list[Any]:
    found = [route.query]
    found += [route.body] if route.body is not bytes else []
    found += [route.answer] if route.answer is not None and not isinstance(route.answer, Raw) else []
    return found


def _operation(route: Route, schema_of: _SchemaOf) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "responses": _responses(route, schema_of),
        "security": [] if route.is_public else [{"bearer": []}],
    }
    if route.description:
        operation["description"] = route.description
    parameters = _parameters(route, schema_of)
    if parameters:
        operation["parameters"] = parameters
    if route.body is bytes:
        content = {media_type: {"schema": schema} for media_type, schema in route.body_schemas.items()}
        operation["requestBody"] = {"required": True, "content": content}
    elif route.body is not Nothing:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema_of(route.body)}}}
    return operation


def _parameters(route: Route, schema_of: _SchemaOf) -> list[dict[str, Any]]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": _path_schema(name)} for name in route.path_names
    ]
    if route.query is not Nothing:
        properties, required = schema_of.properties(route.query)
        for name, found in properties.items():
            schema = {key: value for key, value in found.items() if key != "description"}
            description = found.get("description") or schema.pop("description", None)
            parameter = {"name": name, "in": "query", "required": name in required, "schema": schema}
            parameters.append(parameter | ({"description": description} if description else {}))
    for name, schema in route.headers.items():
        shown = {key: value for key, value in schema.items() if key != "description"}
        parameters.append(
            {"name": name, "in": "header", "required": False, "schema": shown, "description": schema["description"]}
        )
    return parameters


def _path_schema(name: str) -> dict[str, Any]:
    if name in _NUMBERS:
        return _U32
    if name == "fsync":
        return {"type": "string", "enum": ["true", "false", "fsync=true", "fsync=false"]}
    return {"type": "string", "minLength": 1, "maxLength": 255}


def _responses(route: Route, schema_of: _SchemaOf) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "Done."}
    if route.answer is not None:
        media_type = route.answer.media_type if isinstance(route.answer, Raw) else JSON
        success["content"] = {media_type: {"schema": schema_of(route.answer)}}
    statuses = {*route.errors, 429, 500, 503}
    if not route.is_public:
        statuses.add(401)
    if route.body is not Nothing:
        statuses |= {400, 413, 415, 422}
    if route.query is not Nothing:
        statuses.add(400)
    responses = {str(route.success): success}
    if route.has_etag:
        responses["304"] = {"description": _REASONS[304]}
    for status in sorted(statuses):
        responses[str(status)] = {"description": _REASONS[status], "content": _refusal(schema_of)}
    return responses


def _refusal(schema_of: _SchemaOf) -> dict[str, Any]:
    return {
        PROBLEM_TYPE: {"schema": {"anyOf": [schema_of(ErrorBody), schema_of(Problem)]}},
    }
