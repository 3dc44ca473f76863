"""TLS between gateways and partition nodes (GW-8, CTL-6)."""

from __future__ import annotations

import re
import signal
import socket
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from headrace_proto.cluster_token import metrics_authorization
from tests.cluster import NAME, Cluster, ConfiguredProcess, Settings
from tests.compatibility.groups.member import Group
from tests.compatibility.protocol import frames, long_poll
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection, eventually
from tests.encryption.certificates import LONG_AGO, YESTERDAY, ServerFiles
from tests.encryption.connection import TlsConnection
from tests.encryption.links import LinkFiles

UNAVAILABLE = 20200
CLOSED = (ConnectionClosed, OSError)
SECONDS = 60.0
CHECK = {"edge.certificate_check_interval": "50 ms"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> LinkFiles:
    """Certificates of one authority."""
    return LinkFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory, files: LinkFiles) -> Iterator[Cluster]:
    """A node and a gateway with two shards each, which authenticate each other by certificate."""
    directory = tmp_path_factory.mktemp("cluster")
    with Cluster(
        directory,
        replicas=1,
        nodes=1,
        gateways=1,
        node_settings={**files.node_settings, **CHECK},
        gateway_settings={**files.gateway_settings, **CHECK, "links.unsent_timeout": "2 s"},
    ) as running:
        yield running


@pytest.fixture
def cluster(shared_cluster: Cluster, files: LinkFiles) -> Iterator[Cluster]:
    """The shared cluster; settings and certificates are restored after a test."""
    node, gateway = shared_cluster.nodes[0], shared_cluster.gateways[0]
    before = [(process, dict(process.settings)) for process in (node, gateway)]
    yield shared_cluster
    files.node.write("127.0.0.1")
    files.gateway.write("gateways")
    for process, settings in before:
        if process.settings != settings or not process.is_running:
            process.settings = settings
            restart(shared_cluster, process)
    with RawConnection.as_root(gateway.listeners.tcp) as connection:
        eventually("the link", lambda: produced(connection) != UNAVAILABLE)


def restart(cluster: Cluster, process: ConfiguredProcess) -> None:
    """Stop a service, if it runs, and start it with its settings as they are now."""
    if process.is_running:
        assert process.stop() == 0
    process.start()
    cluster.wait_for(process)


def produced(connection: RawConnection, stream: str = "nowhere") -> int:
    """The status of an attempt to send a message."""
    request = frames.send(stream, "t", frames.to_partition(0), [frames.message(b"m")])
    return connection.status(Code.SEND_MESSAGES, request)


def listeners(cluster: Cluster, address: str) -> dict[str, float]:
    """Metrics of the encrypted listeners of a service, by name and labels."""
    shown = {"Authorization": metrics_authorization(cluster.secret, NAME)}
    with urllib.request.urlopen(urllib.request.Request(f"http://{address}/metrics", headers=shown)) as response:
        lines = response.read().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line.startswith("headrace_listener_"))
    }


def reported(process: ConfiguredProcess, *patterns: str, since: int) -> None:
    """Wait for new log lines that match the patterns."""
    for pattern in patterns:
        eventually(
            f"{pattern!r} in the log of {process.name}",
            lambda pattern=pattern: re.search(pattern, process.log_text()[since:]),
        )


def test_everything_goes_over_encrypted_links(cluster: Cluster) -> None:
    node, gateway = cluster.nodes[0], cluster.gateways[0]
    before = listeners(cluster, node.http)['headrace_listener_bytes_in_total{listener="binary"}']
    with (
        RawConnection.as_root(gateway.listeners.tcp) as connection,
        RawConnection.as_root(gateway.listeners.tcp) as other,
    ):
        group = Group(connection, "s", partitions=8)
        large = bytes(range(256)) * (1 << 14)
        for partition in range(8):
            group.send(partition, large, b"small")
            assert len(connection.poll("s", "t", partition, Strategy.FIRST).messages) == 2
        long_poll.begin(other, long_poll.wait("s", 3))
        assert len(long_poll.answer(other).messages) == 2
        long_poll.begin(other, long_poll.wait("s", 3))
        group.send(3, b"woken")
        assert [message.payload for message in long_poll.answer(other).messages] == [b"woken"]
        with closing(group):
            members = [group.join(), group.join()]
            eventually("two halves", lambda: sorted(map(len, group.owned().values())) == [4, 4])
            for member in members:
                assert member.poll(auto_commit=True).messages

    # Each shard of the gateway has a link with each shard of the node that it has asked for something.
    def links() -> tuple[float, float]:
        of_node, of_gateway = listeners(cluster, node.http), listeners(cluster, gateway.listeners.http)
        return of_node['headrace_listener_connections{listener="binary"}'], of_gateway[
            'headrace_listener_connections{listener="links"}'
        ]

    def are_counted() -> bool:
        of_node, of_gateway = links()
        return of_node == of_gateway and 2 <= of_gateway <= 4

    # The two ends count independently, and are read one after the other.
    eventually("both ends count two to four links", are_counted)
    of_node = listeners(cluster, node.http)
    assert of_node['headrace_listener_bytes_in_total{listener="binary"}'] - before > 8 * len(large)


