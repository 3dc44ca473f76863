"""The journal ``state.messages`` (LOG-13): what is acknowledged is there after any crash, or the start is refused."""

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from headrace_metadata.errors import (
    AppendFailedError,
    StateDamagedError,
    SyncFailedError,
    UnsupportedFormatError,
)
from headrace_metadata.journal import JOURNAL_NAME, Journal, create_journal
from headrace_metadata.journal_format import FRAME_HEAD_BYTES, HEADER_BYTES, Header, encode_entry, encode_seal, scan
from headrace_proto.metadata.v1 import JournalEntry


def entry(op, command=b""):
    return JournalEntry(op=op, timestamp_micros=op * 1000, command=command or b"command %d" % op)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / JOURNAL_NAME
    create_journal(path, base_op=0)
    return path


def written(path, groups):
    """Append groups of ops, and return how long the file was before the last group."""
    journal, entries = Journal.open(path)
    assert not entries
    before = journal.size_bytes
    for group in groups:
        before = journal.size_bytes
        journal.append([entry(op) for op in group])
    journal.close()
    return before


def reopened(path):
    journal, entries = Journal.open(path)
    journal.close()
    return [entry.op for entry in entries]


def test_entries_come_back(path):
    written(path, [[1], [2, 3]])
    journal, entries = Journal.open(path)
    assert entries == [entry(1), entry(2), entry(3)]
    assert (journal.base_op, journal.last_op) == (0, 3)
    journal.append([entry(4)])
    journal.close()
    assert reopened(path) == [1, 2, 3, 4]


@given(groups=st.lists(st.lists(st.binary(min_size=1, max_size=40), min_size=1, max_size=4), max_size=5))
def test_any_groups_come_back(tmp_path_factory, groups):
    path = tmp_path_factory.mktemp("journal") / JOURNAL_NAME
    create_journal(path, base_op=7)
    journal, _ = Journal.open(path)
    for commands in groups:
        journal.append([entry(journal.last_op + 1 + index, command) for index, command in enumerate(commands)])
    journal.close()
    journal, entries = Journal.open(path)
    assert [entry.command for entry in entries] == [command for commands in groups for command in commands]
    assert journal.last_op == 7 + len(entries)
    journal.close()


def test_a_group_shares_one_sync(path):
    synced = []

    def sync(descriptor):
        os.fdatasync(descriptor)
        synced.append(os.fstat(descriptor).st_size)

    journal, _ = Journal.open(path, sync=sync)
    journal.append([entry(op) for op in range(1, 101)])
    assert len(synced) == 1
    assert synced[0] > 100 * FRAME_HEAD_BYTES, "the write came before the sync"
    journal.append([entry(101)])
    assert len(synced) == 2
    journal.close()


def test_log_11_a_last_group_cut_off_at_any_byte_is_dropped_and_nothing_else(path, tmp_path):
    """The tail that a crash leaves: any prefix of the last write, which nobody was told about."""
    last_group = written(path, [[1], [2, 3], [4]])
    contents = path.read_bytes()
    cut = tmp_path / "cut"
    for length in range(last_group, len(contents)):
        cut.write_bytes(contents[:length])
        ops = reopened(cut)
        # The very last frame is the seal; before that, the entry itself is whole.
        assert ops == ([1, 2, 3, 4] if length >= len(contents) - FRAME_HEAD_BYTES else [1, 2, 3])
        assert reopened(cut) == ops, "and the file is whole again"


def test_a_group_that_reached_the_device_out_of_order_is_dropped(path):
    """Ops 3 to 5 are one write of which the middle is missing: none was acknowledged, 5 must not be kept."""
    written(path, [[1, 2]])
    contents = path.read_bytes()
    salt = scan(contents, path).header.salt
    frames = [encode_entry(entry(op), synced_through=2, salt=salt) for op in (3, 4, 5)]
    path.write_bytes(contents + frames[0] + bytes(len(frames[1])) + frames[2])
    assert reopened(path) == [1, 2, 3]
    assert path.read_bytes().startswith(contents + frames[0])
    assert frames[2] not in path.read_bytes()


def test_a_file_that_was_extended_with_zeros_is_cut(path):
    written(path, [[1]])
    contents = path.read_bytes()
    path.write_bytes(contents + bytes(5000))
    assert reopened(path) == [1]
    assert path.read_bytes() == contents


def test_log_14_a_flipped_bit_anywhere_is_found_and_refused(path, tmp_path):
    written(path, [[1], [2, 3], [4]])
    contents = path.read_bytes()
    found = scan(contents, path)
    seal = len(contents) - FRAME_HEAD_BYTES
    damaged = tmp_path / "damaged"
    for position in range(seal):
        damaged.write_bytes(flipped(contents, position))
        with pytest.raises(StateDamagedError) as refusal:
            Journal.open(damaged)
        starts = [0, *[start for start in frame_starts(contents) if start <= position]]
        assert refusal.value.position_bytes == max(starts)
        assert damaged.read_bytes() == flipped(contents, position), "nothing was changed"
    for position in range(seal, len(contents)):
        # The last seal protects everything before it, and says nothing that the entries do not.
        damaged.write_bytes(flipped(contents, position))
        assert reopened(damaged) == [1, 2, 3, 4]
    assert len(found.entries) == 4


