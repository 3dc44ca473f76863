"""A table of Delta Lake."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.schema import Schema, StructType
from deltalake.transaction import AddAction

from pyspark_headrace.jobs.tables.errors import ArchiveError, StoreError
from pyspark_headrace.jobs.tables.failures import said
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.layout import is_earlier_layout
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import Batch, Bounds, Place, Reached, TableFile, check, place_of

_log: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 10
_WAIT_SECONDS: Final = 0.1
PARTITIONED_BY: Final = ("stream", "topic", "date")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeltaLakeTable:
    """Delta Lake table. Files are added together with statistics of their contents.

    The last micro-batch of a query and the end offsets of partitions are application versions (`txn` actions) in the
    Delta log: part of each commit, and kept by checkpoints of the log. The library refuses the second of two concurrent
    commits with the same application id.
    """

    def __init__(self, uri: str, rows: pa.Schema | None = None, *, create: bool = False) -> None:
        """Open or create the table.

        Args:
            uri: Location of the table.
            rows: Schema of the files that are to be added. Without it a table that does not exist is an error, and
                otherwise it is empty.
            create: Create a missing table.

        Raises:
            ArchiveError: An earlier release has written an archive there, or the table has other columns.
            StoreError: The table cannot be opened.
        """
        self.place = uri
        self._schema = schema_of(rows or ())
        try:
            self._table: DeltaTable | None = DeltaTable(uri)
        except TableNotFoundError:
            self._table = None
        except (DeltaError, OSError, ValueError) as error:
            raise StoreError(f"{uri}: {said(error)}") from None
        if self._table is not None:
            if rows is not None and _members(self._table.schema()) != _members(Schema.from_arrow(self._schema)):
                raise ArchiveError(f"{uri}: the table there has other columns. Archive to another place")
            return
        if is_earlier_layout(uri):
            raise ArchiveError(
                f"{uri}: an earlier release has written this archive. `headrace-spark migrate --dest {uri}` makes it "
                "a Delta Lake table, once"
            )
        if rows is None:
            raise StoreError(f"{uri}: there is no Delta Lake table")
        if create:
            # The library does not find out that a store lets two writers take the same entry of the log.
            Store.open(uri, create=True).check_exclusive()
            try:
                self._table = DeltaTable.create(uri, self._schema, mode="ignore", partition_by=list(PARTITIONED_BY))
            except (DeltaError, OSError, ValueError) as error:
                raise StoreError(f"{uri}: {said(error)}") from None

    @property
    def delta(self) -> DeltaTable:
        """Return the table of the library.

        Raises:
            ArchiveError: It does not exist yet.
        """
        if self._table is None:
            raise ArchiveError(f"{self.place}: there is no table")
        return self._table

    @property
    def is_raw(self) -> bool:
        """Return whether values are those of messages."""
        return self._table is None or _members(self._table.schema()) is None

    @property
    def version(self) -> int:
        """Number of the last entry of the log that was read."""
        return -1 if self._table is None else int(self._table.version())

    def files(self) -> list[TableFile]:
        """Return the files of the present state."""
        self._refresh()
        if self._table is None:
            return []
        found: list[dict[str, Any]] = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        try:
            return sorted(map(_listed, found), key=lambda file: file.path)
        except (KeyError, TypeError, ValueError):
            raise ArchiveError(f"{self.place}: this table has files that the job `archive` has not written") from None

    def has(self, query: str, number: int) -> bool:
        """Return whether the log contains the micro-batch."""
        self._refresh()
        return self._has(query, number)

    def reached(self, places: Iterable[Place]) -> Mapping[Place, Reached]:
        """Return the end offsets recorded in the log."""
        self._refresh()
        return self._reached(places)

    def commit(self, batch: Batch) -> bool:
        """Commit the files as one entry of the log."""
        for attempt in range(_ATTEMPTS):
            # Refresh once: the library detects conflicts between this state and concurrent commits.
            self._refresh()
            if self._has(batch.query, batch.number):
                return False
            check(batch, self._reached(batch.places))
            try:
                self._append(batch)
            except CommitFailedError as error:
                _log.info("%s: another writer committed first: %s", self.place, said(error))
                time.sleep(random.uniform(0, _WAIT_SECONDS * (attempt + 1)))  # noqa: S311 - to meet nobody again
            except (DeltaError, OSError) as error:
                if self.has(batch.query, batch.number):
                    return True
                raise StoreError(f"{self.place}: {said(error)}") from None
            else:
                return True
        raise ArchiveError(f"{self.place}: other writers committed first, {_ATTEMPTS} times")

    def _refresh(self) -> None:
        if self._table is not None:
            try:
                self._table.update_incremental()
            except (DeltaError, OSError) as error:
                raise StoreError(f"{self.place}: {said(error)}") from None

    def _has(self, query: str, number: int) -> bool:
        last = None if self._table is None else self._table.transaction_version(query)
        return last is not None and last >= number

    def _reached(self, places: Iterable[Place]) -> dict[Place, Reached]:
        found: dict[Place, Reached] = {}
        if self._table is None:
            return found
        for place in places:
            topic, incarnation, purges, end = (self._table.transaction_version(name) for name in _names(place))
            if end is not None:
                found[place] = Reached(str(topic), f"{incarnation}.{purges}", end)
        return found

    def _append(self, batch: Batch) -> None:
        marks = [Transaction(batch.query, batch.number)]
        for key, (_, end) in batch.ranges.items():
            marks += marks_of(key, end)
        properties = {
            "headrace.job": batch.job,
            "headrace.query": batch.query,
            "headrace.batch": str(batch.number),
            "headrace.ends": json.dumps({key.title: end for key, (_, end) in sorted(batch.ranges.items())}),
        }
        self.delta.create_write_transaction(
            [added(file) for file in batch.files],
            "append",
            self._schema,
            partition_by=list(PARTITIONED_BY),
            commit_properties=CommitProperties(custom_metadata=properties, app_transactions=marks),
        )


def schema_of(rows: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of a table with files of some columns."""
    kinds = (pa.string(), pa.string(), pa.date32())
    return pa.schema([*map(pa.field, PARTITIONED_BY, kinds), *rows])


