"""Command line options of the benchmark, and the resulting amounts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

GB = 1_000_000_000
MB = 1_000_000

CASES = (
    "large",
    "small",
    "frames",
    "fsync",
    "websocket",
    "peaks",
    "tls",
    "cluster",
    "links",
    "fetch",
    "memory",
    "metadata",
    "startup",
    "waiting",
    "browsers",
    "sdk",
    "connectors",
    "rivals",
    "scan",
    "spark",
    "spark-memory",
)
"""Names of the cases, in the order in which they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Amount measured in one round."""

    rounds: int
    """Number of rounds that count; one warm-up round precedes them."""
    large_bytes: int
    small_seconds: float
    frames_seconds: float
    commits_seconds: float
    warm_up_seconds: float
    stored_bytes: int
    """Bytes stored before a server start is measured."""
    spark_bytes: int
    """Bytes of messages of each size that Spark reads."""
    spark_messages: int
    """Number of messages in the single partition that Spark reads."""
    scan_messages: int
    """Number of messages of the topic of which a time range is read."""


FULL = Scale(
    rounds=5,
    large_bytes=3 * GB,
    small_seconds=3.0,
    frames_seconds=1.0,
    commits_seconds=2.0,
    warm_up_seconds=0.5,
    stored_bytes=10 * GB,
    spark_bytes=5 * GB,
    spark_messages=100_000_000,
    scan_messages=10_000_000,
)
QUICK = Scale(
    rounds=1,
    large_bytes=1 * GB,
    small_seconds=1.0,
    frames_seconds=0.4,
    commits_seconds=0.8,
    warm_up_seconds=0.2,
    stored_bytes=1 * GB,
    spark_bytes=100 * MB,
    spark_messages=2_000_000,
    scan_messages=1_000_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a run."""

    scale: Scale
    cases: tuple[str, ...]
    official: bool
    """True to run the official client, too."""
    kafka: bool
    """True to let Spark read from Kafka, too."""
    connectors: tuple[str, ...]
    """Texts in the names of measurements of connectors; empty: all of them."""
    json_file: Path | None
    directory: Path
    """Parent of the data directories; its device is measured."""


def parse(argv: Sequence[str], default_directory: Path) -> Options:
    """Parse `argv`; wrong options end the program with status 2."""
    parser = argparse.ArgumentParser(
        prog="make bench", description="Measure the server against what this machine can do."
    )
    parser.add_argument("--rounds", type=int, help=f"rounds that count [default: {FULL.rounds}]")
    parser.add_argument("--quick", action="store_true", help="one short round: shows that all works, measures little")
    parser.add_argument("--only", action="append", choices=CASES, metavar="CASE", help=f"of {', '.join(CASES)}; again")
    parser.add_argument("--official", action="store_true", help="also the official Rust client (built at first use)")
    parser.add_argument("--kafka", action="store_true", help="spark: also from a broker of Kafka (loaded at first use)")
    parser.add_argument(
        "--connector",
        action="append",
        metavar="TEXT",
        help='connectors: only those with this text in their names, such as "sink" or "source files, CSV"; again',
    )
    parser.add_argument("--spark-mb", type=int, help="spark: payload of each size of message [default: 5000]")
    parser.add_argument("--spark-messages", type=int, help="spark-memory: messages of 100 B [default: 100000000]")
    parser.add_argument("--scan-messages", type=int, help="scan: messages of 100 B [default: 10000000]")
    parser.add_argument("--json", type=Path, metavar="FILE", help="every round of every measurement, as JSON")
    parser.add_argument("--directory", type=Path, default=default_directory, help="where data is written [%(default)s]")
    parsed = parser.parse_args(argv)
    if parsed.rounds is not None and parsed.rounds < 1:
        parser.error("--rounds: at least 1")
    if parsed.spark_mb is not None and parsed.spark_mb < 1:
        parser.error("--spark-mb: at least 1")
    if parsed.spark_messages is not None and parsed.spark_messages < 1000:
        parser.error("--spark-messages: at least 1000")
    if parsed.scan_messages is not None and parsed.scan_messages < 100_000:
        parser.error("--scan-messages: at least 100000")
    scale = QUICK if parsed.quick else FULL
    return Options(
        scale=replace(
            scale,
            rounds=parsed.rounds or scale.rounds,
            spark_bytes=(parsed.spark_mb or 0) * MB or scale.spark_bytes,
            spark_messages=parsed.spark_messages or scale.spark_messages,
            scan_messages=parsed.scan_messages or scale.scan_messages,
        ),
        cases=tuple(case for case in CASES if parsed.only is None or case in parsed.only),
        official=parsed.official,
        kafka=parsed.kafka,
        connectors=tuple(parsed.connector or ()),
        json_file=parsed.json,
        directory=parsed.directory,
    )
