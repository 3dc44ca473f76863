"""Base of every configuration model, and the enumeration of its settings."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from headrace_settings.constraints import Constraint
from headrace_settings.docstrings import docstring_of
from headrace_settings.sharing import SharedBy
from headrace_settings.units.quantity import Quantity
from headrace_settings.units.secret import Secret


class Section(BaseModel):
    """One table of settings: frozen, without unknown keys, documented by the docstrings below its fields.

    Pydantic can read these docstrings, too, but does so whenever a model is defined: a tenth of a server's import time.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, arbitrary_types_allowed=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        described = handler(schema)
        for name, field in handler.resolve_ref_schema(described).get("properties", {}).items():
            if docstring := docstring_of(cls, name):
                field["description"] = docstring
        return described


Path = tuple[str, ...]
"""Path of a setting: ``("tcp", "address")``."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of a model."""

    path: Path
    field: FieldInfo
    model: type[BaseModel]
    """Model that has the field."""

    @property
    def dotted(self) -> str:
        """Name in a file and in messages."""
        return ".".join(self.path)

    @property
    def is_secret(self) -> bool:
        """True if its value is never displayed, and ``<name>_file`` may be used instead."""
        return any(argument is Secret for argument in _alternatives(self.field.annotation))

    @property
    def description(self) -> str:
        """Docstring of the field as one paragraph."""
        return " ".join(docstring_of(self.model, self.path[-1]).split())

    @property
    def allowed(self) -> str:
        """Allowed values, in words that follow "allowed:"."""
        words = [_describe(self.field.annotation)]
        words += [item.allowed for item in self.field.metadata if isinstance(item, Constraint)]
        return ", ".join(word for word in words if word)

    @property
    def shared_by(self) -> SharedBy | None:
        """Owners that have it in common, if it is a limit."""
        return next((item for item in self.field.metadata if isinstance(item, SharedBy)), None)

    @property
    def is_maximum(self) -> bool:
        """True if its name says that it is a limit, so that it needs an answer to who shares it."""
        return "max" in self.path[-1].split("_")

    def variable(self, prefix: str) -> str:
        """Name of the environment variable that sets it."""
        return "_".join((prefix, *self.path)).upper()


def settings_of(model: type[BaseModel]) -> tuple[Setting, ...]:
    """Every setting of a model, in the order of its fields.

    Raises:
        TypeError: Two settings would share one environment variable.
    """
    found = tuple(_walk(model, ()))
    seen: dict[str, Setting] = {}
    for setting in found:
        names = [setting.variable("")]
        if setting.is_secret:
            names.append(names[0] + "_FILE")
        for name in names:
            if name in seen:
                raise TypeError(f"{setting.dotted} and {seen[name].dotted} share one environment variable")
            seen[name] = setting
    return found


def _walk(model: type[BaseModel], prefix: Path) -> Iterator[Setting]:
    for name, field in model.model_fields.items():
        path = (*prefix, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _walk(field.annotation, path)
        else:
            yield Setting(path, field, model)


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return get_args(annotation)
    return (annotation,)


def _describe(annotation: Any) -> str:
    parts = [_describe_one(part) for part in _alternatives(annotation) if part is not type(None)]
    return " or ".join(parts)


def _describe_one(annotation: Any) -> str:
    origin = get_origin(annotation)
    if origin is Annotated:
        # Within a union the constraints are here, and not in the metadata of the field.
        inner, *metadata = get_args(annotation)
        words = [_describe(inner), *(item.allowed for item in metadata if isinstance(item, Constraint))]
        return ", ".join(word for word in words if word)
    if origin is Literal:
        return "one of " + ", ".join(str(value) for value in get_args(annotation))
    if origin in (list, tuple):
        inner = next((part for part in get_args(annotation) if part is not Ellipsis), str)
        return f"a list, each {_describe(inner)}"
    if isinstance(annotation, type):
        if issubclass(annotation, Quantity):
            return annotation.ALLOWED
        return {bool: "true or false", int: "a whole number", float: "a number"}.get(annotation, "text")
    return "text"