def test_no_client_gets_in_without_encryption_or_a_certificate(cluster: Cluster, files: LinkFiles) -> None:
    """A node also sends no plaintext."""
    node = cluster.nodes[0]
    since = len(node.log_text())
    with socket.create_connection(node.binary.split(":"), SECONDS) as plain:
        plain.sendall(frames.request(Code.PING))
        heard = b""
        while part := plain.recv(1024):
            heard += part
    assert heard[:1] in (b"", b"\x15"), "an alert at most"
    reported(node, "binary: .* was not let in", since=since)
    # TLS alone is not enough: a client certificate is required.
    with TlsConnection(node.binary, files.node.trusting(), "127.0.0.1") as unauthenticated, pytest.raises(CLOSED):
        unauthenticated.request(Code.PING)
    assert listeners(cluster, node.http)['headrace_listener_failures_total{listener="binary",reason="not_tls"}'] >= 1


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("problem", "reason"),
    [("authority", "BadSignature|UnknownIssuer"), ("name", "not valid for name"), ("time", "expired")],
)
def test_a_node_that_does_not_prove_who_it_is_is_not_reached(
    cluster: Cluster, files: LinkFiles, problem: str, reason: str
) -> None:
    node, gateway = cluster.nodes[0], cluster.gateways[0]
    with RawConnection.as_root(gateway.listeners.tcp) as connection:
        stream = f"behind-a-wrong-{problem}"
        connection.create_topic(stream)
        match problem:
            case "authority":
                node.kill()
                files.node.place(trustme.CA().issue_cert("127.0.0.1"))
            case "name":
                node.kill()
                files.node.write("127.0.0.2")
            case _:
                node.kill()
                files.node.write("127.0.0.1", not_before=LONG_AGO, not_after=YESTERDAY)
        since = len(gateway.log_text())
        restart(cluster, node)
        assert produced(connection, stream) == UNAVAILABLE
        reported(gateway, f"links: no encryption with {node.binary}: .*({reason})", since=since)
        reported(node, "binary: .* was not let in: it sent the alert", since=0)
        # Valid files are enough: no restart is needed.
        files.node.write("127.0.0.1")
        node.process.send_signal(signal.SIGUSR1)
        eventually("a message", lambda: produced(connection, stream) == Status.OK)
        reported(gateway, "is reached again", since=since)
        assert gateway.log_text()[since:].count("no encryption with") <= 3, "rate limited"
        assert len(connection.poll(stream, "t", 0, Strategy.FIRST).messages) == 1, "what was refused was not done"


@pytest.mark.long
def test_a_gateway_that_does_not_prove_who_it_is_reaches_no_node(cluster: Cluster, tmp_path: Path) -> None:
    node, gateway = cluster.nodes[0], cluster.gateways[0]
    foreign: Settings = {**gateway.settings}
    own = ServerFiles(tmp_path, trustme.CA())
    own.write("gateways")
    foreign |= {"links.tls.cert_file": str(own.certificate), "links.tls.key_file": str(own.key)}
    anonymous: Settings = {name: value for name, value in gateway.settings.items() if "_file" not in name}
    for number, settings in enumerate((foreign, anonymous)):
        since = len(gateway.log_text())
        gateway.settings = dict(settings)
        restart(cluster, gateway)
        with RawConnection.as_root(gateway.listeners.tcp) as connection:
            connection.create_topic(f"strangers-{number}")
            assert produced(connection, f"strangers-{number}") == UNAVAILABLE
        reported(gateway, f"links: no encryption with {node.binary}: it sent the alert", since=since)
    reported(node, "binary: .* was not let in", since=0)
    for reason in ("client_certificate", "no_client_certificate"):
        name = f'headrace_listener_failures_total{{listener="binary",reason="{reason}"}}'
        eventually(f"one of {reason}", lambda name=name: listeners(cluster, node.http).get(name, 0) >= 1)


