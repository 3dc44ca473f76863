"""The sink `delta`: messages as rows of Delta tables, each once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from headrace_connectors.contract import ConnectorError, Place, Received, Settings, Sink
from headrace_connectors.sinks.delta.settings import PLACE, DeltaSettings
from headrace_connectors.sinks.delta.table import CommittedTable
from headrace_connectors.sinks.parquet.columns import OFFSET
from headrace_connectors.sinks.parquet.tables import Tables, Target

Value = TypeVar("Value")
Rows = dict[str | None, dict[Place, list[pa.Table]]]
"""Rows by table and partition; None: the sink has one table."""

OFFSETS: Final = "_offsets"
"""Table with the offsets of a sink that has several tables."""


class DeltaSink(Sink):
    """Writes the rows of a flush in one commit, with the offset of each partition as the version of a transaction.

    Another process that has committed the same partition meanwhile makes the commit fail, and rows below the offset of
    the table are left out: two processes write nothing twice.

    With several tables each has the offsets of its own rows, and a table of offsets, which is committed last, says
    where to continue. After a crash between the commits, tables leave the rows out that they have.
    """

    settings_type: ClassVar[type[Settings]] = DeltaSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: DeltaSettings) -> None:
        """Write nothing yet."""
        self._settings = settings
        self._divide = Tables(settings)
        self._schemas = {name: pa.schema([*PLACE, *shape.schema]) for name, shape in self._divide.shapes.items()}
        self._tables = {
            name: CommittedTable(self._path_of(name), schema, settings) for name, schema in self._schemas.items()
        }
        # In a sink with one table, that has the offsets, too.
        self._offsets = self._tables.get(None) or CommittedTable(self._path_of(OFFSETS), PLACE, settings)
        self._rows: Rows = {}
        # Held by the thread that uses the tables: that of a call that was cancelled goes on.
        self._turn = threading.Lock()

    def _path_of(self, table: str | None) -> str:
        path = self._settings.path
        return path if table is None else f"{path.rstrip('/')}/{table}"

    async def open(self) -> None:
        """Create the tables, or compare their columns.

        Raises:
            Unavailable: The object store is not reached, or the disk fails.
            ConnectorError: A table has other columns, or cannot be read.
        """
        await self._in_thread(self._prepare)

    def _prepare(self) -> None:
        path = self._settings.path
        if None in self._tables:
            if CommittedTable(self._path_of(OFFSETS), PLACE, self._settings).is_there():
                raise ConnectorError(f"{path} has the tables of a sink with table_field: set it, or another path")
        elif CommittedTable(path, PLACE, self._settings).is_there():
            raise ConnectorError(f"{path} is a table itself: with table_field, path is the directory of the tables")
        else:
            self._offsets.prepare()
        for table in self._tables.values():
            table.prepare(self._settings.partition_by)

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Return the offsets that are stored with the rows."""
        return await self._in_thread(partial(self._offsets.offsets, places))

    async def write(self, messages: Sequence[Received]) -> None:
        """Keep messages for the next commit.

        Raises:
            InvalidRecord: A message names no table, or a value does not fit its column.
        """
        for target, rows in self._divide.divided(messages).items():
            self._rows.setdefault(target.table, {}).setdefault(target.place, []).append(self._placed(target, rows))

    def _placed(self, target: Target, rows: pa.Table) -> pa.Table:
        own = [pa.array([value] * rows.num_rows, field.type) for value, field in zip(target.place, PLACE, strict=True)]
        return pa.table([*own, *rows.columns], schema=self._schemas[target.table])

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Commit rows and offsets.

        Raises:
            Unavailable: Another process has committed the same partition, or the object store or the disk fails.
            ConnectorError: A table has changed.
        """
        rows, self._rows = self._rows, {}
        await self._in_thread(partial(self._commit, rows, positions))

    async def forget(self) -> None:
        """Let go of the messages for the next commit."""
        self._rows = {}

    def _commit(self, held: Rows, positions: Mapping[Place, int]) -> None:
        if None in self._tables:
            self._offsets.commit(held.get(None, {}), positions)
            return
        stored = self._offsets.offsets(list(positions))
        due = {place: offset for place, offset in positions.items() if offset > stored.get(place, 0)}
        for name, rows in held.items():
            new = {
                place: [one.filter(pc.field(OFFSET) >= stored.get(place, 0)) for one in parts]
                for place, parts in rows.items()
                if place in due
            }
            self._tables[name].commit(new, {place: due[place] for place in new})
        self._offsets.commit({}, due)

    async def _in_thread(self, work: Callable[[], Value]) -> Value:
        return await asyncio.to_thread(self._in_turn, work)

    def _in_turn(self, work: Callable[[], Value]) -> Value:
        with self._turn:
            return work()
