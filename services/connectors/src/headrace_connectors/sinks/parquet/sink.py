"""The sink `parquet`: messages in Parquet files, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar
from urllib.parse import quote

import pyarrow as pa
from pydantic import Field

from headrace_chassis.directories import make_directory
from headrace_chassis.errors import DirectoryInUse
from headrace_connectors.contract import ConnectorError, Place, Received, Settings, Sink, Unavailable
from headrace_connectors.routing.paths import FieldPath
from headrace_connectors.sinks.parquet.columns import ColumnType, TableShape
from headrace_connectors.sinks.parquet.partition import PartitionFiles

Value = TypeVar("Value")
_PLAIN: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


class ParquetSettings(Settings):
    """`settings` of the sink `parquet`."""

    path: Path
    """Directory of the files: `stream=S/topic=T/partition=N/OFFSET.parquet`, with `manifest.json` beside them."""
    columns: Mapping[FieldPath, ColumnType] = Field(default_factory=dict)
    """Type of a column by its path in the payload, such as `{ id = "int64", "customer.name" = "string" }`; empty: one
    column `payload` with JSON. The columns `_offset`, `_timestamp` and `_key` are always there.
    """
    compression: Literal["zstd", "snappy", "none"] = "zstd"
    """Compression of the files."""


class ParquetSink(Sink):
    """Writes a file for each partition and flush; its manifest has the offset to continue at."""

    settings_type: ClassVar[type[Settings]] = ParquetSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: ParquetSettings) -> None:
        """Write nothing yet."""
        self._root = settings.path.expanduser()
        self._compression = settings.compression
        self._shape = TableShape(settings.columns)
        self._tables: dict[Place, list[pa.Table]] = {}

    async def open(self) -> None:
        """Create the directory.

        Raises:
            ConnectorError: It cannot be created.
        """
        try:
            await asyncio.to_thread(make_directory, self._root)
        except OSError as error:
            raise ConnectorError(f"{self._root} cannot be created: {error.strerror}; correct settings.path") from error

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Return the offsets of the manifests."""
        found = {}
        for place in places:
            offset = await self._in_thread(place, self._files(place).position)
            if offset is not None:
                found[place] = offset
        return found

    async def write(self, messages: Sequence[Received]) -> None:
        """Keep messages for the next file.

        Raises:
            InvalidRecord: A value does not fit its column.
        """
        tables = [(place, self._shape.table(list(group))) for place, group in groupby(messages, lambda one: one.place)]
        for place, table in tables:
            self._tables.setdefault(place, []).append(table)

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Write files and manifests.

        Raises:
            Unavailable: The disk is full or fails.
            ConnectorError: A manifest cannot be read.
        """
        # A failed write is repeated as a whole; partitions that are complete have their offset by then.
        tables, self._tables = self._tables, {}
        for place, next_offset in positions.items():
            table = pa.concat_tables(tables[place]) if place in tables else None
            await self._in_thread(place, partial(self._files(place).store, table, next_offset))

    def _files(self, place: Place) -> PartitionFiles:
        stream, topic = quote(place.stream, safe=_PLAIN), quote(place.topic, safe=_PLAIN)
        directory = self._root / f"stream={stream}" / f"topic={topic}" / f"partition={place.partition}"
        return PartitionFiles(directory, self._compression)

    async def _in_thread(self, place: Place, work: Callable[[], Value]) -> Value:
        with _failures(f"{place.stream}/{place.topic}, partition {place.partition}"):
            return await asyncio.to_thread(work)


@contextmanager
def _failures(what: str) -> Iterator[None]:
    try:
        yield
    except (OSError, DirectoryInUse) as error:
        raise Unavailable(f"files of {what}: {error}") from error
