"""Connections are encrypted, to replicas that the cluster's authority vouches for and to nobody else (CTL-2)."""

import grpc
import pytest
import trustme
from grpc import aio
from told import Follower, Teller

from headrace_metadata_client import CatalogueWatch, MetadataTarget, Reads, connected
from headrace_proto.cluster_token import authorization
from headrace_proto.metadata.v1.service_pb2_grpc import add_MetadataServicer_to_server


class Careful(Teller):
    """Says what it was shown."""

    def __init__(self):
        super().__init__(5)
        self.shown = set()

    async def _let_in(self, context):
        self.shown.add(dict(context.invocation_metadata()).get("authorization"))


@pytest.fixture
async def encrypted(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    teller = Careful()
    server = aio.server(options=(("grpc.so_reuseport", 0),))
    add_MetadataServicer_to_server(teller, server)
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    yield teller, f"127.0.0.1:{port}", tmp_path / "authority.pem"
    await server.stop(0)


def target(address, authority):
    return MetadataTarget(addresses=(address,), cluster="c", secret="a secret", authority=authority)


async def test_a_replica_of_the_cluster_is_followed_and_shown_the_secret(encrypted):
    teller, address, authority = encrypted
    async with connected(target(address, authority)) as connections:
        follower = Follower(CatalogueWatch(connections))
        await follower.reaches(5)
        await follower.end()
        assert [status.version for status in await Reads(connections).statuses()] == [5]
    assert teller.shown == {authorization("a secret", "c")}


@pytest.mark.parametrize("is_encrypted", [True, False])
async def test_somebody_else_is_told_nothing(encrypted, tmp_path, is_encrypted):
    teller, address, _ = encrypted
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    async with connected(target(address, other if is_encrypted else None)) as connections:
        assert await Reads(connections).statuses() == [None]
    assert teller.shown == set()
