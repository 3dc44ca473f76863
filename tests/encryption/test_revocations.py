"""Revocation of client certificates."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import eventually
from tests.conftest import StartServer
from tests.encryption.certificates import LONG_AGO, NOW, TOMORROW, YESTERDAY, ServerFiles
from tests.encryption.conftest import TLS
from tests.encryption.connection import TlsConnection
from tests.encryption.test_client_certificates import assert_refused, showing, username
from tests.server_process import ServerDidNotStart, ServerProcess


class Authority:
    """Signs client certificates and issues revocation lists."""

    def __init__(self, directory: Path) -> None:
        self.trusted = trustme.CA()
        self.authority_file = directory / "clients.pem"
        self.list_file = directory / "clients.crl"
        self.trusted.cert_pem.write_to_path(self.authority_file)

    def revoke(self, *leaves: trustme.LeafCert, until: datetime.datetime = TOMORROW) -> None:
        """Replace the revocation list atomically."""
        key = serialization.load_pem_private_key(self.trusted.private_key_pem.bytes(), None)
        assert isinstance(key, EllipticCurvePrivateKey)
        issuer = x509.load_pem_x509_certificate(self.trusted.cert_pem.bytes())
        revoked = x509.CertificateRevocationListBuilder(issuer.subject, LONG_AGO, until)
        for leaf in leaves:
            certificate = x509.load_pem_x509_certificate(leaf.cert_chain_pems[0].bytes())
            entry = x509.RevokedCertificateBuilder(certificate.serial_number, YESTERDAY).build()
            revoked = revoked.add_revoked_certificate(entry)
        key_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer.public_key())  # type: ignore[arg-type]
        revoked = revoked.add_extension(x509.CRLNumber(round(NOW.timestamp())), critical=False)
        signed = revoked.add_extension(key_id, critical=False).sign(key, hashes.SHA256())
        self.put(signed.public_bytes(serialization.Encoding.PEM))

    def put(self, content: bytes) -> None:
        unfinished = self.list_file.with_suffix(".unfinished")
        unfinished.write_bytes(content)
        unfinished.rename(self.list_file)

    @property
    def settings(self) -> dict[str, str]:
        return {
            "TCP_TLS_CLIENT_CERTIFICATES": "optional",
            "TCP_TLS_CLIENT_CA_FILE": str(self.authority_file),
            "TCP_TLS_CLIENT_CRL_FILE": str(self.list_file),
        }


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def start(start_server: StartServer, files: ServerFiles, authority: Authority) -> ServerProcess:
    """A server with the users alice and bob, of whose certificates none is revoked."""
    authority.revoke()
    server = start_server(TLS | files.settings() | authority.settings)
    with TlsConnection.logged_in(server.address, files.trusting()) as root:
        for name in ("alice", "bob"):
            root.ok(Code.CREATE_USER, frames.create_user(name, "password"))
    return server


@pytest.fixture
def listing(start_server: StartServer, files: ServerFiles, authority: Authority) -> ServerProcess:
    """The same, with one authority."""
    return start(start_server, files, authority)


def test_a_revoked_certificate_grants_no_access_and_ends_its_connections(
    listing: ServerProcess, files: ServerFiles, authority: Authority
) -> None:
    """A revocation needs no restart and does not affect other certificates."""
    alice, bob = authority.trusted.issue_cert("alice"), authority.trusted.issue_cert("bob")
    with (
        TlsConnection(listing.address, showing(files, alice)) as ended,
        TlsConnection(listing.address, showing(files, bob)) as goes_on,
        TlsConnection.logged_in(listing.address, files.trusting()) as root,
    ):
        assert (username(ended), username(goes_on)) == ("alice", "bob")
        authority.revoke(alice)
        ended.socket.settimeout(20)
        assert ended.tls.recv(1) == b"", "the connection has ended"
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            assert_refused(listing.address, showing(files, alice, version=version), "certificate revoked")
            with TlsConnection(listing.address, showing(files, bob, version=version)) as connection:
                assert username(connection) == "bob"
        assert username(goes_on) == "bob"
        assert root.is_alive()
    eventually("a line", lambda: "1 certificates of clients are revoked" in listing.log_tail())
    # A certificate removed from the list, as after a hold, is valid again.
    authority.revoke()

    def is_let_in() -> bool:
        try:
            with TlsConnection(listing.address, showing(files, alice)) as connection:
                return username(connection) == "alice"
        except (ssl.SSLError, OSError):
            return False

    eventually("alice again", is_let_in)


def test_a_list_that_is_no_good_is_reported_and_the_old_one_stays(
    listing: ServerProcess, files: ServerFiles, authority: Authority
) -> None:
    alice = authority.trusted.issue_cert("alice")
    for content, complaint in ((b"no list", "it holds no revocation list"), (None, "ended at")):
        if content is None:
            authority.revoke(alice, until=YESTERDAY)
        else:
            authority.put(content)
        eventually(complaint, lambda text=complaint: text in listing.log_tail())  # type: ignore[misc]
        with TlsConnection(listing.address, showing(files, alice)) as connection:
            assert username(connection) == "alice"
    authority.revoke(alice)
    eventually("the next list", lambda: "1 certificates of clients are revoked" in listing.log_tail())
    assert_refused(listing.address, showing(files, alice), "certificate revoked")


def test_every_authority_has_a_list(start_server: StartServer, files: ServerFiles, authority: Authority) -> None:
    """The revocation status of a certificate is unknown if its authority has no list."""
    other = trustme.CA()
    authority.authority_file.write_bytes(authority.trusted.cert_pem.bytes() + other.cert_pem.bytes())
    server = start(start_server, files, authority)
    assert_refused(server.address, showing(files, other.issue_cert("bob")), "unknown ca")
    eventually("a line", lambda: "UnknownRevocationStatus" in server.log_tail())
    with TlsConnection(server.address, showing(files, authority.trusted.issue_cert("bob"))) as connection:
        assert username(connection) == "bob"


@pytest.mark.parametrize(
    ("content", "settings", "complaint"),
    [
        ("none", {}, "tcp.tls: .*clients.crl: No such file"),
        ("garbage", {}, "tcp.tls: .*clients.crl: it holds no revocation list"),
        ("ended", {}, "the revocation list of .* ended at .*: put the authority's next one there"),
        ("good", {"TCP_TLS_CLIENT_CERTIFICATES": "none"}, "client_crl_file needs client_certificates"),
    ],
)
def test_no_server_starts_with_a_list_that_says_nothing(
    start_server: StartServer,
    files: ServerFiles,
    authority: Authority,
    content: str,
    settings: dict[str, str],
    complaint: str,
) -> None:
    match content:
        case "garbage":
            authority.put(b"no list")
        case "ended":
            authority.revoke(until=YESTERDAY)
        case "good":
            authority.revoke()
    with pytest.raises(ServerDidNotStart, match=complaint):
        start_server(TLS | files.settings() | authority.settings | settings)
