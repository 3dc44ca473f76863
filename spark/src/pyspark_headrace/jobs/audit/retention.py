"""Checks of retention: messages removed too early or too late."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.jobs.audit.config import RETENTION
from pyspark_headrace.jobs.audit.findings import Findings
from pyspark_headrace.jobs.audit.folding import time_of
from pyspark_headrace.jobs.audit.scanned import Piece, Scanned

_SOON: Final = 0.8
"""Fraction of the retention time after which unarchived messages are at risk of removal."""


def check_retention(
    gateway: Gateway,
    described: Description,
    ranges: Iterable[Scanned],
    archived: Mapping[Key, int],
    now_micros: int,
    findings: Findings,
) -> None:
    """Compare the age of messages with the retention time of their topic, and with the archive.

    Args:
        gateway: Source of the retention times.
        described: Metadata of the topics.
        ranges: Results of reading the topics.
        archived: End of the archived messages, for archived partitions.
        now_micros: Current time, since 1970.
        findings: Collector of findings.

    Raises:
        ServerRefusedError: The user is not authorized to see the settings of a topic.
        UnreachableError: No server answers.
    """
    pieces: dict[Key, list[Piece]] = {}
    for one in ranges:
        pieces.setdefault((one.topic, one.partition), []).extend(one.pieces)
    for name, topic in sorted(described.topics.items()):
        expiry = gateway.message_expiry_micros(topic)
        for partition in topic.partitions:
            place = (name, partition.partition_id)
            where = {"stream": topic.stream, "topic": name, "partition": partition.partition_id}
            of_it = sorted(pieces.get(place, ()))
            first = partition.first_offset
            if expiry is not None and of_it and of_it[0].start == first:
                late = now_micros - of_it[0].first_timestamp - expiry
                if late > 0:
                    message = (
                        f"message {first} of {time_of(of_it[0].first_timestamp)} is still there, {_said(late)} after"
                        " its time: segments are removed whole, and the last one stays"
                    )
                    findings.add(RETENTION, where | {"offset": first}, message, "info")
            end = archived.get(place)
            if end is None:
                continue
            if end < first:
                message = f"messages {end} to {first - 1} were removed from the topic, and are not in the archive"
                findings.add(RETENTION, where | {"offset": end, "until": first}, message)
            waiting = next((piece for piece in of_it if piece.start >= end), None)
            if expiry is not None and waiting is not None and now_micros - waiting.first_timestamp > _SOON * expiry:
                message = (
                    f"message {waiting.start} of {time_of(waiting.first_timestamp)} is not in the archive, and goes"
                    f" {_said(expiry)} after it was appended"
                )
                findings.add(RETENTION, where | {"offset": waiting.start}, message, "warning")


def _said(micros: int) -> str:
    return str(timedelta(seconds=micros // 1_000_000))
