"""Base of all unit types of the settings: parsed from text and written back as text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class Quantity(ABC):
    """A value with a unit: parsed from a setting's text, printed in one canonical form.

    ``parse(str(value)) == value`` for every value. A type documents the permitted forms in ``ALLOWED``, in words that
    follow "allowed:", and gives examples in ``EXAMPLES``.
    """

    __slots__ = ()

    ALLOWED: ClassVar[str]
    EXAMPLES: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self:
        """Parse the setting's text.

        Raises:
            ValueError: The text is invalid; the message describes the problem.
        """

    @classmethod
    def from_setting(cls, value: object) -> Self:
        """Convert a value given by a TOML file, an environment variable or a program.

        Raises:
            ValueError: The value is neither valid text nor a whole number that the text form allows.
        """
        if isinstance(value, cls):
            return value
        if isinstance(value, str):
            return cls.parse(value.strip())
        if isinstance(value, int) and not isinstance(value, bool):
            return cls.parse(str(value))
        raise ValueError(f"{value!r} is not text")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls.from_setting, serialization=core_schema.to_string_ser_schema()
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string", "description": cls.ALLOWED, "examples": list(cls.EXAMPLES)}
