"""Certificates over QUIC: made, of files, wrong, renewed (GW-3)."""

from __future__ import annotations

import asyncio
import time

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import Reply, eventually
from tests.conftest import StartServer
from tests.encryption.certificates import LONG_AGO, YESTERDAY, ServerFiles
from tests.encryption.quic_caller import calling, configuration
from tests.server_process import ServerProcess

QUICK = {"EDGE_CERTIFICATE_CHECK_INTERVAL": "50 ms"}


async def shown(server: ServerProcess) -> x509.Certificate:
    async with calling(server.quic_address) as caller:
        return caller.shown_certificate


def in_place(files: ServerFiles) -> x509.Certificate:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())


async def test_the_certificate_that_is_made_is_one_that_official_clients_take(shared_server: ServerProcess) -> None:
    """The generated certificate is for `localhost`, ECDSA on P-256 with SHA-256."""
    certificate = await shown(shared_server)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)
    assert isinstance(certificate.signature_hash_algorithm, SHA256)


async def test_a_client_that_offers_a_protocol_is_refused(shared_server: ServerProcess) -> None:
    with pytest.raises(ConnectionError):
        async with calling(shared_server.quic_address, configuration(alpn=["iggy"])):
            pytest.fail("there is no such protocol")


async def test_clients_that_verify(start_server: StartServer, files: ServerFiles) -> None:
    """A good certificate, one of another authority, one that has expired."""
    server = start_server(QUICK | files.settings("QUIC_CERTIFICATE"))
    async with calling(server.quic_address, configuration(authority_file=files.authority_file)) as caller:
        assert await caller.request(Code.PING) == Reply(Status.OK)
    other = files.authority_file.with_name("other.pem")
    trustme.CA().cert_pem.write_to_path(other)
    with pytest.raises(ConnectionError):
        async with calling(server.quic_address, configuration(authority_file=other)):
            pytest.fail("no authority has signed this")
    complaint = "was not let in: it sent the alert BadCertificate"
    eventually("a line about it", lambda: complaint in server.log_tail())
    server.stop()
    files.write(not_before=LONG_AGO, not_after=YESTERDAY)
    server.start()
    with pytest.raises(ConnectionError):
        async with calling(server.quic_address, configuration(authority_file=files.authority_file)):
            pytest.fail("it has expired")
    async with calling(server.quic_address) as caller:
        assert await caller.request(Code.PING) == Reply(Status.OK)


async def test_a_renewed_certificate_is_used_and_connections_live_on(
    start_server: StartServer, files: ServerFiles
) -> None:
    server = start_server(QUICK | files.settings("QUIC_CERTIFICATE"))
    async with calling(server.quic_address, configuration(authority_file=files.authority_file)) as old:
        await old.log_in()
        for bad in (False, True, False):
            before = await shown(server)
            if bad:
                files.certificate.write_text("mischief")
            else:
                files.write()
            wanted = before if bad else in_place(files)
            deadline = time.monotonic() + 20
            while await shown(server) != wanted or bad != ("is not used" in server.log_tail(1)):
                assert time.monotonic() < deadline, server.log_tail()
                await asyncio.sleep(0.05)
            assert await old.ok(Code.GET_STREAMS) == b""


async def test_a_key_that_official_clients_do_not_take_is_warned_of(
    start_server: StartServer, files: ServerFiles
) -> None:
    files.write(key_type=trustme.KeyType.RSA)
    server = start_server(files.settings("QUIC_CERTIFICATE"))
    eventually("a line about it", lambda: "not on the curve P-256" in server.log_tail())
    async with calling(server.quic_address, configuration(authority_file=files.authority_file)) as caller:
        assert await caller.request(Code.PING) == Reply(Status.OK)
