"""Output rows: messages for the target topic and for the dead-letter topic."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyspark_headrace.jobs.records.dead_letters import dead_letters, good
from pyspark_headrace.jobs.records.decoding import decoded
from pyspark_headrace.jobs.records.outgoing import messages
from pyspark_headrace.jobs.records.sql import check_row_by_row, query
from pyspark_headrace.jobs.records.tally import OBSERVED
from pyspark_headrace.jobs.transform.config import TransformConfig


def transformed(spark: SparkSession, source: DataFrame, config: TransformConfig) -> DataFrame:
    """Apply the query.

    Returns:
        Messages for both topics, with a column `topic`, so that one commit covers a micro-batch.

    Raises:
        ArgumentError: The query or the schema is wrong.
    """
    rows = decoded(source, config)
    selected = query(spark, good(rows, config.dlq), config.query_text(), config.sql_flag)
    if source.isStreaming:
        check_row_by_row(selected, config.sql_flag)
    written = messages(selected, config.to_topic, config.dlq, config.sql_flag)
    if config.dlq is not None:
        written = written.unionByName(dead_letters(rows, config.dlq))
    return written.observe(
        OBSERVED,
        sql.count_if(sql.col("topic") == config.to_topic).alias("out"),
        sql.count_if(sql.col("topic") != config.to_topic).alias("bad"),
    )
