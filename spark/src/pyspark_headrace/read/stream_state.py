"""State of a stream on the driver: start offsets, current end offsets, next micro-batch."""

from __future__ import annotations

import logging
from typing import Final

from pyspark_headrace.cluster.description import Description, Key
from pyspark_headrace.cluster.gateway import is_missing
from pyspark_headrace.errors import DataLossError, ServerRefusedError
from pyspark_headrace.options.reading import ReadOptions
from pyspark_headrace.options.values import LATEST
from pyspark_headrace.read.admission import TriggerDelay
from pyspark_headrace.read.offsets import Offsets
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.progress import admitted, backlog, followed, needs_noting, ranges
from pyspark_headrace.read.selection import depends_on_the_moment, starts
from pyspark_headrace.read.splits import Split

_log: Final = logging.getLogger(__name__)


class Following:
    """State of a stream for one run of the query."""

    def __init__(self, options: ReadOptions, planner: Planner | None = None) -> None:
        self._options = options
        self._planner = planner or Planner(options)
        self._trigger_delay = TriggerDelay(options.min_offsets_per_trigger, options.max_trigger_delay_ms)
        self._initial: Offsets | None = None
        self._is_confirmed = False
        self._frozen: Offsets | None = None
        self._needs_sizes = (
            options.max_bytes_per_trigger is not None
            or options.max_bytes_per_partition is not None
            or options.emit == "ranges"
        )

    def initial(self) -> Offsets:
        """Return the start offsets of a query without a checkpoint. Repeated calls return the same offsets."""
        if self._initial is None:
            # A missing topic or partition is a mistake in the options here, not data loss.
            described = self._planner.describe(with_sizes=self._needs_sizes)
            times = self._planner.offsets_of_times(described)
            positions = starts(self._options, described, times, otherwise=LATEST)
            found = Offsets.of(self._options.stream, described, positions)
            if self._options.reader_id is not None:
                found = self._planner.pinned(self._options.reader_id, found)
            elif depends_on_the_moment(self._options):
                _log.warning(
                    "where this query begins is found anew if the driver dies before the first micro-batch is noted: "
                    "what comes in between would be left out. The option readerId keeps it"
                )
            self._initial = found
            _log.info("the stream begins at %s", self._initial.to_text())
        return self._initial

    def confirm(self) -> None:
        """Note that a micro-batch is complete: the checkpoint now replaces the pinned start offsets.

        An earlier run may have pinned them: Spark confirms the micro-batch of a run that had only one in the next run.
        """
        if self._options.reader_id is not None and not self._is_confirmed:
            self._is_confirmed = True
            self._planner.unpin(self._options.reader_id)

    def freeze(self) -> None:
        """Freeze the end offsets: the run reads up to the current ends only."""
        self._frozen = self.latest()

    def latest(self) -> Offsets:
        """Return the current end offsets of the topics."""
        described = self._described()
        return Offsets.of(self._options.stream, described, described.ends)

    def next(self, start: Offsets, *, is_limited: bool) -> Offsets | None:
        """Return the end offsets of the micro-batch that follows `start`, or None if there is none yet.

        Args:
            start: Current offsets of the stream.
            is_limited: Apply the limits of the options.

        Raises:
            DataLossError: The next messages are missing.
        """
        described = self._described()
        at = followed(start, described, self._options)
        if needs_noting(start, at):
            # A micro-batch without messages, whatever the limits and delays of the others are.
            return at
        ends = self._ends(described, at)
        available = sum(backlog(at, ends).values())
        if available == 0:
            return None
        if not is_limited:
            return Offsets.of(start.stream, described, {key: max(end, at.at(key)) for key, end in ends.items()})
        if self._frozen is None and not self._trigger_delay.is_over(available):
            return None
        return Offsets.of(start.stream, described, admitted(at, ends, described, self._options))

    def splits(self, start: Offsets, end: Offsets) -> list[Split]:
        """Return the tasks of a micro-batch.

        Raises:
            DataLossError: Some of its messages are missing.
        """
        described = self._described()
        return self._planner.splits(ranges(start, end, described, self._options), described, is_batch=False)

    def _ends(self, described: Description, at: Offsets) -> dict[Key, int]:
        if self._frozen is None:
            return described.ends
        # Partitions created after the freeze are left out.
        return {key: min(self._frozen.next.get(key, at.at(key)), end) for key, end in described.ends.items()}

    def _described(self) -> Description:
        try:
            return self._planner.describe(
                with_sizes=self._needs_sizes,
                max_age_ms=self._options.metadata_max_age_ms,
                tolerates_missing=not self._options.fail_on_data_loss,
            )
        except ServerRefusedError as error:
            if not is_missing(error):
                raise
            raise DataLossError(f"{error}. failOnDataLoss = false goes on with what is left") from error
