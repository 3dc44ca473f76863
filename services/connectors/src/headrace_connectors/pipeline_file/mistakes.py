"""Texts for values that a model refuses: what is wrong with them, and what to write instead."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from headrace_settings import Setting


def message_of(details: ErrorDetails, setting: Setting | None, owner: type[BaseModel] | None) -> str:
    """Return what is wrong with a value.

    Args:
        details: The refusal of a model.
        setting: The setting; None: it is a table, or within one that has any names.
        owner: The model of the table that is expected there, if it is one.
    """
    return _entry_of(details) + _text_of(details, setting, owner)


def missing_of(details: ErrorDetails) -> str:
    """Return that a setting is missing."""
    return f"{_entry_of(details)}is not set and has no default: add {details['loc'][-1]} = ..."


def _entry_of(details: ErrorDetails) -> str:
    # The index of an entry is no part of the setting's name.
    entry = next((part for part in details["loc"] if isinstance(part, int)), None)
    return "" if entry is None else f"entry {entry + 1}: "


def _text_of(details: ErrorDetails, setting: Setting | None, owner: type[BaseModel] | None) -> str:
    reason = details.get("ctx", {}).get("error")
    if isinstance(reason, ValueError):
        return str(reason)
    if setting is not None and setting.is_secret:
        # A secret that was written to the wrong place stays a secret.
        return "is not text: put it in quotes" if details["type"].startswith("string") else _plain(details)
    value = written(details["input"])
    match details["type"]:
        case "string_type":
            return f"{value} is not text{'' if value.startswith(('{', '[')) else ': put it in quotes'}"
        case "tuple_type" | "list_type":
            return f"{value} is not a list: write [{_entry(details['input'], setting)}]"
        case "model_type" | "model_attributes_type":
            return f"{value} is not a table: write {{ {_fields(owner)} }}"
        case "dict_type" | "mapping_type":
            return f"{value} is not a table: write {{ NAME = VALUE }}"
        case "string_pattern_mismatch":
            return _unmatched(value, details)
        case "literal_error" if setting is None or setting.allowed == "text":
            return f"{value} is not one of {details.get('ctx', {}).get('expected')}"
    return _plain(details) if setting is None else f"{value} is not {setting.allowed}"


def written(value: Any) -> str:
    """Return a value as it is in the file, or nearly so."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, dict | list):
        return json.dumps(value, default=str, ensure_ascii=False)
    return repr(value)


def _plain(details: ErrorDetails) -> str:
    return details["msg"][:1].lower() + details["msg"][1:]


def _unmatched(value: str, details: ErrorDetails) -> str:
    pattern = str(details.get("ctx", {}).get("pattern"))
    if pattern.startswith("^https?://"):
        ending = " and has no path" if pattern.endswith("/?$") else ""
        return f"is not an address that begins with http:// or https://{ending}"
    return f"{value} does not match {pattern}"


def _entry(value: Any, setting: Setting | None) -> str:
    if isinstance(value, str) and setting is not None and setting.allowed == "a list, each text":
        return json.dumps(value, ensure_ascii=False)
    return "..., ..."


def _fields(owner: type[BaseModel] | None) -> str:
    fields = {} if owner is None else owner.model_fields
    required = [name for name, field in fields.items() if field.is_required()] or list(fields)[:2] or ["NAME"]
    return ", ".join(f'{name} = "..."' for name in required)
