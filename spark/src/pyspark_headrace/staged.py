"""What tasks have staged, as they tell it to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from headrace_proto.gateway import v1


class Transaction(NamedTuple):
    """What a batch is committed as."""

    name: str
    """One query at a time writes under it."""
    query_id: str
    batch_id: int


class Part(NamedTuple):
    """A stage: messages of one task for one partition."""

    topic_id: int
    partition_id: int
    incarnation: int
    """Of the partition."""
    stage_id: bytes
    messages_count: int
    digest: int
    """XXH3-64 of its batches, which the server has found, too."""

    def on_wire(self) -> v1.StagedPart:
        """As a commit names it."""
        return v1.StagedPart(
            topic_id=self.topic_id,
            partition_id=self.partition_id,
            incarnation=self.incarnation,
            stage_id=self.stage_id,
        )


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What one attempt at a task has staged."""

    transaction: Transaction
    stream_id: int
    task: int
    attempt: int
    parts: tuple[Part, ...]
    rows: int
    size_bytes: int
    """As batches have it, with headers and indexes."""
    is_committed: bool = False
    """The batch was committed before, so that nothing was staged."""
