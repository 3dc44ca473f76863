"""Replicas that serve a catalog watch over gRPC, with controllable progress."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
from grpc import aio

from headrace_metadata_client import CatalogWatch, MetadataTarget, connected
from headrace_proto.catalog.v1 import Delta, Snapshot, Stream, Update
from headrace_proto.metadata.v1 import ReplicaStatus, WatchResponse
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataServicer, add_MetadataServicer_to_server


def update(version):
    return Update(version=version, deltas=[Delta(stream_put=Stream(id=version, name=f"s{version}"))])


class Teller(MetadataServicer):
    """A replica with all versions up to ``version``; it lacks the updates of those before ``kept_from``."""

    def __init__(self, version=0, kept_from=0):
        self.version = version
        self.kept_from = kept_from
        self.is_mute = False
        self.is_strict = False
        self.watchers = 0
        self._changed = asyncio.Event()

    def reach(self, version):
        self.version = version
        self._changed.set()
        self._changed = asyncio.Event()

    async def Watch(self, request, context):  # noqa: N802
        await self._let_in(context)
        self.watchers += 1
        try:
            at = request.after_version if request.HasField("after_version") else None
            while True:
                if at is None or (at < self.version and at < self.kept_from):
                    at = self.version
                    yield WatchResponse(snapshot=Snapshot(version=at))
                elif at < self.version:
                    at += 1
                    yield WatchResponse(update=update(at))
                else:
                    await self._changed.wait()
        finally:
            self.watchers -= 1

    async def GetStatus(self, _request, context):  # noqa: N802
        await self._let_in(context)
        return ReplicaStatus(version=self.version)

    async def _let_in(self, context):
        if self.is_strict:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "who is there?")
        if self.is_mute:
            await asyncio.Event().wait()


class Cluster:
    def __init__(self, tellers, connections, servers):
        self.tellers = tellers
        self.connections = connections
        self._servers = servers

    def watch(self, **how):
        return CatalogWatch(self.connections, look_seconds=0.1, timeout_seconds=0.2, **how)

    async def listened_to(self):
        while True:
            found = [index for index, teller in enumerate(self.tellers) if teller.watchers > 0]
            if found:
                return found[0]
            await asyncio.sleep(0.01)

    async def stop(self, index):
        await self._servers[index].stop(0)


@asynccontextmanager
async def reported_by(*tellers):
    async with AsyncExitStack() as stack:
        servers, addresses = [], []
        for teller in tellers:
            server = aio.server(options=(("grpc.so_reuseport", 0),))
            add_MetadataServicer_to_server(teller, server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            await server.start()
            stack.push_async_callback(server.stop, 0)
            servers.append(server)
        target = MetadataTarget(addresses=tuple(addresses), cluster="c", secret=None, authority=None)
        yield Cluster(tellers, await stack.enter_async_context(connected(target)), servers)


class Follower:
    """Applies received events, and detects regressions and gaps."""

    def __init__(self, watch):
        self.watch = watch
        self.snapshots = []
        self.version = watch.version
        self._task = asyncio.create_task(self._follow())

    async def _follow(self):
        async for event in self.watch.events():
            if isinstance(event, Snapshot):
                assert self.version is None or event.version > self.version
                self.snapshots.append(event.version)
            else:
                assert event.version == self.version + 1
            self.version = event.version

    async def reaches(self, version):
        async with asyncio.timeout(60):
            while self.version != version:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(0.01)

    async def end(self):
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()
