"""Certificates change under a running server, and some of them are wrong (GW-3)."""

from __future__ import annotations

import signal
import ssl

import pytest
import trustme

from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import eventually
from tests.conftest import StartServer
from tests.encryption.certificates import LONG_AGO, TOMORROW, YESTERDAY, ServerFiles, unverified
from tests.encryption.conftest import TLS
from tests.encryption.connection import TlsConnection
from tests.server_process import ServerDidNotStart, ServerProcess


def shown(server: ServerProcess) -> bytes:
    """The certificate that a new client sees."""
    with TlsConnection(server.address, unverified()) as connection:
        return connection.shown_certificate()


def in_place(files: ServerFiles) -> bytes:
    """The certificate in the file."""
    return ssl.PEM_cert_to_DER_cert(files.certificate.read_text(encoding="ascii"))


def test_a_renewed_certificate_is_used_and_connections_live_on(tls_server: ServerProcess, files: ServerFiles) -> None:
    with TlsConnection.logged_in(tls_server.address, files.trusting()) as old:
        assert old.shown_certificate() == in_place(files)
        for _ in range(3):
            files.write()
            eventually("the new certificate", lambda: shown(tls_server) == in_place(files))
            assert old.is_alive()
            assert old.ok(Code.GET_STREAMS) == b""
        with TlsConnection.logged_in(tls_server.address, files.trusting()) as new:
            assert new.shown_certificate() != old.shown_certificate()


def test_a_session_is_not_resumed_beyond_its_certificate(tls_server: ServerProcess, files: ServerFiles) -> None:
    """A client that resumes after a renewal gets the new certificate."""
    context = files.trusting(version=ssl.TLSVersion.TLSv1_2)
    with TlsConnection(tls_server.address, context) as connection:
        session = connection.tls.session
    with TlsConnection(tls_server.address, context, session=session) as connection:
        assert connection.tls.session_reused
    files.write()
    eventually("the new certificate", lambda: shown(tls_server) == in_place(files))
    with TlsConnection(tls_server.address, context, session=session) as connection:
        assert not connection.tls.session_reused
        assert connection.shown_certificate() == in_place(files)


@pytest.mark.parametrize("bad", ["no PEM", "another key", "expired", "not yet valid", "gone", "empty"])
def test_a_bad_certificate_is_reported_and_the_old_one_stays(
    tls_server: ServerProcess, files: ServerFiles, bad: str
) -> None:
    good = in_place(files)
    match bad:
        case "no PEM":
            files.certificate.write_text("-----BEGIN CERTIFICATE-----\nmischief\n-----END CERTIFICATE-----\n")
        case "another key":
            other = files.authority.issue_cert("localhost")
            other.private_key_pem.write_to_path(files.key)
        case "expired":
            files.write(not_before=LONG_AGO, not_after=YESTERDAY)
        case "not yet valid":
            files.write(not_before=TOMORROW)
        case "gone":
            files.certificate.unlink()
        case "empty":
            files.certificate.write_bytes(b"")
    complaint = "tcp: the new certificate is not used"
    eventually("a complaint", lambda: complaint in tls_server.log_tail())
    assert shown(tls_server) == good
    files.write()
    eventually("the next certificate", lambda: shown(tls_server) == in_place(files))
    assert shown(tls_server) != good
    # The files change one after the other: each mismatch may be logged once, but not every check.
    assert tls_server.log_tail().count(complaint) <= 3


def test_a_certificate_that_comes_later_replaces_the_made_one(start_server: StartServer, files: ServerFiles) -> None:
    files.certificate.unlink()
    server = start_server(TLS | files.settings())
    eventually("a line about it", lambda: "server.pem does not exist" in server.log_tail())
    made = shown(server)
    files.write()
    eventually("the certificate of the file", lambda: shown(server) == in_place(files) != made)
    with TlsConnection.logged_in(server.address, files.trusting()) as connection:
        assert connection.is_alive()


def test_a_signal_is_quicker_than_the_next_look(start_server: StartServer, files: ServerFiles) -> None:
    settings = {"EDGE_CERTIFICATE_CHECK_INTERVAL": "1 day"}
    server = start_server(TLS | files.settings() | settings)
    before = shown(server)
    files.write()
    assert shown(server) == before
    server.process.send_signal(signal.SIGUSR1)
    eventually("the new certificate", lambda: shown(server) == in_place(files))


@pytest.mark.parametrize("key_type", list(trustme.KeyType), ids=lambda key_type: key_type.name)
def test_kinds_of_keys(start_server: StartServer, files: ServerFiles, key_type: trustme.KeyType) -> None:
    files.write(key_type=key_type)
    server = start_server(TLS | files.settings())
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with TlsConnection.logged_in(server.address, files.trusting(version=version)) as connection:
            assert connection.is_alive()


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"TCP_TLS_SELF_SIGNED": "false"}, "cert_file and key_file are needed unless self_signed is on"),
        ({"TCP_TLS_CERT_FILE": "a.pem"}, "cert_file and key_file are given together or not at all"),
        (
            {"TCP_TLS_SELF_SIGNED": "false", "TCP_TLS_CERT_FILE": "no.pem", "TCP_TLS_KEY_FILE": "no.key"},
            "tcp.tls: no.pem: No such file",
        ),
        ({"TCP_TLS_CLIENT_CERTIFICATES": "required"}, "client_certificates = required needs client_ca_file"),
    ],
)
def test_settings_that_cannot_be(start_server: StartServer, settings: dict[str, str], complaint: str) -> None:
    """A configuration error never falls back to plaintext."""
    with pytest.raises(ServerDidNotStart, match=complaint.replace(".", r"\.")):
        start_server(TLS | settings)


@pytest.mark.long
def test_a_taken_address_is_refused(start_server: StartServer, files: ServerFiles) -> None:
    first = start_server(TLS | files.settings())
    second = ServerProcess(first.data.with_name("second"), TLS | files.settings(), address=first.address)
    with pytest.raises(ServerDidNotStart, match=f"tcp.address = {first.address}: another program listens there"):
        second.start()
