"""Driver of the job `dedupe`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame, Observation, SparkSession

from pyspark_headrace.jobs.dedupe.config import DedupeConfig
from pyspark_headrace.jobs.dedupe.rows import exactly, following, metrics, written
from pyspark_headrace.jobs.records.decoding import batch_of, stream_of
from pyspark_headrace.jobs.records.numbered import in_order, numbered
from pyspark_headrace.jobs.records.plan import planned, ranges_of, total
from pyspark_headrace.jobs.records.states import stateful
from pyspark_headrace.jobs.records.tally import OBSERVED, tallied
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Finding, Report
from pyspark_headrace.jobs.running.streaming import begin, follow

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_LATE: Final = (
    "{count} messages were older than those read before them by more than --within: it is unknown whether they are "
    "duplicates"
)


def run(spark: SparkSession, config: DedupeConfig, context: Context) -> Report:
    """Remove duplicates from a batch or a stream."""
    if config.batch:
        return _run_batch(spark, config)
    kept = following(spark, stream_of(spark, config), config).observe(OBSERVED, *metrics())
    if config.dry_run:
        return planned(config, kept, config.to_topic)
    with (
        stateful(spark, config.state_partitions),
        tallied(spark, lambda: begin(_writer(kept, config), config)) as (query, tally),
    ):
        totals = follow(query, config, context, rows_of=partial(tally.rows_of, query))
    counts = {
        "in": totals.rows,
        "out": tally.counts["out"],
        "bad": tally.counts["bad"],
        "dropped": tally.counts["duplicates"],
        "late": tally.counts["late"],
        "state_rows": tally.state_rows or 0,
        "state_rows_max": tally.state_rows_max,
    }
    report = Report(status=totals.status, counts=totals.counts | counts)
    if tally.counts["late"]:
        message = _LATE.format(count=tally.counts["late"])
        if config.to_topic is not None:
            message += f", and they are not in {config.to_topic}; --batch has no such messages"
        report.findings.append(Finding("late", "error", {"topics": list(config.topics)}, message))
    return report


def _run_batch(spark: SparkSession, config: DedupeConfig) -> Report:
    ranges = ranges_of(config)
    kept = exactly(spark, batch_of(spark, config, ranges), config)
    if config.dry_run:
        return planned(config, kept, config.to_topic)
    observation = Observation()
    ordered = in_order(kept.observe(observation, *metrics()))
    if config.to_topic is None:
        ordered.write.format("noop").mode("overwrite").save()
    else:
        options = config.writing(config.to_topic) | {"guarantee": "exactly-once"}
        # Batch runs are independent of each other.
        options.pop("transactionalId", None)
        written(ordered, config.to_topic).write.format("headrace").mode("append").options(**options).save()
    there, counts = total(ranges), observation.get
    return Report(counts={"in": there, **counts, "dropped": there - counts["out"], "late": 0})


def _writer(kept: DataFrame, config: DedupeConfig) -> DataStreamWriter:
    topic = config.to_topic
    if topic is None:
        return kept.writeStream.format("noop").outputMode("append")
    return numbered(kept, lambda batch: written(in_order(batch), topic), config.writing(topic))


JOB = Job("dedupe", "copies topics to a topic without duplicate messages", DedupeConfig, run)
