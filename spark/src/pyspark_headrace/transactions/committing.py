"""Commit or abort, on the driver, of the transaction that tasks have staged."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from pyspark_headrace.errors import BatchError, HeadraceError
from pyspark_headrace.options.writing import WriteOptions
from pyspark_headrace.transactions.staged import Part, Staged, Transaction
from pyspark_headrace.transactions.transactions import Transactions

_Place = tuple[int, int]
"""Topic id and partition id."""

_K = TypeVar("_K")

_log: Final = logging.getLogger(__name__)
_ABORT_RETRIES: Final = 2
SEEN_SECONDS: Final = 30.0
"""Maximum time to wait until committed messages can be read."""
_SEEN_POLL_SECONDS: Final = 0.05


def commit(
    messages: Sequence[WriterCommitMessage | None],
    batch_id: int,
    options: WriteOptions,
    *,
    fence: bool,
    waits: bool = False,
) -> None:
    """Commit a batch.

    Args:
        messages: Commit messages of its tasks.
        batch_id: Number of the batch.
        options: Options of the sink.
        fence: Take the transactional id over from another query.
        waits: Wait until the messages can be read, as far as the driver can find out.

    Raises:
        FencedError: Another query writes under the same transactional id.
        StageExpiredError: The staged messages have expired.
        ServerRefusedError: Any other refusal; nothing of the batch is visible.
        UnreachableError: No server answers. The batch may be committed; repeating the commit resolves that.
    """
    staged = [message for message in messages if isinstance(message, Staged)]
    if not staged:
        return
    transaction, stream_id = _common(staged)
    if transaction.batch_id != batch_id:
        raise BatchError(f"tasks have staged batch {transaction.batch_id}, and Spark commits batch {batch_id}")
    if any(message.is_committed for message in staged):
        _log.info("batch %s of %s was committed before", batch_id, transaction.name)
        return
    parts = [part for message in staged for part in message.parts]
    if not parts and batch_id > 0:
        # Batch 0 always claims the transactional id. Later batch ids may have gaps.
        return
    gateway = Transactions(options)
    before = _ends(gateway, options) if waits else {}
    is_new = gateway.commit(stream_id, transaction, parts, fence=fence)
    _log.info(
        "batch %s of %s: %s rows, %s bytes, %s stages %s",
        batch_id,
        transaction.name,
        sum(message.rows for message in staged),
        sum(message.size_bytes for message in staged),
        len(parts),
        "are committed" if is_new else "were committed before",
    )
    if waits and not wait_until_seen(lambda: _ends(gateway, options), _wanted(before, parts)):
        _log.warning("the batch is committed, and could not be read after %s s: its partitions are slow", SEEN_SECONDS)


def wait_until_seen(ends: Callable[[], Mapping[_K, int]], wanted: Mapping[_K, int]) -> bool:
    """Wait until partitions have reached the given ends, so that a later read finds all messages.

    Args:
        ends: Return the current end offsets. Its exceptions are passed on.
        wanted: Minimum end offset of each partition.

    Returns:
        True if all ends were reached within `SEEN_SECONDS`.
    """
    deadline = time.monotonic() + SEEN_SECONDS
    while time.monotonic() < deadline:
        now = ends()
        if all(now.get(place, -1) >= end for place, end in wanted.items()):
            return True
        time.sleep(_SEEN_POLL_SECONDS)
    return False


def abort(messages: Sequence[WriterCommitMessage | None], options: WriteOptions) -> None:
    """Abort the staged parts of a batch. Parts on unreachable servers expire."""
    staged = [message for message in messages if isinstance(message, Staged)]
    parts = [part for message in staged for part in message.parts]
    if not parts:
        return
    gateway = Transactions(replace(options, retry_max=min(options.retry_max, _ABORT_RETRIES)))
    try:
        transaction, stream_id = _common(staged)
        is_given_up = gateway.abort(stream_id, transaction, parts)
    except HeadraceError as error:
        _log.warning("the batch has failed; what was staged for it expires: %s", error)
        return
    if is_given_up:
        _log.info("the batch has failed; what was staged for it is given up")
    else:
        _log.warning("batch %s of %s is committed, although Spark gives it up", transaction.batch_id, transaction.name)


def _common(staged: Sequence[Staged]) -> tuple[Transaction, int]:
    found = {(message.transaction, message.stream_id) for message in staged}
    if len(found) > 1:
        raise BatchError(f"tasks have staged for {len(found)} batches at once: {sorted(found)}")
    return found.pop()


def _ends(gateway: Transactions, options: WriteOptions) -> dict[_Place, int]:
    try:
        topics = gateway.describe(options.stream, options.topic_names).topics
    except HeadraceError:
        return {}
    return {
        (topic.topic_id, part.partition_id): part.next_offset for topic in topics.values() for part in topic.partitions
    }


def _wanted(before: Mapping[_Place, int], parts: Sequence[Part]) -> dict[_Place, int]:
    """Return the expected end offsets of the partitions that the commit has extended."""
    grown: Counter[_Place] = Counter()
    for part in parts:
        grown[part.topic_id, part.partition_id] += part.messages_count
    return {place: before[place] + count for place, count in grown.items() if place in before}
