"""Distribution of the catalog to the shards: in order, on disk before use, and never an older version."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from headrace_metadata_client import UnauthenticatedError
from headrace_node import Horizon
from headrace_partition_node.catalog_follower import Catalog
from headrace_partition_node.data_directory import HighestVersion
from headrace_partition_node.placements import Placements
from headrace_proto.catalog.v1 import Snapshot, Update


class Watch:
    """Delivers the events of a test."""

    def __init__(self):
        self.reported = asyncio.Queue()
        self.age_seconds = 0.0
        self.expected = []

    def expect(self, version):
        self.expected.append(version)

    async def events(self):
        while True:
            event = await self.reported.get()
            if isinstance(event, Exception):
                raise event
            yield event


class Shards:
    """Record of published versions, and of the version on disk at that moment."""

    def __init__(self, highest):
        self.highest = highest
        self.published = []
        self.blocks = None

    def publish_snapshot(self, snapshot):
        self.publish_update(snapshot)

    def publish_update(self, update):
        assert self.highest.value >= update.version
        self.published.append((type(update).__name__, update.version))


@asynccontextmanager
async def following(directory, horizon=None):
    with HighestVersion.opened(directory) as highest:
        watch, shards = Watch(), Shards(highest)
        catalog = Catalog(watch, shards, Placements("node-1"), highest, horizon or Horizon())
        begun = asyncio.Event()
        task = asyncio.create_task(catalog.follow(begun))
        yield watch, shards, catalog, begun, task
        task.cancel()
        await asyncio.wait({task})


async def reaches(catalog, version):
    async with asyncio.timeout(60):
        while catalog.version != version:
            await asyncio.sleep(0.001)


async def test_what_is_reported_is_acted_on_in_order_and_noted_before(tmp_path):
    async with following(tmp_path) as (watch, shards, catalog, begun, _):
        assert not begun.is_set()
        watch.reported.put_nowait(Snapshot(version=7))
        await reaches(catalog, 7)
        await begun.wait()
        for version in range(8, 3000):
            watch.reported.put_nowait(Update(version=version))
        await reaches(catalog, 2999)
        watch.reported.put_nowait(Snapshot(version=4000))
        await reaches(catalog, 4000)
        expected = [("Snapshot", 7), *(("Update", version) for version in range(8, 3000)), ("Snapshot", 4000)]
        assert shards.published == expected
    with HighestVersion.opened(tmp_path) as highest:
        assert highest.value == 4000


async def test_the_horizon_follows_what_the_shards_act_on(tmp_path):
    passed = []
    async with following(tmp_path, Horizon(passed.append)) as (watch, _, catalog, begun, _):
        watch.reported.put_nowait(Snapshot(version=7))
        await begun.wait()
        catalog.known(7, 100)
        catalog.known(8, 200)
        assert watch.expected == [7, 8]
        assert passed == [100]
        watch.reported.put_nowait(Update(version=8))
        await reaches(catalog, 8)
        assert passed == [100, 200]


async def test_the_end_of_the_watch_is_the_end(tmp_path):
    async with following(tmp_path) as (watch, _, _, _, task):
        watch.reported.put_nowait(Snapshot(version=1))
        watch.reported.put_nowait(UnauthenticatedError("who is there?"))
        with pytest.raises(UnauthenticatedError):
            await asyncio.wait_for(task, 10)


async def test_what_cannot_be_noted_is_not_acted_on(tmp_path, monkeypatch):
    def full(_version):
        raise OSError("no space left")

    async with following(tmp_path) as (watch, shards, _, _, task):
        monkeypatch.setattr(HighestVersion, "raise_to", lambda _self, version: full(version))
        watch.reported.put_nowait(Snapshot(version=1))
        with pytest.raises(OSError, match="no space"):
            await asyncio.wait_for(task, 10)
        assert shards.published == []