@pytest.mark.long
@pytest.mark.parametrize("side", ["gateway", "node"])
def test_neither_side_falls_back_to_plain_text(cluster: Cluster, side: str) -> None:
    node, gateway = cluster.nodes[0], cluster.gateways[0]
    with RawConnection.as_root(gateway.listeners.tcp) as connection:
        connection.create_topic(f"plain-{side}")
    process: ConfiguredProcess = gateway if side == "gateway" else node
    enabled = "links.tls.enabled" if side == "gateway" else "binary.tls.enabled"
    process.settings[enabled] = False
    process.settings.pop("binary.tls.client_certificates", None)
    since = len(gateway.log_text())
    restart(cluster, process)
    with RawConnection.as_root(gateway.listeners.tcp) as connection:
        assert produced(connection, f"plain-{side}") == UNAVAILABLE
    reported(gateway, f"node [0-9]+ at {node.binary} is not reached", since=since)
    if side == "node":
        reported(gateway, f"links: no encryption with {node.binary}: ", since=since)
    else:

        def said() -> bool:
            # The log line is limited to one in ten seconds and counts earlier refusals: the gateway has to retry.
            with RawConnection.as_root(gateway.listeners.tcp) as connection:
                assert produced(connection, f"plain-{side}") == UNAVAILABLE
            return re.search("binary: .* was not let in: received corrupt message", node.log_text()) is not None

        eventually("a line of the node", said, timeout_seconds=90)


@pytest.mark.long
def test_an_authority_is_replaced_while_messages_go_on(cluster: Cluster, files: LinkFiles) -> None:
    """First both authorities are trusted, next certificates of the new one are used, finally the old one is removed."""
    node, gateway = cluster.nodes[0], cluster.gateways[0]
    next_authority = trustme.CA()
    old, new = (authority.cert_pem.bytes() for authority in (files.authority, next_authority))
    trusted = [files.node.authority_file, files.gateway.authority_file]

    def trust(pem: bytes) -> None:
        since = [len(process.log_text()) for process in (node, gateway)]
        for file in trusted:
            unfinished = file.with_suffix(".unfinished")
            unfinished.write_bytes(pem)
            unfinished.rename(file)
        reported(node, "binary: certificate of", since=since[0])
        reported(gateway, "links: encrypted", since=since[1])

    with RawConnection.as_root(gateway.listeners.tcp) as connection:
        connection.create_topic("goes-on")
        connection.send("goes-on", "t", 0, b"before")
        trust(old + new)
        since = len(gateway.log_text())
        files.node.place(next_authority.issue_cert("127.0.0.1"))
        files.gateway.place(next_authority.issue_cert("gateways"))
        reported(gateway, "links: encrypted", since=since)
        trust(new)
        connection.send("goes-on", "t", 0, b"over the old link")
        shown = listeners(cluster, gateway.listeners.http)['headrace_listener_handshakes_total{listener="links"}']
        node.kill()
        node.start()
        cluster.wait_for(node)
        eventually("a message", lambda: produced(connection, "goes-on") == Status.OK)
        assert (
            listeners(cluster, gateway.listeners.http)['headrace_listener_handshakes_total{listener="links"}'] > shown
        )
    trust(old)


def test_a_wrong_file_refuses_the_start(cluster: Cluster, files: LinkFiles, tmp_path: Path) -> None:
    node, gateway = cluster.nodes[0], cluster.gateways[0]
    nothing = tmp_path / "nothing.pem"
    nothing.write_text("no certificate")
    cases: list[tuple[ConfiguredProcess, str, str]] = [
        (gateway, "links.tls.authority", "links.tls: .*nothing.pem: it holds no certificate"),
        (node, "binary.tls.cert_file", "binary.tls: .*nothing.pem: it holds no certificate"),
    ]
    for process, setting, reason in cases:
        since = len(process.log_text())
        before = process.settings[setting]
        assert process.stop() == 0
        process.settings[setting] = str(nothing)
        process.start()
        assert process.process.wait(SECONDS) == 1
        assert re.search(reason, process.log_text()[since:]), process.log_tail()
        process.settings[setting] = before
        restart(cluster, process)
