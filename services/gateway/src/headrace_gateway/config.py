"""Settings of the gateway."""

from __future__ import annotations

from typing import Annotated, Final, Self

from pydantic import model_validator

from headrace_gateway.audit.config import AuditConfig
from headrace_gateway.door_config import GrpcTlsConfig, QuicConfig, TlsConfig
from headrace_gateway.http.config import HttpConfig
from headrace_gateway.proxies import ProxyConfig
from headrace_gateway.push.config import PushConfig
from headrace_gateway.topic_durability import TopicDurability
from headrace_proto.limits import PASSWORD_BYTES, USERNAME_BYTES
from headrace_proto.well_known import NEVER_EXPIRES, UNLIMITED
from headrace_settings import Address, Between, Duration, Secret, Section, ServerExpiry, Size, SizeLimit
from headrace_settings.duration import Expiry
from headrace_shards.edge_config import EdgeSettings
from headrace_shards.tracing import TraceExportConfig


class TcpConfig(Section):
    """`tcp`: the binary protocol over TCP."""

    enabled: bool = True
    """Listen at all."""
    address: Address = Address.parse("127.0.0.1:8090")
    """Where to listen; port 0 picks a free one."""
    max_connections: Annotated[int, Between(1, 1_000_000)] = 10_000
    """How many clients may be connected at a time; one more is refused."""
    login_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("1 day"))] = Duration.parse("10 s")
    """A client that has not logged in after so long is disconnected, whatever else it asks for; `0 s`: never. It holds
    for `websocket` and `quic`, too."""
    max_request_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB"))] = Size.parse("128 MiB")
    """How large one request to send messages may be; a larger one is skipped and refused."""
    max_response_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB"))] = Size.parse("64 MiB")
    """How many bytes of messages one poll returns at most, but always at least one message."""
    tls: TlsConfig = TlsConfig()


class GrpcConfig(Section):
    """`grpc`."""

    enabled: bool = True
    """Listen at all."""
    address: Address = Address.parse("127.0.0.1:8094")
    """Where to listen; port 0 picks a free one."""
    max_request_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB"))] = Size.parse("8 MiB")
    """How large one request may be; a larger one is refused."""
    max_memory: Annotated[Size, Between(Size.parse("512 KiB"), Size.parse("1 TiB"))] = Size.parse("2 GiB")
    """What calls may hold in all, at least eight times `max_request_size`. A half is for requests of streams, each of
    which counts `max_request_size` as long as it is open for more; a quarter for responses of streams; a quarter for
    all other calls. One user has at most half of each; more than that waits, and is refused after a while."""
    max_connections: Annotated[int, Between(1, 1_000_000)] = 1000
    """How many clients may be connected at a time; one more is refused."""
    handshake_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 m"))] = Duration.parse(
        "10 s"
    )
    """A client that has not said what it speaks by then is disconnected."""
    idle_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("5 m")
    """A client that has had no call under way for so long is disconnected; libraries connect again with the next."""
    max_calls: Annotated[int, Between(1, 1_000_000)] = 1000
    """How many calls may be under way at a time; one more is refused."""
    max_streams: Annotated[int, Between(0, 1_000_000)] = 500
    """How many of them may be such that last: streams of batches, subscriptions; one more is refused."""
    keepalive_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = (
        Duration.parse("20 s")
    )
    """How often a connection in silence is asked whether it lives; its calls end when it does not answer for as long.
    Clients may ask twice as often."""
    tls: GrpcTlsConfig = GrpcTlsConfig()

    @model_validator(mode="after")
    def _holds_the_largest_request(self) -> Self:
        if self.max_memory.bytes < 8 * self.max_request_size.bytes:
            raise ValueError("max_memory must be at least eight times max_request_size")
        return self


class WebsocketConfig(Section):
    """`websocket`: the binary protocol in the messages of a WebSocket."""

    enabled: bool = True
    """Listen at all."""
    address: Address = Address.parse("127.0.0.1:8092")
    """Where to listen; port 0 picks a free one. The limits of `tcp` hold here, too."""
    max_frame_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB"))] = Size.parse("16 MiB")
    """How large one frame of a client may be; a larger one closes its connection. A larger request goes into several
    frames or several messages."""
    max_message_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("512 MiB"))] = Size.parse("64 MiB")
    """How large one message of a client may be, in however many frames; a larger one closes its connection."""
    handshake_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse(
        "10 s"
    )
    """A client that has not asked for the upgrade to WebSocket after so long is disconnected."""
    tls: TlsConfig = TlsConfig()


class HeartbeatConfig(Section):
    """`heartbeat`: what becomes of clients that have fallen silent."""

    enabled: bool = False
    """Take clients that have not sent a ping for 1.2 times the interval out of the list of clients and of their groups.
    Their connections go on; a command registers them again, and as members of groups they have to join again."""
    interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = Duration.parse("5 s")
    """How often clients are expected to send a ping."""


class WaitConfig(Section):
    """`wait`: requests that wait for messages, and connections that are notified of them."""

    max_time: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse("1 m")
    """How long one request waits at most; what asks for more is answered after this time."""
    max_partitions: Annotated[int, Between(1, 10_000_000)] = 131_072
    """How many partitions may be waited for or watched at a time, by all connections together; one more is refused."""


