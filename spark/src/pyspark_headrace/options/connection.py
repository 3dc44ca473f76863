"""Options about the servers, which reading and writing share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from pyspark_headrace.errors import OptionError
from pyspark_headrace.options.parsing import Parsed, option
from pyspark_headrace.options.values import addresses, integer, milliseconds, truth, words


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions(Parsed):
    """Where the servers are, and as whom they are asked."""

    servers: tuple[str, ...] = option("servers", addresses, required=True)
    """gRPC addresses of gateways. Whoever answers is asked."""
    token_file: str | None = option("tokenFile", words)
    """File with an access token. It is read where it is needed: on the driver at least."""
    token_env: str | None = option("tokenEnv", words)
    """Variable of the environment with an access token."""
    username: str | None = option("username", words)
    """Who logs in with a password, instead of a token."""
    password_file: str | None = option("passwordFile", words)
    """File with that password."""
    password_env: str | None = option("passwordEnv", words)
    """Variable of the environment with that password."""
    tls_enabled: bool = option("tls.enabled", truth, default=False)
    """Encrypt the connections to gateways."""
    tls_nodes: bool | None = option("tls.nodes", truth)
    """Encrypt those to partition nodes; like those to gateways unless said."""
    tls_ca: str | None = option("tls.ca", words)
    """File with certificates (PEM) that servers are checked against, instead of those that the library knows."""
    tls_certificate: str | None = option("tls.certificate", words)
    """File with a certificate (PEM) that is shown to servers."""
    tls_key: str | None = option("tls.key", words)
    """File with its private key (PEM)."""
    tls_server_name: str | None = option("tls.serverName", words)
    """What the certificates of servers have to name, instead of their hosts."""
    retry_max: int = option("retry.max", integer(0, 1000), 8)
    """How often something is tried again that brings nothing new."""
    retry_interval_ms: int = option("retry.intervalMs", milliseconds(1), 50)
    """Milliseconds before the first time; they double, up to 5 s, and vary."""
    ticket_lifetime_ms: int = option("ticketLifetime", milliseconds(1000, 10**12), 24 * 3_600_000)
    """How long a task may begin to read after it was planned; servers have a limit of their own."""

    def checked(self) -> Self:
        """Look at what several options say together.

        Raises:
            OptionError: They contradict each other.
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

    @property
    def nodes_use_tls(self) -> bool:
        """Whether connections to partition nodes are encrypted."""
        return self.tls_enabled if self.tls_nodes is None else self.tls_nodes