def marks_of(key: PartitionKey, end: int) -> list[Transaction]:
    """Application versions that record the end offset and the generation of a partition."""
    numbers = (int(key.incarnation), *(int(part) for part in key.generation.split(".")), end)
    return [Transaction(name, number) for name, number in zip(_names(place_of(key)), numbers, strict=True)]


def _names(place: Place) -> list[str]:
    stream, topic, partition = place
    return [f"headrace/{stream}/{topic}/{partition}/{what}" for what in ("topic", "incarnation", "purges", "end")]


def added(file: ArchivedFile) -> AddAction:
    """Return the action that adds a file, with statistics of its contents."""
    times = [_EPOCH + timedelta(microseconds=micros) for micros in (file.first_timestamp, file.last_timestamp)]
    first, last = (when.strftime("%Y-%m-%dT%H:%M:%S.%fZ") for when in times)
    return AddAction(
        file.path,
        file.bytes,
        {"stream": file.stream, "topic": file.topic, "date": file.date},
        int(time.time() * 1000),
        data_change=True,
        stats=json.dumps(
            {
                "numRecords": file.rows,
                "minValues": {"offset": file.start, "timestamp": first, "partition": file.partition},
                "maxValues": {"offset": file.end - 1, "timestamp": last, "partition": file.partition},
                "nullCount": {"offset": 0, "timestamp": 0, "partition": 0},
            }
        ),
    )


def _members(schema: Schema) -> set[str] | None:
    """Return the columns of decoded values; None for raw values."""
    for field in schema.fields:
        if field.name == "value" and isinstance(field.type, StructType):
            return {member.name for member in field.type.fields}
    return None


def _listed(file: dict[str, Any]) -> TableFile:
    stream, topic, date = (str(file[f"partition.{name}"]) for name in PARTITIONED_BY)
    times = [(file[f"{bound}.timestamp"] - _EPOCH) // timedelta(microseconds=1) for bound in ("min", "max")]
    return TableFile(
        path=unquote(file["path"]),
        stream=stream,
        topic=topic,
        date=date,
        rows=int(file["num_records"]),
        bytes=file["size_bytes"],
        partitions=Bounds(int(file["min.partition"]), int(file["max.partition"])),
        offsets=Bounds(int(file["min.offset"]), int(file["max.offset"])),
        times=Bounds(*times),
    )
