"""Export of a topic: every message once, also across interruptions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from headrace.cli.errors import CommandError
from headrace.cli.messages import following
from headrace.cli.parameters import Start
from headrace.cli.servers.resolving import TopicPath, find_topic
from headrace.cli.servers.target import Target
from headrace.cli.transfer import sinks
from headrace.cli.transfer.state import FileForm, StateFile
from headrace_core import Client

_CHUNK_MESSAGES: Final = 1000
_COMMIT_BYTES: Final = 32 << 20
_COMMIT_SECONDS: Final = 5.0


@dataclass(slots=True)
class Export:
    """An export. The range is decided when it begins, so that it ends even if messages keep arriving."""

    target: Target
    stream: str
    topic: str
    path: Path
    form: FileForm
    partitions: Sequence[int] | None
    start: Start
    until: Start | None
    overwrite: bool
    on_progress: Callable[[int, int], None]
    """Called with the numbers of exported messages and of all."""
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Next offset and end of each partition."""
    removed_count: int = 0
    """Messages that retention removed before they were read."""
    exported_count: int = 0
    is_consistent: bool = True
    """True if the ranges are those of the messages that were written: an interrupt may come in between."""
    committed_count: int = 0
    """Number of messages that the next run does not export again."""
    of: dict[str, Any] = field(default_factory=dict)

    def run(self) -> int:
        """Export, and return the number of messages, those of interrupted runs included.

        Raises:
            CommandError: The file exists, or its state is of another export.
        """
        state_file = StateFile.beside(self.path, "export")
        position = self._prepare(state_file)
        sink = sinks.opened(self.form, self.path, position)
        try:
            # Before the first message, so that the range is the same after any interruption.
            self._commit(sink, state_file)
            try:
                following.persistently(partial(self._session, sink, state_file))
            finally:
                # Otherwise the next run begins at the last commit, and cuts off what was written after it.
                if self.is_consistent:
                    self._commit(sink, state_file)
        finally:
            sink.close()
        state_file.remove()
        return self.exported_count

    def _prepare(self, state_file: StateFile) -> int:
        """Find the ranges, in the state or on the server; return the position in the file."""
        with self.target.connected() as client:
            path = find_topic(client, self.stream, self.topic)
            self.of = {
                "topic": path.name,
                "created_at_micros": path.readable().created_at_micros,
                "format": str(self.form),
                "partitions": list(self.partitions) if self.partitions is not None else None,
                "from": list(self.start),
                "until": list(self.until) if self.until is not None else None,
            }
            state = None if self.overwrite else state_file.load(self.of)
            if state is not None:
                self.ranges = {int(number): (first, end) for number, (first, end) in state["ranges"].items()}
                self.exported_count, self.removed_count = state["exported_count"], state["removed_count"]
                return int(state["position"])
            if self.path.exists() and not self.overwrite:
                raise CommandError(f"{self.path} exists: --overwrite replaces it")
            self.ranges = self._ranges(client, path)
        return 0

    def _ranges(self, client: Client, path: TopicPath) -> dict[int, tuple[int, int]]:
        first_offsets = {one.id: one.first_offset for one in client.describe_partitions(path.stream, path.topic)}
        ranges = {}
        for number in path.partitions(self.partitions):
            last = client.poll(path.stream, path.topic, number, strategy="last", count=1).messages
            first = first_offsets.get(number, 0)
            end = last[0].offset + 1 if last else first

            def offset(position: Start, number: int = number, first: int = first, end: int = end) -> int:
                match position.strategy:
                    case "first":
                        return first
                    case "offset":
                        return min(max(position.value, first), end)
                    case _:
                        found = client.poll(
                            path.stream, path.topic, number, strategy="timestamp", value=position.value, count=1
                        ).messages
                        return found[0].offset if found else end

            ranges[number] = (offset(self.start), offset(self.until) if self.until is not None else end)
        return ranges

    def _session(self, sink: sinks.Sink, state_file: StateFile) -> None:
        committed_at, uncommitted_bytes = time.monotonic(), 0
        with self.target.connected() as client:
            path = find_topic(client, self.stream, self.topic)
            if path.details is None or path.details.created_at_micros != self.of["created_at_micros"]:
                raise CommandError(f"{path.name} was deleted and created again during the export")
            read = client.poll
            if following.can_wait(client):
                read = partial(client.wait, maximum_wait_seconds=0.0)
            for number in self.ranges:
                while (position := self.ranges[number])[0] < position[1]:
                    start, end = position
                    count = min(_CHUNK_MESSAGES, end - start)
                    polled = read(path.stream, path.topic, number, strategy="offset", value=start, count=count)
                    messages = [message for message in polled.messages if message.offset < end]
                    # Retention may remove messages while they wait to be exported.
                    reached = messages[0].offset if messages else (polled.gap[1] if polled.gap else end)
                    self.is_consistent = False
                    self.removed_count += min(reached, end) - start
                    sink.write(number, messages)
                    self.exported_count += len(messages)
                    self.ranges[number] = (messages[-1].offset + 1 if messages else min(reached, end), end)
                    self.is_consistent = True
                    uncommitted_bytes += sum(len(message.payload) for message in messages)
                    if uncommitted_bytes > _COMMIT_BYTES or time.monotonic() - committed_at > _COMMIT_SECONDS:
                        self._commit(sink, state_file)
                        committed_at, uncommitted_bytes = time.monotonic(), 0
                    self._report()

    def _commit(self, sink: sinks.Sink, state_file: StateFile) -> None:
        position = sink.commit()
        state = {
            "position": position,
            "ranges": self.ranges,
            "exported_count": self.exported_count,
            "removed_count": self.removed_count,
        }
        state_file.save(self.of, state)
        self.committed_count = self.exported_count

    def _report(self) -> None:
        left = sum(end - start for start, end in self.ranges.values())
        self.on_progress(self.exported_count, self.exported_count + left)
