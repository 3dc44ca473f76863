"""Connection options, common to reading and writing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.parsing import Parsed, option
from pyspark_headrace.options.values import addresses, integer, milliseconds, truth, words


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(Parsed):
    """Server addresses, credentials, TLS and retries."""

    servers: tuple[str, ...] = option("servers", addresses, required=True)
    """gRPC addresses of gateways. The first one that answers is used."""
    token_file: str | None = option("tokenFile", words)
    """File with an access token. Each process that needs the token reads the file: at least the driver."""
    token_env: str | None = option("tokenEnv", words)
    """Environment variable with an access token."""
    username: str | None = option("username", words)
    """User name for a login with a password, instead of a token."""
    password_file: str | None = option("passwordFile", words)
    """File with that password."""
    password_env: str | None = option("passwordEnv", words)
    """Environment variable with that password."""
    tls_enabled: bool = option("tls.enabled", truth, default=False)
    """Encrypt the connections to gateways."""
    tls_nodes: bool | None = option("tls.nodes", truth)
    """Encrypt the connections to partition nodes. Default: the same as for gateways."""
    tls_ca: str | None = option("tls.ca", words)
    """File with CA certificates (PEM) that server certificates are verified against. Default: the roots of the gRPC
    library.
    """
    tls_certificate: str | None = option("tls.certificate", words)
    """File with the client certificate (PEM)."""
    tls_key: str | None = option("tls.key", words)
    """File with its private key (PEM)."""
    tls_server_name: str | None = option("tls.serverName", words)
    """Name expected in server certificates, instead of the host name."""
    retry_max: int = option("retry.max", integer(0, 1000), 8)
    """Maximum number of consecutive retries without progress."""
    retry_interval_ms: int = option("retry.intervalMs", milliseconds(1), 50)
    """Milliseconds before the first retry. The interval doubles up to 5 s, with jitter."""
    ticket_lifetime_ms: int = option("ticketLifetime", milliseconds(1000, 10**12), 24 * 3_600_000)
    """Maximum time between planning of a task and its first read. Servers have a limit of their own."""

    def checked(self) -> Self:
        """Validate combinations of options.

        Raises:
            OptionError: Options contradict each other.
        """
        ways = [self.token_file, self.token_env, self.username]
        if sum(way is not None for way in ways) > 1:
            raise OptionError("of tokenFile, tokenEnv and username only one is possible")
        passwords = sum(way is not None for way in (self.password_file, self.password_env))
        if passwords != (1 if self.username is not None else 0):
            raise OptionError("username needs passwordFile or passwordEnv, and those need username")
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise OptionError("tls.certificate and tls.key belong together")
        uses_tls = self.tls_enabled or bool(self.tls_nodes)
        if not uses_tls and (self.tls_ca or self.tls_certificate or self.tls_server_name):
            raise OptionError("tls.ca, tls.certificate and tls.serverName need tls.enabled = true")
        return self

    def each_server_once(self) -> Self:
        """Return options with which a gateway client asks each server at most once, for callers that retry themselves.

        The pauses between the servers are short: such a caller has backed off already.
        """
        return replace(self, retry_max=len(self.servers) - 1, retry_interval_ms=1)

    @property
    def nodes_use_tls(self) -> bool:
        """Return whether connections to partition nodes are encrypted."""
        return self.tls_enabled if self.tls_nodes is None else self.tls_nodes
