"""State of a consumer that does not depend on how it waits: partitions, and offsets that it has to store."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, Final

from headrace.sdk.calls import Name
from headrace.sdk.clock import monotonic
from headrace.sdk.errors import ClientClosed, HeadraceError, InvalidArgument, native
from headrace.sdk.options import ConsumerOptions
from headrace.sdk.results import Gap, value_of
from headrace.sdk.telemetry import Hooks, ReadBatch
from headrace_core import Batch, BatchMessages, Message, Pending
from headrace_core import Consumer as NativeConsumer

_LOG: Final = logging.getLogger("headrace")


class Progress:
    """Partitions of a consumer, and their offsets: handed out, processed, stored.

    A message counts as processed when the next one is asked for. Each value is the offset after the last message.
    """

    def __init__(
        self,
        native: NativeConsumer,
        options: ConsumerOptions,
        source: tuple[Name, Name, Name | None],
        hooks: Hooks | None,
    ) -> None:
        self._native = native
        self.source = source
        """Stream, topic, and group or name."""
        self.hooks = hooks
        self._is_automatic = options.commit == "auto"
        self._interval = options.commit_interval
        self._due_at = monotonic() + options.commit_interval
        self.assignment: set[int] = set()
        self.gaps: list[Gap] = []
        self.first: dict[int, int] = {}
        """First offset that was handed out since the partition was assigned."""
        self.handed_out: dict[int, int] = {}
        self.processed: dict[int, int] = {}
        self._stored: dict[int, int] = {}
        self._under_way: dict[int, Pending] = {}
        """The latest for each partition. They are executed in order: if it succeeds, those before do not matter."""
        self.stores = source[2] is not None
        """True if there is a name or group to store offsets for."""

    @property
    def is_automatic(self) -> bool:
        """Return whether processed offsets are stored without being asked."""
        return self._is_automatic and self.stores

    def take(self) -> tuple[str, Any]:
        """Take the next item of the native consumer: its kind and content.

        Raises:
            ClientClosed: There will be no other.
            HeadraceError: The consumer has failed.
        """
        kind, content = native(self._native.take)
        if kind == "ended":
            raise ClientClosed("the consumer has ended")
        return kind, content

    def note_event(self, kind: str, content: Any) -> bool:
        """Note an event before the user is notified. Returns False if it is only logged."""
        match kind:
            case "assigned":
                self.assignment.update(content)
            case "gap":
                self.gaps.append(Gap(*content))
                _LOG.warning("partition %d: messages from %d to %d were removed before they were read", *content)
                return False
            case "refused":
                _LOG.warning("messages cannot be read for the moment, and reading is tried again: %s", content)
                return False
            case "reset":
                self.forget([content])
                # A batch that was handed out before may have been noted since.
                native(self._native.note_processed, content, 0)
                _LOG.warning("partition %d was purged or made anew: reading continues at its beginning", content)
                return False
        return True

    def end_event(self, kind: str, content: Any) -> None:
        """Forget partitions that were given up, once the user was notified."""
        if kind in {"revoked", "lost"}:
            self.assignment.difference_update(content)
            self.forget(content)
            for partition in content:
                self.first.pop(partition, None)

    def lag(self, partition: int, found: tuple[int | None, int] | None) -> int | None:
        """Number of messages behind the position, from the answer of the native consumer; None if it is unknown."""
        position = self.handed_out.get(partition, found[0] if found else None)
        return None if found is None or position is None else max(0, found[1] - position)

    def begin_commit(self, message: Message | None) -> list[tuple[int, Pending]]:
        """Begin to store the offset of a message, or of everything that was handed out: see `begin_store`."""
        return self.begin_store(self.handed_out if message is None else self._offset_after(message))

    def begin_store(
        self, offsets: dict[int, int], partitions: Iterable[int] | None = None
    ) -> list[tuple[int, Pending]]:
        """Begin to store offsets that are not stored yet: of these partitions, or of all.

        Returns what is to be waited for: also what was begun earlier for these partitions and has no result.
        """
        chosen = offsets if partitions is None else {id_: offsets[id_] for id_ in partitions if id_ in offsets}
        # One that has failed meanwhile is stored again.
        self._look_at_results()
        for partition, next_offset in chosen.items():
            if next_offset > self._stored.get(partition, 0):
                native(self._native.note_processed, partition, next_offset)
                self._under_way[partition] = native(self._native.commit, partition, next_offset - 1)
                self._stored[partition] = next_offset
        return [(partition, self._under_way[partition]) for partition in chosen if partition in self._under_way]

    def _offset_after(self, message: Message) -> dict[int, int]:
        first = self.first.get(message.partition_id)
        if first is None or message.offset < first:
            # To store it would move the partition back behind what another member has processed meanwhile.
            raise InvalidArgument(
                f"message: offset {message.offset} of partition {message.partition_id} was not handed out since the "
                "partition was assigned to this consumer; it may have been with another member meanwhile"
            )
        return {message.partition_id: message.offset + 1}

    def begin_batch(self, batch: Batch) -> None:
        """Note that a batch is handed out."""
        partition = batch.partition_id
        self.first[partition] = min(batch.first_offset, self.first.get(partition, batch.first_offset))
        if self.hooks is not None:
            lag = max(0, batch.partition_end - batch.next_offset)
            self.hooks.read(ReadBatch(*self.source, partition, len(batch), batch.size_bytes, lag))

    def note_batch(self, batch: Batch) -> None:
        """Note that every message of a batch was processed."""
        self.note(batch.partition_id, batch.next_offset)

    def note_open(self, opened: tuple[Batch, BatchMessages]) -> None:
        """Note how far a batch is that is handed out message by message: the last one is not processed yet.

        It is looked at when offsets are asked for, because noting each message costs as much as making it.
        """
        batch, messages = opened
        partition, current = batch.partition_id, messages.next_offset - 1
        if current >= batch.first_offset:
            self.handed_out[partition] = current + 1
        if current > batch.first_offset:
            # The last one may be processed already, if it was set aside.
            self.processed[partition] = max(current, self.processed.get(partition, 0))

    def note(self, partition: int, next_offset: int) -> None:
        """Note that a partition was handed out and processed up to this offset."""
        self.handed_out[partition] = self.processed[partition] = next_offset
        native(self._native.note_processed, partition, next_offset)

    def note_last(self, message: Message) -> None:
        """Note that a message was processed if it is the last one that was handed out of its partition."""
        if self.handed_out.get(message.partition_id) == message.offset + 1:
            self.note(message.partition_id, message.offset + 1)

    def seconds_left(self) -> float | None:
        """Seconds until offsets are to be stored; None if there are none."""
        if not self.is_automatic or self.processed == self._stored:
            return None
        return max(0.0, self._due_at - monotonic())

    def store_if_due(self) -> None:
        """Store processed offsets if it is time, without waiting."""
        self._look_at_results()
        if self.is_automatic and monotonic() >= self._due_at:
            self._due_at = monotonic() + self._interval
            self.begin_store(self.processed)

    def forget(self, partitions: Iterable[int]) -> None:
        """Forget partitions that belong to others now, or whose position was changed."""
        for partition in partitions:
            for offsets in (self.handed_out, self.processed, self._stored):
                offsets.pop(partition, None)

    def failed(self, partition: int, pending: Pending) -> None:
        """Note that storing an offset failed, or is not waited for any more: it is stored again.

        An attempt that is not the latest of its partition is ignored: the latest decides.
        """
        if self._under_way.get(partition) is pending:
            del self._under_way[partition]
            self._stored.pop(partition, None)

    def _look_at_results(self) -> None:
        for partition, pending in list(self._under_way.items()):
            if not native(pending.done):
                continue
            try:
                value_of(pending)
                del self._under_way[partition]
            except HeadraceError as error:
                self.failed(partition, pending)
                _LOG.warning("the offset of partition %d is not stored yet: %s", partition, str(error))
