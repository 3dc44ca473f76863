"""The codec `protobuf`: messages of a schema, as objects with the names of its fields."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, EncodeError, Message
from pydantic import model_validator

from headrace_connectors.contract import Codec, InvalidRecord, Settings
from headrace_connectors.contract.codec import DECODED_BYTES_MAX, too_large
from headrace_connectors.json_errors import NO_FORM_IN_JSON
from headrace_connectors.json_values import Number

_LARGEST_FACTOR: Final = 160
"""Bytes in memory per encoded byte, at most."""
_OBJECT_BYTES: Final = 256
_VALUE_BYTES: Final = 64
_NATIVE: Final = (str, int, float, bool, type(None))


class ProtobufSettings(Settings):
    """`codec_settings` of the codec `protobuf`."""

    message: str
    """Full name of the message, such as `shop.v1.Order`."""
    descriptor_set: Path | None = None
    """File with the schema and all that it imports: `protoc --include_imports --descriptor_set_out=FILE`, or
    `buf build`. A relative one is below the working directory of the process.
    """
    module: str | None = None
    """Module that `protoc --python_out` has made, such as `shop.v1.order_pb2`, in place of `descriptor_set`."""

    @model_validator(mode="after")
    def _has_the_message(self) -> Self:
        self.load()
        return self

    def load(self) -> type[Message]:
        """Return the class of the message.

        Raises:
            ValueError: There is no such schema or message.
        """
        if (self.descriptor_set is None) == (self.module is None):
            raise ValueError("names its schema once: set descriptor_set, or module")
        pool = descriptor_pool.Default() if self.descriptor_set is None else _pool_of(self.descriptor_set)
        if self.module is not None:
            try:
                importlib.import_module(self.module)
            except Exception as error:
                raise ValueError(f"module {self.module} cannot be imported: {type(error).__name__}: {error}") from error
        try:
            descriptor = pool.FindMessageTypeByName(self.message)
        except KeyError:
            place = self.module or self.descriptor_set
            raise ValueError(f"{place} has no message {self.message!r}: write its full name with the package") from None
        loaded: type[Message] = message_factory.GetMessageClass(descriptor)
        return loaded


def _pool_of(file: Path) -> descriptor_pool.DescriptorPool:
    try:
        encoded = file.expanduser().read_bytes()
    except OSError as error:
        raise ValueError(f"descriptor_set = {str(file)!r} cannot be read: {error.strerror}") from error
    pool = descriptor_pool.DescriptorPool()
    try:
        for one in descriptor_pb2.FileDescriptorSet.FromString(encoded).file:
            pool.Add(one)
    except (DecodeError, TypeError, ValueError) as error:
        raise ValueError(
            f"descriptor_set = {str(file)!r} is no set of descriptors with all imports: {error}; make it with protoc "
            "--include_imports --descriptor_set_out"
        ) from error
    return pool


class ProtobufCodec(Codec):
    """Protocol Buffers. Payloads have the form of their mapping to JSON: int64 is text, bytes are in base64."""

    settings_type: ClassVar[type[Settings]] = ProtobufSettings
    uses_host: ClassVar[bool] = True
    is_bounded: ClassVar[bool] = True

    def __init__(self, settings: ProtobufSettings) -> None:
        """Load the schema."""
        self._name = settings.message
        self._kind = settings.load()

    def encode(self, payload: Any) -> bytes:
        """Return the message; bytes must be one already."""
        if isinstance(payload, bytes):
            self._parsed(payload)
            return payload
        try:
            plain = msgspec.to_builtins(payload, builtin_types=_NATIVE, enc_hook=_double)
            return json_format.ParseDict(plain, self._kind()).SerializeToString(deterministic=True)
        except (*NO_FORM_IN_JSON, json_format.Error, EncodeError, AttributeError) as error:
            raise InvalidRecord(f"the payload is no {self._name}: {error}") from error

    def decode(self, encoded: bytes) -> Any:
        """Return the message as an object; fields that are not set are not in it."""
        return self.decode_bounded(encoded, DECODED_BYTES_MAX)[0]

    def decode_bounded(self, encoded: bytes, bytes_max: int) -> tuple[Any, int]:
        """Return the message as an object, and about how much memory it takes."""
        if len(encoded) > bytes_max:
            raise too_large(len(encoded), bytes_max)
        message = self._parsed(encoded)
        size = _LARGEST_FACTOR * len(encoded)
        if size > bytes_max:
            size = _size(message, bytes_max, 0)
        try:
            return json_format.MessageToDict(message, preserving_proto_field_name=True), size
        except (json_format.Error, DecodeError, TypeError, ValueError) as error:
            raise InvalidRecord(f"the payload is no {self._name}: {error}") from error

    def _parsed(self, encoded: bytes) -> Message:
        try:
            return self._kind.FromString(encoded)
        except (DecodeError, TypeError, ValueError) as error:
            raise InvalidRecord(f"the payload is no {self._name}: {error}") from error


def _size(message: Message, bytes_max: int, size: int) -> int:
    """Return the size so far with that of a message.

    Raises:
        InvalidRecord: It is more than `bytes_max`.
    """
    size += _OBJECT_BYTES
    for field, value in message.ListFields():
        values = [value]
        if isinstance(value, Mapping):
            size += _VALUE_BYTES * len(value)
            values = list(value.values())
        elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
            values = list(value)
        if isinstance(next(iter(values), None), Message):
            for one in values:
                size = _size(one, bytes_max, size)
        elif field.type in (field.TYPE_STRING, field.TYPE_BYTES):
            size += sum(_VALUE_BYTES + 2 * len(one) for one in values)
        else:
            size += _VALUE_BYTES * len(values)
        if size > bytes_max:
            raise too_large(size, bytes_max)
    return size


def _double(value: Any) -> float:
    if isinstance(value, Number):
        return float(value)
    raise TypeError(f"it has a value of type {type(value).__name__}")
