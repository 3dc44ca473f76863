"""The codec `arrow`: rows as a stream of Arrow's IPC format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from headrace_connectors.contract import Codec, InvalidRecord, Settings


class ArrowCodec(Codec):
    """Arrow: a message is a stream with the rows of a list of objects. The transform `split` makes records of rows."""

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings

    def encode(self, payload: Any) -> bytes:
        """Return a list of objects, or one object, as a stream; bytes must be one already."""
        if isinstance(payload, bytes):
            self.decode(payload)
            return payload
        rows = payload if isinstance(payload, list | tuple) else [payload]
        wrong = next((row for row in rows if not isinstance(row, Mapping)), None)
        if wrong is not None:
            raise InvalidRecord(f"a row is a {type(wrong).__name__}, not an object")
        try:
            batch = pa.RecordBatch.from_pylist(list(rows))
            buffer = pa.BufferOutputStream()
            with pa.ipc.new_stream(buffer, batch.schema) as stream:
                stream.write_batch(batch)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidRecord(f"the rows have no form in Arrow: {' '.join(str(error).split())}") from error
        encoded: bytes = buffer.getvalue().to_pybytes()
        return encoded

    def decode(self, encoded: bytes) -> list[dict[str, Any]]:
        """Return the rows."""
        try:
            table = pa.ipc.open_stream(encoded).read_all()
            # Lengths and offsets that lead out of the buffers are found here, and not by reading them.
            table.validate(full=True)
            rows: list[dict[str, Any]] = table.to_pylist()
        except (pa.ArrowException, TypeError, ValueError, OverflowError, OSError) as error:
            raise InvalidRecord(f"the payload is no Arrow stream: {' '.join(str(error).split())}") from error
        return rows
