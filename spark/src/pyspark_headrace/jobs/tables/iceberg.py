"""A table of Iceberg."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError
from pyiceberg.table import FileScanTask, TableProperties
from pyiceberg.table import Table as Loaded
from pyiceberg.transforms import DayTransform, IdentityTransform
from pyiceberg.types import BinaryType, PrimitiveType

from pyspark_headrace.jobs.tables.errors import ArchiveError, StoreError
from pyspark_headrace.jobs.tables.failures import bare, said
from pyspark_headrace.jobs.tables.table import Batch, Bounds, Place, Reached, TableFile, check, place_of

_log: Final = logging.getLogger(__name__)
_ATTEMPTS: Final = 20
_WAIT_SECONDS: Final = 0.1
_EPOCH: Final = date(1970, 1, 1)
_QUERY: Final = "headrace.query."
_PARTITION: Final = "headrace.partition."


class IcebergTable:
    """Iceberg table. Files are added unchanged.

    The last micro-batch of a query and the end offsets of partitions are table properties: part of each commit, and
    kept when snapshots expire.
    """

    def __init__(
        self, catalog: Catalog, name: str, uri: str, rows: pa.Schema | None = None, *, create: bool = False
    ) -> None:
        """Open or create the table.

        Args:
            catalog: Catalog of the table.
            name: Name of the table, with its namespace.
            uri: Location of a new table and of files: a URI or an absolute path.
            rows: Schema of the files that are to be added. Without it a table that does not exist is an error, and
                otherwise it is empty.
            create: Create a missing table.

        Raises:
            StoreError: The table cannot be opened.
        """
        self.place = uri
        self._location = (uri if "://" in uri else f"file://{uri}").rstrip("/")
        self._catalog = catalog
        self._name = name
        try:
            self._exists = self._opened(rows if create else None)
        except Exception as error:  # noqa: BLE001 - every catalog has failures of its own
            raise self._failed(error) from None
        if rows is None and not self._exists:
            raise StoreError(f"{name}: the catalog has no such table")

    @property
    def is_raw(self) -> bool:
        """Return whether values are those of messages."""
        return not self._exists or isinstance(self._loaded().schema().find_type("value"), BinaryType)

    @property
    def version(self) -> int:
        """Id of the current snapshot; -1 if there is none."""
        snapshot = self._loaded().current_snapshot() if self._exists else None
        return -1 if snapshot is None else snapshot.snapshot_id

    def files(self) -> list[TableFile]:
        """Return the files of the current snapshot."""
        if not self._exists:
            return []
        try:
            table = self._loaded()
            tasks = list(table.scan().plan_files())
            found = [] if any(task.delete_files for task in tasks) else [self._listed(table, task) for task in tasks]
        except (KeyError, TypeError, AttributeError, StopIteration):
            found = []
        except Exception as error:  # noqa: BLE001 - every catalog has failures of its own
            raise self._failed(error) from None
        if len(found) != len(tasks):
            raise ArchiveError(f"{self._name}: this table has files that the job `archive` has not written")
        return sorted(found, key=lambda file: file.path)

    def _listed(self, table: Loaded, task: FileScanTask) -> TableFile:
        file, fields = task.file, table.schema()

        def bounds(name: str) -> Bounds:
            of_it = fields.find_field(name)
            assert isinstance(of_it.field_type, PrimitiveType)  # noqa: S101 - a number or a time
            least, most = (limits[of_it.field_id] for limits in (file.lower_bounds, file.upper_bounds))
            return Bounds(*(int(from_bytes(of_it.field_type, limit)) for limit in (least, most)))

        stream, topic, day = (file.partition[at] for at in range(3))
        # The table may have been created with another form of its location, such as s3a:// for s3://.
        places = (f"{self._location}/", f"{table.location().rstrip('/')}/")
        place = next(place for place in places if file.file_path.startswith(place))
        return TableFile(
            path=file.file_path.removeprefix(place),
            stream=stream,
            topic=topic,
            date=(_EPOCH + timedelta(days=day)).isoformat(),
            rows=file.record_count,
            bytes=file.file_size_in_bytes,
            partitions=bounds("partition"),
            offsets=bounds("offset"),
            times=bounds("timestamp"),
        )

    def _failed(self, error: Exception) -> StoreError:
        return StoreError(f"{self._name}: {type(error).__name__}: {said(error)}")

    def has(self, query: str, number: int) -> bool:
        """Return whether the table contains the micro-batch."""
        return self._exists and _has(self._loaded(), query, number)

    def reached(self, places: Iterable[Place]) -> Mapping[Place, Reached]:
        """Return the end offsets recorded in the table properties."""
        return _reached(self._loaded(), places) if self._exists else {}

    def commit(self, batch: Batch) -> bool:
        """Commit the files as a snapshot."""
        for attempt in range(_ATTEMPTS):
            # Load once: the commit is refused if the table has changed since.
            table = self._loaded()
            if _has(table, batch.query, batch.number):
                return False
            check(batch, _reached(table, batch.places))
            try:
                self._append(table, batch)
            except CommitFailedException as error:
                _log.info("%s: another writer committed first: %s", self._name, said(error))
                time.sleep(random.uniform(0, _WAIT_SECONDS * (attempt + 1)))  # noqa: S311 - to meet nobody again
            except Exception as error:  # noqa: BLE001 - every catalog has failures of its own
                if self.has(batch.query, batch.number):
                    return True
                raise self._failed(error) from None
            else:
                return True
        raise ArchiveError(f"{self._name}: other writers committed first, {_ATTEMPTS} times")

    def _append(self, table: Loaded, batch: Batch) -> None:
        snapshot_properties = {
            "headrace.job": batch.job,
            "headrace.query": batch.query,
            "headrace.batch": str(batch.number),
            "headrace.ends": json.dumps({key.title: end for key, (_, end) in sorted(batch.ranges.items())}),
        }
        marks = {_QUERY + batch.query: str(batch.number)}
        for key, (_, end) in batch.ranges.items():
            marks[_mark(place_of(key))] = json.dumps([key.incarnation, key.generation, end])
        # With retries, the library would repeat a commit on top of any concurrent change and could add the files of a
        # micro-batch that another process has added. The caller checks the new state before a retry instead. This
        # changes only the in-memory copy of the properties, not the table.
        table.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"
        with table.transaction() as transaction:
            transaction.set_properties(marks)
            transaction.add_files(
                [f"{self._location}/{file.path}" for file in batch.files],
                snapshot_properties=snapshot_properties,
                # File names are unique. The check would read the complete list of files.
                check_duplicate_files=False,
            )

    def _opened(self, rows: pa.Schema | None) -> bool:
        if rows is None:
            return self._catalog.table_exists(self._name)
        namespace = self._name.rpartition(".")[0]
        self._catalog.create_namespace_if_not_exists(namespace)
        if self._catalog.table_exists(self._name):
            return True
        try:
            with (
                self._catalog.create_table_transaction(self._name, schema=rows, location=self._location) as transaction,
                transaction.update_spec() as spec,
            ):
                spec.add_field("stream", IdentityTransform(), "stream")
                spec.add_field("topic", IdentityTransform(), "topic")
                spec.add_field("timestamp", DayTransform(), "date")
        except (TableAlreadyExistsError, CommitFailedException):
            # Another process has created the table concurrently.
            return self._catalog.table_exists(self._name)
        return True

    def _loaded(self) -> Loaded:
        return self._catalog.load_table(self._name)


def catalog_of(uri: str, properties: Iterable[tuple[str, str]]) -> Catalog:
    """Open a catalog.

    Args:
        uri: ``sqlite:///…``, ``postgresql://…``, ``http://…`` or ``thrift://…``.
        properties: Further properties, by their pyiceberg names; and `name`, which separates the tables of several
            catalogs in one database and selects the catalog's section in the configuration of pyiceberg.

    Raises:
        StoreError: The catalog cannot be opened.
    """
    given = {"uri": uri} | dict(properties)
    try:
        return load_catalog(given.pop("name", "default"), **given)
    except Exception as error:  # noqa: BLE001 - every catalog has failures of its own
        raise StoreError(f"catalog {bare(uri)}: {type(error).__name__}: {said(error)}") from None


def _has(table: Loaded, query: str, number: int) -> bool:
    return int(table.properties.get(_QUERY + query, "-1")) >= number


def _reached(table: Loaded, places: Iterable[Place]) -> dict[Place, Reached]:
    marks = ((place, table.properties.get(_mark(place))) for place in places)
    return {place: Reached(*json.loads(mark)) for place, mark in marks if mark is not None}


def _mark(place: Place) -> str:
    stream, topic, partition = place
    return f"{_PARTITION}{stream}/{topic}/{partition}"
