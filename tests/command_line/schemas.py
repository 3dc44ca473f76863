"""Validation of documents that commands print by the schemas in docs/schemas."""

import json
from pathlib import Path
from typing import Any

import jsonschema_rs

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "schemas"


def validate(name: str, document: Any) -> None:
    """Fail unless a document is valid by the schema of this name."""
    jsonschema_rs.validate(json.loads((DIRECTORY / f"{name}.json").read_text()), document)
