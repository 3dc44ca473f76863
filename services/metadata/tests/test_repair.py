"""A damaged journal never needs the folder deleted (LOG-14): what can be proved is kept, the rest given up openly."""

import pytest
from metadata_commands import create_stream

from headrace_metadata.cli import run
from headrace_metadata.config import StateSettings
from headrace_metadata.errors import StateDamagedError
from headrace_metadata.journal import JOURNAL_NAME
from headrace_metadata.journal_format import scan
from headrace_metadata.replica import Replica
from headrace_metadata.snapshot import PREVIOUS_SNAPSHOT_NAME, SNAPSHOT_NAME


async def filled(folder, streams_count, snapshot_commands=1000):
    async with await Replica.open(folder, StateSettings(snapshot_commands=snapshot_commands)) as replica:
        for number in range(streams_count):
            await replica.propose(create_stream(f"s{number}"))
            if replica._snapshot_task is not None:
                await replica._snapshot_task


async def streams_after_repair(folder):
    async with await Replica.open(folder) as replica:
        streams = [stream.name for stream in replica.state.fork_machine().catalog().streams]
        reply = await replica.propose(create_stream("new"))
        assert reply.stream.incarnation > 1_000_000, "no number of a lost command is given again"
    async with await Replica.open(folder):
        return streams


def flip(path, position):
    contents = bytearray(path.read_bytes())
    contents[position] ^= 1
    path.write_bytes(contents)


async def test_nothing_to_repair(tmp_path, capsys):
    await filled(tmp_path, 3)
    assert run(["repair", "--accept-loss", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "Nothing is damaged; the last command is 3.\n"
    async with await Replica.open(tmp_path):
        assert run(["repair", str(tmp_path)]) == 2
        assert "is in use by another process" in capsys.readouterr().err


async def test_damage_in_the_middle_gives_up_what_follows(tmp_path, capsys):
    await filled(tmp_path, 9)
    journal = tmp_path / JOURNAL_NAME
    position = scan(journal.read_bytes(), journal).positions_bytes[5]
    flip(journal, position + 30)
    damaged = journal.read_bytes()
    with pytest.raises(StateDamagedError):
        await Replica.open(tmp_path)

    assert run(["repair", str(tmp_path)]) == 1
    output = capsys.readouterr().out
    assert f"is damaged at byte {position}: op 6 cannot be read" in output
    assert "gives up commands 6 to 9, and later ones if there were any" in output
    assert journal.read_bytes() == damaged

    assert run(["repair", "--accept-loss", str(tmp_path)]) == 0
    assert "Given up: commands 6 to 9" in capsys.readouterr().out
    assert (tmp_path / (JOURNAL_NAME + ".damaged")).read_bytes() == damaged
    assert await streams_after_repair(tmp_path) == ["s0", "s1", "s2", "s3", "s4"]


async def test_a_damaged_header_gives_up_what_follows_the_snapshot(tmp_path, capsys):
    await filled(tmp_path, 10, snapshot_commands=4)
    flip(tmp_path / JOURNAL_NAME, 20)
    assert run(["repair", "--accept-loss", str(tmp_path)]) == 0
    assert "Given up: commands after 8, if there were any" in capsys.readouterr().out
    assert len(await streams_after_repair(tmp_path)) == 8


async def test_a_missing_journal_gives_up_what_follows_the_snapshot(tmp_path, capsys):
    await filled(tmp_path, 10, snapshot_commands=4)
    (tmp_path / JOURNAL_NAME).unlink()
    assert run(["repair", str(tmp_path)]) == 1
    assert "there are snapshots, but no journal" in capsys.readouterr().out
    assert run(["repair", "--accept-loss", str(tmp_path)]) == 0
    assert len(await streams_after_repair(tmp_path)) == 8


async def test_damage_before_the_snapshot_costs_only_what_follows_it(tmp_path, capsys):
    await filled(tmp_path, 10, snapshot_commands=4)
    journal = tmp_path / JOURNAL_NAME
    found = scan(journal.read_bytes(), journal)
    assert found.header.base_op == 4
    flip(journal, found.positions_bytes[0] + 30)
    with pytest.raises(StateDamagedError, match="op 5 cannot be read"):
        await Replica.open(tmp_path)
    assert run(["repair", "--accept-loss", str(tmp_path)]) == 0
    assert "Given up: commands 9 to 10" in capsys.readouterr().out
    assert len(await streams_after_repair(tmp_path)) == 8


async def test_without_a_snapshot_and_a_journal_only_a_backup_helps(tmp_path, capsys):
    await filled(tmp_path, 10, snapshot_commands=4)
    for name in (SNAPSHOT_NAME, PREVIOUS_SNAPSHOT_NAME):
        flip(tmp_path / name, 60)
    (tmp_path / JOURNAL_NAME).unlink()
    assert run(["repair", "--accept-loss", str(tmp_path)]) == 2
    assert "neither a snapshot nor the journal can be read" in capsys.readouterr().err
