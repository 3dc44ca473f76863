"""Payloads that do not have the form that a scan decodes: refused, left out or empty, and counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

import pyarrow as pa

from headrace.sdk.errors import InvalidArgument
from headrace.tables.decoding import Decode

OnError = Literal["raise", "null", "skip"]
"""Treatment of a payload that does not fit."""


@dataclass(slots=True)
class Misfits:
    """Payloads that did not fit, in everything that was read from one scan."""

    count: int = 0
    """Number of these payloads. One that is read twice counts twice."""
    first: str | None = None
    """The first of them: its place, and why it does not fit."""
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def note(self, text: str) -> None:
        """Count one."""
        with self._lock:
            self.count += 1
            self.first = self.first or text


@dataclass(frozen=True, slots=True)
class Fitting:
    """Decoding of the payloads of a batch, with the treatment of those that do not fit."""

    decode: Decode
    schema: pa.Schema
    """Columns of the payloads."""
    on_error: OnError
    misfits: Misfits

    def rows(self, messages: pa.RecordBatch, payloads: pa.Array, place: str, first_offset: int) -> pa.RecordBatch:
        """Return columns of messages next to those of their payloads.

        Args:
            messages: Columns of the messages.
            payloads: Their payloads.
            place: Partition and topic, for texts.
            first_offset: Offset of the first message; those of the others follow without gaps.

        Raises:
            InvalidArgument: A payload does not fit, and that is not to be passed over.
        """
        kept, decoded = [], []
        for start, count, found in self._pieces(payloads, 0):
            if isinstance(found, InvalidArgument):
                text = f"{found} [offset {first_offset + start} of {place}]"
                if self.on_error == "raise":
                    raise InvalidArgument(text) from None
                self.misfits.note(text)
                if self.on_error == "skip":
                    continue
            kept.append(messages.slice(start, count))
            decoded.append(self._empty(count) if isinstance(found, InvalidArgument) else found)
        arrays = [*_joined(kept, messages.schema).columns, *_joined(decoded, self.schema).columns]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*messages.schema, *self.schema]))

    def _empty(self, count: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pa.nulls(count, one.type) for one in self.schema], schema=self.schema)

    def _pieces(self, payloads: pa.Array, start: int) -> Iterator[tuple[int, int, pa.RecordBatch | InvalidArgument]]:
        """Yield the largest halves, of halves, that fit as a whole, and each payload that does not."""
        count = len(payloads)
        try:
            yield start, count, self.decode(payloads)
        except InvalidArgument as error:
            if count == 1:
                yield start, count, error
                return
            half = count // 2
            yield from self._pieces(payloads.slice(0, half), start)
            yield from self._pieces(payloads.slice(half), start + half)


def _joined(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return joined[0] if joined else pa.RecordBatch.from_pylist([], schema=schema)
