"""JSON schemas as short texts, and values that fit them."""

from __future__ import annotations

from html import escape
from typing import Any, Final

Schema = dict[str, Any]

_SAMPLES: Final[dict[str, Any]] = {"string": "...", "boolean": False, "number": 0.0, "object": {}, "null": None}
_DEPTH_MAX: Final = 6


def type_text(schema: Schema) -> str:
    """Return a type as HTML: `integer, 0 to 4294967295`, `list of <a>...</a>`, `{name: string, size?: integer}`."""
    if "$ref" in schema:
        name = escape(_name(schema["$ref"]))
        return f'<a href="#{name}">{name}</a>'
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(map(type_text, variants))
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    if "enum" in schema:
        return " or ".join(
            "null" if value is None else f"<code>{escape(str(value))}</code>" for value in schema["enum"]
        )
    kind = schema.get("type", "any value")
    if kind == "array":
        items = schema.get("items")
        return f"list of {type_text(items)}" if items else "list"
    if "properties" in schema:
        required = schema.get("required", ())
        fields = (
            f"<code>{escape(name)}</code>{'' if name in required else '?'}: {type_text(field)}"
            for name, field in schema["properties"].items()
        )
        return f"{{{', '.join(fields)}}}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {type_text(schema['additionalProperties'])}"
    limits = _limits(schema)
    return f"{escape(str(kind))}, {limits}" if limits else escape(str(kind))


def _limits(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    if low is not None:
        return f"at least {low}"
    if high is not None:
        return f"at most {high}"
    if "maxLength" in schema:
        shortest, longest = schema.get("minLength", 0), schema["maxLength"]
        return f"{longest} characters" if shortest == longest else f"{shortest} to {longest} characters"
    return ""


def sample(schema: Schema, components: dict[str, Schema], depth: int = 0) -> Any:
    """Return a value with the required fields of a schema.

    Args:
        schema: The schema.
        components: Schemas by name, for references.
        depth: Number of schemas around this one.
    """
    if depth > _DEPTH_MAX:
        return None
    if "$ref" in schema:
        return sample(components[_name(schema["$ref"])], components, depth + 1)
    if "default" in schema:
        return schema["default"]
    if variants := schema.get("anyOf") or schema.get("oneOf"):
        return sample(variants[0], components, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object" if "properties" in schema:
            required = schema.get("required", ())
            fields = {name: schema["properties"][name] for name in required}
            return {name: sample(field, components, depth + 1) for name, field in fields.items()}
        case "array":
            return [sample(schema["items"], components, depth + 1)] if schema.get("items") else []
        case "integer":
            return max(1, schema.get("minimum", 1))
        case kind:
            return _SAMPLES.get(str(kind))


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]
