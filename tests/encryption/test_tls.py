"""TLS in front of the binary protocol over TCP, as clients meet it (GW-3)."""

from __future__ import annotations

import socket
import ssl
import time

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from headrace_embedded import Server
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection, Reply, eventually
from tests.conftest import StartServer
from tests.encryption.certificates import LONG_AGO, YESTERDAY, ServerFiles, unverified
from tests.encryption.conftest import TLS
from tests.encryption.connection import TlsConnection
from tests.server_process import ServerProcess

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
TCP_TRANSPORT = 1


def clients(connection: RawConnection) -> list[tuple[int, str]]:
    """Transport and address of every client that the server lists."""
    listed, found = connection.ok(Code.GET_CLIENTS), []
    while listed:
        length = int.from_bytes(listed[9:13], "little")
        found.append((listed[8], listed[13 : 13 + length].decode()))
        listed = listed[13 + length + 4 :]
    return found


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_the_protocol_through_tls(tls_server: ServerProcess, files: ServerFiles, version: ssl.TLSVersion) -> None:
    """Large and small, both ways; the client is listed with its own address, as one that came by TCP."""
    with TlsConnection.logged_in(tls_server.address, files.trusting(version=version)) as connection:
        assert connection.tls.version() == version.name.replace("_", ".")
        assert clients(connection) == [(TCP_TRANSPORT, connection.local_address)]
        connection.create_topic("s")
        payloads = [bytes([number]) * size for number, size in enumerate([1, 100, 17_000, 8 << 20])]
        for payload in payloads:
            connection.send("s", "t", 0, payload)
        polled = connection.poll("s", "t", 0, Strategy.FIRST)
        assert [message.payload for message in polled.messages] == payloads


def test_the_place_of_a_batch_through_tls(tls_server: ServerProcess, files: ServerFiles) -> None:
    with TlsConnection.logged_in(tls_server.address, files.trusting()) as connection:
        connection.create_topic("places")
        connection.ok(Code.REPORT_OFFSETS)
        request = frames.send("places", "t", frames.to_partition(0), [frames.message(b"m")] * 2)
        places = [connection.ok(Code.SEND_MESSAGES, request) for _ in range(2)]
        assert places == [frames.u32(0) + frames.u64(offset) for offset in (0, 2)]


def test_protocols_that_a_client_offers_are_ignored(tls_server: ServerProcess, files: ServerFiles) -> None:
    context = files.trusting()
    context.set_alpn_protocols(["h2", "iggy"])
    with TlsConnection(tls_server.address, context) as connection:
        assert connection.tls.selected_alpn_protocol() is None
        assert connection.is_alive()


def test_plain_connections_are_not_answered(tls_server: ServerProcess, files: ServerFiles) -> None:
    """Connections that do not begin TLS are closed, and the next client is served."""
    with RawConnection(tls_server.address) as plain:
        plain.send_frame(Code.PING)
        plain.socket.settimeout(20)
        # A TLS alert at most, but no frame of the protocol.
        assert plain.socket.recv(100)[:1] in {b"", b"\x15"}
        assert plain.wait_closed()
    with TlsConnection(tls_server.address, files.trusting()) as connection:
        assert connection.is_alive()
    eventually("a line about it", lambda: "was not let in: received corrupt message" in tls_server.log_tail())


def test_clients_that_verify_notice_what_is_wrong(start_server: StartServer, files: ServerFiles) -> None:
    """A wrong name, an unknown authority, an expired certificate: the client refuses, and the server goes on."""
    server = start_server(TLS | files.settings())
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        TlsConnection(server.address, files.trusting(), "elsewhere.example")
    unauthenticated = ssl.create_default_context()
    trustme.CA().configure_trust(unauthenticated)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"unable to get local issuer|self-signed"):
        TlsConnection(server.address, unauthenticated)
    server.stop()

    files.write(not_before=LONG_AGO, not_after=YESTERDAY)
    server.start()
    eventually("the banner shows it", lambda: "it is shown all the same" in server.log_tail())
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        TlsConnection(server.address, files.trusting())
    eventually("a line about it", lambda: "was not let in: it sent the alert" in server.log_tail())
    with TlsConnection(server.address, unverified()) as connection:
        assert connection.is_alive()


def test_without_files_the_server_makes_a_certificate(start_server: StartServer) -> None:
    """The generated certificate is for `localhost`, on the curve that official clients require."""
    server = start_server(TLS)
    with TlsConnection.logged_in(server.address, unverified()) as connection:
        certificate = x509.load_der_x509_certificate(connection.shown_certificate())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert isinstance(key.curve, ec.SECP256R1)