class TicketConfig(Section):
    """`ticket`: what users let others do with a topic, at partition nodes."""

    max_lifetime: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("30 days"))] = Duration.parse(
        "1 day"
    )
    """How long a ticket is valid at most; who asks for more gets this, and who does not say gets ten minutes. It ends
    earlier when the user who has asked is deleted, deactivated, gets another password, or loses the right."""


class LoginConfig(Section):
    """`login`: what logins may take from the rest of the server."""

    hashing_threads: Annotated[int, Between(1, 64)] = 2
    """How many passwords are verified at a time; each takes a core for some 30 ms, and 19 MiB."""
    remembered_for: Annotated[Duration, Between(Duration.parse("0 s"), Duration.parse("1 day"))] = Duration.parse("5 m")
    """Time for which a verified password is known to be right, so that a client that connects again costs no hash.
    Kept in memory as a digest under a key of the process, and no longer than the user's password stays the same. `0 s`:
    every login is hashed."""
    failures_max: Annotated[int, Between(0, 1_000_000)] = 10
    """How many logins of one user from one address may fail in a row before further ones are refused for a while;
    ten times as many from one address as anybody, which does not concern users who have logged in from there lately.
    When ten times as many of one user have failed from anywhere, addresses that are new to the user have one attempt.
    Of IPv6, the first 64 bits are the address. 0: as many as they like."""
    failures_interval: Annotated[Duration, Between(Duration.parse("1 ms"), Duration.parse("1 day"))] = Duration.parse(
        "6 s"
    )
    """After so long, one more attempt is allowed."""


class ConsumerGroupConfig(Section):
    """`consumer_group`."""

    rebalancing_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 h"))] = Duration.parse(
        "30 s"
    )
    """How long a member may hold on to a partition that another one is to read, if it does not store the offset of
    the last message that it was given. Of groups that are created from now on."""
    rebalancing_check_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 m"))] = (
        Duration.parse("5 s")
    )
    """How often to look for partitions whose time is over, and to say that this gateway and its members live."""
    gateway_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 h"))] = Duration.parse("20 s")
    """The members at a gateway that says nothing for so long are lost."""

    @model_validator(mode="after")
    def _outlasts_two_checks(self) -> Self:
        if self.gateway_timeout.micros < 2 * self.rebalancing_check_interval.micros:
            raise ValueError("gateway_timeout must be at least twice rebalancing_check_interval")
        return self


class TokenCleanerConfig(Section):
    """`personal_access_token.cleaner`."""

    enabled: bool = True
    """Remove access tokens that have expired. They are refused in any case, but count until they are removed."""
    interval: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("1 m")
    """How often to look for them."""


class PersonalAccessTokenConfig(Section):
    """`personal_access_token`."""

    max_tokens_per_user: Annotated[int, Between(1, 1_000_000)] = 100
    """How many access tokens a user may have, expired ones included."""
    cleaner: TokenCleanerConfig = TokenCleanerConfig()


class TopicConfig(Section):
    """`system.topic`: what topics get whose creator leaves it to the server."""

    max_size: SizeLimit = SizeLimit(UNLIMITED)
    """The size beyond which the oldest messages of a topic may go."""
    message_expiry: ServerExpiry = Expiry(NEVER_EXPIRES)
    """The age at which messages may go."""
    durability: tuple[TopicDurability, ...] = ()
    """What acknowledgements promise for topics with these names, for example
    `[orders/*=fsync,logs/debug=memory]`. The first match decides when a topic is created, and the topic keeps it;
    for topics without a match the setting `durability` decides."""


class RootUserConfig(Section):
    """`root`: whom a first start creates. Whose settings these are says what for."""

    username: str | None = None
    """Its name, 3 to 50 bytes."""
    password: Secret | None = None
    """Its password, 3 to 100 bytes."""

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
"""What everybody tries first."""


class TracingConfig(TraceExportConfig):
    """`tracing`: OpenTelemetry traces from a client's header to the disk."""

    sample_ratio: Annotated[float, Between(0.0, 1.0)] = 0.01
    """How many of the requests to HTTP and gRPC that carry no `traceparent` are recorded. Those that carry one are
    recorded if it says so."""


class GatewayConfig(Section):
    """Everything that a gateway can be told, except for `system.topic`."""

    trusted_network: bool = False
    """Whether only those who may read everything can read the network: then a port that is not encrypted may listen
    beyond loopback. What goes over it, passwords among it, is for whoever sees the packets."""

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
    consumer_group: ConsumerGroupConfig = ConsumerGroupConfig()
    tracing: TracingConfig = TracingConfig()
    audit: AuditConfig = AuditConfig()

    @property
    def beyond_loopback(self) -> dict[str, bool]:
        """Settings with addresses that others than this machine can reach, and whether what goes there is encrypted."""
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
                f"{', '.join(plain)}: not loopback and not encrypted, so whoever sees the packets reads passwords; "
                "tls.enabled = true encrypts it, and trusted_network = true says that nobody else reads the network"
            )
        return self

    def check_root_password(self, password: str) -> None:
        """Check that a first user's password is not one that everybody knows, where others can reach a port.

        Raises:
            ValueError: It is.
        """
        if password == WELL_KNOWN_PASSWORD and self.beyond_loopback:
            raise ValueError(
                f"root's password is the well-known one, and {', '.join(self.beyond_loopback)}: not loopback"
            )
