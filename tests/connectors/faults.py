"""The connectors with a fault point: ``python -m tests.connectors.faults POINT PIPELINE``. Production code has none."""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from headrace.aio.client import Client
from headrace.aio.consumer import Consumer
from headrace.aio.direct import DirectProducer
from headrace.sdk.direct import Outgoing
from headrace_chassis import directories
from headrace_connectors import process
from headrace_connectors.leases.ledger import Configured
from headrace_connectors.leases.topic import LedgerTopic
from headrace_connectors.runtime.sharing import Sharing
from headrace_connectors.runtime.source_loop import SourceLoop
from headrace_connectors.sinks.delta import table as delta_table
from headrace_connectors.sinks.delta.sink import DeltaSink
from headrace_connectors.sinks.opensearch import OpenSearchSink
from headrace_connectors.sinks.parquet import partition
from headrace_connectors.sinks.parquet.sink import ParquetSink
from headrace_connectors.sinks.postgres.sink import PostgresSink
from headrace_connectors.sinks.sqlite.database import Offsets
from headrace_connectors.sinks.sqlite.sink import SqliteSink
from headrace_connectors.sources.postgres.streaming import ChangeStream
from headrace_connectors.state import store
from headrace_connectors.state.topic import TopicStates
from headrace_connectors.storing.delivery import Delivery


