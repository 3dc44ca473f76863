"""The sink `delta`: messages as rows of a Delta table, each once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import groupby
from typing import ClassVar, Final, Self, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pydantic import Field, model_validator

from headrace_connectors.contract import ConnectorError, Place, Received, Settings, Sink, Unavailable
from headrace_connectors.routing.paths import FieldPath
from headrace_connectors.sinks.parquet.columns import OFFSET, ColumnType, TableShape
from headrace_settings import Secret

Value = TypeVar("Value")
_PLACE: Final = pa.schema(
    [
        pa.field("_stream", pa.string(), nullable=False),
        pa.field("_topic", pa.string(), nullable=False),
        pa.field("_partition", pa.int64(), nullable=False),
    ]
)


class DeltaSettings(Settings):
    """`settings` of the sink `delta`."""

    path: str
    """Directory of the table, or its address in an object store, as `s3://lake/orders`. It is created if missing."""
    columns: Mapping[FieldPath, ColumnType] = Field(default_factory=dict)
    """Type of a column by its path in the payload, such as `{ id = "int64", "customer.name" = "string" }`; empty: one
    column `payload` with JSON. The columns `_stream`, `_topic`, `_partition`, `_offset`, `_timestamp` and `_key` are
    always there.
    """
    add_columns: bool = False
    """Add columns to a table that does not have them; otherwise such a table is refused."""
    partition_by: tuple[str, ...] = ()
    """Columns that a new table is partitioned by."""
    offsets_name: str = "headrace"
    """Name under which offsets are stored in the table. Two sinks that write the same topic to the same table need two
    names.
    """
    storage_options: Mapping[str, Secret] = Field(default_factory=dict)
    """Options of the object store, such as `{ AWS_REGION = "eu-central-1" }`; its variables of the environment count,
    too.
    """

    @model_validator(mode="after")
    def _partitions_by_columns(self) -> Self:
        known = [*_PLACE.names, *TableShape(self.columns).schema.names]
        unknown = [name for name in self.partition_by if name not in known]
        if unknown:
            raise ValueError(
                f"partition_by names {', '.join(unknown)}, which is no column; there are {', '.join(known)}"
            )
        return self


class DeltaSink(Sink):
    """Writes the rows of a flush in one commit, with the offset of each partition as the version of a transaction.

    Another process that has committed the same partition meanwhile makes the commit fail, and rows below the offset of
    the table are left out: two processes write nothing twice.
    """

    settings_type: ClassVar[type[Settings]] = DeltaSettings
    uses_host: ClassVar[bool] = True

    def __init__(self, settings: DeltaSettings) -> None:
        """Write nothing yet."""
        self._settings = settings
        self._options = {name: value.reveal() for name, value in settings.storage_options.items()}
        self._shape = TableShape(settings.columns)
        self._schema = pa.schema([*_PLACE, *self._shape.schema])
        self._rows: dict[Place, list[pa.Table]] = {}
        self._table: DeltaTable | None = None
        # Held by the thread that uses the table: that of a call that was cancelled goes on.
        self._turn = threading.Lock()

    async def open(self) -> None:
        """Create the table, or compare its columns.

        Raises:
            Unavailable: The object store is not reached, or the disk fails.
            ConnectorError: The table has other columns, or cannot be read.
        """
        await self._in_thread(self._prepare)

    def _prepare(self) -> None:
        settings = self._settings
        try:
            found = self._loaded()
        except TableNotFoundError:
            DeltaTable.create(
                settings.path,
                schema=self._schema,
                mode="ignore",
                partition_by=list(settings.partition_by) or None,
                storage_options=self._options or None,
            )
            found = self._loaded()
        names = [field.name for field in found.schema().fields]
        missing = [name for name in self._schema.names if name not in names]
        if missing and not settings.add_columns:
            raise ConnectorError(
                f"the table {settings.path} has no column {', '.join(missing)}: set add_columns, or correct columns"
            )

    def _loaded(self) -> DeltaTable:
        """Return the table as it is now. One that was loaded before reads the newest commits alone."""
        if self._table is None:
            self._table = DeltaTable(self._settings.path, storage_options=self._options or None)
        else:
            self._table.update_incremental()
        return self._table

    async def positions(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """Return the offsets of the table."""

        def read() -> dict[Place, int]:
            table = self._loaded()
            found = {place: table.transaction_version(self._application(place)) for place in places}
            return {place: version for place, version in found.items() if version is not None}

        return await self._in_thread(read)

    def _application(self, place: Place) -> str:
        return f"{self._settings.offsets_name}/{place.stream}/{place.topic}/{place.partition}"

    async def write(self, messages: Sequence[Received]) -> None:
        """Keep messages for the next commit.

        Raises:
            InvalidRecord: A value does not fit its column.
        """
        tables = [(place, self._arrow(place, list(group))) for place, group in groupby(messages, lambda one: one.place)]
        for place, table in tables:
            self._rows.setdefault(place, []).append(table)

    def _arrow(self, place: Place, messages: Sequence[Received]) -> pa.Table:
        own = [pa.array([value] * len(messages), field.type) for value, field in zip(place, _PLACE, strict=True)]
        return pa.table([*own, *self._shape.table(messages).columns], schema=self._schema)

    async def flush(self, positions: Mapping[Place, int]) -> None:
        """Commit rows and offsets.

        Raises:
            Unavailable: Another process has committed the same partition, or the object store or the disk fails.
            ConnectorError: The table has changed.
        """
        rows, self._rows = self._rows, {}
        await self._in_thread(partial(self._commit, rows, positions))

    def _commit(self, held: Mapping[Place, Sequence[pa.Table]], positions: Mapping[Place, int]) -> None:
        table = self._loaded()
        rows: list[pa.Table] = [self._schema.empty_table()]
        transactions = []
        for place, next_offset in positions.items():
            application = self._application(place)
            stored = table.transaction_version(application) or 0
            if next_offset <= stored:
                continue
            transactions.append(Transaction(application, next_offset))
            rows += [one.filter(pc.field(OFFSET) >= stored) for one in held.get(place, ())]
        if transactions:
            write_deltalake(
                table,
                pa.concat_tables(rows),
                mode="append",
                schema_mode="merge" if self._settings.add_columns else None,
                commit_properties=CommitProperties(app_transactions=transactions),
            )

    async def _in_thread(self, work: Callable[[], Value]) -> Value:
        with _failures(self._settings.path):
            return await asyncio.to_thread(self._in_turn, work)

    def _in_turn(self, work: Callable[[], Value]) -> Value:
        with self._turn:
            return work()


@contextmanager
def _failures(path: str) -> Iterator[None]:
    try:
        yield
    except (CommitFailedError, OSError) as error:
        raise Unavailable(f"Delta table {path}: {_text(error)}") from error
    except DeltaError as error:
        raise ConnectorError(f"Delta table {path}: {_text(error)}") from error


def _text(error: Exception) -> str:
    return " ".join(str(error).split())
