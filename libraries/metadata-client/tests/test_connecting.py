"""Connections are encrypted, and only open to replicas with a certificate of the cluster's authority (CTL-2)."""

import logging

import grpc
import pytest
import trustme
from fake_replicas import Follower, Teller
from grpc import aio
from tests.ports import free_port

from headrace_metadata_client import CatalogWatch, MetadataTarget, Reads, connected
from headrace_metadata_client.reads import statuses
from headrace_proto.cluster_token import authorization
from headrace_proto.metadata.v1.service_pb2_grpc import add_MetadataServicer_to_server


class Careful(Teller):
    """Records the credentials that callers present."""

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
        follower = Follower(CatalogWatch(connections))
        await follower.reaches(5)
        await follower.end()
        assert [status.version for status in await statuses(connections, 30)] == [5]
    assert teller.shown == {authorization("a secret", "c")}


@pytest.mark.parametrize("is_encrypted", [True, False])
async def test_another_user_learns_nothing(encrypted, tmp_path, is_encrypted):
    teller, address, _ = encrypted
    other = tmp_path / "other.pem"
    trustme.CA().cert_pem.write_to_path(str(other))
    async with connected(target(address, other if is_encrypted else None)) as connections:
        assert await Reads(connections).statuses() == [None]
    assert teller.shown == set()


async def serve(teller, certificate, port):
    server = aio.server(options=(("grpc.so_reuseport", 0),))
    add_MetadataServicer_to_server(teller, server)
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    credentials = grpc.ssl_server_credentials([(certificate.private_key_pem.bytes(), chain)])
    assert server.add_secure_port(f"127.0.0.1:{port}", credentials) == port
    await server.start()
    return server


async def test_the_authority_is_replaced_while_the_catalog_is_followed(tmp_path, caplog):
    """Both authorities are trusted first, later only the new one. A file without a certificate changes nothing."""
    caplog.set_level(logging.INFO)
    old, new = trustme.CA(), trustme.CA()
    file = tmp_path / "authority.pem"
    old.cert_pem.write_to_path(file)
    teller = Careful()
    # Outside the ephemeral port range: the port has to be free repeatedly.
    port = free_port()
    server = await serve(teller, old.issue_cert("127.0.0.1"), port)
    async with connected(target(f"127.0.0.1:{port}", file)) as connections:
        reads = Reads(connections)
        follower = Follower(CatalogWatch(connections, look_seconds=0.1))
        await follower.reaches(5)
        file.write_bytes(b"no certificate")
        await connections.renew()
        file.unlink()
        await connections.renew()
        assert [connections.generation, *(one.version for one in await statuses(connections, 30))] == [0, 5]

        file.write_bytes(old.cert_pem.bytes() + new.cert_pem.bytes())
        await connections.renew()
        await connections.renew()
        assert connections.generation == 1
        await server.stop(0)
        server = await serve(teller, new.issue_cert("127.0.0.1"), port)
        teller.reach(6)
        await follower.reaches(6)

        new.cert_pem.write_to_path(file)
        await connections.renew()
        teller.reach(7)
        await follower.reaches(7)
        await server.stop(0)
        # The old authority's certificate is not trusted any more.
        server = await serve(teller, old.issue_cert("127.0.0.1"), port)
        teller.reach(8)
        assert await reads.statuses() == [None]
        await server.stop(0)
        server = await serve(teller, new.issue_cert("127.0.0.1"), port)
        await follower.reaches(8)
        await follower.end()
        await server.stop(0)
    complaints = [record.message for record in caplog.records if "rejected" in record.message]
    assert ["contains no PEM certificate" in complaints[0], "cannot be read" in complaints[1], len(complaints)] == [
        True,
        True,
        2,
    ]
