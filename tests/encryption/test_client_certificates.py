"""Authentication by client certificates (GW-3)."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
import trustme

from headrace_embedded.audit_trail import read_directory
from headrace_gateway.audit.events import Event
from headrace_gateway.audit.reading import AuditFilter
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import StartServer
from tests.encryption.certificates import LONG_AGO, YESTERDAY, ServerFiles
from tests.encryption.conftest import TLS
from tests.encryption.connection import TlsConnection
from tests.server_process import ServerProcess

READS_STREAMS = frames.permissions(["read_streams"])
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def start(
    start_server: StartServer, files: ServerFiles, clients: str, authority: trustme.CA, directory: Path
) -> ServerProcess:
    """A server that asks clients for certificates of this authority, with some users."""
    path = directory / "clients.pem"
    authority.cert_pem.write_to_path(path)
    settings = {"TCP_TLS_CLIENT_CERTIFICATES": "optional", "TCP_TLS_CLIENT_CA_FILE": str(path)}
    server = start_server(TLS | files.settings() | settings)
    with TlsConnection.logged_in(server.address, files.trusting()) as root:
        for name in ("alice", "bob", "carol@example.com"):
            root.ok(Code.CREATE_USER, frames.create_user(name, "password", READS_STREAMS))
        root.ok(Code.CREATE_USER, frames.create_user("idle", "password", READS_STREAMS, status=2))
    if clients != "optional":
        server.settings["TCP_TLS_CLIENT_CERTIFICATES"] = clients
        server.restart()
    return server


def showing(
    files: ServerFiles, leaf: trustme.LeafCert, *, version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3
) -> ssl.SSLContext:
    """A client with this certificate."""
    context = files.trusting(version=version)
    leaf.configure_cert(context)
    return context


def username(connection: RawConnection) -> str:
    """Name of the user as whom the server has authenticated the connection."""
    user = int.from_bytes(connection.ok(Code.GET_ME)[4:8], "little")
    details = connection.ok(Code.GET_USER, frames.ident(user))
    return details[14 : 14 + details[13]].decode()


def assert_refused(address: str, context: ssl.SSLContext, alert: str, *, session: ssl.SSLSession | None = None) -> None:
    """The server sends the reason in the handshake, or after it (TLS 1.3, where the client finishes first)."""

    def request() -> None:
        with TlsConnection(address, context, session=session) as connection:
            connection.request(Code.PING)

    with pytest.raises(ssl.SSLError, match=alert):
        request()


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
@pytest.mark.parametrize("clients", ["optional", "required"])
def test_the_holder_of_a_certificate_is_logged_in(
    start_server: StartServer, files: ServerFiles, tmp_path: Path, version: ssl.TLSVersion, clients: str
) -> None:
    authority = trustme.CA()
    server = start(start_server, files, clients, authority, tmp_path)
    by_name = authority.issue_cert("workstation.example", common_name="alice")
    by_mailbox = authority.issue_cert("carol@example.com")
    by_host = authority.issue_cert("bob")
    for leaf, name in ((by_name, "alice"), (by_mailbox, "carol@example.com"), (by_host, "bob")):
        with TlsConnection(server.address, showing(files, leaf, version=version)) as connection:
            assert username(connection) == name
            assert connection.ok(Code.GET_STREAMS) == b""
            assert connection.status(Code.CREATE_STREAM, frames.name("s")) == Status.UNAUTHORIZED
            # The connection may still log in as another user.
            connection.ok(Code.LOGOUT_USER)
            assert connection.status(Code.GET_STREAMS) == Status.UNAUTHENTICATED


def test_who_shows_none_logs_in_or_is_not_let_in(start_server: StartServer, files: ServerFiles, tmp_path: Path) -> None:
    server = start(start_server, files, "optional", trustme.CA(), tmp_path)
    with TlsConnection(server.address, files.trusting()) as connection:
        assert connection.status(Code.GET_STREAMS) == Status.UNAUTHENTICATED
    server.settings["TCP_TLS_CLIENT_CERTIFICATES"] = "required"
    server.restart()
    for version in VERSIONS:
        assert_refused(server.address, files.trusting(version=version), "certificate required|handshake failure")


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_certificates_that_are_not_taken(
    start_server: StartServer, files: ServerFiles, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """Certificates without a user, with two users, of an inactive user, of another authority, and expired ones are
    refused.
    """
    authority = trustme.CA()
    server = start(start_server, files, "optional", authority, tmp_path)
    for leaf, alert in (
        (authority.issue_cert("localhost", common_name="mallory"), "access denied"),
        (authority.issue_cert("bob", common_name="alice"), "access denied"),
        (authority.issue_cert("localhost", common_name="idle"), "access denied"),
        (trustme.CA().issue_cert("localhost", common_name="alice"), "unknown ca"),
        (
            authority.issue_cert("localhost", common_name="alice", not_before=LONG_AGO, not_after=YESTERDAY),
            "certificate expired",
        ),
    ):
        assert_refused(server.address, showing(files, leaf, version=version), alert)
    complaint = "certificate is not one of a user who may log in"
    eventually("a line about it", lambda: complaint in server.log_tail())


def test_they_are_in_the_audit_trail(start_server: StartServer, files: ServerFiles, tmp_path: Path) -> None:
    """The audit trail has logins by certificate, and refused certificates."""
    authority = trustme.CA()
    server = start(start_server, files, "required", authority, tmp_path)
    with TlsConnection(server.address, showing(files, authority.issue_cert("bob"))) as connection:
        assert username(connection) == "bob"
        address, client = connection.local_address, int.from_bytes(connection.ok(Code.GET_ME)[:4], "little")
    assert_refused(server.address, showing(files, authority.issue_cert("mallory")), "access denied")
    assert_refused(server.address, showing(files, trustme.CA().issue_cert("bob")), "unknown ca")
    assert_refused(server.address, files.trusting(), "certificate required|handshake failure")

    def shown() -> list[Event]:
        return read_directory(server.data, AuditFilter(event="login", action="login_with_certificate"), 100)[::-1]

    eventually("four lines", lambda: len(shown()) == 4)
    found = shown()
    assert (found[0].username, found[0].address, found[0].client_id) == ("bob", address, client)
    assert [(event.result, event.subject.get("reason")) for event in found] == [
        ("ok", None),
        ("InvalidCredentials", "unknown_user"),
        ("InvalidCredentials", "client_certificate"),
        ("InvalidCredentials", "no_client_certificate"),
    ]
    assert all(event.transport == "tcp" and event.address.startswith("127.0.0.1:") for event in found)


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_deleted_users_do_not_come_back_by_an_old_session(
    start_server: StartServer, files: ServerFiles, tmp_path: Path, version: ssl.TLSVersion
) -> None:
    """A resumed session is authenticated again, and a live session ends with its user."""
    authority = trustme.CA()
    server = start(start_server, files, "optional", authority, tmp_path)
    context = showing(files, authority.issue_cert("localhost", common_name="alice"), version=version)
    with TlsConnection(server.address, context) as connection:
        assert username(connection) == "alice"
        session = connection.tls.session
        with TlsConnection.logged_in(server.address, files.trusting()) as root:
            root.ok(Code.DELETE_USER, frames.ident("alice"))
        assert connection.status(Code.GET_STREAMS) == Status.UNAUTHENTICATED
    assert_refused(server.address, context, "access denied", session=session)
