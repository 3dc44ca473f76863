"""Settings of the gateway."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import model_validator

from headrace_gateway.access.proxies import ProxyConfig
from headrace_gateway.audit.config import AuditConfig
from headrace_gateway.control.topic_durability import TopicDurability
from headrace_gateway.http.config import HttpConfig
from headrace_gateway.listeners.config import GrpcTlsConfig, QuicConfig, TlsConfig
from headrace_gateway.push.config import PushConfig
from headrace_node.edge_config import EdgeSettings
from headrace_node.tracing import TraceExportConfig
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES
from headrace_proto.well_known import NEVER_EXPIRES, UNLIMITED
from headrace_settings import Address, Between, Duration, Secret, Section, ServerExpiry, SharedBy, Size, SizeLimit
from headrace_settings.units.duration import Expiry


class TcpConfig(Section):
    """`tcp`: the binary protocol over TCP."""

    enabled: bool = True
    """Enable the TCP listener."""
    address: Address = Address.parse("127.0.0.1:8090")
    """Address to listen on; port 0 picks a free port."""
    max_connections: Annotated[int, Between(1, 1_000_000), SharedBy.USERS] = 10_000
    """Maximum number of connected clients, over all transports. When all places are taken, the oldest connections
    without a login leave, of the address that has most of them; without any, further connections are refused. One user
    may have half of what other users leave; one more login is refused (status 20006).
    """
    login_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("1 day"))] = Duration.parse("10 s")
    """Time after which a client that has not logged in is disconnected, regardless of its other requests; `0 s`
    disables this. Applies to `websocket` and `quic`, too.
    """
    max_request_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("128 MiB")
    )
    """Maximum size of a request to send messages; a larger request is skipped and refused."""
    max_response_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("64 MiB")
    )
    """Maximum number of bytes of messages that one poll returns. A poll always returns at least one message if there is
    one.
    """
    tls: TlsConfig = TlsConfig()


class GrpcConfig(Section):
    """`grpc`: the gRPC API."""

    enabled: bool = True
    """Enable the gRPC listener."""
    address: Address = Address.parse("127.0.0.1:8094")
    """Address to listen on; port 0 picks a free port."""
    max_request_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("8 MiB")
    )
    """Maximum size of one request; a larger request is refused."""
    max_memory: Annotated[Size, Between(Size.parse("512 KiB"), Size.parse("1 TiB")), SharedBy.USERS] = Size.parse(
        "2 GiB"
    )
    """Memory budget of all calls, at least eight times `max_request_size`. One half is for requests of streaming calls,
    each of which counts `max_request_size` while it accepts requests; one quarter is for responses of streaming calls;
    one quarter for all other calls. One user may use at most half of each part; calls beyond that wait, and are refused
    after a timeout.
    """
    max_connections: Annotated[int, Between(1, 1_000_000), SharedBy.USERS] = 1000
    """Maximum number of connections. While less than an eighth of the places is free, connections that have not logged
    in leave, the oldest first, of addresses that have more than an eighth of all; those of one user beyond half of the
    places are counted with them. A further one is refused.
    """
    handshake_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 m"))] = Duration.parse(
        "10 s"
    )
    """Time within which a client has to complete the HTTP/2 handshake; a slower client is disconnected."""
    idle_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("5 m")
    """Time without an active call after which a client is disconnected; client libraries reconnect with the next call.
    """
    max_calls: Annotated[int, Between(1, 1_000_000), SharedBy.USERS] = 1000
    """Maximum number of calls in progress; further calls are refused."""
    max_streams: Annotated[int, Between(0, 1_000_000), SharedBy.USERS] = 500
    """Maximum number of long-lived calls (streams of batches, subscriptions) among them; further ones are refused."""
    keepalive_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = (
        Duration.parse("20 s")
    )
    """Interval of keepalive pings on an idle connection; its calls end if the client does not answer within the same
    time. Clients may send pings twice as often.
    """
    tls: GrpcTlsConfig = GrpcTlsConfig()

    @model_validator(mode="after")
    def _holds_the_largest_request(self) -> Self:
        if self.max_memory.bytes < 8 * self.max_request_size.bytes:
            raise ValueError("max_memory must be at least eight times max_request_size")
        return self


class WebsocketConfig(Section):
    """`websocket`: the binary protocol in WebSocket messages."""

    enabled: bool = True
    """Enable the WebSocket listener."""
    address: Address = Address.parse("127.0.0.1:8092")
    """Address to listen on; port 0 picks a free port. The limits of `tcp` apply here, too."""
    max_frame_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("16 MiB")
    )
    """Maximum size of one frame of a client; a larger frame closes the connection. A larger request has to be split
    into several frames or messages.
    """
    max_message_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("64 MiB")
    )
    """Maximum size of one message of a client, over all its frames; a larger message closes the connection."""
    handshake_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse(
        "10 s"
    )
    """Time within which a client has to request the upgrade to WebSocket; a slower client is disconnected."""
    allowed_origins: tuple[str, ...] = ()
    """Origins whose pages may connect, such as `https://shop.example`; `*` first in the list allows any. Programs other
    than browsers send no origin, and may connect.
    """
    tls: TlsConfig = TlsConfig()


class HeartbeatConfig(Section):
    """`heartbeat`: removal of clients that no longer send pings."""

    enabled: bool = False
    """Remove clients that have not sent a ping for 1.2 times the interval from the client list and from their groups.
    Their connections stay open; the next command registers them again, and group members have to join again.
    """
    interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = Duration.parse("5 s")
    """Interval at which clients are expected to send a ping."""


class WaitConfig(Section):
    """`wait`: long polls and connections that are notified of new messages."""

    max_time: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h")), SharedBy.EACH_REQUEST] = (
        Duration.parse("1 m")
    )
    """Maximum time that one request waits for messages; a request for a longer wait is answered after this time."""
    max_partitions: Annotated[int, Between(1, 10_000_000), SharedBy.USERS] = 131_072
    """Maximum number of partitions that all connections together may wait for or watch; further ones are refused
    (status 20001). One user may have half of what the others leave.
    """


class TicketConfig(Section):
    """`ticket`: short-lived capabilities by which users grant others access to a topic at partition nodes."""

    max_lifetime: Annotated[
        Duration, Between(Duration.parse("1 s"), Duration.parse("30 days")), SharedBy.EACH_REQUEST
    ] = Duration.parse("1 day")
    """Maximum lifetime of a ticket. A request for more gets this lifetime, a request without a lifetime gets ten
    minutes. A ticket ends earlier when its user is deleted, deactivated, gets another password, or loses the
    permission.
    """


class LoginConfig(Section):
    """`login`: limits on the resources that logins use."""

    hashing_threads: Annotated[int, Between(1, 64)] = 2
    """Number of passwords that are verified concurrently; each takes one core for about 30 ms, and 19 MiB of memory."""
    remembered_for: Annotated[Duration, Between(Duration.parse("0 s"), Duration.parse("1 day"))] = Duration.parse("5 m")
    """Time for which a verified password is cached, so that a client that reconnects costs no hash. The cache is in
    memory and holds digests keyed with a key of the process; an entry ends when the password of the user changes.
    `0 s` disables the cache.
    """
    failures_max: Annotated[int, Between(0, 1_000_000), SharedBy.EACH_USER] = 10
    """Number of failed logins in a row of one user from one address after which further logins are refused for a while;
    0 means unlimited. Ten times as many failures of all users from one address block that address, except for users who
    logged in from there recently. Ten times as many failures of one user from all addresses limit each address new to
    that user to one attempt. An IPv6 address counts by its first 64 bits.
    """
    failures_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse(
        "6 s"
    )
    """Time after which one more attempt is allowed."""


class OwnChangesConfig(Section):
    """`own_changes`: rate at which a user may change access tokens, consumer groups, pins and its own password."""

    burst: Annotated[int, Between(1, 10_000_000)] = 1_000
    """Number of such changes that a user may make at once; further ones are refused for a while."""
    interval: Annotated[Duration, Between(Duration.parse("1 us"), Duration.parse("1 h"))] = Duration.parse("100 ms")
    """Time after which the user may make one more."""


class ConsumerGroupConfig(Section):
    """`consumer_group`: consumer groups and the heartbeats of gateways."""

    rebalancing_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 h"))] = Duration.parse(
        "30 s"
    )
    """Maximum time for which a member keeps a partition that is to move to another member without storing the offset of
    the last message it was sent. Applies to groups created from now on.
    """
    rebalancing_check_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 m"))] = (
        Duration.parse("5 s")
    )
    """Interval between checks for expired rebalances, and between heartbeats of this gateway and of
    its members.
    """
    member_timeout: Annotated[Duration, Between(Duration.parse("5 s"), Duration.parse("1 h"))] = Duration.parse("30 s")
    """Time of silence after which a member leaves its group, for clients that repeat a request for their membership, as
    those of this project do each second. A process that is frozen keeps its partitions no longer than that. Members of
    existing clients send nothing by themselves: `heartbeat.enabled` asks for their pings.
    """
    gateway_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 h"))] = Duration.parse("20 s")
    """Time without a heartbeat of a gateway after which its members are removed from their groups."""

    @model_validator(mode="after")
    def _outlasts_two_checks(self) -> Self:
        if self.gateway_timeout.micros < 2 * self.rebalancing_check_interval.micros:
            raise ValueError("gateway_timeout must be at least twice rebalancing_check_interval")
        return self


class TokenCleanerConfig(Section):
    """`personal_access_token.cleaner`: removal of expired access tokens."""

    enabled: bool = True
    """Remove expired access tokens. They are refused in any case, but count against the limit until they are removed.
    """
    interval: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("1 m")
    """Interval between removals of expired access tokens."""


class PersonalAccessTokenConfig(Section):
    """`personal_access_token`: access tokens of users."""

    max_tokens_per_user: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_USER] = 100
    """Maximum number of access tokens of one user, including expired ones."""
    cleaner: TokenCleanerConfig = TokenCleanerConfig()


class TopicConfig(Section):
    """`system.topic`: defaults for topics whose creator leaves a property to the server."""

    max_size: Annotated[SizeLimit, SharedBy.EACH_TOPIC] = SizeLimit(UNLIMITED)
    """Size of a topic beyond which its oldest messages may be deleted."""
    message_expiry: ServerExpiry = Expiry(NEVER_EXPIRES)
    """Age at which messages may be deleted."""
    durability: tuple[TopicDurability, ...] = ()
    """Durability of acknowledgements for topics by name pattern, for example `[orders/*=fsync,logs/debug=memory]`. The
    first matching pattern decides when a topic is created, and the topic keeps this durability; for topics without a
    match, the setting `durability` decides.
    """


class RootUserConfig(Section):
    """`root`: the user that the first start creates. See the settings that contain this section."""

    username: str | None = None
    """User name, 3 to 50 bytes."""
    password: Secret | None = None
    """Password, 3 to 100 bytes."""

    @model_validator(mode="after")
    def _both_or_neither(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("username and password are given together or not at all")
        if self.username is not None and len(self.username.encode()) not in USERNAME_BYTES:
            raise ValueError("the username has 3 to 50 bytes")
        if self.password is not None and len(self.password.reveal().encode()) not in PASSWORD_BYTES:
            raise ValueError("the password has 3 to 100 bytes")
        return self


WELL_KNOWN_PASSWORD: Final = "iggy"  # noqa: S105 - the one to refuse
"""Well-known default password, which is refused."""


class TracingConfig(TraceExportConfig):
    """`tracing`: OpenTelemetry traces from the client's header to the disk."""

    sample_ratio: Annotated[float, Between(0.0, 1.0)] = 0.01
    """Fraction of the HTTP and gRPC requests without a `traceparent` that are recorded. Requests with a `traceparent`
    are recorded if its sampled flag is set.
    """


