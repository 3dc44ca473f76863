"""Driver of the job `aggregate`."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from pyspark_headrace.jobs.aggregate.config import AggregateConfig
from pyspark_headrace.jobs.aggregate.rows import aggregated
from pyspark_headrace.jobs.records.decoding import stream_of
from pyspark_headrace.jobs.records.numbered import numbered
from pyspark_headrace.jobs.records.plan import planned
from pyspark_headrace.jobs.records.states import stateful
from pyspark_headrace.jobs.records.tally import tallied
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.running.streaming import begin, follow


def run(spark: SparkSession, config: AggregateConfig, context: Context) -> Report:
    """Aggregate the existing messages, or a stream."""
    rows = aggregated(spark, stream_of(spark, config), config)
    if config.dry_run:
        return planned(config, rows, config.to_topic, config.dlq)
    options = config.writing(config.to_topic, config.dlq)
    if config.output == "update":
        # Spark does not offer this output mode for Python sinks.
        writer = numbered(rows, lambda batch: batch, options).outputMode("update")
    else:
        writer = rows.writeStream.format("headrace").outputMode("append").options(**options)
    with stateful(spark, config.state_partitions), tallied(spark, lambda: begin(writer, config)) as (query, tally):
        totals = follow(query, config, context, rows_of=partial(tally.rows_of, query))
    counts = {
        "in": totals.rows,
        "out": tally.counts["out"],
        "bad": tally.counts["bad"],
        "late": tally.counts["late"],
        "state_rows": tally.state_rows or 0,
        "state_rows_max": tally.state_rows_max,
    }
    return Report(status=totals.status, counts=totals.counts | counts)


JOB = Job("aggregate", "computes aggregates by key and time window, from topics to a topic", AggregateConfig, run)
