"""Counts the messages of a topic with Spark, by partition.

Messages appended during the count are not included: the end of each partition is determined at the start.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as column


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options in `argv`; invalid ones end the program with status 2."""
    parser = argparse.ArgumentParser(prog="count", description=__doc__)
    parser.add_argument("stream")
    parser.add_argument("topic")
    parser.add_argument("--servers", required=True, help="gRPC addresses of gateways")
    parser.add_argument(
        "--option",
        dest="more",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="another one of the data source",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    """Count, and print a line per partition and a total; returns the exit status."""
    options = parse(argv)
    spark = SparkSession.builder.appName("count").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    messages = (
        spark.read.format("headrace")
        .options(**dict(text.split("=", 1) for text in options.more))
        .option("servers", options.servers)
        .option("username", os.environ["HEADRACE_USERNAME"])
        .option("passwordFile", os.environ["HEADRACE_PASSWORD_FILE"])
        .option("stream", options.stream)
        .option("subscribe", options.topic)
        .option("columns", "partition,offset,value")
        .load()
    )
    counted = messages.groupBy("partition").agg(
        column.count("*").alias("messages"),
        column.sum(column.octet_length("value")).alias("bytes"),
        column.max("offset").alias("last"),
    )
    try:
        rows = counted.orderBy("partition").collect()
    except PySparkException as error:
        sys.stderr.write(f"{str(error).splitlines()[0]}\n")
        return 1
    total_messages = total_bytes = 0
    for row in rows:
        sys.stdout.write(f"partition {row.partition}: {row.messages} messages, {row.bytes} bytes, last {row.last}\n")
        total_messages += row.messages
        total_bytes += row.bytes
    sys.stdout.write(f"{total_messages} messages, {total_bytes} bytes\n")
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