class GatewayConfig(Section):
    """All settings of a gateway except `system.topic`."""

    trusted_network: bool = False
    """Allow unencrypted ports to listen beyond loopback. Set this only if everyone who can read the network may read
    all data: passwords and messages are then sent in the clear.
    """

    tcp: TcpConfig = TcpConfig()
    http: HttpConfig = HttpConfig()
    push: PushConfig = PushConfig()
    quic: QuicConfig = QuicConfig()
    grpc: GrpcConfig = GrpcConfig()
    websocket: WebsocketConfig = WebsocketConfig()
    edge: EdgeSettings = EdgeSettings()
    proxy: ProxyConfig = ProxyConfig()
    heartbeat: HeartbeatConfig = HeartbeatConfig()
    wait: WaitConfig = WaitConfig()
    ticket: TicketConfig = TicketConfig()
    login: LoginConfig = LoginConfig()
    personal_access_token: PersonalAccessTokenConfig = PersonalAccessTokenConfig()
    own_changes: OwnChangesConfig = OwnChangesConfig()
    consumer_group: ConsumerGroupConfig = ConsumerGroupConfig()
    tracing: TracingConfig = TracingConfig()
    audit: AuditConfig = AuditConfig()

    @property
    def beyond_loopback(self) -> dict[str, bool]:
        """Settings with addresses reachable from other machines, each with true if the port is encrypted."""
        addresses = {
            "tcp": (self.tcp.enabled, self.tcp.address, self.tcp.tls.enabled),
            "websocket": (self.websocket.enabled, self.websocket.address, self.websocket.tls.enabled),
            "quic": (self.quic.enabled, self.quic.address, True),
            "http": (self.http.enabled, self.http.address, self.http.tls.enabled),
            "grpc": (self.grpc.enabled, self.grpc.address, self.grpc.tls.enabled),
        }
        return {
            f"{name}.address = {address}": is_encrypted
            for name, (is_enabled, address, is_encrypted) in addresses.items()
            if is_enabled and not address.ip.is_loopback
        }

    @model_validator(mode="after")
    def _plain_text_stays_on_this_machine(self) -> Self:
        plain = [setting for setting, is_encrypted in self.beyond_loopback.items() if not is_encrypted]
        if plain and not self.trusted_network:
            raise ValueError(
                f"{', '.join(plain)}: not loopback and not encrypted, so passwords can be read from the network; "
                "tls.enabled = true encrypts it, and trusted_network = true declares the network private"
            )
        return self

    def check_root_password(self, password: str) -> None:
        """Check that the password of the first user is not the well-known one if other machines can reach a port.

        Raises:
            ValueError: The password is the well-known one.
        """
        if password == WELL_KNOWN_PASSWORD and self.beyond_loopback:
            raise ValueError(
                f"root's password is the well-known one, and {', '.join(self.beyond_loopback)}: not loopback"
            )
