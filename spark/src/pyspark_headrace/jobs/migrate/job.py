"""Arguments and run of the job `migrate`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import create_table_with_add_actions

from pyspark_headrace.jobs.running.arguments import argument
from pyspark_headrace.jobs.running.config import JobConfig
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.tables.columns import RAW_SCHEMA
from pyspark_headrace.jobs.tables.delta import PARTITIONED_BY, added, marks_of, schema_of
from pyspark_headrace.jobs.tables.errors import ArchiveError, DamagedFileError, StoreError
from pyspark_headrace.jobs.tables.failures import said
from pyspark_headrace.jobs.tables.files import RAW, ArchivedFile
from pyspark_headrace.jobs.tables.layout import earlier_archive
from pyspark_headrace.jobs.tables.stores import Store
from pyspark_headrace.jobs.tables.table import place_of
from pyspark_headrace.jobs.uris import PLACES, place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, kw_only=True)
class MigrateConfig(JobConfig):
    """Arguments of `migrate`."""

    needs_servers: ClassVar[bool] = False

    dest: str = argument(parse=place, required=True, metavar="URI", help=f"location of the archive: {PLACES}")


def run(_: SparkSession, config: MigrateConfig, context: Context) -> Report:
    """Write the log of a Delta Lake table over the files of an archive, which stay as they are.

    The first entry of the log has all files, and what the job `archive` continues from, so a table is there completely
    or not at all.

    Raises:
        ArchiveError: There is no such archive, or its contents are no table.
        StoreError: The archive cannot be read, or the table cannot be written.
    """
    store = Store.open(config.dest)
    archive = earlier_archive(store)
    if not archive.batches and not archive.files:
        raise ArchiveError(f"{config.dest}: there is no archive of an earlier release")
    files = list(archive.files.values())
    report = Report(counts={"files": len(files), "rows": sum(file.rows for file in files), "migrated": 0})
    if DeltaTable.is_deltatable(config.dest):
        context.log.info("this archive is a Delta Lake table already")
        return report
    marks = [Transaction(query, batch) for query, batch in archive.batches.items()]
    ends: dict[tuple[str, str, int], ArchivedFile] = {}
    for file in sorted(files, key=lambda one: one.end):
        before = ends.setdefault(place_of(file.key), file)
        if before.key != file.key:
            raise ArchiveError(f"{file.key.title}: it was created again or purged, so offsets of it mean two messages")
        ends[place_of(file.key)] = file
    for file in ends.values():
        marks += marks_of(file.key, file.end)
    store.check_written({file.path: file.bytes for file in files})
    schema = Schema.from_arrow(schema_of(_schema(store, files)))
    if config.dry_run:
        return report
    store.check_exclusive()
    try:
        create_table_with_add_actions(
            config.dest,
            schema,
            [added(file) for file in files],
            partition_by=list(PARTITIONED_BY),
            commit_properties=CommitProperties(
                custom_metadata={"headrace.job": config.name or JOB.name}, app_transactions=marks
            ),
        )
    except (DeltaError, OSError) as error:
        raise StoreError(f"{config.dest}: {said(error)}") from None
    report.counts["migrated"] = len(files)
    return report


def _schema(store: Store, files: Iterable[ArchivedFile]) -> pa.Schema:
    """Return the columns of the files, which a table has to have in common."""
    schemas: dict[pa.Schema, str] = {}
    for file in files:
        if file.mode == RAW:
            schemas[RAW_SCHEMA] = file.path
            continue
        try:
            schemas[pq.ParquetFile(store.input(file.path)).schema_arrow.remove_metadata()] = file.path
        except (pa.ArrowException, OSError) as error:
            raise DamagedFileError(file.path, f"cannot be read: {error}") from error
    if len(schemas) > 1:
        raise ArchiveError(f"{' and '.join(schemas.values())} have different columns: they cannot be in one table")
    return next(iter(schemas), RAW_SCHEMA)


JOB = Job("migrate", "makes an archive of an earlier release a Delta Lake table", MigrateConfig, run, needs_spark=False)
