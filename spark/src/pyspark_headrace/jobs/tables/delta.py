"""A table of Delta Lake."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from pyspark_headrace.jobs.tables.errors import ArchiveError, StoreError
from pyspark_headrace.jobs.tables.failures import said
from pyspark_headrace.jobs.tables.files import ArchivedFile, PartitionKey
from pyspark_headrace.jobs.tables.table import Batch, Place, Reached, check, place_of

_log: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 10
_WAIT_SECONDS: Final = 0.1
_PARTITIONED_BY: Final = ("stream", "topic", "date")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DeltaLakeTable:
    """Delta Lake table. Files are added together with statistics of their contents.

    The last micro-batch of a query and the end offsets of partitions are application versions (`txn` actions) in the
    Delta log: part of each commit, and kept by checkpoints of the log. The library refuses the second of two concurrent
    commits with the same application id.
    """

    columns: tuple[str, ...] = ()
    """Empty: columns that files lack are partition columns of the table."""

    def __init__(self, uri: str, rows: pa.Schema, *, create: bool) -> None:
        """Open or create the table.

        Args:
            uri: Location of the table.
            rows: Schema of the files.
            create: Create a missing table.

        Raises:
            StoreError: The table cannot be opened.
        """
        self.place = uri
        self._schema = pa.schema(
            [pa.field("stream", pa.string()), pa.field("topic", pa.string()), pa.field("date", pa.date32()), *rows]
        )
        try:
            if create:
                self._table: DeltaTable | None = DeltaTable.create(
                    uri, self._schema, mode="ignore", partition_by=list(_PARTITIONED_BY)
                )
            else:
                self._table = DeltaTable(uri)
        except TableNotFoundError:
            self._table = None
        except (DeltaError, OSError, ValueError) as error:
            raise StoreError(f"{uri}: {said(error)}") from None

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
        if self._table is None:
            raise ArchiveError(f"{self.place}: there is no table")
        marks = [Transaction(batch.query, batch.number)]
        for key, (_, end) in batch.ranges.items():
            marks += _marks(key, end)
        properties = {
            "headrace.job": batch.job,
            "headrace.query": batch.query,
            "headrace.batch": str(batch.number),
            "headrace.ends": json.dumps({key.title: end for key, (_, end) in sorted(batch.ranges.items())}),
        }
        self._table.create_write_transaction(
            [_added(file) for file in batch.files],
            "append",
            self._schema,
            partition_by=list(_PARTITIONED_BY),
            commit_properties=CommitProperties(custom_metadata=properties, app_transactions=marks),
        )


def _marks(key: PartitionKey, end: int) -> list[Transaction]:
    """Application versions that record the end offset and the generation of a partition."""
    numbers = (int(key.incarnation), *(int(part) for part in key.generation.split(".")), end)
    return [Transaction(name, number) for name, number in zip(_names(place_of(key)), numbers, strict=True)]


def _names(place: Place) -> list[str]:
    stream, topic, partition = place
    return [f"headrace/{stream}/{topic}/{partition}/{what}" for what in ("topic", "incarnation", "purges", "end")]


def _added(file: ArchivedFile) -> AddAction:
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
