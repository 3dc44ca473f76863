"""Common types."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

U32_MAX: Final = 2**32 - 1
U64_MAX: Final = 2**64 - 1

U32 = Annotated[int, Meta(ge=0, le=U32_MAX)]
# The constraint cannot hold a bound of 64 bits; `Checked` checks it.
U64 = Annotated[int, Meta(ge=0, extra_json_schema={"maximum": U64_MAX})]


def with_whole_numbers(data: Any) -> Any:
    """Return the data with numbers such as 1.0 as integers, as JSON does not distinguish them.

    Numbers out of the range of all fields are kept.
    """
    match data:
        case float() if abs(data) <= U64_MAX and data.is_integer():
            return int(data)
        case list():
            return [with_whole_numbers(item) for item in data]
        case dict():
            return {key: with_whole_numbers(value) for key, value in data.items()}
        case _:
            return data


def length(least: int, most: int) -> Meta:
    """Length limits of a text: only described here; handlers enforce them because they know the error code."""
    return Meta(description=f"{least} to {most} bytes.", extra_json_schema={"minLength": least, "maxLength": most})


def between(least: int, most: int) -> Meta:
    """Limits of a number: only described here; handlers enforce them because they know the error code."""
    return Meta(extra_json_schema={"minimum": least, "maximum": most})


ByteSize = Annotated[
    str | int,
    Meta(description="Bytes: a text such as `3136.5 KiB`, exact; a number if the request has `sizes=bytes`."),
]
Micros = Annotated[int, Meta(ge=0, description="Microseconds since the Unix epoch.")]


class Checked(msgspec.Struct, kw_only=True):
    """A model of external input."""

    def __post_init__(self) -> None:
        """Refuse numbers that are negative or have more than 64 bits."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int) and not 0 <= value <= U64_MAX:
                raise ValueError(f"{name} is 0 to 2^64-1")


class Body(Checked, forbid_unknown_fields=True):
    """Body of a request. A member whose name is not known is refused by name: ignored, it would be lost silently."""


Ignored = Annotated[Any, Meta(description="Sent by existing clients; it has no effect.")]
