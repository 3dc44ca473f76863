"""The sink `parquet`: messages in Parquet files, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeVar
from urllib.parse import quote

import pyarrow as pa

from headrace_chassis.directories import make_directory
from headrace_chassis.errors import DirectoryInUse
from headrace_connectors.contract import ConnectorError, Place, Received, Settings, Sink, Unavailable
from headrace_connectors.sinks.parquet.partition import PartitionFiles
from headrace_connectors.sinks.parquet.tables import Tables, TablesSettings, Target

Value = TypeVar("Value")
_PLAIN: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"


class ParquetSettings(TablesSettings):
    """`settings` of the sink `parquet`."""

    path: Path
    """Directory of the files: `stream=S/topic=T/partition=N/OFFSET.parquet`, with `manifest.json` beside them. With
    `table_field` they are in the same places below the directory of their table, and the manifests stay here.
    """
    compression: Literal["zstd", "snappy", "none"] = "zstd"
    """Compression of the files."""


class ParquetSink(Sink):
    """Writes a file for each partition, table and flush; the manifest of the partition has the offset to continue at.

    One manifest lists the files of all tables, so that they count together: a message is in one of them, and once.
    """

    settings_type: ClassVar[type[Settings]] = ParquetSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: ParquetSettings) -> None:
        """Write nothing yet."""
        self._root = settings.path.expanduser()
        self._compression = settings.compression
        self._tables = Tables(settings)
        self._rows: dict[Target, list[pa.Table]] = {}

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
            InvalidRecord: A message names no table, or a value does not fit its column.
        """
        for target, rows in self._tables.divided(messages).items():
            self._rows.setdefault(target, []).append(rows)

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Write files and manifests.

        Raises:
            Unavailable: The disk is full or fails.
            ConnectorError: A manifest cannot be read.
        """
        # A failed write is repeated as a whole; partitions that are complete have their offset by then.
        rows, self._rows = self._rows, {}
        for place, next_offset in positions.items():
            tables = {target.table: pa.concat_tables(parts) for target, parts in rows.items() if target.place == place}
            await self._in_thread(place, partial(self._files(place).store, tables, next_offset))

    async def forget(self) -> None:
        """Let go of the messages for the next file."""
        self._rows = {}

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
