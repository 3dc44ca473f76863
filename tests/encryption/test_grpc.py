"""TLS for gRPC (GW-6): valid, wrong, expired and renewed certificates, and client certificates."""

from __future__ import annotations

import signal
import socket
import ssl
from pathlib import Path

import grpc
import pytest
import trustme

from headrace_proto.catalog.v1 import USER_STATUS_INACTIVE, GlobalPermissions, Permissions
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import StartServer
from tests.encryption.certificates import LONG_AGO, TOMORROW, YESTERDAY, ServerFiles, unverified
from tests.server_process import ServerDidNotStart, ServerProcess

TLS = {"GRPC_TLS_ENABLED": "true", "EDGE_CERTIFICATE_CHECK_INTERVAL": "50 ms"}
SECONDS = 20


def place(server: ServerProcess) -> str:
    """Address of the gRPC listener under the name of its certificates."""
    return f"localhost:{server.grpc_address.rpartition(':')[2]}"


def trusting(authority: trustme.CA, leaf: trustme.LeafCert | None = None) -> grpc.ChannelCredentials:
    """Credentials that trust this authority, with a client certificate if one is given."""
    root = authority.cert_pem.bytes()
    if leaf is None:
        return grpc.ssl_channel_credentials(root)
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    return grpc.ssl_channel_credentials(root, leaf.private_key_pem.bytes(), chain)


def token_of_root(server: ServerProcess) -> str:
    with RawConnection.as_root(server.address) as connection:
        return access_token(connection)


def is_served(server: ServerProcess, tls: grpc.ChannelCredentials | None) -> bool:
    """Return whether an unauthenticated call reaches the server and is refused there."""
    with GrpcCaller(place(server), None, tls) as caller:
        try:
            caller.catalog.ListStreams(v1.ListStreamsRequest(), timeout=SECONDS)
        except grpc.RpcError as error:
            return error.code() == grpc.StatusCode.UNAUTHENTICATED
    return False


def handshake(server: ServerProcess, context: ssl.SSLContext) -> tuple[bytes, str | None]:
    """The certificate that a new client sees, and the version that was agreed on."""
    host, _, port = place(server).rpartition(":")
    with (
        socket.create_connection((host, int(port)), timeout=SECONDS) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as tls,
    ):
        return tls.getpeercert(binary_form=True) or b"", tls.version()


def shown(server: ServerProcess) -> bytes:
    context = unverified()
    context.set_alpn_protocols(["h2"])
    return handshake(server, context)[0]


def in_place(files: ServerFiles) -> bytes:
    return ssl.PEM_cert_to_DER_cert(files.certificate.read_text(encoding="ascii"))


@pytest.fixture
def tls_server(start_server: StartServer, files: ServerFiles) -> ServerProcess:
    return start_server(TLS | files.settings("GRPC_TLS"))


