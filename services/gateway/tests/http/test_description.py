"""Types and values on the page of the API description."""

from __future__ import annotations

from typing import Any

import pytest

from headrace_gateway.http.description.schemas import sample, type_text

NAME = {"type": "string", "minLength": 1, "maxLength": 255}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 0, "maximum": 7}, "integer, 0 to 7"),
        ({"type": "string", "minLength": 4, "maxLength": 4}, "string, 4 characters"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Topic"}}, 'list of <a href="#Topic">Topic</a>'),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "boolean or null"),
        ({"enum": ["none", "<gzip>"]}, "<code>none</code> or <code>&lt;gzip&gt;</code>"),
        (
            {"type": "object", "properties": {"id": {"type": "integer"}, "at": {}}, "required": ["id"]},
            "{<code>id</code>: integer, <code>at</code>?: any value}",
        ),
    ],
)
def test_a_type_is_a_short_text(schema: dict[str, Any], text: str) -> None:
    assert type_text(schema) == text


def test_a_sample_has_the_required_fields() -> None:
    components: dict[str, Any] = {
        "Topic": {
            "type": "object",
            "properties": {
                "name": NAME,
                "partitions": {"type": "integer", "minimum": 1},
                "expiry": {"type": "integer"},
            },
            "required": ["name", "partitions"],
        }
    }
    body = {"type": "array", "items": {"$ref": "#/components/schemas/Topic"}}
    assert sample(body, components) == [{"name": "...", "partitions": 1}]


def test_a_sample_of_a_type_that_contains_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/Node"}}, "required": ["next"]}
    found, depth = sample({"$ref": "#/components/schemas/Node"}, {"Node": node}), 0
    while found is not None:
        found, depth = found["next"], depth + 1
    assert 1 <= depth <= 10
