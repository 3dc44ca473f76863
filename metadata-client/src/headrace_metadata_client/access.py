"""Which cluster is called, and how a caller is let in."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc

from headrace_metadata_client.errors import AuthorityError
from headrace_proto.cluster_token import HEADER, authorization

CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # A whole catalogue is one message.
    ("grpc.max_receive_message_length", 256 * 1024 * 1024),
    # A replica that comes back is found within a second or two.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2000),
    # Connections of before another authority was known are not those of after.
    ("grpc.use_local_subchannel_pool", 1),
)
"""Of every connection to a replica."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTarget:
    """Which cluster is meant, and how to be let in."""

    addresses: tuple[str, ...]
    """``host:port`` of the gRPC service of its replicas, in the order of the members."""
    cluster: str
    """Its name."""
    secret: str | None
    """What it is shared with; None when it has none."""
    authority: Path | None
    """PEM file with what its certificates are signed by; None when connections are not encrypted."""

    def call_metadata(self) -> tuple[tuple[str, str], ...]:
        """Return what every call carries."""
        return ((HEADER, authorization(self.secret, self.cluster)),) if self.secret is not None else ()

    def authority_pem(self) -> bytes | None:
        """Read the authority; None when connections are not encrypted.

        Raises:
            AuthorityError: The file cannot be read, or holds no certificate.
        """
        if self.authority is None:
            return None
        try:
            pem = self.authority.read_bytes()
        except OSError as error:
            raise AuthorityError(f"{self.authority} cannot be read: {error.strerror}") from error
        try:
            # The library of the connections takes anything, and then trusts no certificate.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.decode("ascii"))
        except (ssl.SSLError, ValueError) as error:
            raise AuthorityError(f"{self.authority} holds no certificate in the form of PEM: {error}") from error
        return pem

    @staticmethod
    def channel_credentials(authority_pem: bytes | None) -> grpc.ChannelCredentials | None:
        """Return how connections are encrypted; None: not at all."""
        return grpc.ssl_channel_credentials(authority_pem) if authority_pem is not None else None
