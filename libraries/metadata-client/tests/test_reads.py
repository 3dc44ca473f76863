"""Reads succeed if any replica can answer them."""

import asyncio

import grpc
import pytest
from fake_replicas import Teller, reported_by
from scripted import Scripted, connections, fails

from headrace_metadata_client import MetadataUnreachableError, Reads, UnauthenticatedError
from headrace_proto.metadata.v1 import CONSISTENCY_LINEARIZABLE


async def test_the_primary_answers_through_any_replica():
    backups = [Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, 2)] * 9) for _ in range(2)]
    primary = Scripted()
    reads = Reads(connections(*backups, primary))
    assert await asyncio.gather(*(reads.version() for _ in range(5))) == [7] * 5
    assert await reads.credentials_named("nobody") is None
    assert await reads.access_token(b"digest") is None
    assert await reads.nodes() == []
    assert await reads.transaction(1, "t") is None
    assert {request.consistency for request in primary.asked} == {CONSISTENCY_LINEARIZABLE}
    assert len(primary.asked) == 9


async def test_a_question_is_put_to_others_until_the_time_is_up():
    gone = [Scripted(*[fails(grpc.StatusCode.UNAVAILABLE)] * 100_000) for _ in range(2)]
    reads = Reads(connections(*gone), timeout_seconds=1)
    with pytest.raises(MetadataUnreachableError):
        await reads.version()
    assert all(replica.asked for replica in gone)


async def test_who_is_not_let_in_learns_it():
    with pytest.raises(UnauthenticatedError):
        await Reads(connections(Scripted(fails(grpc.StatusCode.UNAUTHENTICATED)))).version()


async def test_each_replica_says_how_it_is():
    async with reported_by(Teller(5), Teller(6)) as cluster:
        await cluster.stop(0)
        async with asyncio.timeout(30):
            # A replica that does not answer within a second counts as down.
            while (found := await Reads(cluster.connections).statuses())[1] is None:
                assert found[0] is None
        assert [status and status.version for status in found] == [None, 6]
