"""A minimal job, run by tests as a process or in process."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from pyspark.sql import DataFrame, SparkSession

from pyspark_headrace.jobs.running.arguments import ArgumentError, argument
from pyspark_headrace.jobs.running.config import JobConfig, StreamJobConfig
from pyspark_headrace.jobs.running.job import Context, Job
from pyspark_headrace.jobs.running.report import Finding, Report
from pyspark_headrace.jobs.running.streaming import begin, follow
from pyspark_headrace.options.values import integer, names


@dataclass(frozen=True, kw_only=True)
class PlainConfig(JobConfig):
    needs_servers: ClassVar[bool] = False

    end: str = argument(choices=("well", "wrong", "fail", "stop"), default="well", help="how it ends (100 % sure)")
    found: tuple[str, ...] = argument(parse=names, default=(), metavar="LEVEL,...", help="levels of findings")
    count: int = argument("-n", "--count", parse=integer(1, 5), default=1, help="a number")
    catalog: str | None = argument(secret=True, help="address with a password in it")
    loud: bool = argument(default=True, help="print something")

    def checked(self) -> Self:
        if self.count == 4:
            raise ArgumentError("--count 4 goes with nothing")
        return super().checked()


def run_plain(spark: Any, config: PlainConfig, context: Context) -> Report:
    assert spark is None
    if config.loud:
        sys.stdout.write("noise on stdout\n")
    context.progress.update("half", 1, 2)
    context.metrics.counter("steps", "Steps.").inc(config.count)
    match config.end:
        case "wrong":
            raise ArgumentError("--catalog: there is none")
        case "fail":
            raise RuntimeError("line one\nline two")
        case "stop":
            context.log.info("waiting")
            context.stop.wait()
            return Report(status="stopped")
    findings = [Finding("gaps", level, {"offset": 17}, "äh") for level in config.found]  # type: ignore[arg-type]
    return Report(counts={"steps": config.count}, details={"a": [1]}, findings=findings)


PLAIN = Job("plain", "does nothing", PlainConfig, run_plain, needs_spark=False)


@dataclass(frozen=True, kw_only=True)
class CopyConfig(StreamJobConfig):
    topic: str = argument(required=True, help="the topic")
    journal: Path = argument(parse=Path, required=True, metavar="FILE", help="where micro-batches are noted")
    slow: float = argument(parse=float, default=0.0, help="seconds of a micro-batch but the first")


def run_copy(spark: SparkSession, config: CopyConfig, context: Context) -> Report:
    def note(text: str) -> None:
        with config.journal.open("a", encoding="utf-8") as journal:
            print(text, file=journal)

    def take(frame: DataFrame, batch_id: int) -> None:
        note(f"begin {batch_id}")
        rows = frame.count()
        if rows == 13:
            raise RuntimeError("thirteen rows")
        time.sleep(config.slow if batch_id > 0 else 0)
        note(f"end {batch_id} {rows}")

    reader = spark.readStream.format("headrace").options(**config.stream_options())
    frame = reader.options(subscribe=config.topic, startingOffsets="earliest").load()
    totals = follow(begin(frame.writeStream.foreachBatch(take), config), config, context)
    return Report(status=totals.status, counts=totals.counts)


JOB = Job("copy", "notes micro-batches", CopyConfig, run_copy)

if __name__ == "__main__":
    raise SystemExit((PLAIN if sys.argv[1] == "plain" else JOB).main(sys.argv[2:]))
