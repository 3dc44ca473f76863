"""The watch delivers the catalog from any replica: without a gap, never backwards, in time (CTL-2)."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from fake_replicas import Follower, Teller, reported_by

from headrace_metadata_client import UnauthenticatedError


@asynccontextmanager
async def following(cluster, **how):
    follower = Follower(cluster.watch(**how))
    try:
        yield follower
    finally:
        await follower.end()


async def test_a_catalog_and_its_updates_are_reported():
    async with reported_by(Teller(5)) as cluster, following(cluster) as follower:
        await follower.reaches(5)
        cluster.tellers[0].reach(9)
        await follower.reaches(9)
        assert follower.snapshots == [5]
        assert follower.watch.version == 9
        assert follower.watch.age_seconds < 5


async def test_a_follower_with_a_version_receives_what_came_after_it():
    async with reported_by(Teller(5)) as cluster, following(cluster, after_version=3) as follower:
        await follower.reaches(5)
        assert follower.snapshots == []


async def test_a_follower_that_is_too_far_behind_begins_anew():
    async with reported_by(Teller(9, kept_from=7)) as cluster, following(cluster, after_version=3) as follower:
        await follower.reaches(9)
        assert follower.snapshots == [9]


async def test_when_a_replica_is_gone_another_goes_on_without_a_gap():
    async with reported_by(*(Teller(5) for _ in range(3))) as cluster, following(cluster) as follower:
        await follower.reaches(5)
        await cluster.stop(await cluster.listened_to())
        for teller in cluster.tellers:
            teller.reach(8)
        await follower.reaches(8)
        assert follower.snapshots == [5]


async def test_a_replica_that_lags_is_never_gone_back_to():
    async with reported_by(Teller(8), Teller(5)) as cluster:
        async with following(cluster, version_min=8) as follower:
            await follower.reaches(8)
            assert follower.snapshots == [8]
        # If the lagging replica is the only one left, the watch waits for it.
        await cluster.stop(0)
        async with following(cluster, after_version=8) as follower:
            await asyncio.sleep(0.5)
            assert follower.version == 8
            cluster.tellers[1].reach(9)
            await follower.reaches(9)
            assert follower.snapshots == []


async def test_a_replica_that_reports_less_than_others_know_is_left():
    async with reported_by(Teller(5), Teller(5)) as cluster, following(cluster) as follower:
        await follower.reaches(5)
        other = 1 - await cluster.listened_to()
        cluster.tellers[other].reach(6)
        await follower.reaches(6)
        assert cluster.tellers[1 - other].version == 5


async def test_a_replica_that_does_not_answer_any_more_is_left():
    async with reported_by(Teller(5), Teller(5)) as cluster, following(cluster) as follower:
        await follower.reaches(5)
        first = await cluster.listened_to()
        cluster.tellers[first].is_mute = True
        async with asyncio.timeout(60):
            while cluster.tellers[1 - first].watchers == 0:
                await asyncio.sleep(0.01)
        cluster.tellers[1 - first].reach(6)
        await follower.reaches(6)


async def test_a_replica_that_says_nothing_at_all_is_left():
    mute, other = Teller(5), Teller(5)
    mute.is_mute = True
    for _ in range(4):
        async with reported_by(mute, other) as cluster, following(cluster) as follower:
            await follower.reaches(5)


async def test_what_a_reply_named_is_reported_soon():
    """A gateway answers its client when it holds the version of the reply."""
    async with reported_by(Teller(5), Teller(5)) as cluster:
        watch = cluster.watch()
        watch._look_seconds = 3600.0
        follower = Follower(watch)
        try:
            await follower.reaches(5)
            cluster.tellers[1 - await cluster.listened_to()].reach(6)
            watch.expect(6)
            await follower.reaches(6)
        finally:
            await follower.end()


async def test_it_is_known_how_old_the_view_is():
    async with reported_by(Teller(5), Teller(5)) as cluster, following(cluster) as follower:
        assert follower.watch.age_seconds == float("inf")
        await follower.reaches(5)
        # No event for half a second, and the versions were checked since.
        await asyncio.sleep(0.5)
        async with asyncio.timeout(60):
            while follower.watch.age_seconds >= 0.4:
                await asyncio.sleep(0.01)
        await cluster.stop(0)
        await cluster.stop(1)
        async with asyncio.timeout(60):
            while follower.watch.age_seconds <= 0.5:
                await asyncio.sleep(0.01)
        age_seconds = follower.watch.age_seconds
        await asyncio.sleep(0.5)
        assert follower.watch.age_seconds >= age_seconds + 0.5


async def test_who_is_not_let_in_learns_it_unless_that_was_so_before():
    tellers = [Teller(5), Teller(5)]
    for teller in tellers:
        teller.is_strict = True
    async with reported_by(*tellers) as cluster:
        with pytest.raises(UnauthenticatedError):
            async for _ in cluster.watch().events():
                pass
        async with following(cluster, after_version=4) as follower:
            await asyncio.sleep(0.5)
            for teller in tellers:
                teller.is_strict = False
            await follower.reaches(5)


async def test_a_follower_that_takes_its_time_loses_nothing():
    async with reported_by(Teller(5), Teller(5)) as cluster:
        watch = cluster.watch()
        seen = []
        async with asyncio.timeout(60):
            async for event in watch.events():
                seen.append(event.version)
                for teller in cluster.tellers:
                    teller.reach(8)
                await asyncio.sleep(0.6)
                if event.version == 8:
                    break
        assert seen == [5, 6, 7, 8]
