"""The replica: ordered, durable, applied once, answered in order; and the same again after any end (LOG-13)."""

import asyncio
import errno
import os

import pytest
from metadata_commands import create_stream, create_topic, create_user

from headrace_metadata.config import StateSettings
from headrace_metadata.errors import (
    AppendFailedError,
    FolderInUseError,
    ReplicaStoppedError,
    StateDamagedError,
    SyncFailedError,
    UnsupportedFormatError,
)
from headrace_metadata.journal import JOURNAL_NAME, Journal, create_journal
from headrace_metadata.replica import Replica
from headrace_metadata.snapshot import PREVIOUS_SNAPSHOT_NAME, SNAPSHOT_NAME
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, JournalEntry

EVERY_4_COMMANDS = StateSettings(snapshot_commands=4)


class Following:
    """A subscriber that keeps what it is told."""

    def __init__(self, replica):
        self.updates = []
        self.snapshot = replica.state.subscribe(self.updates.append)

    @property
    def versions(self):
        return [update.version for update in self.updates]


def streams_of(replica):
    return [stream.name for stream in replica.state.fork_machine().catalog().streams]


async def snapshots_done(replica):
    if replica._snapshot_task is not None:
        await replica._snapshot_task


async def test_a_proposal_is_answered_and_survives(tmp_path):
    async with await Replica.open(tmp_path / "new" / "folder") as replica:
        reply = await replica.propose(create_stream("s"))
        assert (reply.status, reply.stream.id, reply.stream.incarnation) == (0, 0, 1)
        assert (await replica.propose(create_stream("s"))).status == Status.STREAM_NAME_ALREADY_EXISTS
    async with await Replica.open(tmp_path / "new" / "folder") as replica:
        assert streams_of(replica) == ["s"]
        assert replica.state.op == 2
        assert (await replica.propose(create_stream("t"))).stream.incarnation == 3


async def test_state_files_are_for_their_owner_only(tmp_path):
    async with await Replica.open(tmp_path, StateSettings(snapshot_commands=1)) as replica:
        await replica.propose(create_user("root"))
    for path in tmp_path.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


async def test_proposals_that_wait_share_a_sync(tmp_path, monkeypatch):
    groups = []
    append = Journal.append
    monkeypatch.setattr(
        Journal, "append", lambda self, entries, **kw: (groups.append(len(entries)), append(self, entries, **kw))
    )
    async with await Replica.open(tmp_path) as replica:
        replies = await asyncio.gather(*(replica.propose(create_stream(f"s{number}")) for number in range(100)))
    assert [reply.stream.id for reply in replies] == list(range(100)), "in the order of the proposals"
    assert sum(groups) == 100
    assert len(groups) <= 2


async def test_subscribers_know_before_the_proposer(tmp_path):
    async with await Replica.open(tmp_path) as replica:
        following = Following(replica)
        for version in range(1, 4):
            await replica.propose(create_stream(f"s{version}"))
            assert following.versions == list(range(1, version + 1))
        assert following.updates[0].deltas[0].stream_put.name == "s1"


async def test_a_subscription_begins_with_the_catalogue_and_has_no_gap(tmp_path):
    async with await Replica.open(tmp_path) as replica:
        await replica.propose(create_stream("before"))
        proposals = [asyncio.create_task(replica.propose(create_stream(f"s{number}"))) for number in range(50)]
        await asyncio.sleep(0)
        following = Following(replica)
        await asyncio.gather(*proposals)
        assert following.versions == list(range(following.snapshot.version + 1, 52))
        replica.state.unsubscribe(following.updates.append)
        await replica.propose(create_stream("after"))
        assert following.versions[-1] == 51


async def test_commands_that_change_nothing_are_no_update(tmp_path):
    async with await Replica.open(tmp_path) as replica:
        following = Following(replica)
        await replica.propose(create_topic(7, "t"))
        await replica.propose(create_stream("s"))
        assert following.versions == [1]


async def test_a_command_without_an_operation_is_refused(tmp_path):
    async with await Replica.open(tmp_path) as replica:
        assert (await replica.propose(Command(actor_user_id=1))).status == Status.INVALID_COMMAND
        assert replica.state.op == 0


