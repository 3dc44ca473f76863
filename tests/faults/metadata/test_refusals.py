"""Directories and peers that a replica refuses: it reports reason and remedy, and loses nothing (CTL-5, CTL-6)."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import xxhash
from grpc import aio

from headrace_proto.cluster_token import HEADER, authorization
from headrace_proto.metadata.v1 import Command, CreateStream, ProposeRequest, StateSnapshot
from tests.faults.metadata import superblock
from tests.faults.metadata.cluster import Cluster, converged
from tests.faults.metadata.prepared import Client, backup_of, eventually, prepared
from tests.faults.segment_files import flip
from tests.metadata_replicas import NAME, SECRET, ReplicaProcess

pytestmark = pytest.mark.timeout(300)


async def refusal_to_start(replica: ReplicaProcess) -> str:
    """Start a replica that must fail; return its error output."""
    before = len(replica.log_text())
    replica.start()
    assert await asyncio.to_thread(replica.process.wait, 30) == 1
    said = replica.log_text()[before:]
    assert "Traceback" not in said
    (line,) = (line for line in said.splitlines() if line.startswith("error: "))
    return line


async def is_whole(cluster: Cluster, client: Client, victim: ReplicaProcess, before: StateSnapshot) -> None:
    """Check that the replica runs again and has the earlier state and all commands executed meanwhile."""
    await client.rename(50)
    victim.start()
    state = await converged(client.caller.stubs)
    assert client.may_have_made(state.op - before.op, 50)
    assert victim.is_running, cluster


def other_cluster(directory: Path) -> None:
    """Leave the directory unchanged: the settings are wrong."""
    assert superblock.path_in(directory).exists()


def newer_form(directory: Path) -> None:
    superblock.set_version(directory, 2)


def older_form(directory: Path) -> None:
    superblock.set_version(directory, 0)


def newer_release(directory: Path) -> None:
    superblock.set_release(directory, 9, 0, 0)


def all_copies(directory: Path) -> None:
    for copy in range(superblock.COPIES):
        flip(superblock.path_in(directory), copy * superblock.COPY_BYTES + 200)


HARMS: list[tuple[Callable[[Path], None], dict[str, str], tuple[str, ...]]] = [
    (other_cluster, {"CLUSTER_NAME": "other"}, ("belongs to another cluster than", "check the name of the cluster")),
    (newer_form, {}, ("superblock has the newer form 2 of another release", "run that release, or a newer one")),
    (older_form, {}, ("superblock has the older form 0", "run the release that wrote it, or one between")),
    (newer_release, {}, ("needs release 9.0.0", "run that release, or a newer one")),
    (
        all_copies,
        {},
        ("no two copies of the superblock agree", "restore the directory from a backup", "move the directory away"),
    ),
]


async def test_a_directory_that_is_not_for_this_replica(tmp_path: Path) -> None:
    """The refusal repeats at every start, nothing in the directory changes, and all data is there once the cause is
    gone.
    """
    async with prepared(tmp_path) as (cluster, client):
        before = await converged(client.caller.stubs)
        victim = backup_of(cluster, client)
        assert victim.stop() == 0
        whole = contents(victim.data)
        for harm, settings, said in HARMS:
            harm(victim.data)
            harmed = contents(victim.data)
            victim.reconfigure(settings)
            for _ in range(2):
                line = await refusal_to_start(victim)
                assert str(victim.data) in line
                for words in said:
                    assert words in line
                assert contents(victim.data) == harmed
            for name, bytes_ in whole.items():
                (victim.data / name).write_bytes(bytes_)
            victim.reconfigure({"CLUSTER_NAME": NAME})
        await is_whole(cluster, client, victim, before)


def contents(directory: Path) -> dict[str, bytes]:
    """Return all files of a directory."""
    return {file.name: file.read_bytes() for file in directory.iterdir()}


async def test_the_advice_for_a_lost_superblock_helps(tmp_path: Path) -> None:
    """The remedy works if the peers are intact: move the directory away and let the replica fill an empty one."""
    async with prepared(tmp_path) as (cluster, client):
        before = await converged(client.caller.stubs)
        victim = backup_of(cluster, client)
        victim.kill()
        all_copies(victim.data)
        assert "With intact peers, move the directory away" in await refusal_to_start(victim)
        victim.data.rename(tmp_path / "moved away")
        await is_whole(cluster, client, victim, before)


async def at_rest(directory: Path) -> None:
    """Wait until the superblock is not being written: all copies have had the same generation for a while.

    The replicas' traffic passes through this event loop, which must keep running.
    """
    async with asyncio.timeout(30):
        while True:
            before = superblock.copies(directory)
            await asyncio.sleep(0.3)
            if len(set(before)) == 1 and superblock.copies(directory) == before:
                return


@pytest.mark.long
async def test_one_damaged_copy_of_the_superblock_is_mended(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (cluster, client):
        before = await converged(client.caller.stubs)
        victim = backup_of(cluster, client)
        for copy in range(superblock.COPIES):
            # Between the writes of two pairs of copies the generations would differ.
            await at_rest(victim.data)
            victim.kill()
            flip(superblock.path_in(victim.data), copy * superblock.COPY_BYTES + 200)
            assert len(set(superblock.copies(victim.data))) == 2
            victim.start()
            await converged(client.caller.stubs)
        await client.rename(50)
        assert client.may_have_made((await converged(client.caller.stubs)).op - before.op, 50)
        assert victim.stop() == 0
        assert len(set(superblock.copies(victim.data))) == 1
        victim.start()
        await converged(client.caller.stubs)


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"CLUSTER_SECRET": "not the secret of the cluster, but as long as it"}, "the cluster secrets differ"),
        ({"CLUSTER_NAME": "other"}, "the names of the clusters differ: "),
    ],
)
async def test_a_replica_with_wrong_settings_is_kept_out(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    """Both sides log the reason; the others continue, and with correct settings the replica rejoins."""
    async with prepared(tmp_path) as (cluster, client):
        before = await converged(client.caller.stubs)
        victim = backup_of(cluster, client)
        assert victim.stop() == 0
        kept = tmp_path / "kept"
        if "CLUSTER_NAME" in settings:
            # Move its directory away: the replica would refuse it before it connects to a peer.
            victim.data.rename(kept)
        victim.reconfigure(settings)
        # On a busy machine the others may hold elections in which the turn comes to this replica.
        client.unauthenticated = {victim.index}
        victim.start()
        for replica in cluster.replicas:
            await eventually(f"replica {replica.index} says why", lambda replica=replica: said in replica.log_text())
        await client.rename(20)
        victim.kill()
        if kept.exists():
            for file in victim.data.iterdir():
                file.unlink()
            victim.data.rmdir()
            kept.rename(victim.data)
        victim.reconfigure({"CLUSTER_NAME": NAME, "CLUSTER_SECRET": SECRET})
        client.unauthenticated = set()
        victim.start()
        assert client.may_have_made((await converged(client.caller.stubs)).op - before.op, 20)


@pytest.mark.long
async def test_callers_with_the_wrong_name_or_secret_are_refused(tmp_path: Path) -> None:
    async with prepared(tmp_path) as (_, client):
        before = await converged(client.caller.stubs)
        request = ProposeRequest(command=Command(create_stream=CreateStream(name="never")))
        for token in (
            authorization("not the secret of the cluster, but as long as it", NAME),
            authorization(SECRET, "other"),
        ):
            for stub in client.caller.stubs:
                with pytest.raises(aio.AioRpcError) as refusal:
                    await stub.Propose(request, metadata=((HEADER, token),), timeout=30.0)
                assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
                assert "check the cluster's name and its secret" in str(refusal.value.details())
        assert await converged(client.caller.stubs) == before


def hello(cluster: Cluster, protocol: int, release: tuple[int, int, int]) -> bytes:
    """Encode the first message of a replica of another release that connects to replica 0."""
    major, minor, patch = release
    identity = xxhash.xxh3_128_intdigest(NAME.encode(), 0x4852_434C_5553_5452).to_bytes(16, "little")
    payload = b"HRVR" + struct.pack("<HI", protocol, major << 16 | minor << 8 | patch) + bytes(35)
    payload += identity + bytes([1, 0, len(cluster.replicas)]) + bytes(32) + bytes([len(NAME)]) + NAME.encode()
    return struct.pack("<HB", len(payload), 1) + payload


REFUSED_CALLERS = [
    (3, (0, 9, 0), "releases 0.1.0 and 0.9.0 do not work together: upgrade one minor release at a time"),
    (3, (9, 1, 0), "releases 0.1.0 and 9.1.0 do not work together: upgrade one minor release at a time"),
    (2, (0, 1, 0), "protocol 2 is spoken on one side and 3 on the other: run one release everywhere"),
    (4, (0, 2, 0), "protocol 4 is spoken on one side and 3 on the other: run one release everywhere"),
]


async def test_a_peer_of_another_release_is_refused(tmp_path: Path) -> None:
    """The peer receives the reason, and the replica logs it."""
    async with prepared(tmp_path) as (cluster, client):
        before = await converged(client.caller.stubs)

        def greet(words: bytes) -> bytes:
            with socket.create_connection(("127.0.0.1", cluster.links[1, 0].port), timeout=10) as peer:
                peer.sendall(words)
                answer = b""
                while chunk := peer.recv(4096):
                    answer += chunk
                return answer

        for protocol, release, said in REFUSED_CALLERS:
            answer = await asyncio.to_thread(greet, hello(cluster, protocol, release))
            assert answer[2] == 5, "a refusal"
            assert answer[3:].decode() == said
            await eventually("it is in the log", lambda said=said: said in cluster.replicas[0].log_text())
        await client.rename(20)
        assert client.may_have_made((await converged(client.caller.stubs)).op - before.op, 20)