def test_calls_over_tls(tls_server: ServerProcess, files: ServerFiles) -> None:
    """All calls succeed with a valid certificate, and none without trust or without TLS."""
    with GrpcCaller(place(tls_server), token_of_root(tls_server), trusting(files.authority)) as caller:
        caller.catalog.CreateStream(v1.CreateStreamRequest(name="s"))
        assert [stream.name for stream in caller.catalog.ListStreams(v1.ListStreamsRequest()).streams] == ["s"]
    assert not is_served(tls_server, None)
    assert not is_served(tls_server, trusting(trustme.CA()))
    assert is_served(tls_server, trusting(files.authority))
    assert "andshake" not in tls_server.log_tail(), "unauthenticated clients cannot fill the log"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_versions(tls_server: ServerProcess) -> None:
    for version in (ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = unverified()
        context.set_alpn_protocols(["h2"])
        # Otherwise this client refuses the old version itself.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = version
        if version == ssl.TLSVersion.TLSv1_1:
            with pytest.raises(ssl.SSLError):
                handshake(tls_server, context)
        else:
            assert handshake(tls_server, context)[1] == version.name.replace("_", ".")


@pytest.mark.parametrize("wrong", ["another name", "expired"])
def test_a_wrong_certificate_is_shown_and_refused_by_clients(
    start_server: StartServer, files: ServerFiles, wrong: str
) -> None:
    if wrong == "expired":
        files.write(not_before=LONG_AGO, not_after=YESTERDAY)
    else:
        files.write("example.org")
    server = start_server(TLS | files.settings("GRPC_TLS"))
    assert shown(server) == in_place(files)
    assert not is_served(server, trusting(files.authority))
    if wrong == "expired":
        eventually("a line about it", lambda: "clients that verify it will refuse it" in server.log_tail())


def test_a_renewed_certificate_is_used_and_connections_live_on(tls_server: ServerProcess, files: ServerFiles) -> None:
    with GrpcCaller(place(tls_server), token_of_root(tls_server), trusting(files.authority)) as old:
        old.catalog.ListStreams(v1.ListStreamsRequest())
        for _ in range(3):
            files.write()
            eventually("the new certificate", lambda: shown(tls_server) == in_place(files))
            old.catalog.ListStreams(v1.ListStreamsRequest())
            assert is_served(tls_server, trusting(files.authority))


def spoil(files: ServerFiles, how: str) -> None:
    match how:
        case "no PEM":
            files.certificate.write_text("-----BEGIN CERTIFICATE-----\nmischief\n-----END CERTIFICATE-----\n")
        case "another key":
            files.authority.issue_cert("localhost").private_key_pem.write_to_path(files.key)
        case "expired":
            files.write(not_before=LONG_AGO, not_after=YESTERDAY)
        case "not yet valid":
            files.write(not_before=TOMORROW)
        case "gone":
            files.certificate.unlink()
        case "empty":
            files.certificate.write_bytes(b"")


def test_a_bad_certificate_is_reported_and_the_old_one_stays(tls_server: ServerProcess, files: ServerFiles) -> None:
    reported = 0
    for how in ("no PEM", "another key", "expired", "not yet valid", "gone", "empty"):
        good = in_place(files)
        spoil(files, how)
        eventually(f"a complaint: {how}", lambda: complaints(tls_server) > reported)  # noqa: B023 - called at once
        assert shown(tls_server) == good
        files.write()
        eventually("the next certificate", lambda: shown(tls_server) == in_place(files))
        # The files change one after the other: each mismatch may be logged once, but not every check.
        assert complaints(tls_server) - reported <= 3, how
        reported = complaints(tls_server)


def complaints(server: ServerProcess) -> int:
    return server.log.read_text(encoding="utf-8").count("grpc.tls: new certificate rejected")


def test_a_certificate_that_comes_later_replaces_the_made_one(start_server: StartServer, files: ServerFiles) -> None:
    files.certificate.unlink()
    server = start_server(TLS | files.settings("GRPC_TLS"))
    eventually("a line about it", lambda: "server.pem does not exist" in server.log_tail())
    made = shown(server)
    assert not is_served(server, trusting(files.authority))
    files.write()
    eventually("the certificate of the file", lambda: shown(server) == in_place(files) != made)
    assert is_served(server, trusting(files.authority))


def test_a_signal_is_quicker_than_the_next_look(start_server: StartServer, files: ServerFiles) -> None:
    server = start_server(TLS | files.settings("GRPC_TLS") | {"EDGE_CERTIFICATE_CHECK_INTERVAL": "1 day"})
    before = shown(server)
    files.write()
    assert shown(server) == before
    server.process.send_signal(signal.SIGUSR1)
    eventually("the new certificate", lambda: shown(server) == in_place(files))


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"GRPC_TLS_SELF_SIGNED": "false"}, "cert_file and key_file are needed unless self_signed is on"),
        (
            {"GRPC_TLS_SELF_SIGNED": "false", "GRPC_TLS_CERT_FILE": "no.pem", "GRPC_TLS_KEY_FILE": "no.key"},
            "grpc.tls: no.pem: No such file",
        ),
        ({"GRPC_TLS_CLIENT_CERTIFICATES": "required"}, "client_certificates = required needs client_ca_file"),
        (
            {"GRPC_TLS_CLIENT_CERTIFICATES": "required", "GRPC_TLS_CLIENT_CA_FILE": "no.pem"},
            "grpc.tls: no.pem: No such file",
        ),
    ],
)
def test_settings_that_cannot_be(start_server: StartServer, settings: dict[str, str], complaint: str) -> None:
    """A configuration error never falls back to plaintext."""
    with pytest.raises(ServerDidNotStart, match=complaint.replace(".", r"\.")):
        start_server(TLS | settings)


