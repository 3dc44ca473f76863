"""The codec `arrow`: rows as a stream of Arrow's IPC format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

import pyarrow as pa

from headrace_connectors.codecs.arrow_sizes import announced_sizes, expanded_size
from headrace_connectors.contract import Codec, InvalidRecord, Settings
from headrace_connectors.contract.codec import DECODED_BYTES_MAX, too_large

_NOT_ARROW: Final = (pa.ArrowException, TypeError, ValueError, OverflowError, OSError)
_SLICE_ROWS: Final = 1000


class ArrowCodec(Codec):
    """Arrow: a message is a stream with the rows of a list of objects. The transform `split` makes records of rows."""

    is_bounded: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings

    def encode(self, payload: Any) -> bytes:
        """Return a list of objects, or one object, as a stream; bytes must be one already."""
        if isinstance(payload, bytes):
            for _ in _batches(payload, [DECODED_BYTES_MAX]):
                pass
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
        rows: list[dict[str, Any]] = self.decode_bounded(encoded, DECODED_BYTES_MAX)[0]
        return rows

    def decode_bounded(self, encoded: bytes, bytes_max: int) -> tuple[Any, int]:
        """Return the rows, and about how much memory they take."""
        left = [bytes_max]
        rows: list[dict[str, Any]] = []
        for batch in _batches(encoded, left):
            try:
                # The library holds all threads while it makes objects of rows.
                for start in range(0, batch.num_rows, _SLICE_ROWS):
                    rows += batch.slice(start, _SLICE_ROWS).to_pylist()
            except _NOT_ARROW as error:
                raise _invalid(error) from error
        return rows, bytes_max - left[0]


def _batches(encoded: bytes, left: list[int]) -> Iterator[pa.RecordBatch]:
    """Return the batches of a stream, one after the other.

    Args:
        encoded: The stream.
        left: Memory that its rows may take, which is counted down.

    Raises:
        InvalidRecord: The bytes are no stream, or take more.
    """
    try:
        bytes_max = left[0]
        announced = 0
        for size in announced_sizes(encoded):
            announced += size
            if announced > bytes_max:
                raise too_large(announced, bytes_max)
        stream = pa.ipc.open_stream(encoded)
        repeated = 0
        for batch in stream:
            # Lengths and offsets that lead out of the buffers are found here, and not by reading them.
            batch.validate(full=True)
            repeated += sum(expanded_size(column) for column in batch.columns)
            left[0] = bytes_max - max(announced, repeated)
            if left[0] < 0:
                raise too_large(repeated, bytes_max)
            yield batch
    except _NOT_ARROW as error:
        raise _invalid(error) from error


def _invalid(error: Exception) -> InvalidRecord:
    return InvalidRecord(f"the payload is no Arrow stream: {' '.join(str(error).split())}")