async def test_timestamps_grow_although_the_clock_does_not(tmp_path):
    times = iter([1000, 1000, 5, 2000])
    async with await Replica.open(tmp_path, clock=lambda: next(times)) as replica:
        created = [(await replica.propose(create_stream(name))).stream.created_at_micros for name in "abcd"]
    assert created == [1000, 1001, 1002, 2000]
    async with await Replica.open(tmp_path, clock=lambda: 3) as replica:
        assert (await replica.propose(create_stream("e"))).stream.created_at_micros == 2001


async def test_a_cancelled_proposal_is_committed_all_the_same(tmp_path):
    async with await Replica.open(tmp_path) as replica:
        task = asyncio.create_task(replica.propose(create_stream("cancelled")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await replica.propose(create_stream("s"))).stream.id == 1
        assert streams_of(replica) == ["cancelled", "s"]


async def test_closing_commits_what_was_proposed_and_takes_no_more(tmp_path):
    replica = await Replica.open(tmp_path)
    proposals = [asyncio.create_task(replica.propose(create_stream(f"s{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    await replica.close()
    assert [(await proposal).status for proposal in proposals] == [0] * 20
    with pytest.raises(ReplicaStoppedError, match="was closed"):
        await replica.propose(create_stream("late"))
    await replica.wait_stopped()
    await replica.close()


async def test_a_folder_has_one_owner(tmp_path):
    async with await Replica.open(tmp_path):
        with pytest.raises(FolderInUseError, match="is in use by another process"):
            await Replica.open(tmp_path)
    async with await Replica.open(tmp_path):
        pass


async def test_the_journal_stays_short(tmp_path):
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
        for number in range(50):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
        journal, entries = Journal.open(tmp_path / JOURNAL_NAME)
        journal.close()
        assert len(entries) <= 8, "since the snapshot before the last one"
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
        assert streams_of(replica) == [f"s{number}" for number in range(50)]
        assert replica.state.op == 50


async def test_a_large_journal_makes_an_early_snapshot(tmp_path):
    async with await Replica.open(tmp_path, StateSettings(snapshot_journal_size="64 KiB")) as replica:
        for number in range(400):
            await replica.propose(create_stream(f"{number} {'n' * 240}"))
        assert (tmp_path / SNAPSHOT_NAME).exists()


async def test_a_damaged_snapshot_is_replaced_by_the_one_before_it(tmp_path, caplog):
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
        for number in range(30):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
        before = replica.state.fork_machine().snapshot()
    for _ in range(2):
        flip(tmp_path / SNAPSHOT_NAME, 60)
        async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
            assert replica.state.fork_machine().snapshot() == before
            assert "state.snapshot is damaged" in caplog.text
            assert (tmp_path / (SNAPSHOT_NAME + ".damaged")).exists()
            for number in range(8):
                await replica.propose(create_stream(f"{before.op} {number}"))
                await snapshots_done(replica)
            before = replica.state.fork_machine().snapshot()


async def test_a_crash_between_the_steps_of_a_snapshot_loses_nothing(tmp_path):
    """The new snapshot is written, the current one renamed, the new one renamed, the journal trimmed."""
    folder = tmp_path / "state"
    async with await Replica.open(folder, EVERY_4_COMMANDS) as replica:
        for number in range(9):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
    expected = [f"s{number}" for number in range(9)]
    (folder / (SNAPSHOT_NAME + ".unfinished")).write_bytes(b"half a snaps")
    (folder / (JOURNAL_NAME + ".unfinished")).write_bytes(b"half a journ")
    (folder / SNAPSHOT_NAME).rename(folder / PREVIOUS_SNAPSHOT_NAME)
    async with await Replica.open(folder) as replica:
        assert streams_of(replica) == expected
    assert not list(folder.glob("*.unfinished"))


async def test_two_damaged_snapshots_are_refused(tmp_path):
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
        for number in range(30):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
    flip(tmp_path / SNAPSHOT_NAME, 60)
    flip(tmp_path / PREVIOUS_SNAPSHOT_NAME, 60)
    before = contents_of(tmp_path)
    with pytest.raises(StateDamagedError, match=r"state\.snapshot is damaged at byte 40"):
        await Replica.open(tmp_path)
    assert contents_of(tmp_path) == before


async def test_a_missing_journal_is_refused(tmp_path):
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
        for number in range(9):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
    (tmp_path / JOURNAL_NAME).unlink()
    with pytest.raises(StateDamagedError, match="there are snapshots, but no journal"):
        await Replica.open(tmp_path)


async def test_missing_snapshots_are_refused(tmp_path):
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:
        for number in range(30):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
    (tmp_path / SNAPSHOT_NAME).unlink()
    (tmp_path / PREVIOUS_SNAPSHOT_NAME).unlink()
    with pytest.raises(StateDamagedError, match="there is no snapshot of that op or a later one"):
        await Replica.open(tmp_path)


async def test_a_journal_of_a_newer_release_is_refused(tmp_path):
    create_journal(tmp_path / JOURNAL_NAME, base_op=0)
    journal, _ = Journal.open(tmp_path / JOURNAL_NAME)
    unknown_operation = b"\xfa\x3e\x00"  # field 1007, empty
    journal.append([JournalEntry(op=1, timestamp_micros=1, command=unknown_operation)])
    journal.close()
    with pytest.raises(UnsupportedFormatError, match="holds an unknown command at op 1"):
        await Replica.open(tmp_path)


async def test_a_full_device_refuses_commands_and_the_replica_goes_on(tmp_path, monkeypatch):
    async with await Replica.open(tmp_path) as replica:
        await replica.propose(create_stream("before"))

        def device_is_full(descriptor, view, position):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "pwrite", device_is_full)
        with pytest.raises(AppendFailedError, match="No space left") as refusal:
            await replica.propose(create_stream("refused"))
        assert refusal.value.retryable
        monkeypatch.undo()
        assert (await replica.propose(create_stream("after"))).stream.incarnation == 2
    async with await Replica.open(tmp_path) as replica:
        assert streams_of(replica) == ["before", "after"]


async def test_a_failed_sync_stops_the_replica(tmp_path, monkeypatch):
    """Nothing is acknowledged, nothing tried again, and everyone learns why."""
    replica = await Replica.open(tmp_path)

    def broken(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    replica._journal._sync = broken
    following = Following(replica)
    proposals = [asyncio.create_task(replica.propose(create_stream(f"s{number}"))) for number in range(3)]
    for outcome in await asyncio.gather(*proposals, return_exceptions=True):
        assert isinstance(outcome, ReplicaStoppedError)
        assert isinstance(outcome.__cause__, SyncFailedError)
    assert following.updates == []
    with pytest.raises(ReplicaStoppedError, match="Input/output error"):
        await replica.propose(create_stream("later"))
    with pytest.raises(ReplicaStoppedError, match="Input/output error"):
        await replica.wait_stopped()
    await replica.close()


async def test_a_failing_subscriber_stops_the_replica(tmp_path):
    """Somebody's picture of the catalogue would be wrong for ever."""
    replica = await Replica.open(tmp_path)

    def broken(update):
        raise RuntimeError("cannot take it")

    replica.state.subscribe(broken)
    with pytest.raises(ReplicaStoppedError, match="cannot take it"):
        await replica.propose(create_stream("s"))
    await replica.close()
    async with await Replica.open(tmp_path) as replica:
        assert streams_of(replica) == ["s"], "it was durable"


async def test_a_failed_snapshot_stops_nothing(tmp_path, monkeypatch, caplog):
    async with await Replica.open(tmp_path, EVERY_4_COMMANDS) as replica:

        def device_is_full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr("headrace_metadata.snapshot.write_unfinished", device_is_full)
            for number in range(6):
                await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
        assert "no snapshot of the metadata could be taken" in caplog.text
        assert not (tmp_path / SNAPSHOT_NAME).exists()
        for number in range(6, 12):
            await replica.propose(create_stream(f"s{number}"))
            await snapshots_done(replica)
        assert (tmp_path / SNAPSHOT_NAME).exists()
    async with await Replica.open(tmp_path) as replica:
        assert len(streams_of(replica)) == 12


async def test_without_fsync_the_death_of_the_process_loses_nothing(tmp_path):
    settings = StateSettings(enforce_fsync=False, snapshot_commands=7)
    replica = await Replica.open(tmp_path, settings)
    replica._journal._sync = lambda descriptor: None
    for number in range(30):
        await replica.propose(create_stream(f"s{number}"))
    await snapshots_done(replica)
    await replica.close()
    async with await Replica.open(tmp_path, settings) as replica:
        assert len(streams_of(replica)) == 30


def flip(path, position):
    contents = bytearray(path.read_bytes())
    contents[position] ^= 1
    path.write_bytes(contents)


def contents_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}