def test_failures_are_counted_by_reason(files: ServerFiles) -> None:
    settings = {"tcp.tls.enabled": "true", "tcp.tls.cert_file": str(files.certificate)}
    with Server(settings=settings | {"tcp.tls.key_file": str(files.key)}) as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            TlsConnection(server.address, ssl.create_default_context())
        with RawConnection(server.address) as plain:
            plain.socket.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert plain.socket.recv(1000)[:1] in {b"", b"\x15"}
        RawConnection(server.address).close()
        with TlsConnection(server.address, files.trusting()) as connection:
            assert connection.is_alive()

            def failures() -> object:
                return server.running.listener_statistics()["tcp"]["failures"]

            wanted = {"our_certificate_refused": 1, "not_tls": 1, "closed": 1}
            eventually(f"{wanted}", lambda: failures() == wanted)
            counted = {"accepted": 4, "handshakes": 1, "open": 1, "bytes_in": 8, "bytes_out": 8}

            def counters() -> object:
                found = server.running.listener_statistics()["tcp"]
                return {name: found[name] for name in counted}

            eventually(f"{counted}", lambda: counters() == counted)
        eventually("its end", lambda: server.running.listener_statistics()["tcp"]["open"] == 0)


@pytest.mark.parametrize("end", ["close_notify", "close", "reset"])
def test_the_end_of_a_client_is_the_end_of_its_session(tls_server: ServerProcess, files: ServerFiles, end: str) -> None:
    with TlsConnection.logged_in(tls_server.address, files.trusting()) as watcher:
        connection = TlsConnection(tls_server.address, files.trusting())
        assert connection.is_alive()
        assert len(clients(watcher)) == 2
        if end == "close_notify":
            assert connection.end() == b""
        elif end == "close":
            connection.close()
        else:
            connection.abort()
        eventually("the end of its session", lambda: len(clients(watcher)) == 1)
        assert watcher.is_alive()


def test_all_clients_are_notified_before_the_server_stops(tls_server: ServerProcess, files: ServerFiles) -> None:
    """The shutdown message of a shard reaches the client, followed by an orderly end of TLS (GW-10)."""
    connections = [TlsConnection.logged_in(tls_server.address, files.trusting()) for _ in range(20)]
    started = time.monotonic()
    assert tls_server.stop() == 0
    assert time.monotonic() - started < 20
    for connection in connections:
        assert connection.receive() == Reply(Status.DISCONNECTED)
        # A connection that was cut would raise: this is `close_notify`.
        connection.tls.suppress_ragged_eofs = False
        assert connection.socket.recv(1) == b""
        connection.close()
    assert "closed before their shutdown" not in tls_server.log_tail()


def test_a_client_that_does_not_read_costs_no_memory(tls_server: ServerProcess, files: ServerFiles) -> None:
    """Back-pressure reaches the shard: data that the client does not read is not read from the log either."""
    polls, megabyte = 400, 1 << 20
    with TlsConnection.logged_in(tls_server.address, files.trusting()) as connection:
        connection.create_topic("s")
        connection.send("s", "t", 0, bytes(megabyte))
        request = frames.poll("s", "t", 0, Strategy.FIRST, 0, 1, auto_commit=False, who=frames.consumer(1))
        before = tls_server.memory_bytes()
        for _ in range(polls):
            connection.send_frame(Code.POLL_MESSAGES, request)
        time.sleep(1.0)
        assert tls_server.memory_bytes() - before < 64 * megabyte
        with TlsConnection.logged_in(tls_server.address, files.trusting()) as other:
            assert other.is_alive()
        for _ in range(polls):
            reply = connection.receive()
            assert (reply.status, len(reply.payload)) == (Status.OK, 16 + 64 + megabyte)


def test_silent_peers_neither_stay_nor_keep_others_out(start_server: StartServer, files: ServerFiles) -> None:
    settings = {"EDGE_MAX_HANDSHAKES": "4", "EDGE_HANDSHAKE_TIMEOUT": "60 s"}
    server = start_server(TLS | files.settings() | settings)
    host, port = server.host, server.port
    silent = [socket.create_connection((host, port), 20) for _ in range(8)]
    started = time.monotonic()
    with TlsConnection(server.address, files.trusting()) as connection:
        assert connection.is_alive()
    # The four connections with a slot time out together after 2 s each, and the other four after them.
    assert time.monotonic() - started < 40
    for peer in silent:
        peer.close()


def test_a_slow_handshake_ends_at_its_deadline(start_server: StartServer, files: ServerFiles) -> None:
    server = start_server(TLS | files.settings() | {"EDGE_HANDSHAKE_TIMEOUT": "300 ms"})
    with RawConnection(server.address) as peer:
        # The first bytes of a handshake that does not go on.
        peer.socket.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert peer.wait_closed()
    eventually("a line", lambda: "did not complete its handshake in time" in server.log_tail())


def test_connections_beyond_the_limit_are_closed(start_server: StartServer, files: ServerFiles) -> None:
    limits = {"TCP_MAX_CONNECTIONS": "1", "SYSTEM_SHARDING_CPU_ALLOCATION": "1"}
    server = start_server(TLS | files.settings() | limits)
    kept = TlsConnection(server.address, files.trusting())
    # A connection without a login would leave.
    kept.ok(Code.LOGIN_USER, frames.login("iggy", "iggy"))
    with TlsConnection(server.address, files.trusting()) as refused, pytest.raises((ConnectionClosed, OSError)):
        refused.request(Code.PING)
    assert kept.is_alive()
    kept.close()

    def let_in() -> bool:
        with TlsConnection(server.address, files.trusting()) as connection:
            try:
                return connection.is_alive()
            except (ConnectionClosed, OSError):
                return False

    eventually("a place", let_in)
