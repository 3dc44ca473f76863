"""Revoked tokens stay revoked despite crashes and disk errors."""

import asyncio
import itertools

import pytest

from headrace_gateway.access.revocations import RevocationsFile


def reopened(file, token_ids):
    revocations = RevocationsFile.open(file)
    return [token_id for token_id in token_ids if revocations.holds(token_id)]


async def test_they_are_kept(tmp_path):
    file = tmp_path / "http" / "revoked"
    revocations = RevocationsFile.open(file)
    ids = ["one", "with a space", "with\na line", "\ud800", "", "é"]
    await asyncio.gather(*(revocations.add(token_id, 7, expired_before=0) for token_id in ids))
    assert reopened(file, [*ids, "another"]) == ids
    await RevocationsFile.open(file).add("another", 8, expired_before=0)
    assert reopened(file, [*ids, "another"]) == [*ids, "another"]
    assert file.parent.stat().st_mode & 0o077 == 0


async def test_the_file_grows_by_a_line_each_and_is_written_anew_now_and_then(tmp_path):
    """The cost of a revocation does not depend on their number."""
    file = tmp_path / "revoked"
    revocations = RevocationsFile.open(file)
    sizes = []
    for number in range(800):
        # Each expires after ten further ones.
        await revocations.add(f"{number:05}", number + 10, expired_before=number)
        sizes.append(file.stat().st_size)
    steps = [later - earlier for earlier, later in itertools.pairwise(sizes)]
    assert max(steps) < 40
    assert 0 < sum(step < 0 for step in steps) <= 3
    assert max(sizes) < 300 * 30
    assert reopened(file, living := [f"{number:05}" for number in range(789, 800)]) == living
    assert not revocations.holds("00000")


async def test_a_torn_end_is_written_over(tmp_path):
    """The torn line was never acknowledged."""
    file = tmp_path / "revoked"
    await RevocationsFile.open(file).add("whole", 7, expired_before=0)
    whole = file.read_bytes()
    for torn in (whole[:-1], b"\0" * 100, b"7 "):
        file.write_bytes(whole + torn)
        revocations = RevocationsFile.open(file)
        assert revocations.holds("whole")
        await revocations.add("next", 8, expired_before=0)
        assert reopened(file, ["whole", "next"]) == ["whole", "next"]


async def test_what_could_not_be_written_goes_with_the_next(tmp_path, monkeypatch):
    file = tmp_path / "revoked"
    revocations = RevocationsFile.open(file)
    await revocations.add("first", 7, expired_before=0)
    moved = file.rename(tmp_path / "elsewhere")
    with pytest.raises(FileNotFoundError):
        await revocations.add("second", 7, expired_before=0)
    assert revocations.holds("second"), "for this process it is over"
    moved.rename(file)
    await revocations.add("third", 7, expired_before=0)
    assert reopened(file, ["first", "second", "third"]) == ["first", "second", "third"]


async def test_who_does_not_wait_does_not_stop_it(tmp_path):
    file = tmp_path / "revoked"
    revocations = RevocationsFile.open(file)
    tasks = [asyncio.ensure_future(revocations.add(str(number), 7, expired_before=0)) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await revocations.add("last", 7, expired_before=0)
    assert reopened(file, [str(number) for number in range(20)]) == [str(number) for number in range(20)]


@pytest.mark.parametrize("contents", [b"\xc1\n", b"7 6f6e65 00000000\n", b"\n", b"7\n"])
def test_a_damaged_file_is_not_ignored(tmp_path, contents):
    file = tmp_path / "revoked"
    file.write_bytes(contents)
    with pytest.raises(ValueError, match="is not a list of revoked tokens"):
        RevocationsFile.open(file)
