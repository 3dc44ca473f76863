"""The way out when a start refuses a damaged journal and there is no backup: give up what cannot be proved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace_metadata import snapshot
from headrace_metadata.errors import StateDamagedError
from headrace_metadata.files import FolderLock
from headrace_metadata.journal import JOURNAL_NAME, create_journal
from headrace_metadata.journal_format import scan
from headrace_metadata.recovery import replay, restore_snapshot
from headrace_metadata.state_machine import StateMachine

# More than anyone lost. The numbers of the lost commands must not be given away again: they are the incarnations by
# which partitions tell their data from that of a predecessor with the same identifiers.
_OPS_SKIPPED: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a folder holds, and what of it can be kept.

    Attributes:
        damage: What a start refuses; none if there is nothing to repair.
        kept_op: The last command that can be kept.
        lost_op: The last command that is known to be lost, or ``kept_op`` if none is.
    """

    damage: StateDamagedError | None
    kept_op: int
    lost_op: int


def diagnose(folder: Path) -> Diagnosis:
    """Say what a repair would do. Changes nothing.

    Raises:
        FolderInUseError: A process works on the files.
        StateDamagedError: The snapshots are damaged, too: only a backup helps.
        UnsupportedFormatError: The files were written by a newer release.
    """
    lock = FolderLock(folder)
    try:
        return _examine(folder)[0]
    finally:
        lock.close()


def accept_loss(folder: Path) -> Diagnosis:
    """Make a folder usable again by giving up every command behind the damage.

    The damaged journal stays beside the new one as ``state.messages.damaged``.

    Raises:
        FolderInUseError: A process works on the files.
        StateDamagedError: The snapshots are damaged, too: only a backup helps.
        UnsupportedFormatError: The files were written by a newer release.
    """
    lock = FolderLock(folder)
    try:
        diagnosis, machine = _examine(folder)
        if diagnosis.damage is not None:
            machine.op = diagnosis.lost_op + _OPS_SKIPPED
            # Whoever followed the lost updates is ahead of this catalogue, and must not take it for an older one.
            machine.version += _OPS_SKIPPED
            snapshot.store(folder, machine.snapshot())
            journal_path = folder / JOURNAL_NAME
            if journal_path.exists():
                journal_path.rename(journal_path.with_name(JOURNAL_NAME + ".damaged"))
            create_journal(journal_path, base_op=machine.op)
        return diagnosis
    finally:
        lock.close()


def _examine(folder: Path) -> tuple[Diagnosis, StateMachine]:
    journal_path = folder / JOURNAL_NAME
    try:
        found = scan(journal_path.read_bytes(), journal_path)
    except FileNotFoundError:
        machine = _restore_snapshot_alone(folder)
        damage = None
        if machine.op > 0:
            damage = StateDamagedError(journal_path, 0, "there are snapshots, but no journal", "")
        return Diagnosis(damage, machine.op, machine.op), machine
    except StateDamagedError as error:
        # Without its header no entry can be checked.
        machine = _restore_snapshot_alone(folder)
        return Diagnosis(error, machine.op, machine.op), machine
    machine, _ = restore_snapshot(folder, found.header.base_op)
    damage = found.damage
    last_op = found.header.base_op + len(found.entries)
    if last_op < machine.op:
        reason = f"it ends at op {last_op}, but the snapshot is of op {machine.op}"
        damage = damage or StateDamagedError(journal_path, found.end_bytes, reason, "")
    else:
        replay(machine, found.entries, journal_path)
    return Diagnosis(damage, machine.op, max(machine.op, found.synced_through)), machine


def _restore_snapshot_alone(folder: Path) -> StateMachine:
    machine, damaged = restore_snapshot(folder, base_op=0)
    if damaged and machine.op == 0:
        # With a whole journal the state could be computed from the beginning. Without, it is not known at all.
        raise StateDamagedError(damaged[0], 0, "neither a snapshot nor the journal can be read", "Restore a backup.")
    return machine
