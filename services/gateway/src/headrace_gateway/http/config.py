"""Settings of the HTTP interface."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import model_validator

from headrace_chassis.tls import TlsSettings
from headrace_gateway.access.token_config import JwtConfig
from headrace_gateway.connectors.config import ConnectorsConfig
from headrace_settings import Address, Between, Duration, Section, SharedBy, Size


class CorsConfig(Section):
    """`http.cors`: access for pages of other origins (CORS)."""

    enabled: bool = True
    """Answer CORS requests; if false, browsers allow only pages of the same origin."""
    allowed_methods: tuple[str, ...] = ("GET", "POST", "PUT", "DELETE")
    """Methods that pages of other origins may use; `*` first in the list allows any."""
    allowed_origins: tuple[str, ...] = ()
    """Allowed origins, such as `https://shop.example`; `*` first in the list allows any."""
    allowed_headers: tuple[str, ...] = ("content-type", "authorization")
    """Headers that pages may send; `*` first in the list allows any."""
    exposed_headers: tuple[str, ...] = ()
    """Headers of answers that pages may read; `*` first in the list allows any."""
    allow_credentials: bool = False
    """Allow cookies and client certificates; not together with `*` in any list."""
    allow_private_network: bool = False
    """Allow pages from the public internet to call this server on a private network."""

    @model_validator(mode="after")
    def _credentials_need_exact_origins(self) -> Self:
        lists = (self.allowed_methods, self.allowed_origins, self.allowed_headers, self.exposed_headers)
        if self.allow_credentials and any(names[:1] == ("*",) for names in lists):
            raise ValueError("allow_credentials cannot be combined with * in a list: any page could act as its user")
        return self


class MetricsConfig(Section):
    """`http.metrics`: counters for Prometheus."""

    enabled: bool = True
    """Serve metrics."""
    endpoint: str = "/metrics"
    """Path of the metrics."""
    login_required: bool = False
    """Require a token of a user who may read the server. Without a token, names of streams, topics and consumer groups
    are always left out.
    """
    lag_partitions: Annotated[int, Between(0, 1_000_000)] = 1000
    """Maximum number of partitions of consumer groups whose lag is computed; groups beyond that are only counted. 0
    disables the lag metrics.
    """
    lag_interval: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("10 s")
    """Time for which a computed lag is cached."""

    @model_validator(mode="after")
    def _endpoint_is_a_path(self) -> Self:
        if not self.endpoint.startswith("/") or self.endpoint == "/" or set(self.endpoint) & set("{}?#% "):
            raise ValueError("endpoint is a path such as /metrics")
        return self


class TlsConfig(TlsSettings):
    """`http.tls`: HTTPS instead of HTTP."""

    enabled: bool = False
    """Serve HTTPS."""
    client_ca_file: Path | None = None
    """PEM file with certificate authorities. If set, only clients with a certificate of one of them are accepted."""
    reload_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = Duration.parse(
        "30 s"
    )
    """Interval at which the files are checked for changes; new connections then get the new certificate."""

    @model_validator(mode="after")
    def _files_are_there_when_needed(self) -> Self:
        if self.enabled and self.files is None:
            raise ValueError("enabled needs cert_file and key_file")
        return self


class RateLimitConfig(Section):
    """`http.rate_limit`: request rate of one caller; requests beyond it are answered with 429."""

    requests_per_second: Annotated[int, Between(0, 1_000_000)] = 0
    """Requests per second of one user, or of one address for unauthenticated requests; 0 means unlimited."""
    burst: Annotated[int, Between(1, 1_000_000)] = 100
    """Maximum number of requests in a burst after a pause."""


class IdempotencyConfig(Section):
    """`http.idempotency`: batches with an `Idempotency-Key` are appended once."""

    max_keys: Annotated[int, Between(0, 10_000_000), SharedBy.USERS] = 100_000
    """Maximum number of remembered keys; beyond it the oldest key is dropped. 0 disables idempotency keys."""
    ttl: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("10 m")
    """Time for which a key is remembered."""


class HttpGroupsConfig(Section):
    """`http.consumer_group`: members of consumer groups without a connection."""

    member_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse(
        "30 s"
    )
    """Time without a request after which a member is removed from its group."""
    max_members: Annotated[int, Between(0, 100_000), SharedBy.USERS] = 256
    """Maximum number of members of all users together."""


class ConsoleConfig(Section):
    """`http.console`: web pages for users."""

    enabled: bool = True
    """Serve the console to browsers that request `/`."""
    log_records: Annotated[int, Between(10, 100_000)] = 2000
    """Number of most recent log records kept in memory for `/logs`."""


class HttpConfig(Section):
    """`http`: the HTTP API."""

    enabled: bool = True
    """Enable the HTTP listener."""
    address: Address = Address.parse("127.0.0.1:3000")
    """Address to listen on; port 0 picks a free port."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names of this server, such as `headrace.example`, in addition to addresses and `localhost`; `*` first in the
    list allows any. A request for another host is refused with 421. An empty list allows any host, unless the server
    listens on loopback, where another host name indicates DNS rebinding by a foreign page.
    """
    max_connections: Annotated[int, Between(1, 1_000_000), SharedBy.USERS] = 12_000
    """Maximum number of open connections, including WebSocket connections of browsers. A further one takes the place of
    the oldest connection without a login, of the address that has most of these; without one, it is closed at once.
    """
    first_request_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = (
        Duration.parse("10 s")
    )
    """Time after which a connection without a first request is closed; includes the TLS handshake."""
    idle_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("75 s")
    """Time after the last answer after which an idle connection is closed."""
    max_request_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("512 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("2 MB")
    )
    """Maximum size of a request body. Requests without a token, such as logins, are limited to 4 KiB."""
    max_bodies_size: Annotated[Size, Between(Size.parse("4 MiB"), Size.parse("64 GiB")), SharedBy.USERS] = Size.parse(
        "512 MiB"
    )
    """Maximum memory of the bodies of all requests in progress with the batches made of them, and of all answers until
    their clients have taken them, also over `/ws`; one user may use half of it. A request beyond that is refused with
    503, unless it is the only one.
    """
    max_poll_count: Annotated[int, Between(1, 1_000_000), SharedBy.EACH_REQUEST] = 10_000
    """Maximum number of messages that one request returns."""
    max_poll_size: Annotated[Size, Between(Size.parse("64 KiB"), Size.parse("64 MiB")), SharedBy.EACH_REQUEST] = (
        Size.parse("8 MiB")
    )
    """Maximum size of the messages that one request returns, and of those that an event stream takes from a partition
    at a time; a single larger message is returned alone.
    """
    max_waits: Annotated[int, Between(0, 100_000), SharedBy.USERS] = 1000
    """Maximum number of requests that wait for messages: long polls and event streams."""
    shutdown_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("5 m"))] = Duration.parse("5 s")
    """Time that requests in flight get to finish when the server stops."""
    access_log: bool = False
    """Log one record for each request."""
    cors: CorsConfig = CorsConfig()
    jwt: JwtConfig = JwtConfig()
    metrics: MetricsConfig = MetricsConfig()
    tls: TlsConfig = TlsConfig()
    rate_limit: RateLimitConfig = RateLimitConfig()
    idempotency: IdempotencyConfig = IdempotencyConfig()
    consumer_group: HttpGroupsConfig = HttpGroupsConfig()
    console: ConsoleConfig = ConsoleConfig()
    connectors: ConnectorsConfig = ConnectorsConfig()
