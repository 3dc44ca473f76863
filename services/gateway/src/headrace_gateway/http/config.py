"""Settings of the HTTP interface."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import model_validator

from headrace_gateway.token_config import JwtConfig
from headrace_settings import Address, Between, Duration, Section, Size


class CorsConfig(Section):
    """`http.cors`: which pages of other origins may call, as browsers ask before they do."""

    enabled: bool = True
    """Answer them at all; without, browsers allow pages of the same origin only."""
    allowed_methods: tuple[str, ...] = ("GET", "POST", "PUT", "DELETE")
    """Methods that they may use; `*` first in the list stands for any."""
    allowed_origins: tuple[str, ...] = ()
    """Where they may come from, such as `https://shop.example`; `*` first in the list stands for anywhere."""
    allowed_headers: tuple[str, ...] = ("content-type", "authorization")
    """Headers that they may send; `*` first in the list stands for any."""
    exposed_headers: tuple[str, ...] = ()
    """Headers of answers that they may read; `*` first in the list stands for any."""
    allow_credentials: bool = False
    """Whether they may send cookies and client certificates; not together with `*` in any list."""
    allow_private_network: bool = False
    """Whether pages from the public internet may call although this server is on a private network."""

    @model_validator(mode="after")
    def _credentials_are_for_somebody_in_particular(self) -> Self:
        lists = (self.allowed_methods, self.allowed_origins, self.allowed_headers, self.exposed_headers)
        if self.allow_credentials and any(names[:1] == ("*",) for names in lists):
            raise ValueError("allow_credentials cannot be combined with * in a list: any page could act as its visitor")
        return self


class MetricsConfig(Section):
    """`http.metrics`: counters for Prometheus."""

    enabled: bool = True
    """Answer at all."""
    endpoint: str = "/metrics"
    """Where."""
    login_required: bool = False
    """Whether to ask for a token of a user who may read the server. Without one, names of streams, topics and consumer
    groups are left out in any case."""
    lag_partitions: Annotated[int, Between(0, 1_000_000)] = 1000
    """Of how many partitions of consumer groups the lag is worked out at most; groups beyond that are only counted. 0
    turns it off."""
    lag_interval: Annotated[Duration, Between(Duration(0), Duration.parse("1 h"))] = Duration.parse("10 s")
    """For how long a lag that was worked out is good."""

    @model_validator(mode="after")
    def _endpoint_is_a_path(self) -> Self:
        if not self.endpoint.startswith("/") or self.endpoint == "/" or set(self.endpoint) & set("{}?#% "):
            raise ValueError("endpoint is a path such as /metrics")
        return self


class TlsConfig(Section):
    """`http.tls`: HTTPS instead of HTTP."""

    enabled: bool = False
    """Serve HTTPS."""
    cert_file: Path | None = None
    """The certificate and those that lead to its root, PEM."""
    key_file: Path | None = None
    """Its private key, PEM."""
    client_ca_file: Path | None = None
    """When given, only clients with a certificate of one of these authorities are let in."""
    reload_interval: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 day"))] = Duration.parse(
        "30 s"
    )
    """How often to look whether the files have changed; new connections then get the new certificate."""

    @model_validator(mode="after")
    def _files_are_there_when_needed(self) -> Self:
        if self.enabled and (self.cert_file is None or self.key_file is None):
            raise ValueError("enabled needs cert_file and key_file")
        return self


class RateLimitConfig(Section):
    """`http.rate_limit`: how much one caller may ask for; more is answered with 429."""

    requests_per_second: Annotated[int, Between(0, 1_000_000)] = 0
    """Of one user, and of one address as long as nobody is logged in; 0 is no limit."""
    burst: Annotated[int, Between(1, 1_000_000)] = 100
    """How many requests may come at once after a pause."""


class IdempotencyConfig(Section):
    """`http.idempotency`: batches that carry an `Idempotency-Key` are appended once."""

    max_keys: Annotated[int, Between(0, 10_000_000)] = 100_000
    """How many keys are remembered; beyond that the oldest is forgotten. 0 turns it off."""
    ttl: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("10 m")
    """For how long a key is remembered."""


class HttpGroupsConfig(Section):
    """`http.consumer_group`: members of consumer groups that have no connection."""

    member_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse(
        "30 s"
    )
    """A member that asks for nothing for so long has left."""
    max_members: Annotated[int, Between(0, 100_000)] = 256
    """How many there may be at a time, of all users together."""


class ConsoleConfig(Section):
    """`http.console`: the pages for people."""

    enabled: bool = True
    """Give them to browsers that ask for `/`."""
    log_records: Annotated[int, Between(10, 100_000)] = 2000
    """How many of the newest records of the log are kept in memory for `/logs`."""


class HttpConfig(Section):
    """`http`: the HTTP interface."""

    enabled: bool = True
    """Listen at all."""
    address: Address = Address.parse("127.0.0.1:3000")
    """Where to listen; port 0 picks a free one."""
    allowed_hosts: tuple[str, ...] = ()
    """Names under which this server is asked, such as `headrace.example`, besides addresses and `localhost`; `*` first
    in the list stands for any. A request under another name is refused with 421. With an empty list any name will do,
    unless the server listens on loopback: there it could only be a page of elsewhere that has given its name this
    machine's address."""
    max_connections: Annotated[int, Between(1, 1_000_000)] = 12_000
    """How many may be open at a time, those of browsers that stay among them; one more is closed at once."""
    first_request_timeout: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = (
        Duration.parse("10 s")
    )
    """A connection on which no request has come after so long is closed; it includes the TLS handshake."""
    idle_timeout: Annotated[Duration, Between(Duration.parse("1 s"), Duration.parse("1 day"))] = Duration.parse("75 s")
    """A connection on which nothing was asked for so long since the last answer is closed."""
    max_request_size: Annotated[Size, Between(Size.parse("1 KiB"), Size.parse("512 MiB"))] = Size.parse("2 MB")
    """How large the body of a request may be. Of requests without a token, such as logins, 4 KiB are taken."""
    max_bodies_size: Annotated[Size, Between(Size.parse("4 MiB"), Size.parse("64 GiB"))] = Size.parse("512 MiB")
    """How much bodies that are being received may take together, and one user half of it; a request beyond that is
    refused with 503."""
    max_poll_count: Annotated[int, Between(1, 1_000_000)] = 10_000
    """How many messages one request returns at most, whatever it asks for."""
    max_waits: Annotated[int, Between(0, 100_000)] = 1000
    """How many requests may wait for messages at a time: long polls and streams of events."""
    shutdown_timeout: Annotated[Duration, Between(Duration(0), Duration.parse("5 m"))] = Duration.parse("5 s")
    """How long requests in flight may take when the server stops."""
    access_log: bool = False
    """Whether to write one record for each request."""
    cors: CorsConfig = CorsConfig()
    jwt: JwtConfig = JwtConfig()
    metrics: MetricsConfig = MetricsConfig()
    tls: TlsConfig = TlsConfig()
    rate_limit: RateLimitConfig = RateLimitConfig()
    idempotency: IdempotencyConfig = IdempotencyConfig()
    consumer_group: HttpGroupsConfig = HttpGroupsConfig()
    console: ConsoleConfig = ConsoleConfig()
