"""The codec `avro`: values of a schema, as Avro encodes them without a header."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, ClassVar, Self

import fastavro
from pydantic import model_validator

from headrace_connectors.codecs.avro_sizes import AvroSizes
from headrace_connectors.contract import Codec, InvalidRecord, Settings
from headrace_connectors.contract.codec import DECODED_BYTES_MAX


class AvroSettings(Settings):
    """`codec_settings` of the codec `avro`."""

    schema_file: Path
    """File with the schema in JSON (`.avsc`). A relative one is below the working directory of the process."""

    @model_validator(mode="after")
    def _has_a_schema(self) -> Self:
        self.load()
        return self

    def load(self) -> Any:
        """Return the parsed schema.

        Raises:
            ValueError: The file cannot be read, or is no schema.
        """
        name = f"schema_file = {str(self.schema_file)!r}"
        try:
            return fastavro.parse_schema(json.loads(self.schema_file.expanduser().read_text(encoding="utf-8")))
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from error
        except Exception as error:
            raise ValueError(f"{name} is no Avro schema: {type(error).__name__}: {error}") from error


class AvroCodec(Codec):
    """Avro, each message by itself and without its schema."""

    settings_type: ClassVar[type[Settings]] = AvroSettings
    uses_host: ClassVar[bool] = True
    is_bounded: ClassVar[bool] = True

    def __init__(self, settings: AvroSettings) -> None:
        """Load the schema."""
        self._schema = settings.load()
        self._sizes = AvroSizes(self._schema)

    def encode(self, payload: Any) -> bytes:
        """Return the value; bytes must be encoded already, unless the schema is `bytes`."""
        if isinstance(payload, bytes) and self._schema != "bytes":
            self.decode(payload)
            return payload
        buffer = io.BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self._schema, payload, strict_allow_default=True)
        except Exception as error:
            raise InvalidRecord(f"the payload is not of the Avro schema: {type(error).__name__}: {error}") from error
        return buffer.getvalue()

    def decode(self, encoded: bytes) -> Any:
        """Return the value; fixed bytes, decimals and times are Python's."""
        return self.decode_bounded(encoded, DECODED_BYTES_MAX)[0]

    def decode_bounded(self, encoded: bytes, bytes_max: int) -> tuple[Any, int]:
        """Return the value, and about how much memory it takes."""
        size = self._sizes.check(encoded, bytes_max)
        buffer = io.BytesIO(encoded)
        try:
            value = fastavro.schemaless_reader(buffer, self._schema, None)
        except Exception as error:
            raise InvalidRecord(f"the payload is not of the Avro schema: {type(error).__name__}: {error}") from error
        if (rest := len(encoded) - buffer.tell()) > 0:
            raise InvalidRecord(f"the payload is not of the Avro schema: {rest} bytes follow the value")
        return value, size