def test_a_refusal_says_where_and_what_to_do(path):
    written(path, [[1], [2], [3]])
    position = scan(path.read_bytes(), path).positions_bytes[1]
    path.write_bytes(flipped(path.read_bytes(), position + 30))
    with pytest.raises(StateDamagedError) as refusal:
        Journal.open(path)
    text = str(refusal.value)
    assert f"{path} is damaged at byte {position}: op 2 cannot be read, but all ops up to 3 were durable" in text
    assert "Nothing was changed. Restore the file from a backup" in text
    assert "python -m headrace_metadata repair" in text


def test_a_missing_entry_is_refused(path):
    written(path, [[1], [2], [3]])
    contents = path.read_bytes()
    found = scan(contents, path)
    path.write_bytes(contents[: found.positions_bytes[1]] + contents[found.positions_bytes[2] :])
    with pytest.raises(StateDamagedError, match="op 3 stands where op 2 belongs"):
        Journal.open(path)


def test_a_newer_version_is_refused_as_such(path):
    header = Header(salt=1, base_op=0).encode()
    newer = header[:8] + b"\2" + header[9:32]
    path.write_bytes(newer + xxh3_64_intdigest(newer).to_bytes(8, "little"))
    with pytest.raises(UnsupportedFormatError, match="has format version 2"):
        Journal.open(path)


def test_a_command_cannot_pretend_to_be_a_frame(path):
    """Whoever chooses a name cannot turn a torn write into a refusal to start: the salt is not known."""
    pretended = encode_seal(synced_through=1000, salt=0)
    written(path, [[1]])
    salt = scan(path.read_bytes(), path).header.salt
    torn = encode_entry(entry(2, b"name" + pretended), synced_through=1, salt=salt)[:-1]
    path.write_bytes(path.read_bytes() + torn)
    assert reopened(path) == [1]


def test_what_a_killed_process_left_is_made_durable_at_the_next_start(path):
    journal, _ = Journal.open(path)
    journal.append([entry(1)], durable=False)
    journal.close()
    syncs = []
    journal, entries = Journal.open(path, sync=syncs.append)
    journal.close()
    assert [found.op for found in entries] == [1]
    assert len(syncs) == 1
    syncs.clear()
    Journal.open(path, sync=syncs.append)[0].close()
    assert not syncs, "it is known to be durable by then"


def test_entries_that_were_not_synced_may_be_lost_without_a_refusal(path):
    journal, _ = Journal.open(path)
    journal.append([entry(1)])
    for op in (2, 3, 4):
        journal.append([entry(op)], durable=False)
    journal.close()
    position = scan(path.read_bytes(), path).positions_bytes[1]
    path.write_bytes(flipped(path.read_bytes(), position + 30))
    assert reopened(path) == [1]


def test_trimming_drops_the_beginning_and_keeps_the_rest(path):
    journal, _ = Journal.open(path)
    journal.append([entry(op) for op in range(1, 6)])
    journal.append([entry(6)])
    before = journal.size_bytes
    journal.trim(3)
    assert (journal.base_op, journal.last_op) == (3, 6)
    assert journal.size_bytes < before
    journal.trim(2)
    journal.append([entry(7)])
    journal.close()
    assert reopened(path) == [4, 5, 6, 7]
    journal, _ = Journal.open(path)
    journal.trim(7)
    assert journal.size_bytes == HEADER_BYTES
    journal.append([entry(8)])
    journal.close()
    assert reopened(path) == [8]


def test_a_failed_write_leaves_the_journal_as_it_was(path, monkeypatch):
    journal, _ = Journal.open(path)
    journal.append([entry(1)])
    contents = path.read_bytes()
    real = os.pwrite

    def device_is_full(descriptor, view, position):
        if position == len(contents):
            return real(descriptor, view[:-3], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", device_is_full)
    with pytest.raises(AppendFailedError, match="No space left on device") as refusal:
        journal.append([entry(2), entry(3)])
    assert refusal.value.retryable
    assert path.read_bytes() == contents
    monkeypatch.undo()
    journal.append([entry(2)])
    journal.close()
    assert reopened(path) == [1, 2]


def test_a_failed_sync_is_not_tried_again(path):
    def broken(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    journal, _ = Journal.open(path, sync=broken)
    with pytest.raises(SyncFailedError, match="Input/output error"):
        journal.append([entry(1)])
    journal.close()


def flipped(contents, position):
    return contents[:position] + bytes([contents[position] ^ 1]) + contents[position + 1 :]


def frame_starts(contents):
    position = HEADER_BYTES
    while position < len(contents):
        yield position
        position += FRAME_HEAD_BYTES + int.from_bytes(contents[position + 4 : position + 8], "little")
