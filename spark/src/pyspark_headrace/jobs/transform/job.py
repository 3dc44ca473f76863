"""Driver of the job `transform`."""

from __future__ import annotations

from functools import partial

from pyspark.sql import SparkSession

from pyspark_headrace.jobs.records.decoding import stream_of
from pyspark_headrace.jobs.records.plan import planned
from pyspark_headrace.jobs.records.tally import tallied
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Report
from pyspark_headrace.jobs.running.streaming import begin, follow
from pyspark_headrace.jobs.transform.config import TransformConfig
from pyspark_headrace.jobs.transform.rows import transformed


def run(spark: SparkSession, config: TransformConfig, context: Context) -> Report:
    """Transform the existing messages, or a stream."""
    rows = transformed(spark, stream_of(spark, config), config)
    if config.dry_run:
        return planned(config, rows, config.to_topic, config.dlq)
    options = config.writing(config.to_topic, config.dlq)
    writer = rows.writeStream.format("headrace").outputMode("append").options(**options)
    with tallied(spark, lambda: begin(writer, config)) as (query, tally):
        totals = follow(query, config, context, rows_of=partial(tally.rows_of, query))
    counts = {"in": totals.rows, "out": tally.counts["out"], "bad": tally.counts["bad"]}
    return Report(status=totals.status, counts=totals.counts | counts)


JOB = Job(
    "transform", "applies an SQL query to each message of topics, and writes the rows to a topic", TransformConfig, run
)
