"""Results of staging, sent from tasks to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

from headrace_proto.gateway import v1


class Transaction(NamedTuple):
    """Transaction that commits a batch."""

    name: str
    """Transactional id. One query at a time writes under it."""
    query_id: str
    batch_id: int


class Part(NamedTuple):
    """One stage: messages of one task for one partition."""

    topic_id: int
    partition_id: int
    incarnation: int
    """Incarnation of the partition."""
    stage_id: bytes
    messages_count: int
    digest: int
    """XXH3-64 of its batches, computed independently by the server as well."""

    def on_wire(self) -> v1.StagedPart:
        """Return the part as a field of a commit request."""
        return v1.StagedPart(
            topic_id=self.topic_id,
            partition_id=self.partition_id,
            incarnation=self.incarnation,
            stage_id=self.stage_id,
        )


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """Commit message of one task attempt that stages."""

    transaction: Transaction
    stream_id: int
    task: int
    attempt: int
    parts: tuple[Part, ...]
    rows: int
    size_bytes: int
    """Size of the batches, with headers and indexes."""
    is_committed: bool = False
    """The batch was committed earlier, so the task has staged nothing."""
