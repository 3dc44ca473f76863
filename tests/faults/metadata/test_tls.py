"""Replicas with TLS between each other and towards their callers (CTL-6)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import grpc
import pytest
import trustme
from grpc import aio

from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateStream, GetStatusRequest, ProposeRequest, ReplicaStatus
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.faults.metadata.cluster import Cluster, running_cluster
from tests.metadata_replicas import CHANNEL_OPTIONS, METADATA

_SECONDS_MAX = 60.0


def certified(directory: Path, authority: trustme.CA, name: str) -> dict[str, str]:
    """Return settings of a replica with a certificate signed by this authority."""
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    files = {kind: directory / f"{name}-{kind}.pem" for kind in ("certificate", "key", "authority")}
    files["certificate"].write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(files["key"])
    authority.cert_pem.write_to_path(files["authority"])
    return {f"TLS_{kind.upper()}": str(path) for kind, path in files.items()}


async def committed(cluster: Cluster, channels: list[aio.Channel], name: str) -> None:
    """Create a stream through the first replica that accepts the command."""
    deadline = time.monotonic() + _SECONDS_MAX
    request = ProposeRequest(command=Command(create_stream=CreateStream(name=name)))
    while time.monotonic() < deadline:
        for channel in channels:
            try:
                response = await MetadataStub(channel).Propose(request, metadata=METADATA, timeout=5.0)
            except aio.AioRpcError:
                continue
            if response.reply.status in {Status.OK, Status.STREAM_NAME_ALREADY_EXISTS}:
                return
        await asyncio.sleep(0.05)
    pytest.fail("\n".join(replica.log_text()[-1000:] for replica in cluster.replicas))


@pytest.mark.timeout(180)
async def test_three_replicas_with_certificates(tmp_path: Path) -> None:
    authority, other = trustme.CA(), trustme.CA()
    settings = certified(tmp_path, authority, "member")
    async with running_cluster(tmp_path, settings=settings) as cluster:
        trusted = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        channels = [aio.secure_channel(r.address, trusted, options=CHANNEL_OPTIONS) for r in cluster.replicas]
        await committed(cluster, channels, "encrypted")

        # A replica with the right secret and a certificate of another authority is refused.
        untrusted = cluster.replicas[2]
        untrusted.kill()
        untrusted.reconfigure(certified(tmp_path, other, "stranger"))
        untrusted.start()
        foreign = grpc.ssl_channel_credentials(other.cert_pem.bytes())
        async with aio.secure_channel(untrusted.address, foreign, options=CHANNEL_OPTIONS) as channel:
            deadline = time.monotonic() + _SECONDS_MAX
            while (status := await status_of(channel)) is None:
                assert time.monotonic() < deadline, untrusted.log_text()[-1000:]
            await committed(cluster, channels[:2], "without it")
            status = await status_of(channel)
            assert status is not None
            assert [member.connected for member in status.members] == [False, False, True]

        async with aio.insecure_channel(cluster.replicas[0].address) as plain:
            assert await status_of(plain) is None
        for channel in channels:
            await channel.close()


async def status_of(channel: aio.Channel) -> ReplicaStatus | None:
    """Return the status of a replica, or `None` if it cannot be queried over this channel."""
    try:
        return await MetadataStub(channel).GetStatus(GetStatusRequest(), metadata=METADATA, timeout=30.0)
    except aio.AioRpcError:
        return None
