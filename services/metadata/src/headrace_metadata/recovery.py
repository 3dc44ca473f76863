"""From the files of a folder to the state that they hold."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError

from headrace_metadata import snapshot
from headrace_metadata.errors import StateDamagedError, UnsupportedFormatError
from headrace_metadata.files import UNFINISHED_SUFFIX
from headrace_metadata.journal import JOURNAL_NAME, Journal, Sync, create_journal
from headrace_metadata.journal_format import REPAIR_ADVICE
from headrace_metadata.state_machine import StateMachine, UnknownCommandError
from headrace_proto.metadata.v1 import Command, JournalEntry

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a folder holds.

    Attributes:
        machine: With every durable command applied.
        journal: Open, and durable as a whole.
        snapshot_op: Of the snapshot that the machine was restored from; 0 if there was none.
    """

    machine: StateMachine
    journal: Journal
    snapshot_op: int


def recover(folder: Path, *, sync: Sync = os.fdatasync) -> Recovered:
    """Restore the newest good snapshot and apply the journal behind it; an empty folder is the empty state.

    Args:
        folder: Exists, and is locked by the caller.
        sync: Makes the contents of a descriptor durable.

    Raises:
        StateDamagedError: Something durable is missing or altered. The damaged file was not changed.
        UnsupportedFormatError: The files were written by a newer release.
    """
    for unfinished in folder.glob(f"state.*{UNFINISHED_SUFFIX}"):
        unfinished.unlink()
    journal_path = folder / JOURNAL_NAME
    if not journal_path.exists():
        if any(path.exists() for path in snapshot_paths(folder)):
            raise StateDamagedError(journal_path, 0, "there are snapshots, but no journal", REPAIR_ADVICE)
        create_journal(journal_path, base_op=0)

    journal, entries = Journal.open(journal_path, sync=sync)
    try:
        machine, damaged = restore_snapshot(folder, journal.base_op)
        snapshot_op = machine.op
        if snapshot_op > journal.last_op:
            reason = f"it ends at op {journal.last_op}, but the snapshot is of op {snapshot_op}"
            raise StateDamagedError(journal_path, journal.size_bytes, reason, REPAIR_ADVICE)
        replay(machine, entries, journal_path)
    except BaseException:
        journal.close()
        raise
    for path in damaged:
        # Aside, so that the next snapshot does not push the good one out of its place.
        path.rename(path.with_name(path.name + ".damaged"))
    return Recovered(machine, journal, snapshot_op)


def restore_snapshot(folder: Path, base_op: int) -> tuple[StateMachine, list[Path]]:
    """Return the machine of the newest good snapshot, and the damaged ones that were passed over.

    Args:
        folder: Where the snapshots are.
        base_op: An older snapshot is of no use, as the journal begins behind this op. The empty state counts as a
            snapshot of op 0.

    Raises:
        StateDamagedError: There is none of use.
        UnsupportedFormatError: A snapshot was written by a newer release.
    """
    damaged: list[Path] = []
    problem: StateDamagedError | None = None
    for path in snapshot_paths(folder):
        try:
            machine = StateMachine.restore(snapshot.load(path))
        except FileNotFoundError:
            continue
        except StateDamagedError as error:
            _log.error("%s", error)
            problem = problem or error
            damaged.append(path)
            continue
        if machine.op >= base_op:
            return machine, damaged
    if base_op == 0:
        return StateMachine(), damaged
    if problem is not None:
        raise problem
    reason = f"it begins behind op {base_op}, and there is no snapshot of that op or a later one"
    raise StateDamagedError(folder / JOURNAL_NAME, 0, reason, "Restore state.snapshot from a backup.")


def snapshot_paths(folder: Path) -> tuple[Path, Path]:
    """Return where snapshots may be, the newest first."""
    return folder / snapshot.SNAPSHOT_NAME, folder / snapshot.PREVIOUS_SNAPSHOT_NAME


def replay(machine: StateMachine, entries: list[JournalEntry], journal_path: Path) -> None:
    """Apply those entries of a journal that a machine does not know yet.

    Raises:
        UnsupportedFormatError: One of them was written by a newer release.
    """
    for entry in entries:
        if entry.op <= machine.op:
            continue
        try:
            machine.apply(entry.op, entry.timestamp_micros, Command.FromString(entry.command))
        except (DecodeError, UnknownCommandError) as error:
            raise UnsupportedFormatError(journal_path, f"holds an unknown command at op {entry.op}") from error
