"""Main loop of a backfill: batch after batch, until the end or a request to stop."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace_proto.limits import STAGES_PER_COMMAND_MAX
from pyspark_headrace.cluster.description import Topic
from pyspark_headrace.cluster.gateway import Gateway
from pyspark_headrace.errors import DataLossError, HeadraceError
from pyspark_headrace.jobs.backfill.config import SAME, BackfillConfig
from pyspark_headrace.jobs.backfill.ledger import Ledger
from pyspark_headrace.jobs.backfill.messages import Rewriting
from pyspark_headrace.jobs.backfill.pace import Pace
from pyspark_headrace.jobs.backfill.plan import Plan
from pyspark_headrace.jobs.backfill.tasks import Done, Work, loads_of, whole_partitions, write
from pyspark_headrace.jobs.origins.pieces import Origin
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.committing import wait_until_seen
from pyspark_headrace.transactions.staged import Part, Transaction
from pyspark_headrace.write.target import Target, find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_headrace.jobs.running.job import Context

_PIECE_ROWS: Final = 250_000
_PIECE_BYTES: Final = 24 << 20
_LOAD_ROWS: Final = 50_000
_LOAD_BYTES: Final = 24 << 20
"""Minimum bytes and rows of an additional task. Two tasks of this size are below the limit up to which a task buffers
its batches for a repeated call.
"""
_BELIEVED_SECONDS: Final = 300.0
"""Maximum time for which the target topic and its ticket are reused."""
_RENEWED_AT: Final = 0.5
"""Fraction of the ticket's lifetime for which it is reused: tasks begin a while after they got it."""
_KEPT_SECONDS: Final = 5.0
"""Time for which unused tokens of the rate limit are kept."""


class Runner:
    """Writer of a plan's batches."""

    def __init__(
        self, spark: SparkSession, config: BackfillConfig, context: Context, options: WriteOptions, origin: Origin
    ) -> None:
        """Create the runner.

        Args:
            spark: The session.
            config: Configuration of the job.
            context: Context of the job.
            options: Options of the sink.
            origin: Source of the messages.
        """
        self._spark = spark
        self._config = config
        self._context = context
        self._options = options
        self._origin = origin
        self._found: tuple[Target, float] | None = None
        self._pace = None if config.rate is None else Pace(config.rate, kept_seconds=_KEPT_SECONDS)
        self.counts: Counter[str] = Counter(batches=0, messages=0, bytes=0)
        """Counts of this run."""
        self.writing_seconds = 0.0
        """Time between the start of the first batch of this run and the end of its last one."""

    def run(self, plan: Plan, ledger: Ledger, topic: Topic) -> bool:
        """Write the remaining batches. Returns False if the job was stopped before the end.

        Raises:
            HeadraceError: A batch cannot be planned or committed.
            pyspark.errors.PySparkException: A batch cannot be read or written.
        """
        first = ledger.begin(plan, topic.stream_id) + 1
        self.counts["resumed_from"] = first
        wanted = Counter({part.partition_id: part.next_offset for part in topic.partitions})
        begun = time.monotonic()
        for number in range(first, plan.batches + 1):
            done = None if self._context.stop.is_set() else self._batch(plan, ledger, number)
            self.writing_seconds = time.monotonic() - begun
            if done is None:
                return False
            for part in (part for entry in done for part in entry.parts):
                wanted[part.partition_id] += part.messages_count
            self._count(plan, number, done)
        gateway = Gateway(self._options)
        if not wait_until_seen(lambda: _ends(gateway, topic, wanted), wanted):
            self._context.log.warning("all is committed, and cannot be read yet: partitions are slow")
        ledger.end()
        return True

    def _batch(self, plan: Plan, ledger: Ledger, number: int) -> list[Done] | None:
        """Write one batch; None if the job was stopped while waiting for the rate limit."""
        config, exact = self._config, self._options.is_exact
        begun = time.monotonic()
        if self._pace is not None:
            self._pace.begin()
        batch = plan.batch(number)
        count = sum(extent.count for extent in batch.values())
        target = self._target(plan)
        if not exact and self._is_stopped_before(count):
            return None
        rewriting = Rewriting(plan.source, config.name, config.preserves, config.partitioning == SAME)
        # The transactional id matters for the commit only; stages have none.
        work = Work(target, self._options, rewriting, Transaction(config.name, plan.id, number))
        pieces = self._origin.pieces(batch, rows=_PIECE_ROWS, size_bytes=_PIECE_BYTES)
        if exact:
            # Each task may have one stage per partition.
            most = max(STAGES_PER_COMMAND_MAX // len(target.topic.partitions), 2)
            loads = loads_of(pieces, rows=_LOAD_ROWS, size_bytes=_LOAD_BYTES, most=most)
        else:
            loads = whole_partitions(pieces)
        done = write(self._spark, work, loads)
        parts = [part for entry in done for part in entry.parts]
        written = sum(entry.rows for entry in done)
        if written != count:
            raise DataLossError(f"batch {number} has {count} messages, and {written} were read")
        stream_id = target.topic.stream_id
        if exact and self._is_stopped_before(count):
            self._give_up(plan, ledger, stream_id, number, parts)
            return None
        is_new = ledger.commit(plan, stream_id, number, parts)
        self._context.metrics.batch(time.monotonic() - begun)
        self._context.log.debug("batch", number=number, of=plan.batches, messages=count, is_new=is_new)
        return done

    def _is_stopped_before(self, count: int) -> bool:
        """Wait for tokens. Returns whether the job was stopped meanwhile."""
        return self._pace is not None and self._context.stop.wait(self._pace.take(count))

    def _give_up(self, plan: Plan, ledger: Ledger, stream_id: int, number: int, parts: list[Part]) -> None:
        try:
            ledger.give_up(plan, stream_id, number, parts)
        except HeadraceError as error:
            self._context.log.warning("what was staged for the next batch expires by itself", error=str(error))

    def _count(self, plan: Plan, number: int, done: list[Done]) -> None:
        rows, size = sum(entry.rows for entry in done), sum(entry.size_bytes for entry in done)
        self.counts.update(batches=1, messages=rows, bytes=size)
        self._context.metrics.add(rows=rows, bytes=size)
        self._context.progress.update("messages", plan.messages * number // plan.batches, plan.messages)

    def _target(self, plan: Plan) -> Target:
        """Return the target topic with a ticket, from the cache if it is recent enough."""
        now = time.monotonic()
        if self._found is None or now >= self._found[1]:
            # Only planning creates the topic: a run must not replace a deleted topic and lose what was written.
            found = find(replace(self._options, create_topic=False), self._config.to_topic)
            self._found = (found, now + min(_BELIEVED_SECONDS, _RENEWED_AT * found.lifetime_seconds))
        target = self._found[0]
        if target.topic.incarnation != plan.target_incarnation:
            raise DataLossError(f"{target.topic.title} was created again since the backfill was planned")
        return target


def _ends(gateway: Gateway, topic: Topic, wanted: Mapping[int, int]) -> dict[int, int]:
    """Return the end offsets of partitions, without waiting for deleted ones.

    Raises:
        ServerRefusedError: The topic does not exist any more.
        UnreachableError: No server answers.
    """
    now = gateway.describe(topic.stream, (topic.name,)).topics[topic.name]
    return {**wanted, **{part.partition_id: part.next_offset for part in now.partitions}}
