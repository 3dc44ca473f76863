"""The window of recent updates."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from headrace_metadata.update_history import UpdateHistory
from headrace_proto.catalog.v1 import Delta, Snapshot, Stream, Update


def update(version, name="s"):
    return Update(version=version, deltas=[Delta(stream_put=Stream(id=1, name=name))])


def versions(updates):
    return None if updates is None else [update.version for update in updates]


@given(start=st.integers(0, 50), count=st.integers(0, 40), kept=st.integers(1, 20), after=st.integers(0, 120))
async def test_what_follows_a_version_has_no_gap_or_is_not_kept(start, count, kept, after):
    history = UpdateHistory(start, updates_max=kept)
    for version in range(start + 1, start + count + 1):
        history.append(update(version))
    found = versions(history.after(after, count_max=7))
    newest = start + count
    if after >= newest:
        assert found == []
    elif after < newest - min(kept, count):
        assert found is None
    else:
        assert found == list(range(after + 1, min(after + 7, newest) + 1))


async def test_large_updates_leave_earlier():
    history = UpdateHistory(0, bytes_max=1000)
    for version in range(1, 100):
        history.append(update(version, "n" * 90))
    assert history.after(88, count_max=100) is None
    assert versions(history.after(95, count_max=100)) == [96, 97, 98, 99]


async def test_followers_wait_for_what_is_new_and_for_a_restart():
    history = UpdateHistory(5)
    waiting = asyncio.create_task(history.wait_beyond(6))
    await asyncio.sleep(0)
    history.append(update(6))
    await asyncio.sleep(0)
    assert not waiting.done()
    history.restart(Snapshot(version=20))
    await waiting
    assert history.after(6, count_max=10) is None
    assert history.after(20, count_max=10) == []
