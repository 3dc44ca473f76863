"""CON-84: the lag of files is the number of bytes that are not stored yet."""

from __future__ import annotations

import asyncio

import pytest

from headrace_connectors.contract import Lag
from headrace_connectors.sources.files.settings import FilesSettings
from headrace_connectors.sources.files.source import FilesSource


@pytest.fixture
async def source(tmp_path):
    """Make sources of the files `*.log`; each is closed at the end."""
    made = []

    async def source(state=None, **settings):
        given = {"paths": [f"{tmp_path}/*.log"], "poll_interval": "1 ms", "complete_after": "1 day", **settings}
        made.append(FilesSource(FilesSettings.model_validate(given)))
        await made[-1].open(state)
        return made[-1]

    yield source
    for one in made:
        await one.close()


async def stored(source):
    """Store everything that there is; return the state."""
    state = None
    while (batch := await source.poll()) is not None:
        state = batch.state
        await source.commit()
    return state


async def test_bytes_count_until_they_are_stored(source, tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\ntwo\n")
    (tmp_path / "b.log").write_bytes(b"x\n")
    (tmp_path / "c.gz").write_bytes(b"not read")
    one = await source()
    assert await one.lag() == Lag(10, "bytes")
    state = await stored(one)
    assert await one.lag() == Lag(0, "bytes")
    with path.open("ab") as file:
        file.write(b"three\n")
    batch = await one.poll()
    assert len(batch.records) == 1
    assert await one.lag() == Lag(6, "bytes")
    await one.commit()
    assert await one.lag() == Lag(0, "bytes")
    other = await source(state)
    assert await other.lag() == Lag(6, "bytes")


async def test_a_file_that_was_renamed_counts_to_its_end(source, tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"one\n")
    one = await source()
    await stored(one)
    with path.open("ab") as file:
        path.rename(tmp_path / "a.log.1")
        file.write(b"two\n")
    path.write_bytes(b"three\n")
    assert await one.lag() == Lag(10, "bytes")
    await stored(one)
    assert await one.lag() == Lag(0, "bytes")


async def test_the_lag_is_not_known_before_the_end_is(source, tmp_path):
    (tmp_path / "a.log").write_bytes(b"one\n")
    one = await source(start="end")
    assert await one.lag() is None
    await stored(one)
    assert await one.lag() == Lag(0, "bytes")


async def test_a_reading_that_hangs_takes_one_thread_of_the_lag(source, tmp_path, monkeypatch):
    (tmp_path / "a.log").write_bytes(b"one\n")
    one = await source()
    behind, entered = one._behind, []

    def counted():
        entered.append(None)
        return behind()

    monkeypatch.setattr(one, "_behind", counted)
    with one._lock:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(one.lag(), 0.05)
    assert await one.lag() == Lag(4, "bytes")
    assert len(entered) == 1
    assert await one.lag() == Lag(4, "bytes")
    assert len(entered) == 2
