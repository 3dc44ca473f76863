"""Tables of any Arrow library: batches that are read as one, and rows that are sent. Needs no such library itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from headrace.sdk.calls import Name
from headrace.sdk.errors import InvalidArgument
from headrace_core import Batch, TableReader, TableRows, batch_stream

if TYPE_CHECKING:
    from headrace.sdk.pushing import HeaderValue


class ArrowStream(Protocol):
    """A table with Arrow's C stream interface: of pyarrow, Polars, DuckDB, and others."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule with the stream."""


class ArrowArray(Protocol):
    """A record batch with Arrow's C data interface."""

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        """Return capsules with the schema and the array."""


ArrowTable: TypeAlias = ArrowStream | ArrowArray
Codec = Literal["json", "arrow"]


class Batches(Iterator[Batch]):
    """The batches of a consumer, one after the other. For libraries with tables they are a stream of record batches."""

    def __init__(self, poll: Callable[[], Batch | None], stream: Name, topic: Name) -> None:
        """Iterate over what `poll` returns; `Consumer.batches` is the usual way."""
        self._poll = poll
        self._stream, self._topic = stream, topic

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> Batch:
        batch = self._poll()
        if batch is None:
            raise StopIteration
        return batch

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the batches through the Arrow C stream interface: each is read when the library asks for it."""
        return batch_stream(self, stream=str(self._stream), topic=str(self._topic), requested_schema=requested_schema)


class OutgoingTable:
    """A table whose rows are sent: read, checked and encoded by the native module, some at a time."""

    def __init__(
        self,
        table: ArrowTable,
        *,
        codec: Codec | None,
        columns: dict[str, str | None],
        added: dict[str, HeaderValue] | None,
        stores_key: bool,
    ) -> None:
        """Find the columns, and check their types.

        Raises:
            InvalidArgument: It is no table, or a column is missing or has a type that is not taken.
        """
        for name, value in {"codec": codec, **columns}.items():
            if value is not None and not isinstance(value, str):
                raise InvalidArgument(f"{name}: {value!r} is no text")
        try:
            self._reader = TableReader(table, codec=codec, added=added, stores_key=stores_key, **columns)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(str(error)) from None

    def rows(self) -> TableRows | None:
        """Return the next rows; None after the last ones.

        Raises:
            InvalidArgument: A row cannot be a message, or the table cannot be read.
        """
        try:
            return self._reader.next()
        except ValueError as error:
            raise InvalidArgument(str(error)) from None
