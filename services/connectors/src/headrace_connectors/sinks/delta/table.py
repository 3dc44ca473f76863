"""One Delta table, with offsets as the versions of its transactions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from headrace_connectors.contract import ConnectorError, Place, Unavailable
from headrace_connectors.sinks.delta.settings import DeltaSettings
from headrace_connectors.sinks.parquet.columns import OFFSET

_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")


class CommittedTable:
    """A table whose commits have rows and offsets. Methods block, and are called by one thread at a time.

    Args:
        path: Its directory or address.
        schema: Its columns.
        settings: Settings of the sink.
    """

    def __init__(self, path: str, schema: pa.Schema, settings: DeltaSettings) -> None:
        self.path = path
        self._schema = schema
        self._settings = settings
        self._options = {name: value.reveal() for name, value in settings.storage_options.items()}
        self._table: DeltaTable | None = None

    def is_there(self) -> bool:
        """Return whether there is a table."""
        with failures(self.path):
            return DeltaTable.is_deltatable(self.path, storage_options=self._options or None)

    def prepare(self, partition_by: Sequence[str] = ()) -> None:
        """Create the table, or compare its columns.

        Args:
            partition_by: Columns that a new table is partitioned by.

        Raises:
            Unavailable: The object store is not reached, or the disk fails.
            ConnectorError: The table has other columns, or cannot be read.
        """
        with failures(self.path):
            try:
                found = self._loaded()
            except TableNotFoundError:
                DeltaTable.create(
                    self.path,
                    schema=self._schema,
                    mode="ignore",
                    partition_by=list(partition_by) or None,
                    storage_options=self._options or None,
                )
                found = self._loaded()
            names = [field.name for field in found.schema().fields]
        missing = [name for name in self._schema.names if name not in names]
        if missing and not self._settings.add_columns:
            raise ConnectorError(
                f"the table {self.path} has no column {', '.join(missing)}: set add_columns, or correct columns"
            )

    def _loaded(self) -> DeltaTable:
        """Return the table as it is now. One that was loaded before reads the newest commits alone."""
        if self._table is None:
            self._table = DeltaTable(self.path, storage_options=self._options or None)
        else:
            self._table.update_incremental()
        return self._table

    def offsets(self, places: Sequence[Place]) -> dict[Place, int]:
        """Return the offsets that are stored. Raises as `prepare`."""
        with failures(self.path):
            table = self._loaded()
            found = {place: table.transaction_version(self._application(place)) for place in places}
        return {place: version for place, version in found.items() if version is not None}

    def _application(self, place: Place) -> str:
        return f"{self._settings.offsets_name}/{place.stream}/{place.topic}/{place.partition}"

    def commit(self, rows: Mapping[Place, Sequence[pa.Table]], positions: Mapping[Place, int]) -> None:
        """Commit rows and offsets; those of partitions that have such an offset already are left out.

        Args:
            rows: Rows by partition.
            positions: Offset to continue at by partition.

        Raises:
            Unavailable: Another process has committed the same partition, or the object store or the disk fails.
            ConnectorError: The table has changed.
        """
        with failures(self.path):
            table = self._loaded()
            parts: list[pa.Table] = [self._schema.empty_table()]
            transactions = []
            for place, next_offset in positions.items():
                application = self._application(place)
                stored = table.transaction_version(application) or 0
                if next_offset <= stored:
                    continue
                transactions.append(Transaction(application, next_offset))
                parts += [one.filter(pc.field(OFFSET) >= stored) for one in rows.get(place, ())]
            if transactions:
                write_deltalake(
                    table,
                    pa.concat_tables(parts),
                    mode="append",
                    schema_mode="merge" if self._settings.add_columns else None,
                    commit_properties=CommitProperties(app_transactions=transactions),
                )


@contextmanager
def failures(path: str) -> Iterator[None]:
    """Translate failures of a table within a ``with`` block."""
    try:
        yield
    except (CommitFailedError, OSError) as error:
        raise Unavailable(f"Delta table {path}: {_text(error)}") from error
    except DeltaError as error:
        raise ConnectorError(f"Delta table {path}: {_text(error)}") from error


def _text(error: Exception) -> str:
    """Return the reason in one line, without the colours that deltalake writes for terminals."""
    return " ".join(_COLOUR.sub("", str(error)).split())
