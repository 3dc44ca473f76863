"""The OpenAPI description matches the routes that are served (GW-4)."""

from __future__ import annotations

import re

import pytest
from jsonschema_rs import meta

from headrace_gateway.http.handlers import ROUTES
from headrace_gateway.json_api.errors import ErrorBody
from tests.apis.http.api import Api

REFERENCE = """
GET /
GET /ping
GET /metrics
GET /stats
GET /cluster/metadata
GET /clients
GET /clients/{client_id}
POST /snapshot
POST /users/login
POST /personal-access-tokens/login
POST /users/refresh-token
DELETE /users/logout
GET /users
GET /users/{user_id}
POST /users
PUT /users/{user_id}
PUT /users/{user_id}/permissions
PUT /users/{user_id}/password
DELETE /users/{user_id}
GET /personal-access-tokens
POST /personal-access-tokens
DELETE /personal-access-tokens/{name}
GET /streams
POST /streams
GET /streams/{stream_id}
PUT /streams/{stream_id}
DELETE /streams/{stream_id}
DELETE /streams/{stream_id}/purge
GET /streams/{stream_id}/topics
POST /streams/{stream_id}/topics
GET /streams/{stream_id}/topics/{topic_id}
PUT /streams/{stream_id}/topics/{topic_id}
DELETE /streams/{stream_id}/topics/{topic_id}
DELETE /streams/{stream_id}/topics/{topic_id}/purge
POST /streams/{stream_id}/topics/{topic_id}/partitions
DELETE /streams/{stream_id}/topics/{topic_id}/partitions
DELETE /streams/{stream_id}/topics/{topic_id}/partitions/{partition_id}
POST /streams/{stream_id}/topics/{topic_id}/messages
GET /streams/{stream_id}/topics/{topic_id}/messages
GET /streams/{stream_id}/topics/{topic_id}/messages/flush/{partition_id}/{fsync}
GET /streams/{stream_id}/topics/{topic_id}/consumer-offsets
PUT /streams/{stream_id}/topics/{topic_id}/consumer-offsets
DELETE /streams/{stream_id}/topics/{topic_id}/consumer-offsets/{consumer_id}
GET /streams/{stream_id}/topics/{topic_id}/consumer-groups
POST /streams/{stream_id}/topics/{topic_id}/consumer-groups
GET /streams/{stream_id}/topics/{topic_id}/consumer-groups/{group_id}
DELETE /streams/{stream_id}/topics/{topic_id}/consumer-groups/{group_id}
"""
"""The routes of the release whose clients must work, transcribed by hand."""


async def described(anonymous: Api) -> dict[str, dict]:
    document = await anonymous.ok("GET", "/openapi.json")
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


async def test_every_route_of_the_reference_is_there(anonymous: Api) -> None:
    operations = await described(anonymous)
    assert set(REFERENCE.split("\n")) - {""} <= operations.keys()
    assert {f"{route.method} {route.path}" for route in ROUTES} <= operations.keys()
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))


async def test_what_is_described_is_served(anonymous: Api, root: Api) -> None:
    """A described path without a handler would be answered with 404 without a body, a method with 405."""
    for entry, operation in (await described(anonymous)).items():
        method, path = entry.split()
        concrete = re.sub(r"{(partition_id|client_id)}", "7", path).replace("{fsync}", "true")
        concrete = re.sub(r"{\w+}", "nothing", concrete)
        answer = await anonymous(method, concrete)
        assert (answer.status == 401) == bool(operation["security"]), entry
        if "logout" not in path:
            answer = await root(method, concrete)
            assert answer.status != 405, entry
            assert answer.body or answer.status != 404, entry
            assert str(answer.status) in operation["responses"], (entry, answer.status)


async def test_the_description_is_sound(anonymous: Api) -> None:
    document = await anonymous.ok("GET", "/openapi.json")
    assert document["openapi"].startswith("3.1.")
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema)
    references = set(
        re.findall(r'"#/components/schemas/(\w+)"', (await anonymous("GET", "/openapi.json")).body.decode())
    )
    assert references <= schemas.keys()
    assert set(schemas["ErrorBody"]["properties"]) == set(ErrorBody.__struct_fields__)
    for entry, operation in (await described(anonymous)).items():
        assert operation["summary"].endswith("."), entry


@pytest.mark.parametrize("outside", ["<script", "http://", "https://", "src=", "@import"])
async def test_the_page_needs_nothing_from_elsewhere(anonymous: Api, outside: str) -> None:
    answer = await anonymous("GET", "/docs")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    page = answer.body.decode()
    assert outside not in page
    for route in ROUTES:
        assert f"<code>{route.path}</code>" in page
