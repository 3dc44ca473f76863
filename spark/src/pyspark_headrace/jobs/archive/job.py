"""Driver of the job `archive`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException

from pyspark_headrace.jobs.archive.batches import SPLIT, Batches
from pyspark_headrace.jobs.archive.columns import Columns
from pyspark_headrace.jobs.archive.config import ICEBERG, ArchiveConfig
from pyspark_headrace.jobs.archive.decoding import Decoding, decoding_of
from pyspark_headrace.jobs.archive.planned import planned
from pyspark_headrace.jobs.archive.tasks import Work
from pyspark_headrace.jobs.records.schemas import read_schema
from pyspark_headrace.jobs.running.arguments import ArgumentError
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Finding, Report
from pyspark_headrace.jobs.running.streaming import begin, follow
from pyspark_headrace.jobs.tables.files import DECODED, RAW
from pyspark_headrace.jobs.tables.opening import open_table
from pyspark_headrace.jobs.tables.writing import FileOptions
from pyspark_headrace.options.reading import ReadOptions, stream_options
from pyspark_headrace.options.writing import WriteOptions, write_options
from pyspark_headrace.read.planning import Planner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG_BYTES_PER_FILE: Final = 3
"""Number of log bytes per file byte that a task is planned with. Files usually have a half to a sixth of the log bytes.
A task with too many bytes for one file writes another one.
"""


def run(spark: SparkSession, config: ArchiveConfig, context: Context) -> Report:
    """Archive topics.

    Raises:
        ArgumentError: The schema of values cannot be used.
        HeadraceError: The job cannot continue.
    """
    decoding = _decoding(config)
    is_iceberg = config.format == ICEBERG
    # Readers of Iceberg do not take columns from paths.
    columns = Columns(decoding, ("stream", "topic") if is_iceberg else ())
    table = open_table(config, config.dest, columns.schema, is_iceberg=is_iceberg, create=not config.dry_run)
    given = source_options(config)
    if config.dry_run:
        return planned(stream_options(given), table)
    work = Work(
        stream_options(given),
        table.place,
        columns,
        FileOptions(
            target_bytes=config.target_bytes,
            compression=config.compression.codec,
            compression_level=config.compression.level,
            mode=RAW if decoding is None else DECODED,
        ),
        counts_bad=config.on_bad_record.way == "count",
    )
    batches = Batches(config.name or JOB.name, work, table, _dead_letters(config), context)
    frame = spark.readStream.format("headrace").options(**given).schema(SPLIT).load()
    query = begin(frame.writeStream.foreachBatch(batches.take), config)
    totals = follow(query, config, context, rows_of=batches.rows_of)
    report = Report(status=totals.status, counts=batches.totals.counts, details=batches.totals.details())
    if totals.behind is not None:
        report.counts["behind"] = totals.behind
    bad = batches.totals.bad_records
    if bad:
        where = {"topic": config.on_bad_record.topic} if config.on_bad_record.topic else {}
        report.findings.append(Finding("bad-records", "warning", where, f"{bad} values could not be decoded"))
    return report


JOB: Final = Job("archive", "archives topics to tables of Delta Lake or Iceberg", ArchiveConfig, run)


def _decoding(config: ArchiveConfig) -> Decoding | None:
    if config.schema is None:
        return None
    columns = read_schema(config.schema)
    try:
        return decoding_of(columns)
    except (ValueError, PySparkException) as error:
        raise ArgumentError(f"--schema {config.schema}: {str(error).splitlines()[0]}") from error


def source_options(config: ArchiveConfig) -> dict[str, str]:
    """Options of the data source.

    Raises:
        HeadraceError: The number of messages per file cannot be determined.
    """
    given = (
        config.stream_options()
        | config.selection_options()
        | {
            "emit": "ranges",
            "startingOffsets": config.starting_offsets,
            "maxBytesPerPartition": str(config.target_bytes * _LOG_BYTES_PER_FILE),
        }
    )
    return given | _waiting(config, stream_options(given))


def _waiting(config: ArchiveConfig, options: ReadOptions) -> dict[str, str]:
    """Options that delay a micro-batch until about a file per partition is available, at the current message sizes."""
    if config.max_file_age is None:
        return {}
    described = Planner(options).describe(with_sizes=True)
    sizes = [partition.bytes_per_message for partition in described.partitions.values() if partition.messages_count]
    if not sizes:
        return {}
    wanted = config.target_bytes * _LOG_BYTES_PER_FILE * len(sizes)
    rows = max(int(wanted / (sum(sizes) / len(sizes))), 1)
    if options.max_offsets_per_trigger is not None:
        rows = min(rows, options.max_offsets_per_trigger)
    return {"minOffsetsPerTrigger": str(rows), "maxTriggerDelay": f"{config.max_file_age}ms"}


def _dead_letters(config: ArchiveConfig) -> WriteOptions | None:
    if config.on_bad_record.topic is None:
        return None
    return write_options(config.sink_options(config.on_bad_record.topic) | {"includeHeaders": "true"}, is_stream=True)