@pytest.fixture
def clients(tmp_path: Path) -> trustme.CA:
    """The authority of clients, in a file."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "clients.pem")
    return authority


@pytest.fixture
def asking_server(start_server: StartServer, files: ServerFiles, clients: trustme.CA, tmp_path: Path) -> ServerProcess:
    """A server that requires client certificates."""
    settings = {"GRPC_TLS_CLIENT_CERTIFICATES": "required", "GRPC_TLS_CLIENT_CA_FILE": str(tmp_path / "clients.pem")}
    return start_server(TLS | files.settings("GRPC_TLS") | settings)


def test_clients_with_certificates(asking_server: ServerProcess, files: ServerFiles, clients: trustme.CA) -> None:
    """A certificate authenticates its user unless a call has other credentials; a deleted user is refused at once
    (CTL-9).
    """
    address, token = place(asking_server), token_of_root(asking_server)
    root_too = trusting(files.authority, clients.issue_cert("localhost", common_name="alice"))
    with GrpcCaller(address, token, root_too) as root:
        granted = Permissions(**{"global": GlobalPermissions(read_streams=True)})
        for name in ("alice", "bob", "carol@example.com"):
            root.accounts.CreateUser(v1.CreateUserRequest(username=name, password="secret", permissions=granted))
        for leaf, name in (
            (clients.issue_cert("workstation.example", common_name="alice"), "alice"),
            (clients.issue_cert("carol@example.com"), "carol@example.com"),
            (clients.issue_cert("bob"), "bob"),
        ):
            user = v1.Identifier(name=name)
            with GrpcCaller(address, None, trusting(files.authority, leaf)) as caller:
                caller.accounts.CreateAccessToken(v1.CreateAccessTokenRequest(name="mine"))
                caller.catalog.ListStreams(v1.ListStreamsRequest())
                with pytest.raises(grpc.RpcError) as raised:
                    caller.catalog.CreateStream(v1.CreateStreamRequest(name="s"))
                assert status_of(raised.value) == (grpc.StatusCode.PERMISSION_DENIED, Status.UNAUTHORIZED)
                caller.accounts.GetUser(v1.GetUserRequest(user=user))
                change = v1.UpdateUserRequest(user=user, status=USER_STATUS_INACTIVE)
                root.accounts.UpdateUser(change)
                with pytest.raises(grpc.RpcError) as raised:
                    caller.catalog.ListStreams(v1.ListStreamsRequest())
                assert status_of(raised.value)[0] == grpc.StatusCode.UNAUTHENTICATED


def test_certificates_that_are_not_taken(asking_server: ServerProcess, files: ServerFiles, clients: trustme.CA) -> None:
    """Missing, foreign and expired certificates are refused; without exactly one user a client connects
    unauthenticated.
    """
    with GrpcCaller(
        place(asking_server),
        token_of_root(asking_server),
        trusting(files.authority, clients.issue_cert("root.example")),
    ) as root:
        for name in ("alice", "bob"):
            root.accounts.CreateUser(v1.CreateUserRequest(username=name, password="secret"))
    expired = clients.issue_cert("localhost", common_name="alice", not_before=LONG_AGO, not_after=YESTERDAY)
    for leaf in (None, trustme.CA().issue_cert("localhost", common_name="alice"), expired):
        assert not is_served(asking_server, trusting(files.authority, leaf))
    for leaf in (
        clients.issue_cert("localhost", common_name="mallory"),
        clients.issue_cert("bob", common_name="alice"),
    ):
        assert is_served(asking_server, trusting(files.authority, leaf)), "as far as a refusal"