def _killed(*_arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before_saving() -> None:
    """All records are stored, and the state is not."""

    async def save(*_arguments: Any) -> None:
        _killed()

    store.StateStore.save = save  # type: ignore[method-assign]


def _within_saving() -> None:
    """The new state is written beside the old one, and not complete."""

    def replace_file(path: Path, text: str) -> None:
        path.with_name(path.name + ".unfinished").write_text(text[: len(text) // 2], encoding="utf-8")
        _killed()

    store.replace_file = replace_file  # type: ignore[attr-defined]


def _before_renaming() -> None:
    """The new state is complete and synced, and has not the name yet."""
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        if path.name.endswith(".state.json.unfinished"):
            _killed()
        return rename(path, target)

    directories.Path.rename = renamed  # type: ignore[method-assign, assignment]


def _before_committing() -> None:
    """The state is on disk, and the commit has not begun."""

    async def commit(*_arguments: Any) -> None:
        _killed()

    SourceLoop._commit = commit  # type: ignore[method-assign]


def _stopped(kind: type[Any], method: str, number: int = 1, *, is_after: bool = False) -> Callable[[], None]:
    """The process stops itself before or after a call of a coroutine method, and goes on when it is continued."""

    def arm() -> None:
        original, calls = getattr(kind, method), itertools.count(1)

        async def stopped(*arguments: Any, **named: Any) -> Any:
            is_here = next(calls) == number
            if is_here and not is_after:
                os.kill(os.getpid(), signal.SIGSTOP)
            result = await original(*arguments, **named)
            if is_here and is_after:
                os.kill(os.getpid(), signal.SIGSTOP)
            return result

        setattr(kind, method, stopped)

    return arm


def _failing_commit() -> None:
    """The server of the source refuses to advance the slot."""

    async def advance(self: ChangeStream, *_arguments: Any, **_named: Any) -> None:
        # Position 0 is refused by PostgreSQL itself.
        statement = "SELECT pg_replication_slot_advance(%s, '0/0')"
        await self._slot._database.rows("advancing the slot", statement, (self._slot._settings.slot,))

    ChangeStream.advance = advance  # type: ignore[method-assign]


def _killed_at(kind: type[Any], method: str, number: int, *, is_after: bool) -> None:
    """Kill the process before or after a call of a coroutine method."""
    original, calls = getattr(kind, method), itertools.count(1)

    async def counted(*arguments: Any, **named: Any) -> Any:
        is_here = next(calls) == number
        if is_here and not is_after:
            _killed()
        result = await original(*arguments, **named)
        if is_here:
            _killed()
        return result

    setattr(kind, method, counted)


def _at(kinds: Sequence[type[Any]], method: str, number: int = 3, *, is_after: bool = False) -> Callable[[], None]:
    def arm() -> None:
        for kind in kinds:
            _killed_at(kind, method, number, is_after=is_after)

    return arm


def _before_manifest() -> None:
    """The third file has its name, and does not count yet."""
    original, calls = partition.replace_file, itertools.count(1)  # type: ignore[attr-defined]

    def replaced(path: Path, text: str) -> None:
        if next(calls) == 3:
            _killed()
        original(path, text)

    partition.replace_file = replaced  # type: ignore[attr-defined]


def _before_commit_of_sqlite() -> None:
    """The offsets are in the transaction, too."""
    original, calls = Offsets.store, itertools.count(1)

    def stored(*arguments: Any) -> None:
        original(*arguments)
        if next(calls) == 3:
            _killed()

    Offsets.store = stored  # type: ignore[method-assign]


def _after_commit_of_delta(number: int = 3) -> None:
    """The rows count, and the answer has not come."""
    original, calls = delta_table.write_deltalake, itertools.count(1)

    def written(*arguments: Any, **named: Any) -> None:
        original(*arguments, **named)
        if next(calls) == number:
            _killed()

    delta_table.write_deltalake = written  # type: ignore[attr-defined]


def _after_file_of_parquet(number: int) -> None:
    """A file has its name, and others of the same flush are not written yet."""
    original, calls = partition.PartitionFiles._written, itertools.count(1)

    def written(*arguments: Any) -> Any:
        found = original(*arguments)
        if next(calls) == number:
            _killed()
        return found

    partition.PartitionFiles._written = written  # type: ignore[method-assign]


def _within_transaction() -> None:
    """Everything is in the transaction, or in the file, and nothing counts yet."""
    _killed_at(PostgresSink, "_commit", 3, is_after=False)
    _before_commit_of_sqlite()
    _after_commit_of_delta()
    _before_manifest()


def _at_change_of_group(*, is_sent: bool = False, is_read: bool = False) -> Callable[[], None]:
    """A change of a configuration is about to be sent to the topic of a group, is stored there, or was read back."""

    def arm() -> None:
        append, send_to = LedgerTopic.append, DirectProducer.send_to

        async def appended(topic: LedgerTopic, entry: Any) -> bool:
            is_change = isinstance(entry, Configured)
            if is_change and not is_sent and not is_read:
                _killed()
            result = await append(topic, entry)
            if is_change and is_read:
                _killed()
            return result

        async def sent(producer: DirectProducer, stream: str, topic: str, messages: Any, **named: Any) -> Any:
            result = await send_to(producer, stream, topic, messages, **named)
            if is_sent and isinstance(messages, Outgoing) and b"configured" in messages.payload:
                _killed()
            return result

        LedgerTopic.append = appended  # type: ignore[method-assign]
        DirectProducer.send_to = sent  # type: ignore[method-assign, assignment]

    return arm


def _in_change_of_group() -> None:
    """The connector with the earlier configuration has ended, and the next one has not begun."""
    Sharing._change = _killed  # type: ignore[method-assign]


_SINKS: Sequence[type[Any]] = (DeltaSink, OpenSearchSink, ParquetSink, PostgresSink, SqliteSink)

POINTS: dict[str, Callable[[], None]] = {
    "before-saving": _before_saving,
    "within-saving": _within_saving,
    "before-renaming": _before_renaming,
    "before-committing": _before_committing,
    "stopped-before-saving": _stopped(TopicStates, "save"),
    "stopped-before-committing": _stopped(SourceLoop, "_commit"),
    **{
        f"stopped-{'after' if is_after else 'before'}-transaction-{number}": _stopped(
            Client, "commit_transaction", number, is_after=is_after
        )
        for is_after in (False, True)
        for number in (1, 2)
    },
    "stopped-before-third-saving": _stopped(TopicStates, "save", 3),
    "failing-commit": _failing_commit,
    "third-save": _at([store.StateStore], "save"),
    "after-third-save": _at([store.StateStore], "save", is_after=True),
    "source-after-polling": _at([ChangeStream], "poll", is_after=True),
    "source-before-delivering": _at([Delivery], "deliver"),
    "source-after-delivering": _at([Delivery], "deliver", is_after=True),
    "source-before-saving": _at([store.StateStore], "save"),
    "source-after-saving": _at([store.StateStore], "save", is_after=True),
    "source-before-advancing": _at([ChangeStream], "advance"),
    "source-after-advancing": _at([ChangeStream], "advance", is_after=True),
    **{
        f"{'after' if is_after else 'before'}-transaction-{number}": _at(
            [Client], "commit_transaction", number, is_after=is_after
        )
        for is_after in (False, True)
        for number in (1, 2, 3, 4)
    },
    "change-before-sending": _at_change_of_group(),
    "change-stored": _at_change_of_group(is_sent=True),
    "change-read": _at_change_of_group(is_read=True),
    "change-in-effect": _in_change_of_group,
    "sink-before-writing": _at(_SINKS, "write"),
    "sink-before-flushing": _at(_SINKS, "flush"),
    "sink-within-flushing": _within_transaction,
    **{f"after-delta-commit-{number}": partial(_after_commit_of_delta, number) for number in range(1, 10)},
    **{f"after-parquet-file-{number}": partial(_after_file_of_parquet, number) for number in range(1, 10)},
    "sink-before-storing": _at([Consumer], "commit"),
    "sink-after-storing": _at([Consumer], "commit", is_after=True),
}

if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    sys.exit(process.main(sys.argv[2:]))
